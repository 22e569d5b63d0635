/* worker.h - runs a program over batches: one thread's plans, batch and fetched values.
 *
 * A lone worker runs the program in the scope it is given. Several workers share the parameters: each has a clone of the program, and a
 * scope inside the shared one, so they share only persistent variables. They update the parameters without any lock (Niu, Recht, Re,
 * Wright, "Hogwild!", 2011). */
#ifndef TR_TRAINER_WORKER_H
#define TR_TRAINER_WORKER_H

#include "framework/text.h"
#include "trainer/batch.h"

typedef struct tr_worker {
    int           number;
    tr_executor  *executor;
    tr_program   *program;            /* a clone, or that of the loop */
    tr_scope     *scope;              /* a child, or that of the loop */
    bool          is_lone;
    tr_batch     *batch;
    tr_plan      *plain, *fetching;   /* fetching: with the values that are told; made when it is first needed */
    tr_plan      *idle;               /* for a step without samples; NULL: it is as any other */
    tr_plan      *flush;              /* between two tasks; NULL: nothing runs there */
    tr_program   *ahead_program;      /* tells the job which rows the next batch wants; NULL: the program asks for none */
    tr_plan      *ahead;
    tr_batch     *next;               /* the batch behind this one */
    bool          has_next;           /* it is here */
    int           fetch_count, loss;  /* loss: from 1 */
    char        **fetch_name, **label;
    tr_tensor   **fetched;
    double       *sum, weight;        /* of each fetch over all steps, weighted by samples; sum NULL: nobody asks */
    const char  **feed_name;
} tr_worker;

/* The dataset is asked for its slots alone. */
tr_status tr_worker_init(tr_worker *worker, int number, bool is_lone, tr_program *program, tr_scope *scope,
                         const tr_dataset *data, const tr_loop_options *options);
void      tr_worker_deinit(tr_worker *worker);
/* Take the next batch, as tr_dataset_next does. */
tr_status tr_worker_take(bool *got, tr_worker *worker, tr_dataset *data, double seconds);
/* Look at the batch behind this one, if its lines are here already, and say which rows it will want. */
tr_status tr_worker_look_ahead(tr_worker *worker, tr_dataset *data);
/* Run the batch once. With `line` the values are fetched and added to it: " loss=0.25 acc=0.5". With sums they are fetched in any case. */
tr_status tr_worker_run(tr_worker *worker, tr_text *line);
/* Send all updates that the servers lack. */
tr_status tr_worker_flush(tr_worker *worker);
/* Give the persistent variables of `scope` memory of their own, so that several workers may write it in place. */
tr_status tr_worker_settle_scope(tr_program *program, tr_scope *scope);

#endif
