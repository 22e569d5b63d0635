/* ctc.c - see ctc.h. With L labels a path is in one of 2 L + 1 states: blank, label 0, blank, label 1, ..., blank. */
#ifndef T
#include "kernels/math/ctc.h"

#include "framework/compiler.h"
#include "framework/threadpool.h"
#include "framework/vecmath.h"

#include <string.h>

enum { MIN_SEQUENCES = 2 };                                  /* of a slice */

static int64_t states_of(const int64_t *label_offset, int64_t i)
{
    return 2 * (label_offset[i + 1] - label_offset[i]) + 1;
}

/* Alpha for each row, beta for two, the log of the sum of a row's exponentials. */
int64_t tr_ctc_places(int64_t *place, const int64_t *offset, const int64_t *label_offset, int64_t count)
{
    int64_t total = 0;

    for (int64_t i = 0; i < count; i++) {
        const int64_t rows = offset[i + 1] - offset[i];
        place[i] = total;
        total += (rows + 2) * states_of(label_offset, i) + rows;
    }
    return total;
}

/* log(e^a + e^b) */
TR_INLINE double add_logs(double a, double b)
{
    const double high = a > b ? a : b, low = a > b ? b : a;
    return low == -INFINITY ? high : high + tr_log_f64(1 + tr_exp_f64(low - high));
}

#define TR_TEMPLATE "kernels/math/ctc.c"
#include "kernels/math/each_float.h"
#else

/* One sequence. */
typedef struct {
    const T       *x;
    T             *dx;
    const int32_t *label;
    int64_t        rows, labels, states, classes, blank;
    double        *alpha, *beta, *total;      /* total[t]: log of the sum of row t's exponentials */
} NAME(ctc_one);

TR_INLINE int64_t NAME(class_of)(const NAME(ctc_one) *o, int64_t state)
{
    return state % 2 ? o->label[state / 2] : o->blank;
}

/* Whether a path may step from state - 2 to state: over a blank between different labels. */
TR_INLINE bool NAME(may_skip)(const NAME(ctc_one) *o, int64_t state)
{
    return state % 2 && state >= 2 && o->label[state / 2] != o->label[state / 2 - 1];
}

TR_INLINE double NAME(log_share)(const NAME(ctc_one) *o, int64_t t, int64_t state)
{
    return (double)o->x[t * o->classes + NAME(class_of)(o, state)] - o->total[t];
}

/* Rows that the labels take at least: one each, and one more between equal neighbours. */
TR_INLINE int64_t NAME(rows_needed)(const NAME(ctc_one) *o)
{
    int64_t needed = o->labels;
    for (int64_t i = 1; i < o->labels; i++)
        needed += o->label[i] == o->label[i - 1];
    return needed;
}

TR_INLINE void NAME(totals)(const NAME(ctc_one) *o)
{
    for (int64_t t = 0; t < o->rows; t++) {
        const T *x = o->x + t * o->classes;
        T        top = x[0], sum = 0;
        for (int64_t k = 1; k < o->classes; k++)
            top = x[k] > top ? x[k] : top;
        for (int64_t k = 0; k < o->classes; k++)
            sum += NAME(tr_exp)(x[k] - top);
        o->total[t] = (double)top + tr_log_f64((double)sum);
    }
}

/* alpha[t][s]: log of the probability of all ways to be in state s at row t. Returns that of all paths. */
TR_INLINE double NAME(alphas)(const NAME(ctc_one) *o)
{
    const int64_t n = o->states;

    for (int64_t t = 0; t < o->rows; t++)
        for (int64_t s = 0; s < n; s++) {
            const double *before = o->alpha + (t - 1) * n;
            double        ways = t == 0 ? (s < 2 ? 0 : -INFINITY) : before[s];
            if (t > 0 && s > 0)
                ways = add_logs(ways, before[s - 1]);
            if (t > 0 && NAME(may_skip)(o, s))
                ways = add_logs(ways, before[s - 2]);
            o->alpha[t * n + s] = ways + NAME(log_share)(o, t, s);
        }
    const double *last = o->alpha + (o->rows - 1) * n;
    return n > 1 ? add_logs(last[n - 1], last[n - 2]) : last[0];
}

/* Row t's beta from that of the row after it: log of the probability of all ways on from state s, row t itself not counted. */
TR_INLINE void NAME(beta_row)(const NAME(ctc_one) *o, int64_t t, double *beta, const double *after)
{
    const int64_t n = o->states;

    for (int64_t s = 0; s < n; s++) {
        if (t == o->rows - 1) {
            beta[s] = s >= n - 2 ? 0 : -INFINITY;
            continue;
        }
        double ways = after[s] + NAME(log_share)(o, t + 1, s);
        if (s + 1 < n)
            ways = add_logs(ways, after[s + 1] + NAME(log_share)(o, t + 1, s + 1));
        if (s + 2 < n && NAME(may_skip)(o, s + 2))
            ways = add_logs(ways, after[s + 2] + NAME(log_share)(o, t + 1, s + 2));
        beta[s] = ways;
    }
}

TR_INLINE void NAME(gradient)(const NAME(ctc_one) *o, double log_all)
{
    const int64_t n = o->states;

    for (int64_t t = o->rows - 1; t >= 0; t--) {
        double *beta = o->beta + t % 2 * n;
        T      *dx = o->dx + t * o->classes;
        NAME(beta_row)(o, t, beta, o->beta + (t + 1) % 2 * n);
        for (int64_t k = 0; k < o->classes; k++)
            dx[k] = NAME(tr_exp)(o->x[t * o->classes + k] - (T)o->total[t]);
        for (int64_t s = 0; s < n; s++)
            dx[NAME(class_of)(o, s)] -= (T)tr_exp_f64(o->alpha[t * n + s] + beta[s] - log_all);
    }
}

static void NAME(ctc_range)(void *payload, int64_t first, int64_t last)
{
    void *const        *both = payload;
    const NAME(tr_ctc) *c = both[0];
    T                  *cost = both[1], *dx = both[2];

    for (int64_t i = first; i < last; i++) {
        const int64_t rows = c->offset[i + 1] - c->offset[i], states = states_of(c->label_offset, i);
        double       *alpha = c->work + c->place[i], *beta = alpha + rows * states;
        const NAME(ctc_one) o = {c->x + c->offset[i] * c->classes, dx + c->offset[i] * c->classes,
                                 c->label + c->label_offset[i], rows, states / 2, states, c->classes, c->blank,
                                 alpha, beta, beta + 2 * states};
        cost[i] = 0;
        if (rows == 0 || NAME(rows_needed)(&o) > rows) {
            memset(o.dx, 0, (size_t)(rows * c->classes) * sizeof(T));
            continue;
        }
        NAME(totals)(&o);
        const double log_all = NAME(alphas)(&o);
        cost[i] = (T)-log_all;
        NAME(gradient)(&o, log_all);
    }
}

void NAME(tr_ctc_cost)(T *cost, T *dx, const NAME(tr_ctc) *c)
{
    void *both[] = {(void *)c, cost, dx};
    tr_parallel_range(c->count, MIN_SEQUENCES, NAME(ctc_range), both);
}

#endif
