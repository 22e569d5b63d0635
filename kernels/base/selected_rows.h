/* selected_rows.h - what operators do with the row numbers of sparse tensors. */
#pragma once

#include "framework/operators/op.h"

/* Give `out` the row numbers of `x`: for operators that change each value by itself. A dense x does nothing. */
tr_status tr__rows_copy(tr_tensor *out, const tr_tensor *x);

/* The gradient of a table `w` of which the ids take rows: dense, or, where `is_sparse`, a row for each of `rows` (-1: not known). */
tr_meta tr__rows_grad_meta(const tr_meta *w, bool is_sparse, int64_t rows);

/* Equal row numbers together, in scratch memory (tr_rows_group). */
typedef struct tr_row_groups {
    int64_t *unique, *first, *order;
    int64_t  count;
    void    *extra;                   /* of the caller, on a border of 64 bytes */
} tr_row_groups;

/* The groups of x's rows, and so many bytes of scratch memory after them. */
tr_status tr__rows_groups(tr_row_groups *out, const tr_run *io, const tr_tensor *x, size_t extra);
/* Make output `slot` the rows of input `x` with equal numbers added up, in ascending order. */
tr_status tr__rows_merge(const tr_run *io, int slot, const tr_tensor *x);

/* Make the first output the rows of input `w` whose numbers are the ids of input `ids`; zeros for the id `padding` (-1: none). An id that w does
 * not hold gives zeros, too, or, with `must_hold`, is a failure. */
tr_status tr__rows_lookup(const tr_run *io, const char *op, int w, int ids, int64_t padding, bool must_hold);
/* Elements in one row. */
int64_t tr__rows_width(const tr_tensor *x);
