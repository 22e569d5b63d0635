/* pushed_rows.h - the gradient of a sparse table in a server's program: a variable with the rows that the trainers have pushed for the update that is being
 * computed. They stay where they came in, each trainer's with its weight. */
#pragma once

#include "framework/tensors/scope.h"
#include "storage/table/rows_merge.h"

/* The variable of table "t" is "t@PUSHED". python/trireme/parameters/sparse_table.py says the same. */
#define TR_PUSHED "@PUSHED"

typedef struct tr_pushed_rows {
    const tr_rows_update *update;     /* borrowed; NULL: there was no update yet */
    tr_rows_merge         merge;
} tr_pushed_rows;

/* Put a new object into the variable, which owns it. */
tr_pushed_rows *tr_pushed_rows_new(tr_var *var);
/* The object of a variable; NULL: it has another one, or none. */
tr_pushed_rows *tr_pushed_rows_of(const tr_var *var);
