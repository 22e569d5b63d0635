/* reduce.h - sums, extremes and their like over the middle of three counts.
 *
 * x is [pre][n][post] and out [pre][post]: rows of a matrix are post = 1, columns (a bias gradient) pre = 1,
 * everything pre = post = 1. Sums follow a tree that the shape alone determines: many short chains joined
 * pairwise, which is also more exact than one long chain. The sum of nothing is 0 (the product 1, a mean NaN,
 * a maximum the smallest value). */
#ifndef TR_MATH_REDUCE_H
#define TR_MATH_REDUCE_H

#include "framework/trireme.h"

typedef enum tr_reduce {
    TR_REDUCE_SUM, TR_REDUCE_MEAN, TR_REDUCE_MAX, TR_REDUCE_MIN, TR_REDUCE_PROD, TR_REDUCE_COUNT
} tr_reduce;

/* Whether it adds elements up: its gradient needs neither x nor out. */
static inline bool tr_reduce_is_sum(tr_reduce op)
{
    return op == TR_REDUCE_SUM || op == TR_REDUCE_MEAN;
}

/* out[i][k] = all (any) of x[i][.][k]; bytes that are 0 or 1. */
void tr_reduce_all(uint8_t *out, const uint8_t *x, int64_t pre, int64_t n, int64_t post);
void tr_reduce_any(uint8_t *out, const uint8_t *x, int64_t pre, int64_t n, int64_t post);

/* out[k] = the sum of column k of a matrix that is stored in 16 bits: the bits of tr_reduce_apply_f32 for the same numbers. */
void tr_sum_columns_of_half(float *out, const uint16_t *x, tr_dtype half, int64_t rows, int64_t cols);

#define TR_TEMPLATE "kernels/math/arrays/reduce.h"
#include "kernels/math/tools/each_number.h"

#elif defined(T)

void NAME(tr_reduce_apply)(tr_reduce op, T *out, const T *x, int64_t pre, int64_t n, int64_t post);
/* The position in 0 .. n-1 of the first largest (smallest) element. */
void NAME(tr_arg_max)(int64_t *out, const T *x, int64_t pre, int64_t n, int64_t post);
void NAME(tr_arg_min)(int64_t *out, const T *x, int64_t pre, int64_t n, int64_t post);
/* The k largest of each row, largest first, the earlier of equal ones first; 0 < k <= cols. */
void NAME(tr_top_k)(T *out, int64_t *index, const T *x, int64_t rows, int64_t cols, int64_t k);

#if T_IS_FLOATING
/* The gradients of tr_reduce_apply: dx[i][j][k] from dout[i][k]. SUM and MEAN read neither x nor out (they may be
 * NULL). MAX and MIN give the gradient to every element equal to the result, as Fluid does. */
void NAME(tr_reduce_grad)(tr_reduce op, T *dx, const T *dout, const T *x, const T *out, int64_t pre, int64_t n,
                          int64_t post);
/* Sums over a whole array; `double`, so that norms of large tensors do not overflow. */
double NAME(tr_sum)(const T *x, int64_t n);
double NAME(tr_sum_squares)(const T *x, int64_t n);
double NAME(tr_sum_abs)(const T *x, int64_t n);
double NAME(tr_dot)(const T *x, const T *y, int64_t n);
#endif

#endif
