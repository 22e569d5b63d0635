/* model.h - a model that is loaded: its program, its parameters and tables, and the plans that run it.
 *
 * Nothing of a model changes while it is served. A newer export is another model; the older one lives until its last run has ended, so that
 * no run sees parameters of two. */
#pragma once

#include "serving/export.h"

#include "framework/base/map.h"
#include "framework/trireme.h"
#include "kernels/math/products/weight_cache.h"

/* The names that a model takes and gives. */
typedef struct tr_model_ends {
    int    count;
    char **name;                      /* owned */
} tr_model_ends;

void tr_model_ends_free(tr_model_ends *ends);

typedef struct tr_model {
    int           users;              /* guarded by the predictor's lock */
    int64_t       version, step;
    bool          has_sums;           /* its files were compared with checksums */
    tr_program   *program;            /* without feed and fetch operators */
    tr_scope     *scope;              /* parameters and tables */
    tr_map        tables;             /* the names in which operators look rows up; they are the program's */
    tr_weight_cache      *kept;               /* parameters, which nobody writes, packed for products
                                               * (kernels/math/products/weight_cache.h) */
    tr_model_ends feeds, fetches;
    struct tr_raw_slots *slots;       /* raw_slots.h; NULL: it was saved without them */
    struct tr_runner    *idle;        /* guarded by the predictor's lock (runner.h) */
} tr_model;

/* Load the folders of an export, the later ones over the earlier; a saved model is one folder. */
tr_status tr_model_load(tr_model **out, const tr_export *from, const char *model_file, const char *params_file);
/* Its runners are freed. */
void      tr_model_free(tr_model *model);
/* NULL: there is none of that number; the program does not describe it. */
const tr_var_desc *tr_model_feed(const tr_model *model, int index);
const tr_var_desc *tr_model_fetch(const tr_model *model, int index);
