/* proximal_adagrad.c - Adagrad towards small and sparse weights.
 *
 * Moment += Grad^2; q = Param - LearningRate Grad / sqrt(Moment); then as proximal_gd. */
#ifndef T

#include "kernels/math/training/optimizer.h"
#include "kernels/optimizers/optimizer.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { PARAM, MOMENT, GRAD, LEARNING_RATE };
enum { PARAM_OUT, MOMENT_OUT };

typedef struct attrs {
    float l1, l2;
} attrs;

static const tr_op_proto proto = {
    .doc = "Moment += Grad^2; q = Param - LearningRate * Grad / sqrt(Moment); ParamOut = sign(q) * max(|q| - "
           "LearningRate * l1, 0) / (1 + LearningRate * l2).",
    .in = TR_SLOTS(TR_PARAM_SLOT, TR_SLOT("Moment", "like Param", "; the sum of squared gradients"), TR_GRAD_SLOT, TR_RATE_SLOT),
    .out = TR_SLOTS(TR_PARAM_OUT_SLOT, TR_STATE_OUT_SLOT("Moment")),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, l1, FLOAT, "weight of the absolute values"),
                       TR_ATTR(attrs, l2, FLOAT, "weight of the squares")),
};

static const tr_optimizer_state states[] = {{PARAM, PARAM_OUT}, {MOMENT, MOMENT_OUT}, TR_LAST_STATE};

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- registration ---------------------------------------------------------------------------------- */
TR_REGISTER_OP(proximal_adagrad, .locality = TR_POINTWISE, .proto = &proto, .kernels = TR_FLOAT_KERNELS(proximal_adagrad), .updates = true);

#else /* the kernel, for each T */

static tr_status NAME(proximal_adagrad)(const tr_run *io)
{
    const attrs   *a = io->attrs;
    NAME(tr_sweep) s;

    TR_TRY(NAME(tr__sweep_begin)(&s, io, states, GRAD, LEARNING_RATE));
    while (NAME(tr__sweep_next)(&s))
        NAME(tr_proximal_adagrad)(s.to[0], s.to[1], s.from, s.g, s.rate, a->l1, a->l2, s.count);
    return TR_OK;
}

#endif
