/* nce.c - see nce.h. A draw needs one random number: its whole part (times the classes) is a place in the alias tables, and
 * what is left of it decides between the place and its alias. */
#ifndef T
#include "kernels/math/nce.h"

#include "framework/compiler.h"
#include "framework/vecmath.h"
#include "kernels/math/activation_scalar.h"

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

#define TR_TEMPLATE "kernels/math/nce.c"
#include "kernels/math/each_float.h"
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

TR_CLONES void NAME(tr_nce_cost)(T *cost, T *score, const T *expected, const T *weight, int64_t rows, int64_t picks,
                                 int64_t truths)
{
    for (int64_t i = 0; i < rows; i++) {
        T sum = 0;
        for (int64_t j = 0; j < picks; j++) {
            const T x = score[i * picks + j];
            /* log(b / o), where log o = -log(1 + e^-x) */
            const T apart = NAME(tr_log)(expected[i * picks + j]) + NAME(tr_log_one_plus_exp)(-x);
            sum += NAME(tr_log_one_plus_exp)(j < truths ? apart : -apart);
            score[i * picks + j] = NAME(tr_sigmoid)(x);
        }
        cost[i] = weight ? weight[i] * sum : sum;
    }
}

TR_CLONES void NAME(tr_nce_grad)(T *dscore, const T *dcost, const T *o, const T *expected, const T *weight, int64_t rows,
                                 int64_t picks, int64_t truths)
{
    for (int64_t i = 0; i < rows; i++) {
        const T scale = weight ? weight[i] * dcost[i] : dcost[i];
        for (int64_t k = i * picks; k < (i + 1) * picks; k++) {
            const T share = (1 - o[k]) / (o[k] + expected[k]);
            dscore[k] = scale * (k < i * picks + truths ? -expected[k] * share : o[k] * share);
        }
    }
}

#endif
