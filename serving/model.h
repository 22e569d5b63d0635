/* model.h - a model that is loaded: its program, its parameters and tables, and the plans that run it.
 *
 * Nothing of a model changes while it is served. A newer export is another model; the older one lives until its last run has ended, so that
 * no run sees parameters of two.
 *
 * A runner is what one run needs for itself: a clone of the program, a scope for intermediate values above the shared one, an executor and its
 * plan. A run takes an idle runner, or makes one, and gives it back. */
#ifndef TR_SERVING_MODEL_H
#define TR_SERVING_MODEL_H

#include "serving/export.h"

#include "framework/trireme.h"

typedef struct tr_runner tr_runner;

/* The names that a model takes and gives. */
typedef struct tr_model_ends {
    int    count;
    char **name;                      /* owned */
} tr_model_ends;

void tr_model_ends_free(tr_model_ends *ends);

typedef struct tr_model {
    int           users;              /* guarded by the predictor's lock */
    int64_t       version, step;
    tr_program   *program;            /* without feed and fetch operators */
    tr_scope     *scope;              /* parameters and tables */
    tr_model_ends feeds, fetches;
    tr_runner    *idle;               /* guarded by the predictor's lock */
} tr_model;

/* Load the folders of an export, the later ones over the earlier; a saved model is one folder. */
tr_status tr_model_load(tr_model **out, const tr_export *from, const char *model_file, const char *params_file);
void      tr_model_free(tr_model *model);
const tr_var_desc *tr_model_feed(const tr_model *model, int index);

struct tr_runner {
    tr_runner   *next;
    tr_model    *model;               /* it has a user in the runner while that runs */
    tr_program  *program;
    tr_scope    *scope;
    tr_executor *executor;
    tr_plan     *plan;
    tr_feed     *feed;                /* of the run */
    tr_tensor  **result;
};

/* A runner without a plan: see tr_runner_run. */
tr_status tr_runner_new(tr_runner **out, tr_model *model);
void      tr_runner_free(tr_runner *runner);
/* Run, and copy what came out to `results`. */
tr_status tr_runner_run(tr_runner *runner, const tr_feed *feeds, tr_tensor *const *results);

#endif
