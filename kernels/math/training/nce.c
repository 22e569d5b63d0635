/* nce.c - see nce.h. A draw needs one random number: its whole part (times the classes) is a place in the alias tables, and
 * what is left of it decides between the place and its alias. */
#ifndef T
#include "kernels/math/training/nce.h"

#include "framework/base/compiler.h"
#include "framework/tensors/vecmath.h"
#include "framework/threads/threadpool.h"
#include "kernels/math/arrays/activation_scalar.h"

enum { MIN_PICKS = 2048 };                                   /* of a slice */

/* -- samplers --------------------------------------------------------------------------------------------- */

TR_CLONES static void draw_log_uniform(int64_t *out, const double *u, int64_t n, int64_t classes)
{
    const double range = log((double)classes + 1);

    for (int64_t i = 0; i < n; i++) {
        const int64_t one = (int64_t)tr_exp_f64(u[i] * range) - 1;
        out[i] = one < classes ? one : classes - 1;
    }
}

static int64_t draw_custom(double u, const tr_sampler *s)
{
    const double  scaled = u * (double)s->classes;
    const int64_t place = (int64_t)scaled;

    return scaled - (double)place < (double)s->alias_prob[place] || s->alias[place] < 0 ? place : s->alias[place];
}

void tr_sampler_draw(int64_t *out, const double *u, int64_t n, const tr_sampler *sampler)
{
    if (sampler->kind == TR_SAMPLER_LOG_UNIFORM) {
        draw_log_uniform(out, u, n, sampler->classes);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        out[i] = sampler->kind == TR_SAMPLER_CUSTOM ? draw_custom(u[i], sampler) : (int64_t)(u[i] * (double)sampler->classes);
}

#include "kernels/math/tools/each_float.h"
#else

TR_CLONES static void NAME(expected_log_uniform)(T *out, const int64_t *id, int64_t n, double scale)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = (T)(scale * tr_log_one_plus_f64(1 / ((double)id[i] + 1)));
}

void NAME(tr_sampler_expected)(T *out, const int64_t *id, int64_t n, int64_t draws, const tr_sampler *sampler)
{
    const double classes = (double)sampler->classes;

    if (sampler->kind == TR_SAMPLER_LOG_UNIFORM) {
        NAME(expected_log_uniform)(out, id, n, (double)draws / log(classes + 1));
        return;
    }
    for (int64_t i = 0; i < n; i++)
        out[i] = (T)((double)draws * (sampler->kind == TR_SAMPLER_CUSTOM ? (double)sampler->prob[id[i]] : 1 / classes));
}

/* -- cost ------------------------------------------------------------------------------------------------- */

/* Rows are short, so what takes time runs over all picks of a slice at once: vectors do not end with a row. */
typedef struct {
    T       *score, *expected, *cost, *dscore;
    const T *o, *seen, *weight, *dcost;
    int64_t  picks, truths;
} NAME(job);

/* expected = log(b / o), where log o = -log(1 + e^-score) */
TR_INLINE void NAME(apart)(T *expected, const T *score, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        expected[k] = NAME(tr_log)(expected[k]) + NAME(tr_log_one_plus_exp)(-score[k]);
}

TR_CLONES static void NAME(cost_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    const int64_t    picks = j->picks, n = (end - begin) * picks;
    T               *score = j->score + begin * picks, *each = j->expected + begin * picks;

    NAME(apart)(each, score, n);
    for (int64_t i = 0; i < end - begin; i++)
        for (int64_t k = i * picks; k < i * picks + j->truths; k++)
            each[k] = -each[k];
    for (int64_t k = 0; k < n; k++)
        each[k] = NAME(tr_log_one_plus_exp)(-each[k]);
    for (int64_t k = 0; k < n; k++)
        score[k] = NAME(tr_sigmoid)(score[k]);
    for (int64_t i = begin; i < end; i++, each += picks) {
        T sum = 0;
        for (int64_t k = 0; k < picks; k++)
            sum += each[k];
        j->cost[i] = j->weight ? j->weight[i] * sum : sum;
    }
}

void NAME(tr_nce_cost)(T *cost, T *score, T *expected, const T *weight, int64_t rows, int64_t picks, int64_t truths)
{
    NAME(job) job = {.score = score, .expected = expected, .cost = cost, .weight = weight, .picks = picks, .truths = truths};
    tr_parallel_range(rows, 1 + MIN_PICKS / picks, NAME(cost_range), &job);
}

TR_CLONES static void NAME(grad_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    const T         *o = j->o, *b = j->seen;
    T               *d = j->dscore;

    for (int64_t k = begin * j->picks; k < end * j->picks; k++)
        d[k] = (1 - o[k]) / (o[k] + b[k]);
    for (int64_t i = begin; i < end; i++) {
        const int64_t first = i * j->picks, drawn = first + j->truths;
        const T       scale = j->weight ? j->weight[i] * j->dcost[i] : j->dcost[i];
        for (int64_t k = first; k < drawn; k++)
            d[k] *= -scale * b[k];
        for (int64_t k = drawn; k < first + j->picks; k++)
            d[k] *= scale * o[k];
    }
}

void NAME(tr_nce_grad)(T *dscore, const T *dcost, const T *o, const T *expected, const T *weight, int64_t rows, int64_t picks,
                       int64_t truths)
{
    NAME(job) job = {.dscore = dscore, .dcost = dcost, .o = o, .seen = expected, .weight = weight, .picks = picks,
                     .truths = truths};
    tr_parallel_range(rows, 1 + MIN_PICKS / picks, NAME(grad_range), &job);
}

#endif
