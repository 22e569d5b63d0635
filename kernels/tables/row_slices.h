/* row_slices.h - selected rows that are shared out among several outputs: which rows a slice has, and the gradient that comes back.
 *
 * The gradient of selected rows is that of the tensor which they are rows of. So it may be selected rows, or dense. The gradient of a slice
 * has the slice's row numbers. */
#pragma once

#include "framework/gradients/grad_maker.h"
#include "framework/operators/op.h"

/* The rows of a section [first, last), counted from `first`. With a modulus: the rows of a remainder, with their own numbers. */
typedef struct tr_row_slice {
    int64_t first, last;
    int64_t modulus, remainder;
} tr_row_slice;

/* Slice k of an operator with these attributes and `count` outputs. */
typedef tr_row_slice (*tr_row_slice_fn)(const void *attrs, int count, int k);

/* Make argument k of output `slot` the rows of x that the slice has. */
tr_status tr__row_slice_take(const tr_run *io, int slot, int k, const tr_tensor *x, const tr_row_slice *slice);

/* -- gradient operators, with the slots Out@GRAD and X@GRAD, or Ids@GRAD ---------------------------------------- */

#define TR_ROW_SLICES_DOC "gradients of Out, selected rows or dense; @EMPTY@ where there is none"
#define TR_WHOLE_ROWS_DOC "selected rows if all gradients of Out are, else dense"

/* Append the operator `type` for the gradient of input `slot` of the forward operator. */
tr_status tr__row_slices_make_grad(tr_grad_maker *maker, const char *type, const char *slot);
/* `height` is that of the whole; -1: slices are as high as the whole. */
tr_status tr__row_slices_infer_grad(const tr_infer *io, tr_row_slice_fn slice_of, int64_t height);
tr_status tr__row_slices_run_grad(const tr_run *io, tr_row_slice_fn slice_of);
