/* adamax.c - Adam with the largest gradient so far in place of the mean squared one.
 *
 * Beta1Pow is beta1^t for step t; an operator of the program multiplies it. */
#ifndef T

#include "kernels/math/training/optimizer.h"
#include "kernels/optimizers/optimizer.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { PARAM, GRAD, LEARNING_RATE, MOMENT, INF_NORM, BETA1_POW };
enum { PARAM_OUT, MOMENT_OUT, INF_NORM_OUT };

typedef struct attrs {
    float beta1, beta2, epsilon;
} attrs;

static const tr_op_proto proto = {
    .doc = "Moment = beta1 * Moment + (1 - beta1) * Grad; InfNorm = max(|Grad|, beta2 * InfNorm + epsilon); "
           "ParamOut = Param - LearningRate / (1 - Beta1Pow) * Moment / InfNorm.",
    .in = TR_SLOTS(TR_PARAM_SLOT, TR_GRAD_SLOT, TR_RATE_SLOT, TR_SLOT("Moment", "like Param", "; mean gradient"),
                   TR_SLOT("InfNorm", "like Param", "; largest gradient"), TR_NUMBER_SLOT("Beta1Pow", " float; beta1^t")),
    .out = TR_SLOTS(TR_PARAM_OUT_SLOT, TR_STATE_OUT_SLOT("Moment"), TR_STATE_OUT_SLOT("InfNorm")),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, beta1, FLOAT, "decay of Moment", .number = 0.9),
                       TR_ATTR(attrs, beta2, FLOAT, "decay of InfNorm", .number = 0.999),
                       TR_ATTR(attrs, epsilon, FLOAT, "keeps the quotient finite", .number = 1e-8)),
};

static const tr_optimizer_state states[] = {{PARAM, PARAM_OUT}, {MOMENT, MOMENT_OUT}, {INF_NORM, INF_NORM_OUT}, TR_LAST_STATE};

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- registration ---------------------------------------------------------------------------------- */
TR_REGISTER_OP(adamax, .locality = TR_POINTWISE, .proto = &proto, .kernels = TR_FLOAT_KERNELS(adamax), .updates = true);

#else /* the kernel, for each T */

static tr_status NAME(adamax)(const tr_run *io)
{
    const attrs   *a = io->attrs;
    const T        beta1_pow = (T)tr__optimizer_number(io->in[BETA1_POW]);
    NAME(tr_sweep) s;

    TR_TRY(NAME(tr__sweep_begin)(&s, io, states, GRAD, LEARNING_RATE));
    while (NAME(tr__sweep_next)(&s))
        NAME(tr_adamax)(s.to[0], s.to[1], s.to[2], s.from, s.g, s.rate, a->beta1, a->beta2, a->epsilon, beta1_pow, s.count);
    return TR_OK;
}

#endif
