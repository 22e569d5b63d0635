/* loss.h - losses of single numbers, and their gradients.
 *
 * Arrays have n elements; results may lie in the memory of any input. What softmax and class labels need is in
 * softmax.h. */
#ifndef TR_MATH_LOSS_H
#define TR_MATH_LOSS_H

#include "framework/trireme.h"

#define TR_TEMPLATE "kernels/math/training/loss.h"
#include "kernels/math/tools/each_float.h"

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

/* With sign = 2 label - 1: out = max(1 - sign x, 0), and dx = -sign dout where that is above 0. */
void NAME(tr_hinge)(T *out, const T *x, const T *label, int64_t n);
void NAME(tr_hinge_grad)(T *dx, const T *dout, const T *x, const T *label, int64_t n);

/* z = (2 label - 1) x; out = z < -1 ? -4 z : max(1 - z, 0)^2. out must not be z. */
void NAME(tr_modified_huber)(T *out, T *z, const T *x, const T *label, int64_t n);
void NAME(tr_modified_huber_grad)(T *dx, const T *dout, const T *z, const T *label, int64_t n);

/* With s = log(1 + exp(x)): label < -1: out = s; < 0: s - x; else 2 s - label x (both what a teacher says and whether there was a click). */
void NAME(tr_teacher_student)(T *out, const T *x, const T *label, int64_t n);
/* 0 where x is not between `low` and `high`. */
void NAME(tr_teacher_student_grad)(T *dx, const T *dout, const T *x, const T *label, T low, T high, int64_t n);

/* With o = left - right: out = log(1 + exp(o)) - label o; dleft = (sigmoid(o) - label) dout and dright = -dleft, either may be NULL. */
void NAME(tr_rank_loss)(T *out, const T *label, const T *left, const T *right, int64_t n);
void NAME(tr_rank_loss_grad)(T *dleft, T *dright, const T *dout, const T *label, const T *left, const T *right, int64_t n);

/* out = max(margin - label (a - b), 0); active = out > 0. da = -label active dout and db = -da, either may be NULL. out must not be active. */
void NAME(tr_margin_rank)(T *out, T *active, const T *label, const T *a, const T *b, T margin, int64_t n);
void NAME(tr_margin_rank_grad)(T *da, T *db, const T *dout, const T *label, const T *active, int64_t n);

/* out = target > 0 ? target (log(target) - x) : 0 */
void NAME(tr_kldiv)(T *out, const T *x, const T *target, int64_t n);
/* dx = target > 0 ? -scale target dout : 0; dout is one number where `is_one`. */
void NAME(tr_kldiv_grad)(T *dx, const T *dout, bool is_one, const T *target, T scale, int64_t n);

/* out[i] = the mean over j other than label[i] of log(1 + exp(x[i][j] - x[i][label[i]])); labels are right. One column: 0. */
void NAME(tr_bpr)(T *out, const T *x, const int64_t *label, int64_t rows, int64_t cols);
void NAME(tr_bpr_grad)(T *dx, const T *dout, const T *x, const int64_t *label, int64_t rows, int64_t cols);

#endif
