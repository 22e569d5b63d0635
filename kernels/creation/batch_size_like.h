/* batch_size_like.h - the shape of operators named ..._batch_size_like: attribute `shape`, with one dimension taken
 * from the input.
 *
 * For an input that holds sequences, dimension 0 stands for their number, which depends on data: it is left open
 * by inference, and the kernel sets it. */
#pragma once

#include "framework/operators/op.h"

/* The attributes of such operators begin with this. */
typedef struct tr_batch_attrs {
    tr_ints shape;
    int32_t input_dim_idx, output_dim_idx, dtype;
} tr_batch_attrs;

#define TR_BATCH_ATTRS                                                                               \
    TR_ATTR(tr_batch_attrs, shape, INTS, "Out's shape; dimension output_dim_idx does not count", .required = true), \
    TR_ATTR(tr_batch_attrs, input_dim_idx, INT, "the dimension of Input to take", .range = TR_AT_LEAST(0)),         \
    TR_ATTR(tr_batch_attrs, output_dim_idx, INT, "the dimension of Out to set", .range = TR_AT_LEAST(0)),           \
    TR_ATTR(tr_batch_attrs, dtype, INT, "Out's type", .number = TR_FP32)

/* `.infer` of such an operator: input 0, output 0. */
tr_status tr__infer_batch_size_like(const tr_infer *io);
/* At the start of its kernel: give the output its shape where inference left it open. */
tr_status tr__resize_batch_size_like(const tr_run *io);
