/* elementwise.h - arithmetic on arrays, element by element.
 *
 * Broadcasting follows Fluid's axis rule, which always comes down to three counts:
 *     out[i][j][k] = a[i][j][k] op b[j],   i < pre, j < n, k < post.
 * Equal shapes are pre = 1, n = count, post = 1; a scalar b is pre = 1, n = 1, post = count. `out` may be
 * `a`, and `b` where b has the shape of a. Integer division by zero gives 0, and so do modulo and floor
 * division; modulo has the sign of the divisor, as in Python. */
#ifndef TR_MATH_ELEMENTWISE_H
#define TR_MATH_ELEMENTWISE_H

#include "framework/trireme.h"
#include "kernels/math/arrays/activation.h"

typedef enum tr_binary {
    TR_BINARY_ADD, TR_BINARY_SUB, TR_BINARY_MUL, TR_BINARY_DIV, TR_BINARY_MAX, TR_BINARY_MIN,
    TR_BINARY_POW, TR_BINARY_MOD, TR_BINARY_FLOORDIV, TR_BINARY_COUNT
} tr_binary;

typedef enum tr_compare {
    TR_COMPARE_EQ, TR_COMPARE_NE, TR_COMPARE_LT, TR_COMPARE_LE, TR_COMPARE_GT, TR_COMPARE_GE, TR_COMPARE_COUNT
} tr_compare;

typedef enum tr_logical { TR_LOGICAL_AND, TR_LOGICAL_OR, TR_LOGICAL_XOR, TR_LOGICAL_COUNT } tr_logical;

void tr_logical_apply(tr_logical op, uint8_t *out, const uint8_t *a, const uint8_t *b, int64_t n);
void tr_logical_not(uint8_t *out, const uint8_t *a, int64_t n);

/* out = value, for items of 1, 2, 4 or 8 bytes. */
void tr_fill(void *out, const void *value, int64_t item_size, int64_t n);

#define TR_TEMPLATE "kernels/math/arrays/elementwise.h"
#include "kernels/math/tools/each_number.h"

#elif defined(T)

void NAME(tr_binary_apply)(tr_binary op, T *out, const T *a, const T *b, int64_t pre, int64_t n, int64_t post);
/* out[i][j][k] = a[i][j][k] op b[j] ? 1 : 0 */
void NAME(tr_compare_apply)(tr_compare op, uint8_t *out, const T *a, const T *b, int64_t pre, int64_t n,
                            int64_t post);

/* out = x * scale + bias */
void NAME(tr_scale)(T *out, const T *x, T scale, T bias, int64_t n);
/* y += alpha * x */
void NAME(tr_axpy)(T *y, T alpha, const T *x, int64_t n);
/* out = the sum of `count` arrays, added in their order; out may be one of them only if it is the first. */
void NAME(tr_sum_arrays)(T *out, const T *const *x, int64_t count, int64_t n);
/* out = min(max(x, low), high); NaN stays NaN. */
void NAME(tr_clip)(T *out, const T *x, T low, T high, int64_t n);
/* dx = low < x < high ? dout : 0 */
void NAME(tr_clip_grad)(T *dx, const T *dout, const T *x, T low, T high, int64_t n);

#if T_IS_FLOATING
/* Gradients of tr_binary_apply for ADD, SUB, MUL, DIV, MAX, MIN and POW: da has the shape of a, db that of
 * b (summed over i and k in a fixed order). Either may be NULL. ADD and SUB read neither a nor b (they may be
 * NULL). da may be dout. MAX and MIN give the whole gradient to a where a is strictly larger (smaller), else
 * to b, as Fluid does. */
void NAME(tr_binary_grad)(tr_binary op, T *da, T *db, const T *dout, const T *a, const T *b, int64_t pre,
                          int64_t n, int64_t post);
/* out[i][j] = act(x[i][j] + bias[j]); out may be x. TR_ACT_IDENTITY is the plain sum. */
void NAME(tr_bias_act)(T *out, const T *x, const T *bias, int64_t rows, int64_t cols, tr_act act, T p, T q);

/* Dropout: out = keep ? x * scale : 0, where keep[i], also written to `mask`, is 1 with probability `keep`:
 * tr_random_bernoulli(mask, n, key, start, keep). */
void NAME(tr_dropout)(T *out, uint8_t *mask, const T *x, int64_t n, uint64_t key, uint64_t start, double keep,
                      T scale);
/* dx = mask ? dout * scale : 0 */
void NAME(tr_dropout_grad)(T *dx, const T *dout, const uint8_t *mask, int64_t n, T scale);

/* True when every element is finite. */
bool NAME(tr_all_finite)(const T *x, int64_t n);
#endif

#endif
