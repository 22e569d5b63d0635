/* worker.h - runs a program over batches: one thread's plans, batch and fetched values.
 *
 * A lone worker runs the program in the scope it is given. Several workers share the parameters: each has a clone of the program, and a
 * scope inside the shared one, so they share only persistent variables. They update the parameters without any lock (Niu, Recht, Re,
 * Wright, "Hogwild!", 2011). */
#pragma once

#include "framework/base/text.h"
#include "trainer/dataset/batch.h"
#include "trainer/trireme_trainer.h"

typedef struct tr_worker {
    int           number;
    tr_job       *job;                /* or NULL */
    tr_executor  *executor;
    tr_program   *program;            /* a clone, or the loop's program */
    tr_scope     *scope;              /* a child scope, or the loop's scope */
    bool          is_lone;
    tr_batch     *batch;
    tr_plan      *plain, *fetching;   /* fetching: fetches the values of a report, too; made when it is first needed */
    tr_plan      *idle;               /* for a step without samples; NULL: such a step is like any other */
    tr_plan      *flush;              /* runs between two tasks; NULL: nothing runs there */
    tr_program   *ahead_program;      /* tells the job which rows the next batch wants; NULL: the program asks for none */
    tr_plan      *ahead;
    tr_batch     *next;               /* the batch after this one */
    bool          has_next;           /* `next` is filled */
    int           fetch_count, loss;  /* loss: index of the loss among the fetches, from 1; 0: none */
    char        **fetch_name, **label;
    tr_tensor   **fetched;
    double       *sum, weight;        /* of each fetch over all steps, weighted by samples; sum NULL: means are not needed */
    const char  **feed_name;
} tr_worker;

/* Set up a worker. The dataset serves only to describe its slots. */
tr_status tr_worker_init(tr_worker *worker, int number, bool is_lone, tr_program *program, tr_scope *scope,
                         const tr_dataset *data, const tr_loop_options *options);
void      tr_worker_deinit(tr_worker *worker);
/* Take the next batch, as tr_dataset_next does. */
tr_status tr_worker_take(bool *got, tr_worker *worker, tr_dataset *data, double seconds);
/* If the lines of the next batch are here already, take them and ask for the rows that they will need. */
tr_status tr_worker_look_ahead(tr_worker *worker, tr_dataset *data);
/* Run the batch once. With `line` the values are fetched and appended to it: " loss=0.25 acc=0.5". Values are also fetched if sums are
 * kept. */
tr_status tr_worker_run(tr_worker *worker, tr_text *line);
/* Send all updates that the servers lack. */
tr_status tr_worker_flush(tr_worker *worker);
/* Give the persistent variables of `scope` memory of their own, so that several workers may write it in place. */
tr_status tr_worker_settle_scope(tr_program *program, tr_scope *scope);
