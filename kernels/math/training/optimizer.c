/* optimizer.c - the formulas on one element, and two ways to walk: a whole parameter, or some rows of a table.
 *
 * A formula is an inline function of the element's values; the loops inline it, so that both walks give the same bits.
 * Non-temporal stores are not used: parameters and states are read again in the next step. */
#ifndef T
#include "kernels/math/training/optimizer.h"

#include "framework/base/compiler.h"
#include "framework/threads/threadpool.h"
#include "kernels/math/arrays/rows.h"
#include "kernels/math/tools/fetch.h"

#include <string.h>
#include <tgmath.h>

enum { MIN_ITEMS = 8192, MIN_WIDTH = 4, MOST_AHEAD = 32 };   /* elements of a slice; of a row at least; rows to ask for in advance */

/* Rows of a large table are rarely in cache. */
TR_INLINE void ask_for(const void *array, int64_t row, int64_t bytes)
{
    if (array)
        tr__claim_row((const char *)array + row * bytes, bytes);
}

#include "kernels/math/tools/each_float.h"
#else

/* s, u and v are the states that an optimizer has; a to e its numbers. */
typedef struct {
    T             *p, *s, *u, *v;
    const T       *from[TR_OPTIMIZER_ARRAYS];      /* of whole parameters: where p, s, u and v are read */
    const T       *g;
    T              lr, a, b, c, d, e;
    bool           flag;
    tr_grad_rows   grad;                           /* of the rows of a table */
} NAME(job);

/* -- formulas ------------------------------------------------------------------------------------------------------------ */

TR_INLINE void NAME(sgd_one)(T *p, T g, T lr)
{
    *p -= lr * g;
}

TR_INLINE void NAME(momentum_one)(T *p, T *v, T g, T lr, T mu, bool nesterov)
{
    const T velocity = mu * *v + g;
    *v = velocity;
    *p -= lr * (nesterov ? g + mu * velocity : velocity);
}

TR_INLINE void NAME(adam_one)(T *p, T *m1, T *m2, T g, T lr, T beta1, T beta2, T epsilon)
{
    const T first = beta1 * *m1 + (1 - beta1) * g, second = beta2 * *m2 + (1 - beta2) * (g * g);
    *m1 = first;
    *m2 = second;
    *p -= lr * (first / (sqrt(second) + epsilon));
}

TR_INLINE void NAME(adagrad_one)(T *p, T *m, T g, T lr, T epsilon)
{
    const T moment = *m + g * g;
    *m = moment;
    *p -= lr * g / (sqrt(moment) + epsilon);
}

/* The proximal step: towards zero by l1, and shrunk by l2. */
TR_INLINE T NAME(shrunk)(T q, T lr, T l1, T l2)
{
    const T size = fabs(q) - lr * l1, left = size < 0 ? 0 : size;
    return (q < 0 ? -left : left) / (1 + lr * l2);
}

TR_INLINE void NAME(decayed_adagrad_one)(T *p, T *m, T g, T lr, T decay, T epsilon)
{
    const T moment = decay * *m + (1 - decay) * (g * g);
    *m = moment;
    *p -= lr * g / (sqrt(moment) + epsilon);
}

TR_INLINE void NAME(adamax_one)(T *p, T *m, T *u, T g, T lr, T beta1, T beta2, T epsilon)
{
    const T moment = beta1 * *m + (1 - beta1) * g, decayed = beta2 * *u + epsilon, size = fabs(g);
    const T norm = size > decayed ? size : decayed;
    *m = moment;
    *u = norm;
    *p -= lr * (moment / norm);
}

TR_INLINE void NAME(adadelta_one)(T *p, T *s, T *u, T g, T rho, T epsilon)
{
    const T square = rho * *s + (1 - rho) * (g * g);
    const T step = -sqrt((*u + epsilon) / (square + epsilon)) * g;
    *s = square;
    *u = rho * *u + (1 - rho) * (step * step);
    *p += step;
}

/* `around` is the square of the gradient's mean, or 0. */
TR_INLINE void NAME(rmsprop_one)(T *p, T *v, T *ms, T g, T around, T lr, T rho, T mu, T epsilon)
{
    const T square = rho * *ms + (1 - rho) * (g * g);
    const T step = mu * *v + lr * g / sqrt(square - around + epsilon);
    *ms = square;
    *v = step;
    *p -= step;
}

TR_INLINE void NAME(rmsprop_centered_one)(T *p, T *v, T *ms, T *mg, T g, T lr, T rho, T mu, T epsilon)
{
    const T mean = rho * *mg + (1 - rho) * g;
    *mg = mean;
    NAME(rmsprop_one)(p, v, ms, g, mean * mean, lr, rho, mu, epsilon);
}

TR_INLINE void NAME(ftrl_one)(T *p, T *s, T *l, T g, T lr, T l1, T l2, T lr_power)
{
    const bool is_root = lr_power == (T)-0.5;
    const T    sum = *s + g * g, power = is_root ? sqrt(sum) : pow(sum, -lr_power);
    const T    before = is_root ? sqrt(*s) : pow(*s, -lr_power);
    const T    linear = *l + g - (power - before) / lr * *p, excess = linear < 0 ? -l1 - linear : l1 - linear;
    *p = fabs(linear) > l1 ? excess / (power / lr + 2 * l2) : 0;
    *l = linear;
    *s = sum;
}

TR_INLINE void NAME(proximal_adagrad_one)(T *p, T *m, T g, T lr, T l1, T l2)
{
    const T moment = *m + g * g;
    *m = moment;
    *p = NAME(shrunk)(moment > 0 ? *p - lr * g / sqrt(moment) : *p, lr, l1, l2);    /* no gradient so far: not 0 / 0 */
}

/* -- whole parameters ------------------------------------------------------------------------------------------------------ */

/* BODY changes one element: p, and as many of s, u and v as there are states. */
#define WALK(name, STATES, BODY)                                                          \
    TR_CLONES static void NAME(name##_range)(void *payload, int64_t begin, int64_t end)   \
    {                                                                                     \
        const NAME(job) j = *(const NAME(job) *)payload;                                  \
        const T        *g = j.g;                                                          \
        TR_IVDEP                                                                          \
        for (int64_t i = begin; i < end; i++) {                                           \
            T p = j.from[0][i], s = 0, u = 0, v = 0;                                      \
            if (STATES > 0) s = j.from[1][i];                                             \
            if (STATES > 1) u = j.from[2][i];                                             \
            if (STATES > 2) v = j.from[3][i];                                             \
            BODY                                                                          \
            j.p[i] = p;                                                                   \
            if (STATES > 0) j.s[i] = s;                                                   \
            if (STATES > 1) j.u[i] = u;                                                   \
            if (STATES > 2) j.v[i] = v;                                                   \
        }                                                                                 \
    }

WALK(sgd,              0, NAME(sgd_one)(&p, g[i], j.lr);)
WALK(momentum,         1, NAME(momentum_one)(&p, &s, g[i], j.lr, j.a, false);)
WALK(nesterov,         1, NAME(momentum_one)(&p, &s, g[i], j.lr, j.a, true);)
WALK(adam,             2, NAME(adam_one)(&p, &s, &u, g[i], j.lr, j.a, j.b, j.e);)
WALK(adagrad,          1, NAME(adagrad_one)(&p, &s, g[i], j.lr, j.e);)
WALK(decayed_adagrad,  1, NAME(decayed_adagrad_one)(&p, &s, g[i], j.lr, j.a, j.e);)
WALK(adamax,           2, NAME(adamax_one)(&p, &s, &u, g[i], j.lr, j.a, j.b, j.e);)
WALK(adadelta,         2, NAME(adadelta_one)(&p, &s, &u, g[i], j.a, j.e);)
WALK(rmsprop,          2, NAME(rmsprop_one)(&p, &s, &u, g[i], 0, j.lr, j.a, j.b, j.e);)
WALK(rmsprop_centered, 3, NAME(rmsprop_centered_one)(&p, &s, &u, &v, g[i], j.lr, j.a, j.b, j.e);)
WALK(ftrl_sqrt,        2, NAME(ftrl_one)(&p, &s, &u, g[i], j.lr, j.a, j.b, (T)-0.5);)
WALK(ftrl_pow,         2, NAME(ftrl_one)(&p, &s, &u, g[i], j.lr, j.a, j.b, j.c);)
WALK(still,            2, (void)g;)                        /* leaves everything as it is */
WALK(proximal_gd,      0, p = NAME(shrunk)(p - j.lr * g[i], j.lr, j.a, j.b);)
WALK(proximal_adagrad, 1, NAME(proximal_adagrad_one)(&p, &s, g[i], j.lr, j.a, j.b);)
#undef WALK

static void NAME(walk)(NAME(job) *j, const T *const *from, int64_t n, tr_range_fn fn)
{
    const T *const own[TR_OPTIMIZER_ARRAYS] = {j->p, j->s, j->u, j->v};

    memcpy(j->from, from ? from : own, sizeof own);
    tr_parallel_range(n, MIN_ITEMS, fn, j);
}

void NAME(tr_sgd)(T *p, const T *const *from, const T *g, T lr, int64_t n)
{
    NAME(job) j = {.p = p, .g = g, .lr = lr};
    NAME(walk)(&j, from, n, NAME(sgd_range));
}

void NAME(tr_momentum)(T *p, T *v, const T *const *from, const T *g, T lr, T mu, bool nesterov, int64_t n)
{
    NAME(job) j = {.p = p, .s = v, .g = g, .lr = lr, .a = mu};
    NAME(walk)(&j, from, n, nesterov ? NAME(nesterov_range) : NAME(momentum_range));
}

void NAME(tr_adam)(T *p, T *m1, T *m2, const T *const *from, const T *g, T lr, T beta1, T beta2, T epsilon, int64_t n)
{
    NAME(job) j = {.p = p, .s = m1, .u = m2, .g = g, .lr = lr, .a = beta1, .b = beta2, .e = epsilon};
    NAME(walk)(&j, from, n, NAME(adam_range));
}

T NAME(tr_adam_rate)(T lr, T beta1_pow, T beta2_pow)
{
    return lr * sqrt(1 - beta2_pow) / (1 - beta1_pow);
}

void NAME(tr_adagrad)(T *p, T *m, const T *const *from, const T *g, T lr, T epsilon, int64_t n)
{
    NAME(job) j = {.p = p, .s = m, .g = g, .lr = lr, .e = epsilon};
    NAME(walk)(&j, from, n, NAME(adagrad_range));
}

void NAME(tr_decayed_adagrad)(T *p, T *m, const T *const *from, const T *g, T lr, T decay, T epsilon, int64_t n)
{
    NAME(job) j = {.p = p, .s = m, .g = g, .lr = lr, .a = decay, .e = epsilon};
    NAME(walk)(&j, from, n, NAME(decayed_adagrad_range));
}

void NAME(tr_adamax)(T *p, T *m, T *u, const T *const *from, const T *g, T lr, T beta1, T beta2, T epsilon, T beta1_pow,
                     int64_t n)
{
    NAME(job) j = {.p = p, .s = m, .u = u, .g = g, .lr = lr / (1 - beta1_pow), .a = beta1, .b = beta2, .e = epsilon};
    NAME(walk)(&j, from, n, NAME(adamax_range));
}

void NAME(tr_adadelta)(T *p, T *s, T *u, const T *const *from, const T *g, T rho, T epsilon, int64_t n)
{
    NAME(job) j = {.p = p, .s = s, .u = u, .g = g, .a = rho, .e = epsilon};
    NAME(walk)(&j, from, n, NAME(adadelta_range));
}

void NAME(tr_rmsprop)(T *p, T *v, T *ms, T *mg, const T *const *from, const T *g, T lr, T rho, T mu, T epsilon, int64_t n)
{
    NAME(job) j = {.p = p, .s = v, .u = ms, .v = mg, .g = g, .lr = lr, .a = rho, .b = mu, .e = epsilon};
    NAME(walk)(&j, from, n, mg ? NAME(rmsprop_centered_range) : NAME(rmsprop_range));
}

void NAME(tr_ftrl)(T *p, T *s, T *l, const T *const *from, const T *g, T lr, T l1, T l2, T lr_power, int64_t n)
{
    NAME(job) j = {.p = p, .s = s, .u = l, .g = g, .lr = lr, .a = l1, .b = l2, .c = lr_power};
    const bool is_still = lr == 0;                             /* the sum of losses has shares of 1 / lr: such a step does not count */
    NAME(walk)(&j, from, n, is_still ? NAME(still_range) : lr_power == (T)-0.5 ? NAME(ftrl_sqrt_range) : NAME(ftrl_pow_range));
}

void NAME(tr_proximal_gd)(T *p, const T *const *from, const T *g, T lr, T l1, T l2, int64_t n)
{
    NAME(job) j = {.p = p, .g = g, .lr = lr, .a = l1, .b = l2};
    NAME(walk)(&j, from, n, NAME(proximal_gd_range));
}

void NAME(tr_proximal_adagrad)(T *p, T *m, const T *const *from, const T *g, T lr, T l1, T l2, int64_t n)
{
    NAME(job) j = {.p = p, .s = m, .g = g, .lr = lr, .a = l1, .b = l2};
    NAME(walk)(&j, from, n, NAME(proximal_adagrad_range));
}

/* -- rows of a table ---------------------------------------------------------------------------------------------------------- */

/* Element i of row r, unless the row IS_STILL. */
#define WALK_ROWS(name, IS_STILL, BODY)                                                       \
    TR_CLONES static void NAME(name##_rows_range)(void *payload, int64_t begin, int64_t end)  \
    {                                                                                         \
        const NAME(job) j = *(const NAME(job) *)payload;                                      \
        const int64_t   width = j.grad.width, bytes = width * (int64_t)sizeof(T);             \
        const int64_t   most = tr__rows_ahead(bytes * (2 + !!j.s + !!j.u)), ahead = most < MOST_AHEAD ? most : MOST_AHEAD; \
        T              *sum = j.grad.order ? tr_thread_scratch(TR_SCRATCH_COLUMNS, (size_t)bytes) : NULL; \
        for (int64_t r = begin; r < end; r++) {                                               \
            const int64_t at = j.grad.rows[r] * width, later = r + ahead < end ? r + ahead : r, next = j.grad.rows[later]; \
            ask_for(j.p, next, bytes);                                                        \
            ask_for(j.s, next, bytes);                                                        \
            ask_for(j.u, next, bytes);                                                        \
            if (j.grad.order)                                                                 \
                tr__fetch_row((const T *)j.grad.values + j.grad.order[j.grad.first[later]] * width, bytes); \
            T            *p = j.p + at, *s = j.s ? j.s + at : NULL, *u = j.u ? j.u + at : NULL; \
            const T      *g = NAME(tr_grad_row)(sum, &j.grad, r);                             \
            (void)s, (void)u;                                                                 \
            if (IS_STILL)                                                                     \
                continue;                                                                     \
            TR_IVDEP                                                                          \
            for (int64_t i = 0; i < width; i++) {                                             \
                BODY                                                                          \
            }                                                                                 \
        }                                                                                     \
    }

WALK_ROWS(sgd,     false, NAME(sgd_one)(p + i, g[i], j.lr);)
WALK_ROWS(adam,    NAME(tr_row_is_zero)(g, width), NAME(adam_one)(p + i, s + i, u + i, g[i], j.lr, j.a, j.b, j.e);)
WALK_ROWS(adagrad, false, NAME(adagrad_one)(p + i, s + i, g[i], j.lr, j.e);)
#undef WALK_ROWS

/* A row costs more than its elements do: it is rarely in cache. */
static void NAME(walk_rows)(NAME(job) *j, tr_range_fn fn)
{
    if (j->grad.width > 0)
        tr_parallel_range(j->grad.count, 1 + MIN_ITEMS / 2 / (j->grad.width < MIN_WIDTH ? MIN_WIDTH : j->grad.width), fn, j);
}

void NAME(tr_sgd_rows)(T *p, const tr_grad_rows *g, T lr)
{
    NAME(job) j = {.p = p, .grad = *g, .lr = lr};
    NAME(walk_rows)(&j, NAME(sgd_rows_range));
}

void NAME(tr_adam_rows)(T *p, T *m1, T *m2, const tr_grad_rows *g, T lr, T beta1, T beta2, T epsilon)
{
    NAME(job) j = {.p = p, .s = m1, .u = m2, .grad = *g, .lr = lr, .a = beta1, .b = beta2, .e = epsilon};
    NAME(walk_rows)(&j, NAME(adam_rows_range));
}

void NAME(tr_adagrad_rows)(T *p, T *m, const tr_grad_rows *g, T lr, T epsilon)
{
    NAME(job) j = {.p = p, .s = m, .grad = *g, .lr = lr, .e = epsilon};
    NAME(walk_rows)(&j, NAME(adagrad_rows_range));
}

#endif
