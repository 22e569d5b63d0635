/* loss.h - losses of single numbers, and their gradients.
 *
 * Arrays have n elements; results may lie in the memory of any input. What softmax and class labels need is in
 * softmax.h. */
#ifndef TR_MATH_LOSS_H
#define TR_MATH_LOSS_H

#include "framework/trireme.h"

#define TR_TEMPLATE "kernels/math/loss.h"
#include "kernels/math/each_float.h"

#elif defined(T)

/* out = scale * (max(x, 0) - x label + log(1 + exp(-|x|))), the cross entropy of sigmoid(x) and a label in 0 .. 1;
 * 0 where the label is `ignore`. */
void NAME(tr_sigmoid_cross_entropy)(T *out, const T *x, const T *label, T ignore, T scale, int64_t n);
/* dx = scale * (sigmoid(x) - label) * dout; 0 where the label is `ignore`. */
void NAME(tr_sigmoid_cross_entropy_grad)(T *dx, const T *dout, const T *x, const T *label, T ignore, T scale,
                                         int64_t n);
/* How many elements differ from `value`. */
int64_t NAME(tr_count_not)(const T *x, T value, int64_t n);
/* The first element that is neither in 0 .. 1 nor `except`, or -1. NaN is in no range. */
int64_t NAME(tr_find_improbable)(const T *x, T except, int64_t n);

/* r = y - x; out = |r| <= delta ? r^2 / 2 : delta (|r| - delta / 2). out must not be r. */
void NAME(tr_huber)(T *out, T *r, const T *x, const T *y, T delta, int64_t n);
/* dx = sign * min(max(r, -delta), delta) * dout; `sign` is -1 for x and 1 for y. */
void NAME(tr_huber_grad)(T *dx, const T *dout, const T *r, T delta, T sign, int64_t n);

/* out = -label log(p + epsilon) - (1 - label) log(1 - p + epsilon) */
void NAME(tr_log_loss)(T *out, const T *p, const T *label, T epsilon, int64_t n);
void NAME(tr_log_loss_grad)(T *dp, const T *dout, const T *p, const T *label, T epsilon, int64_t n);

/* diff = inside (x - y); out[i] = sum_j outside * (|diff| < 1/sigma2 ? sigma2 diff^2 / 2 : |diff| - 1/(2 sigma2)).
 * inside and outside may be NULL (1). */
void NAME(tr_smooth_l1)(T *out, T *diff, const T *x, const T *y, const T *inside, const T *outside, T sigma2,
                        int64_t rows, int64_t cols);
/* dx = dout[i] inside outside * (|diff| < 1/sigma2 ? sigma2 diff : sign(diff)), and dy = -dx; either may be NULL. */
void NAME(tr_smooth_l1_grad)(T *dx, T *dy, const T *dout, const T *diff, const T *inside, const T *outside, T sigma2,
                             int64_t rows, int64_t cols);

#endif
