/* decayed_adagrad.c - Adagrad that forgets: the sum of squared gradients decays. */
#ifndef T

#include "kernels/math/training/optimizer.h"
#include "kernels/optimizers/optimizer.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { PARAM, GRAD, MOMENT, LEARNING_RATE };
enum { PARAM_OUT, MOMENT_OUT };

typedef struct attrs {
    float decay, epsilon;
} attrs;

static const tr_op_proto proto = {
    .doc = "Moment = decay * Moment + (1 - decay) * Grad^2; ParamOut = Param - LearningRate * Grad / "
           "(sqrt(Moment) + epsilon).",
    .in = TR_SLOTS(TR_PARAM_SLOT, TR_GRAD_SLOT, TR_SLOT("Moment", "like Param", "; mean squared gradient"), TR_RATE_SLOT),
    .out = TR_SLOTS(TR_PARAM_OUT_SLOT, TR_STATE_OUT_SLOT("Moment")),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, decay, FLOAT, "decay of Moment", .number = 0.95),
                       TR_ATTR(attrs, epsilon, FLOAT, "keeps the quotient finite", .number = 1e-6)),
};

static const tr_optimizer_state states[] = {{PARAM, PARAM_OUT}, {MOMENT, MOMENT_OUT}, TR_LAST_STATE};

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- registration ---------------------------------------------------------------------------------- */
TR_REGISTER_OP(decayed_adagrad, .locality = TR_POINTWISE, .proto = &proto, .kernels = TR_FLOAT_KERNELS(decayed_adagrad), .updates = true);

#else /* the kernel, for each T */

static tr_status NAME(decayed_adagrad)(const tr_run *io)
{
    const attrs   *a = io->attrs;
    NAME(tr_sweep) s;

    TR_TRY(NAME(tr__sweep_begin)(&s, io, states, GRAD, LEARNING_RATE));
    while (NAME(tr__sweep_next)(&s))
        NAME(tr_decayed_adagrad)(s.to[0], s.to[1], s.from, s.g, s.rate, a->decay, a->epsilon, s.count);
    return TR_OK;
}

#endif
