/* runner.h - one run of a model at a time.
 *
 * A runner is what one run needs for itself: a clone of the program, a scope for intermediate values above the shared one, an executor and
 * its plan. A run takes an idle runner of its model, or makes one, and gives it back. */
#pragma once

#include "serving/model.h"

typedef struct tr_runner {
    struct tr_runner *next;
    tr_model    *model;               /* it has a user in the runner while that runs */
    tr_program  *program;
    tr_scope    *scope;
    tr_executor *executor;
    tr_plan     *plan;
    tr_feed     *feed;                /* of the run */
    tr_tensor  **result;
} tr_runner;

/* A runner without a plan: see tr_runner_run. */
tr_status tr_runner_new(tr_runner **out, tr_model *model);
void      tr_runner_free(tr_runner *runner);
/* Run, and copy what came out to `results`. */
tr_status tr_runner_run(tr_runner *runner, const tr_feed *feeds, tr_tensor *const *results);
