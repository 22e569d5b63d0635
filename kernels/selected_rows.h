/* selected_rows.h - what operators do with the row numbers of sparse tensors. */
#ifndef TR_KERNELS_SELECTED_ROWS_H
#define TR_KERNELS_SELECTED_ROWS_H

#include "framework/op.h"

/* Give `out` the row numbers of `x`: for operators that change each value by itself. A dense x does nothing. */
tr_status tr__rows_copy(tr_tensor *out, const tr_tensor *x);

/* Make output `slot` the rows of input `x` with equal numbers added up, in ascending order. */
tr_status tr__rows_merge(const tr_run *io, int slot, const tr_tensor *x);

/* Elements in one row. */
int64_t tr__rows_width(const tr_tensor *x);

#endif
