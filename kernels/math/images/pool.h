/* pool.h - maximum and average over windows of 1 to 3 dimensions.
 *
 * x is [planes][depth][height][width], planes = batch * channels. A 2-d pool has depth 1 (in, out, kernel and stride
 * 1, pad 0). Padding never wins a maximum; it counts for an average unless `exclusive`. With `adaptive`, window o of an
 * axis is floor(o in / out) .. ceil((o+1) in / out) - 1, and kernel, stride and pad are ignored. Gradients overwrite
 * dx. */
#ifndef TR_MATH_POOL_H
#define TR_MATH_POOL_H

#include "kernels/math/images/pool_shape.h"

#define TR_TEMPLATE "kernels/math/images/pool.h"
#include "kernels/math/tools/each_float.h"

#elif defined(T)

/* mask, which may be NULL, gets each maximum's place within its plane (the first of equal ones). */
void NAME(tr_max_pool)(T *out, int32_t *mask, const T *x, const tr_pool_shape *s);
/* Without a mask: the gradient goes to the first element of the window that equals the maximum. */
void NAME(tr_max_pool_grad)(T *dx, const T *dout, const T *x, const T *out, const tr_pool_shape *s);
void NAME(tr_max_pool_mask_grad)(T *dx, const T *dout, const int32_t *mask, const tr_pool_shape *s);
void NAME(tr_avg_pool)(T *out, const T *x, const tr_pool_shape *s);
void NAME(tr_avg_pool_grad)(T *dx, const T *dout, const tr_pool_shape *s);

#endif
