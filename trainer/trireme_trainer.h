/* trireme_trainer.h - the C API of Trireme's training without Python: loops over the data of trireme_data.h, and saved jobs.
 *
 *     tr_dataset *data = NULL;
 *     tr_loop    *loop = NULL;
 *     status = tr_dataset_new(&data, &spec);                // the format of the files, and the variables to feed
 *     status = tr_loop_new(&loop, program, scope, data, &options);
 *     do
 *         status = tr_loop_run(loop, 1.0, &report);         // runs for a second, or until a report is due
 *     while (status == TR_OK && !report.is_at_end);
 *
 * What must stay true: one loop, or one thread, uses a dataset at a time. */
#ifndef TRIREME_TRAINER_H
#define TRIREME_TRAINER_H

#include "pserver/trireme_dist.h"
#include "trainer/job/partition.h"
#include "trainer/trireme_data.h"

#ifdef __cplusplus
extern "C" {
#endif

/* == loops ================================================================================== */

/* Zero and NULL stand for the default in every field. */
typedef struct tr_loop_options {
    int                fetch_count;
    const char *const *fetches;       /* variables that reports show */
    const char *const *labels;        /* their labels in a report; NULL: their names */
    int                loss;          /* which fetch is the loss, from 1; a job reports it to the launcher. 0: none */
    int64_t            report_every;  /* steps from one report to the next; 0: none is made */
    int64_t            epochs;        /* passes over the data; 1 */
    int64_t            steps;         /* end after so many steps, even within a pass; 0: no limit */
    int                threads;       /* workers; 1. With more, each takes batches and updates the same parameters without waiting for
                                       * the others (Hogwild), so results depend on chance. In a job only 1. */
    bool               is_shuffled;   /* shuffle the lines, which are in memory, before each epoch: */
    uint64_t           shuffle_seed;  /* the seed of the order, together with the number of the epoch, from 0 */
    bool               has_leases;    /* in a job of mode async, ssp or geo, with split in tasks: lease the tasks from server 0,
                                       * for `lease` seconds each (300), in `epochs` passes of all trainers together */
    double             lease;
    bool               has_weight;    /* in a job: the gradients of each step get the weight `weight`; otherwise their number of samples */
    double             weight;
    int64_t            skip;          /* steps that were made before: their batches are read, and nothing is run */
    int64_t            runs;          /* runs of the program that were made before: random numbers continue after them */
    tr_checkpoint_manager *manager;   /* of the training's checkpoints: it counts the steps, and does its work between two of them, except
                                       * while the loop skips steps. It outlives the loop. NULL: none */
    tr_job            *job;           /* in which the steps take part; it outlives the loop. NULL: none */
    tr_program        *idle;          /* in a job: the program of a step without samples; NULL: the loop's program */
    tr_program        *flush;         /* with leases: a program that runs when a task ends, so that the servers get all of the task's
                                       * updates; NULL: none */
    bool               has_means;     /* fetch in each step, for tr_loop_means */
    bool               check_finite;
    bool               has_precision; /* precision of matrix products; otherwise that of the process */
    tr_precision       precision;
} tr_loop_options;

/* The loop's progress when tr_loop_run returns. */
typedef struct tr_loop_report {
    bool        is_at_end;            /* no step is left to do */
    bool        is_due;               /* a step was fetched: `line` shows the values */
    bool        is_paused;            /* a pause that tr_loop_pause_at asked for: all steps that were begun have ended, and no other
                                       * begins */
    bool        is_stopped;           /* a signal asked for the end, and the last checkpoint is written: no step begins, and the process
                                       * should end with TR_STOPPED. tr_checkpoint_manager_stop_text tells its user */
    int64_t     epoch;                /* passes ended */
    int64_t     step;                 /* steps ended; with a report, the step that was fetched */
    int64_t     samples;              /* lines in these steps */
    const char *line;                 /* "step 100: loss=0.25 acc=0.5", valid until the next call; "" when no report is due */
} tr_loop_report;

typedef struct tr_loop tr_loop;

/* Prepare to run `program` once for each batch. `scope` holds its parameters. Program, scope and dataset must outlive the loop, and only
 * the loop may use them until it is freed. In a process of a job the program is the trainer's part. */
TR_API tr_status tr_loop_new(tr_loop **out, tr_program *program, tr_scope *scope, tr_dataset *data,
                             const tr_loop_options *options);
/* End the steps under way, and free the loop. */
TR_API void      tr_loop_free(tr_loop *loop);
/* Compute the means of the fetches over all steps so far, weighted by samples. `means` has room for one value for each fetch. A fetch of
 * several elements, or of no step at all, gives NaN. *samples is the total weight. Call it with options.has_means, at the end or in a
 * pause. */
TR_API void      tr_loop_means(const tr_loop *loop, double *means, double *samples);
/* Begin no step after step `step` until the next call of this function; 0: no limit. Steps count as in reports. A lower number means all
 * steps that are begun by now. In a pause, which tr_loop_run reports, the loop runs no program. */
TR_API void      tr_loop_pause_at(tr_loop *loop, int64_t step);
/* Run for about `seconds`. Returns earlier when a report is due, in a pause, or at the end. */
TR_API tr_status tr_loop_run(tr_loop *loop, double seconds, tr_loop_report *report);

/* == saved jobs ============================================================================== */

typedef struct tr_saved_job_desc {
    tr_job_program      startup, main;
    tr_data_spec        data;
    bool                in_memory;    /* all lines are read before the first epoch */
    tr_loop_options     loop;
    const char         *save_folder;  /* NULL: nothing is saved */
    int                 saved_count;
    const char *const  *saved;
    int                 partition_count;
    const tr_partition *partitions;
    int                 variable_count;
    const tr_checkpoint_variable *variables;  /* that checkpoints hold; name, param and kind are used */
    tr_checkpoint_options checkpoints;        /* choices of the user who runs the job; they are not saved with it */
} tr_saved_job_desc;

typedef struct tr_saved_job tr_saved_job;

/* Write a file. After a crash the file is complete or does not exist. */
TR_API tr_status tr_saved_job_write(const char *path, const tr_saved_job_desc *desc);
/* Read a saved job; `path` may be a folder that holds it as "job". A damaged file is refused with TR_EFORMAT and a text that names the
 * damage. */
TR_API tr_status tr_saved_job_load(tr_saved_job **out, const char *path);
TR_API void      tr_saved_job_free(tr_saved_job *job);
TR_API const tr_saved_job_desc *tr_saved_job_get(const tr_saved_job *job);   /* lives as long as the job */

/* Called with each report, and after the last one with `is_at_end` set. */
typedef void (*tr_saved_job_watcher)(const tr_loop_report *report, double seconds, void *payload);

/* Run a saved job: as a trainer if `job` is a job that mpirun started, alone if it is NULL. `desc` is the job's description, or a copy
 * with other settings. Trainer 0 saves. *is_stopped: SIGTERM or SIGUSR1 asked for a checkpoint and the end; the process should end with
 * TR_STOPPED. */
TR_API tr_status tr_saved_job_run(bool *is_stopped, const tr_saved_job_desc *desc, tr_job *job, tr_saved_job_watcher watcher,
                                  void *payload);

#ifdef __cplusplus
}
#endif
#endif
