/* crf.c - see crf.h. Sequences are shared among threads; the gradient of w is summed over all rows by one product. */
#ifndef T
#include "kernels/math/sequences/crf.h"

#include "framework/base/compiler.h"
#include "framework/tensors/vecmath.h"
#include "framework/threads/threadpool.h"

#include <string.h>

enum { MIN_SEQUENCES = 4 };                                  /* of a slice */

#include "kernels/math/tools/each_float.h"
#else

/* Scale to the sum 1; returns what it was. */
TR_INLINE T NAME(normalise)(T *x, int64_t n)
{
    T sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    const T scale = 1 / sum;
    for (int64_t i = 0; i < n; i++)
        x[i] *= scale;
    return sum;
}

/* out[j] = sum over i of x[i] w[i][j] */
TR_INLINE void NAME(step_on)(T *out, const T *x, const T *w, int64_t n)
{
    memset(out, 0, (size_t)n * sizeof(T));
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            out[j] += x[i] * w[i * n + j];
}

/* -- cost ------------------------------------------------------------------------------------------------- */

typedef struct {
    const NAME(tr_crf) *c;
    const T *x, *w, *dcost;
    T       *cost, *dx, *beta, *from, *to;
} NAME(crf_job);

/* log of the sum over all paths through the rows [begin, end). */
TR_INLINE double NAME(log_total)(const NAME(crf_job) *k, int64_t begin, int64_t end)
{
    const int64_t n = k->c->tags;
    const T      *w_exp = k->c->w_exp;
    double        total = 0;
    T             last = 0;

    for (int64_t t = begin; t < end; t++) {
        const T *x = k->x + t * n;
        T       *alpha = k->c->alpha + t * n, *x_exp = k->c->x_exp + t * n, top = x[0];
        for (int64_t i = 1; i < n; i++)
            top = x[i] > top ? x[i] : top;
        for (int64_t i = 0; i < n; i++)
            x_exp[i] = NAME(tr_exp)(x[i] - top);
        if (t == begin)
            memcpy(alpha, w_exp, (size_t)n * sizeof(T));
        else
            NAME(step_on)(alpha, alpha - n, w_exp + 2 * n, n);
        for (int64_t i = 0; i < n; i++)
            alpha[i] *= x_exp[i];
        total += (double)top + (double)NAME(tr_log)(NAME(normalise)(alpha, n));
    }
    for (int64_t i = 0; i < n; i++)
        last += k->c->alpha[(end - 1) * n + i] * w_exp[n + i];
    return total + (double)NAME(tr_log)(last);
}

TR_INLINE double NAME(label_score)(const NAME(crf_job) *k, int64_t begin, int64_t end)
{
    const int64_t  n = k->c->tags;
    const int64_t *label = k->c->label;
    double         score = (double)k->w[label[begin]] + (double)k->w[n + label[end - 1]];

    for (int64_t t = begin; t < end; t++)
        score += (double)k->x[t * n + label[t]];
    for (int64_t t = begin + 1; t < end; t++)
        score += (double)k->w[(2 + label[t - 1]) * n + label[t]];
    return score;
}

TR_CLONES static void NAME(cost_range)(void *payload, int64_t first, int64_t last)
{
    const NAME(crf_job) *k = payload;

    for (int64_t i = first; i < last; i++) {
        const int64_t begin = k->c->offset[i], end = k->c->offset[i + 1];
        k->cost[i] = begin == end ? 0 : (T)(NAME(log_total)(k, begin, end) - NAME(label_score)(k, begin, end));
    }
}

void NAME(tr_crf_cost)(T *cost, const NAME(tr_crf) *c, const T *x, const T *w)
{
    NAME(crf_job) k = {.c = c, .x = x, .w = w, .cost = cost};
    tr_parallel_range(c->count, MIN_SEQUENCES, NAME(cost_range), &k);
}

/* -- gradient ----------------------------------------------------------------------------------------------- */

/* Row t's beta, and x_exp * beta of the row after it in `weighed`, which is room of the caller's. */
TR_INLINE void NAME(beta_row)(const NAME(crf_job) *k, int64_t t, int64_t end, T *weighed)
{
    const int64_t n = k->c->tags;
    T            *beta = k->beta + t * n;

    if (t == end - 1) {
        memcpy(beta, k->c->w_exp + n, (size_t)n * sizeof(T));
    } else {
        for (int64_t j = 0; j < n; j++)
            weighed[j] = k->c->x_exp[(t + 1) * n + j] * beta[n + j];
        for (int64_t i = 0; i < n; i++) {
            T sum = 0;
            for (int64_t j = 0; j < n; j++)
                sum += k->c->w_exp[(2 + i) * n + j] * weighed[j];
            beta[i] = sum;
        }
    }
    NAME(normalise)(beta, n);
}

/* Row t's part of `from` and `to`: the step from row t - 1, whose probabilities add up to dcost. */
TR_INLINE void NAME(transition_row)(const NAME(crf_job) *k, int64_t t, int64_t begin, T dcost)
{
    const int64_t n = k->c->tags;
    T            *from = k->from + t * n, *to = k->to + t * n, sum = 0;

    if (t == begin) {
        memset(from, 0, (size_t)n * sizeof(T));
        memset(to, 0, (size_t)n * sizeof(T));
        return;
    }
    NAME(step_on)(from, k->c->alpha + (t - 1) * n, k->c->w_exp + 2 * n, n);
    for (int64_t j = 0; j < n; j++) {
        to[j] = k->c->x_exp[t * n + j] * k->beta[t * n + j];
        sum += from[j] * to[j];
    }
    for (int64_t j = 0; j < n; j++)
        to[j] *= dcost / sum;
    memcpy(from, k->c->alpha + (t - 1) * n, (size_t)n * sizeof(T));
}

TR_CLONES static void NAME(grad_range)(void *payload, int64_t first, int64_t last)
{
    const NAME(crf_job) *k = payload;
    const int64_t        n = k->c->tags;

    for (int64_t s = first; s < last; s++) {
        const int64_t begin = k->c->offset[s], end = k->c->offset[s + 1];
        for (int64_t t = end - 1; t >= begin; t--) {
            T *dx = k->dx + t * n;
            NAME(beta_row)(k, t, end, dx);
            for (int64_t i = 0; i < n; i++)
                dx[i] = k->c->alpha[t * n + i] * k->beta[t * n + i];
            NAME(normalise)(dx, n);
            for (int64_t i = 0; i < n; i++)
                dx[i] *= k->dcost[s];
            dx[k->c->label[t]] -= k->dcost[s];
            NAME(transition_row)(k, t, begin, k->dcost[s]);
        }
    }
}

void NAME(tr_crf_grad)(T *dx, T *beta, T *from, T *to, const NAME(tr_crf) *c, const T *dcost)
{
    NAME(crf_job) k = {.c = c, .dcost = dcost, .dx = dx, .beta = beta, .from = from, .to = to};
    tr_parallel_range(c->count, MIN_SEQUENCES, NAME(grad_range), &k);
}

void NAME(tr_crf_grad_w)(T *dw, const NAME(tr_crf) *c, const T *dx, const T *expected, const T *dcost)
{
    const int64_t n = c->tags;

    memset(dw, 0, (size_t)(2 * n) * sizeof(T));
    for (int64_t i = 0; i < n * n; i++)
        dw[2 * n + i] = expected[i] * c->w_exp[2 * n + i];
    for (int64_t s = 0; s < c->count; s++) {
        const int64_t begin = c->offset[s], end = c->offset[s + 1];
        for (int64_t i = 0; i < n && begin < end; i++) {
            dw[i] += dx[begin * n + i];
            dw[n + i] += dx[(end - 1) * n + i];
        }
        for (int64_t t = begin + 1; t < end; t++)
            dw[(2 + c->label[t - 1]) * n + c->label[t]] -= dcost[s];
    }
}

/* -- the best path -------------------------------------------------------------------------------------------- */

typedef struct {
    int64_t       *path;
    T             *score;
    int32_t       *back;
    const T       *x, *w;
    const int64_t *offset;
    int64_t        tags;
} NAME(decode_job);

/* Scores of the best ways to each tag of row t, and where they come from. */
TR_INLINE void NAME(decode_row)(const NAME(decode_job) *k, int64_t t, bool is_first)
{
    const int64_t n = k->tags;
    const T      *x = k->x + t * n, *before = k->score + (t - 1) * n;
    T            *score = k->score + t * n;
    int32_t      *back = k->back + t * n;

    for (int64_t j = 0; j < n; j++) {
        score[j] = is_first ? k->w[j] : before[0] + k->w[2 * n + j];
        back[j] = 0;
    }
    for (int64_t i = 1; i < n && !is_first; i++)
        for (int64_t j = 0; j < n; j++) {
            const T way = before[i] + k->w[(2 + i) * n + j];
            back[j] = way > score[j] ? (int32_t)i : back[j];
            score[j] = way > score[j] ? way : score[j];
        }
    for (int64_t j = 0; j < n; j++)
        score[j] += x[j];
}

TR_CLONES static void NAME(decode_range)(void *payload, int64_t first, int64_t last)
{
    const NAME(decode_job) *k = payload;
    const int64_t           n = k->tags;

    for (int64_t s = first; s < last; s++) {
        const int64_t begin = k->offset[s], end = k->offset[s + 1];
        int64_t       best = 0;
        for (int64_t t = begin; t < end; t++)
            NAME(decode_row)(k, t, t == begin);
        for (int64_t j = 1; j < n && begin < end; j++)
            if (k->score[(end - 1) * n + j] + k->w[n + j] > k->score[(end - 1) * n + best] + k->w[n + best])
                best = j;
        for (int64_t t = end - 1; t >= begin; t--) {
            k->path[t] = best;
            best = k->back[t * n + best];
        }
    }
}

void NAME(tr_crf_decode)(int64_t *path, T *score, int32_t *back, const T *x, const T *w, const int64_t *offset, int64_t count,
                         int64_t tags)
{
    NAME(decode_job) k = {path, score, back, x, w, offset, tags};
    tr_parallel_range(count, MIN_SEQUENCES, NAME(decode_range), &k);
}

#endif
