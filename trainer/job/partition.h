/* partition.h - the work of one job, divided among servers and trainers, and how a trainer joins the job with it. A script makes it from
 * its program; a saved job has one for each number of servers. proto/job.proto explains the programs. */
#pragma once

#include "trainer/checkpoints/checkpoint_manager.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rows [begin, end) of a trainer's variable; begin < 0: all of it. */
typedef struct tr_partition_rows {
    const char *source;
    int64_t     begin, end;
} tr_partition_rows;

typedef struct tr_partition {
    tr_job_spec          spec;        /* of the values, server and name are used, and `for_trainers`; `source` to `state` for a variable
                                       * that no checkpoint lists */
    const tr_partition_rows *block_rows;      /* the rows of the trainers' variables that each block holds */
    const tr_partition_rows *value_rows;
    tr_job_program       trainer, idle, prepare, begin, flush, after;     /* of a saved job; bytes NULL: there is none */
    int                  table_count;
    const char *const   *tables;      /* sparse tables: variables of the trainers */
    const char *const   *fetches;     /* names of the fetches in the trainer's program, as many as the loop fetches */
    int                  remote_count;
    const char *const   *remote;      /* variables that the servers change and no step brings: see tr_job_watch */
} tr_partition;

/* Agree with the servers and the other trainers on the setup, with the first values that are in `scope` now. `program` is the trainer's
 * part, of which the servers keep the accumulators. From then on the servers have the rows of the tables. */
TR_API tr_status tr_partition_join(const tr_partition *partition, tr_job *job, tr_checkpoint_manager *manager, tr_scope *scope,
                                   tr_program *program);
/* Get the parameters that the servers have. With `keeps_set`, variables that were set since the last step stay as they are: the servers get
 * them with the next one. */
TR_API tr_status tr_partition_pull(const tr_partition *partition, tr_job *job, tr_scope *scope, bool keeps_set);

#ifdef __cplusplus
}
#endif
