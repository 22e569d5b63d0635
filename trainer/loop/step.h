/* step.h - the beginning and the end of a trainer's step, and the look ahead to its next one: for loops, and for scripts that make each
 * step by themselves. */
#pragma once

#include "trainer/checkpoints/checkpoint_manager.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A step of `job` begins, which `executor` runs. Its gradients have this weight; where they have none, and values are checked for NaN, none
 * of the step is. With `manager`, which may be NULL, do first the work on checkpoints that is due: see tr_checkpoint_manager_begin_step,
 * also for *stops. */
TR_API tr_status tr_step_begin(bool *stops, tr_checkpoint_manager *manager, tr_job *job, tr_executor *executor, double weight,
                               bool checks_finite);

/* A step of `job` has ended, and this is the value of its loss, which it has fetched. A single number is shown by the launcher's progress
 * line and the log; other values say nothing. */
TR_API void tr_step_end(tr_job *job, tr_dtype dtype, int64_t count, const void *loss);

/* Make the program that announces which rows of sparse tables the next step wants. Of a trainer's program it has the operator prefetch, of
 * others expect_rows for each lookup of a table (lookup_sparse_table). It declares these feeds of the program, and the variables that its
 * operators read. *out is NULL if there are none, or if a trainer's prefetch reads a variable that is not among the feeds; other lookups of
 * such a variable are left out. With `feeds` NULL the caller feeds what the operators read. */
TR_API tr_status tr_step_ahead(tr_program **out, tr_program *program, int feed_count, const char *const *feeds);

#ifdef __cplusplus
}
#endif
