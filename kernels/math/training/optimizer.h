/* optimizer.h - one step of an optimizer over a whole parameter, each element read and written once.
 *
 * Parameters and states are updated in place, or (`from` not NULL) read from from[0], from[1], ..., in the order of the
 * arguments, and written to the arguments: arrays that do not overlap with those, or are the same. g is the gradient, lr the
 * learning rate. Every element's result depends on that element alone, so a parameter cut over several servers, or updated piece
 * by piece, ends with the same bits. The formulas are Fluid 1.x's.
 *
 * The `_rows` forms update the rows of tables that a sparse gradient touches, and add equal ones up as they go. tr_adam_rows leaves a row
 * alone whose gradient is zero. */
#ifndef TR_MATH_OPTIMIZER_H
#define TR_MATH_OPTIMIZER_H

#include <string.h>

#include "framework/base/compiler.h"
#include "framework/trireme.h"

enum { TR_OPTIMIZER_ARRAYS = 4 };         /* a parameter and its states, at most */

/* A gradient of some rows, none of them twice: that of rows[i] is the sum of values[order[j]], first[i] <= j < first[i + 1], in this order
 * (tr_rows_group); without `order` it is values[i]. */
typedef struct tr_grad_rows {
    const void    *values;
    const int64_t *rows, *first, *order;
    int64_t        count, width;
} tr_grad_rows;

#define TR_TEMPLATE "kernels/math/training/optimizer.h"
#include "kernels/math/tools/each_float.h"

#elif defined(T)

/* p -= lr g */
void NAME(tr_sgd)(T *p, const T *const *from, const T *g, T lr, int64_t n);
/* v = mu v + g; p -= lr v, or with Nesterov p -= lr (g + mu v) */
void NAME(tr_momentum)(T *p, T *v, const T *const *from, const T *g, T lr, T mu, bool nesterov, int64_t n);
/* m1 = beta1 m1 + (1 - beta1) g; m2 = beta2 m2 + (1 - beta2) g^2; p -= lr' m1 / (sqrt(m2) + epsilon), where lr' =
 * lr sqrt(1 - beta2^t) / (1 - beta1^t) is given as `lr` (tr_adam_rate). */
void NAME(tr_adam)(T *p, T *m1, T *m2, const T *const *from, const T *g, T lr, T beta1, T beta2, T epsilon, int64_t n);
T    NAME(tr_adam_rate)(T lr, T beta1_pow, T beta2_pow);
/* m += g^2; p -= lr g / (sqrt(m) + epsilon) */
void NAME(tr_adagrad)(T *p, T *m, const T *const *from, const T *g, T lr, T epsilon, int64_t n);
/* m = decay m + (1 - decay) g^2; p -= lr g / (sqrt(m) + epsilon) */
void NAME(tr_decayed_adagrad)(T *p, T *m, const T *const *from, const T *g, T lr, T decay, T epsilon, int64_t n);
/* m = beta1 m + (1 - beta1) g; u = max(|g|, beta2 u + epsilon); p -= lr / (1 - beta1_pow) m / u */
void NAME(tr_adamax)(T *p, T *m, T *u, const T *const *from, const T *g, T lr, T beta1, T beta2, T epsilon, T beta1_pow,
                     int64_t n);
/* s = rho s + (1 - rho) g^2; d = -sqrt((u + eps) / (s + eps)) g; u = rho u + (1 - rho) d^2; p += d */
void NAME(tr_adadelta)(T *p, T *s, T *u, const T *const *from, const T *g, T rho, T epsilon, int64_t n);
/* ms = rho ms + (1 - rho) g^2; v = mu v + lr g / sqrt(ms + eps); p -= v. With `mg` (not NULL: centered) mg = rho mg +
 * (1 - rho) g, and ms - mg^2 stands for ms below the root. */
void NAME(tr_rmsprop)(T *p, T *v, T *ms, T *mg, const T *const *from, const T *g, T lr, T rho, T mu, T epsilon, int64_t n);
/* Follow the regularised leader, with squared and linear accumulators s and l. */
void NAME(tr_ftrl)(T *p, T *s, T *l, const T *const *from, const T *g, T lr, T l1, T l2, T lr_power, int64_t n);
/* q = p - lr g; p = sign(q) max(|q| - lr l1, 0) / (1 + lr l2) */
void NAME(tr_proximal_gd)(T *p, const T *const *from, const T *g, T lr, T l1, T l2, int64_t n);
/* m += g^2; q = p - lr g / sqrt(m); then as above with the plain lr */
void NAME(tr_proximal_adagrad)(T *p, T *m, const T *const *from, const T *g, T lr, T l1, T l2, int64_t n);

void NAME(tr_sgd_rows)(T *p, const tr_grad_rows *g, T lr);
void NAME(tr_adam_rows)(T *p, T *m1, T *m2, const tr_grad_rows *g, T lr, T beta1, T beta2, T epsilon);
void NAME(tr_adagrad_rows)(T *p, T *m, const tr_grad_rows *g, T lr, T epsilon);

/* The gradient of rows[i]: one of the values, or `sum`, which has memory for a row and is written where several are added up. */
TR_INLINE const T *NAME(tr_grad_row)(T *sum, const tr_grad_rows *g, int64_t i)
{
    const T      *values = g->values;
    const int64_t width = g->width;

    if (!g->order)
        return values + i * width;
    if (g->first[i + 1] - g->first[i] == 1)
        return values + g->order[g->first[i]] * width;
    memcpy(sum, values + g->order[g->first[i]] * width, (size_t)width * sizeof(T));
    for (int64_t j = g->first[i] + 1; j < g->first[i + 1]; j++) {
        const T *x = values + g->order[j] * width;
        TR_IVDEP
        for (int64_t k = 0; k < width; k++)
            sum[k] += x[k];
    }
    return sum;
}

#endif
