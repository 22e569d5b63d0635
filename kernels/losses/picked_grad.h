/* picked_grad.h - the gradients of operators that take a few rows of a large W for each row of X: nce, hierarchical_sigmoid.
 *
 * Their gradient operators make those of X, W and Bias, in this order. With is_sparse those of W and Bias are selected
 * rows, each row that was picked once, in ascending order; else they are dense, zeros where nothing was picked. */
#ifndef TR_KERNELS_PICKED_GRAD_H
#define TR_KERNELS_PICKED_GRAD_H

#include "framework/operators/op.h"
#include "kernels/math/training/picked.h"

enum { TR_PICKED_DX, TR_PICKED_DW, TR_PICKED_DBIAS };

/* The shapes of the gradients, from X, W and Bias (kind NONE: there is none). */
void      tr__picked_infer_grad(const tr_infer *io, const tr_meta *x, const tr_meta *w, const tr_meta *bias, bool is_sparse);

#define TR_TEMPLATE "kernels/losses/picked_grad.h"
#include "kernels/math/tools/each_float.h"

#elif defined(T)

/* Make those that are wanted. `memory` is tr_picked_memory(rows * picks) numbers; W has `height` rows. */
tr_status NAME(tr__picked_grad)(const tr_run *io, const T *dscore, const NAME(tr_picked) *p, int64_t *memory, int64_t height,
                                bool is_sparse);

#endif
