/* lamb.c - Adam whose step is scaled, for a whole parameter, by the ratio of the norms of parameter and step. (You et al., Large batch
 * optimization for deep learning: training BERT in 76 minutes, 2020)
 *
 * With t the number of the step:
 *
 *     Moment1 = beta1 Moment1 + (1 - beta1) Grad;  Moment2 = beta2 Moment2 + (1 - beta2) Grad^2
 *     step = Moment1 / (1 - beta1^t) / (sqrt(Moment2 / (1 - beta2^t)) + epsilon) + weight_decay Param
 *     Param -= LearningRate |Param| / |step| step, LearningRate step where a norm is 0
 *
 * Norms need the whole parameter, so servers do not cut it. With per_row each row is a parameter of its own: sparse tables. */
#ifndef T

#include <math.h>

#include "kernels/base/check.h"
#include "kernels/math/arrays/elementwise.h"
#include "kernels/math/arrays/reduce.h"
#include "kernels/optimizers/optimizer.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { PARAM, GRAD, LEARNING_RATE, MOMENT1, MOMENT2, BETA1_POW, BETA2_POW };
enum { PARAM_OUT, MOMENT1_OUT, MOMENT2_OUT };

typedef struct attrs {
    float beta1, beta2, epsilon, weight_decay;
    bool  per_row;
} attrs;

static const tr_op_proto proto = {
    .doc = "Adam with weight decay, whose step is scaled to |Param| for each parameter, for large batches.",
    .in = TR_SLOTS(TR_PARAM_SLOT, TR_SLOT("Grad", "like Param", "; or selected rows of it, dense where per_row", TR_SLOT_ROWS),
                   TR_RATE_SLOT, TR_SLOT("Moment1", "like Param", "; mean gradient"),
                   TR_SLOT("Moment2", "like Param", "; mean squared gradient"), TR_NUMBER_SLOT("Beta1Pow", " float; beta1^t"),
                   TR_NUMBER_SLOT("Beta2Pow", " float; beta2^t")),
    .out = TR_SLOTS(TR_PARAM_OUT_SLOT, TR_STATE_OUT_SLOT("Moment1"), TR_STATE_OUT_SLOT("Moment2")),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, weight_decay, FLOAT, "weight of Param in the step", .number = 0.01, .range = TR_AT_LEAST(0)),
                       TR_ATTR(attrs, beta1, FLOAT, "decay of Moment1", .number = 0.9, .range = TR_BETWEEN(0, 1)),
                       TR_ATTR(attrs, beta2, FLOAT, "decay of Moment2", .number = 0.999, .range = TR_BETWEEN(0, 1)),
                       TR_ATTR(attrs, epsilon, FLOAT, "keeps the quotient finite", .number = 1e-6, .range = TR_AT_LEAST(0)),
                       TR_ATTR(attrs, per_row, BOOL, "each row of Param is a parameter of its own")),
};

static const tr_optimizer_state states[] = {{PARAM, PARAM_OUT}, {MOMENT1, MOMENT1_OUT}, {MOMENT2, MOMENT2_OUT}, TR_LAST_STATE};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status infer(const tr_infer *io)
{
    const attrs *a = io->attrs;

    return a->per_row ? tr__check_dense(io, "Grad", &io->in[GRAD]) : TR_OK;
}

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- registration ---------------------------------------------------------------------------------- */
TR_REGISTER_OP(lamb, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(lamb), .updates = true);

#else /* the kernel, for each T */

static void NAME(move_moments)(T *m1, T *m2, const T *g, const attrs *a, int64_t n)
{
    const T beta1 = (T)a->beta1, beta2 = (T)a->beta2;

    for (int64_t i = 0; i < n; i++) {
        m1[i] = beta1 * m1[i] + (1 - beta1) * g[i];
        m2[i] = beta2 * m2[i] + (1 - beta2) * g[i] * g[i];
    }
}

/* One parameter of n elements; `step` has room for them. */
static void NAME(apply)(T *p, const T *m1, const T *m2, T *step, const attrs *a, double rate, double unbias1, double unbias2, int64_t n)
{
    const T epsilon = (T)a->epsilon, decay = (T)a->weight_decay, scale1 = (T)unbias1, scale2 = (T)unbias2;

    for (int64_t i = 0; i < n; i++)
        step[i] = m1[i] * scale1 / ((T)sqrt((double)(m2[i] * scale2)) + epsilon) + decay * p[i];
    const double p_norm = sqrt(NAME(tr_sum_squares)(p, n)), step_norm = sqrt(NAME(tr_sum_squares)(step, n));
    NAME(tr_axpy)(p, (T)-(p_norm > 0 && step_norm > 0 ? rate * p_norm / step_norm : rate), step, n);
}

static tr_status NAME(lamb)(const tr_run *io)
{
    double rate;

    TR_TRY(tr__optimizer_rate(&rate, io, LEARNING_RATE));
    const attrs   *a = io->attrs;
    const int64_t  n = tr_tensor_count(io->in[PARAM]), params = a->per_row ? io->in[PARAM]->shape.dim[0] : 1;
    const double   unbias1 = 1 / (1 - tr__optimizer_number(io->in[BETA1_POW])), unbias2 = 1 / (1 - tr__optimizer_number(io->in[BETA2_POW]));
    T             *p = io->out[PARAM_OUT]->data, *m1 = io->out[MOMENT1_OUT]->data, *m2 = io->out[MOMENT2_OUT]->data, *step;
    NAME(tr_sweep) s;

    tr__optimizer_load(io, states);
    TR_TRY(NAME(tr__sweep_begin)(&s, io, states, GRAD, -1));
    while (NAME(tr__sweep_next)(&s))
        NAME(move_moments)(s.to[1], s.to[2], s.g, a, s.count);
    TR_TRY(tr_run_scratch((void **)&step, io, (size_t)n * sizeof(T)));
    for (int64_t i = 0, width = params > 0 ? n / params : 0; i < params; i++)
        NAME(apply)(p + i * width, m1 + i * width, m2 + i * width, step, a, rate, unbias1, unbias2, width);
    return TR_OK;
}

#endif
