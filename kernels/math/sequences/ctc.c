/* ctc.c - see ctc.h. With L labels a path is in one of 2 L + 1 states: blank, label 0, blank, label 1, ..., blank.
 *
 * An array of states has two cells more, which no path is ever in: so each state has its neighbours, and all states of a row
 * are computed alike, several at a time. NEVER stands for the log of 0 because sums and differences of it are numbers. */
#ifndef T
#include "kernels/math/sequences/ctc.h"

#include "framework/base/compiler.h"
#include "framework/tensors/vecmath.h"
#include "framework/threads/threadpool.h"
#include "kernels/math/tools/lanes.h"

#include <string.h>

#define NEVER (-1e30)

enum { MIN_SEQUENCES = 2 };                                  /* of a slice */

static int64_t states_of(const int64_t *label_offset, int64_t i)
{
    return 2 * (label_offset[i + 1] - label_offset[i]) + 1;
}

/* Alpha for each row, four other arrays of states, the log of the sum of a row's exponentials. */
int64_t tr_ctc_work(int64_t *work_at, const int64_t *offset, const int64_t *label_offset, int64_t count)
{
    int64_t total = 0;

    for (int64_t i = 0; i < count; i++) {
        const int64_t rows = offset[i + 1] - offset[i];
        work_at[i] = total;
        total += (rows + 4) * (states_of(label_offset, i) + 2) + rows;
    }
    return total;
}

/* log(e^a + e^b + e^c) */
TR_INLINE double add_logs(double a, double b, double c)
{
    double high = a > b ? a : b;
    high = high > c ? high : c;
    return high + tr_log_f64(tr_exp_f64(a - high) + tr_exp_f64(b - high) + tr_exp_f64(c - high));
}

#include "kernels/math/tools/each_float.h"
#else

/* One sequence. */
typedef struct {
    const T       *x;
    T             *dx;
    const int32_t *label;
    int64_t        rows, states, classes, blank;
    double        *alpha;                     /* [rows][2 + states]: the two cells come first */
    double        *beta, *ahead, *jump;       /* [states + 2] */
    double        *share;                     /* [states]: logs of the probabilities of the states' classes in one row */
    double        *total;                     /* [rows]: log of the sum of a row's exponentials */
} NAME(ctc_one);

TR_INLINE NAME(ctc_one) NAME(sequence_at)(const NAME(tr_ctc) *c, T *dx, int64_t i)
{
    const int64_t rows = c->offset[i + 1] - c->offset[i], states = states_of(c->label_offset, i), cells = states + 2;
    double       *work = c->work + c->work_at[i], *rest = work + rows * cells;

    return (NAME(ctc_one)){c->x + c->offset[i] * c->classes, dx + c->offset[i] * c->classes, c->label + c->label_offset[i],
                           rows, states, c->classes, c->blank, work, rest, rest + cells, rest + 2 * cells, rest + 3 * cells,
                           rest + 4 * cells};
}

/* Rows that the labels take at least: one each, and one more between equal neighbours. */
TR_INLINE int64_t NAME(rows_needed)(const NAME(ctc_one) *o)
{
    int64_t needed = o->states / 2;
    for (int64_t i = 1; i < o->states / 2; i++)
        needed += o->label[i] == o->label[i - 1];
    return needed;
}

/* jump[s]: 0 where a path may step from state s - 2 to s, over a blank between different labels; otherwise NEVER. */
TR_INLINE void NAME(jumps)(const NAME(ctc_one) *o)
{
    for (int64_t s = 0; s < o->states + 2; s++) {
        const int64_t i = s / 2;
        o->jump[s] = s % 2 && i > 0 && s < o->states && o->label[i] != o->label[i - 1] ? 0 : NEVER;
    }
}

/* dx is the softmax for now. */
TR_INLINE void NAME(probabilities)(const NAME(ctc_one) *o)
{
    for (int64_t t = 0; t < o->rows; t++) {
        const T *x = o->x + t * o->classes, top = NAME(tr_lanes_max)(x, o->classes);
        T       *p = o->dx + t * o->classes;
        TR_IVDEP
        for (int64_t k = 0; k < o->classes; k++)
            p[k] = NAME(tr_exp)(x[k] - top);
        const T sum = NAME(tr_lanes_sum)(p, o->classes), scale = 1 / sum;
        for (int64_t k = 0; k < o->classes; k++)
            p[k] *= scale;
        o->total[t] = (double)top + tr_log_f64((double)sum);
    }
}

TR_INLINE double NAME(share_of)(const NAME(ctc_one) *o, int64_t t, int64_t class)
{
    const double share = (double)o->x[t * o->classes + class] - o->total[t];
    return share < NEVER ? NEVER : share;
}

TR_INLINE void NAME(shares)(const NAME(ctc_one) *o, int64_t t)
{
    const double blank = NAME(share_of)(o, t, o->blank);

    for (int64_t i = 0; i < o->states / 2; i++) {
        o->share[2 * i] = blank;
        o->share[2 * i + 1] = NAME(share_of)(o, t, o->label[i]);
    }
    o->share[o->states - 1] = blank;
}

/* alpha[t][s]: log of the probability of all ways to be in state s at row t. Returns that of all paths. */
TR_INLINE double NAME(alphas)(const NAME(ctc_one) *o)
{
    const int64_t n = o->states;
    double       *alpha = o->alpha + 2;

    for (int64_t t = 0; t < o->rows; t++, alpha += n + 2) {
        const double *before = alpha - (n + 2);
        alpha[-2] = alpha[-1] = NEVER;
        NAME(shares)(o, t);
        if (t == 0)
            for (int64_t s = 0; s < n; s++)
                alpha[s] = s < 2 ? o->share[s] : NEVER;
        else {
            TR_IVDEP
            for (int64_t s = 0; s < n; s++)
                alpha[s] = add_logs(before[s], before[s - 1], before[s - 2] + o->jump[s]) + o->share[s];
        }
    }
    alpha -= n + 2;
    return add_logs(alpha[n - 1], alpha[n - 2], NEVER);
}

/* Row t's beta from that of the row after it: log of the probability of all ways on from state s, row t itself not counted. */
TR_INLINE void NAME(beta_row)(const NAME(ctc_one) *o, int64_t t)
{
    const int64_t n = o->states;

    if (t == o->rows - 1) {
        for (int64_t s = 0; s < n; s++)
            o->beta[s] = s >= n - 2 ? 0 : NEVER;
        return;
    }
    NAME(shares)(o, t + 1);
    for (int64_t s = 0; s < n; s++)
        o->ahead[s] = o->beta[s] + o->share[s];
    o->ahead[n] = o->ahead[n + 1] = NEVER;
    TR_IVDEP
    for (int64_t s = 0; s < n; s++)
        o->beta[s] = add_logs(o->ahead[s], o->ahead[s + 1], o->ahead[s + 2] + o->jump[s + 2]);
}

/* Take from each row's softmax how likely each class is there, given the labels. */
TR_INLINE void NAME(gradient)(const NAME(ctc_one) *o, double log_all)
{
    const int64_t n = o->states;

    for (int64_t t = o->rows - 1; t >= 0; t--) {
        const double *alpha = o->alpha + t * (n + 2) + 2;
        T            *dx = o->dx + t * o->classes;
        NAME(beta_row)(o, t);
        TR_IVDEP
        for (int64_t s = 0; s < n; s++)
            o->ahead[s] = tr_exp_f64(alpha[s] + o->beta[s] - log_all);
        for (int64_t s = 0; s < n; s++)
            dx[s % 2 ? o->label[s / 2] : o->blank] -= (T)o->ahead[s];
    }
}

TR_CLONES static void NAME(ctc_range)(void *payload, int64_t first, int64_t last)
{
    void *const        *both = payload;
    const NAME(tr_ctc) *c = both[0];
    T                  *cost = both[1];

    for (int64_t i = first; i < last; i++) {
        const NAME(ctc_one) o = NAME(sequence_at)(c, both[2], i);
        double              log_all = NEVER;

        cost[i] = 0;
        if (o.rows > 0 && NAME(rows_needed)(&o) <= o.rows) {
            NAME(jumps)(&o);
            NAME(probabilities)(&o);
            log_all = NAME(alphas)(&o);
            cost[i] = log_all <= NEVER / 2 ? INFINITY : (T)-log_all;
        }
        if (log_all <= NEVER / 2)
            memset(o.dx, 0, (size_t)(o.rows * o.classes) * sizeof(T));
        else
            NAME(gradient)(&o, log_all);
    }
}

void NAME(tr_ctc_cost)(T *cost, T *dx, const NAME(tr_ctc) *c)
{
    void *both[] = {(void *)c, cost, dx};
    tr_parallel_range(c->count, MIN_SEQUENCES, NAME(ctc_range), both);
}

#endif
