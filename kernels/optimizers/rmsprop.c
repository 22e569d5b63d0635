/* rmsprop.c - momentum over gradients divided by their root mean square.
 *
 * With `centered` the variance of the gradients takes the place of their mean square; MeanGrad is used only then. */
#ifndef T

#include "kernels/math/training/optimizer.h"
#include "kernels/optimizers/optimizer.h"

#include <string.h>

/* -- interface -------------------------------------------------------------------------------- */
enum { PARAM, MEAN_SQUARE, MEAN_GRAD, LEARNING_RATE, GRAD, MOMENT };
enum { PARAM_OUT, MOMENT_OUT, MEAN_SQUARE_OUT, MEAN_GRAD_OUT };

typedef struct attrs {
    float epsilon, decay, momentum;
    bool  centered;
} attrs;

static const tr_op_proto proto = {
    .doc = "MeanSquare = decay * MeanSquare + (1 - decay) * Grad^2; Moment = momentum * Moment + LearningRate * "
           "Grad / sqrt(MeanSquare + epsilon); ParamOut = Param - Moment.",
    .in = TR_SLOTS(TR_PARAM_SLOT, TR_SLOT("MeanSquare", "like Param", "; mean squared gradient"),
                   TR_SLOT("MeanGrad", "like Param", "; mean gradient, for `centered`", TR_SLOT_OPTIONAL), TR_RATE_SLOT, TR_GRAD_SLOT,
                   TR_SLOT("Moment", "like Param", "; the running step")),
    .out = TR_SLOTS(TR_PARAM_OUT_SLOT, TR_STATE_OUT_SLOT("Moment"), TR_STATE_OUT_SLOT("MeanSquare"),
                    TR_SLOT("MeanGradOut", "like Param", "; the same variable as MeanGrad", TR_SLOT_OPTIONAL)),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, epsilon, FLOAT, "keeps the quotient finite", .number = 1e-10),
                       TR_ATTR(attrs, decay, FLOAT, "decay of the means", .number = 0.9),
                       TR_ATTR(attrs, momentum, FLOAT, "the share of the step that stays"),
                       TR_ATTR(attrs, centered, BOOL, "divide by the standard deviation")),
};

static const tr_optimizer_state states[] = {
    {PARAM, PARAM_OUT}, {MOMENT, MOMENT_OUT}, {MEAN_SQUARE, MEAN_SQUARE_OUT}, {MEAN_GRAD, MEAN_GRAD_OUT}, TR_LAST_STATE,
};

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- registration ---------------------------------------------------------------------------------- */
TR_REGISTER_OP(rmsprop, .locality = TR_POINTWISE, .proto = &proto, .kernels = TR_FLOAT_KERNELS(rmsprop), .updates = true);

#else /* the kernel, for each T */

static tr_status NAME(rmsprop)(const tr_run *io)
{
    const attrs   *a = io->attrs;
    T             *mg = io->out[MEAN_GRAD_OUT] ? io->out[MEAN_GRAD_OUT]->data : NULL;
    NAME(tr_sweep) s;

    if (a->centered && (!io->in[MEAN_GRAD] || !io->out[MEAN_GRAD_OUT]))
        return tr_fail(TR_EINVAL, "rmsprop: centered needs MeanGrad and MeanGradOut");
    if (!a->centered && mg && io->in[MEAN_GRAD] && io->in[MEAN_GRAD]->data != mg)     /* not used, but kept */
        memcpy(mg, io->in[MEAN_GRAD]->data, (size_t)tr_tensor_count(io->in[PARAM]) * sizeof(T));
    TR_TRY(NAME(tr__sweep_begin)(&s, io, states, GRAD, LEARNING_RATE));
    while (NAME(tr__sweep_next)(&s))
        NAME(tr_rmsprop)(s.to[0], s.to[1], s.to[2], a->centered ? s.to[3] : NULL, s.from, s.g, s.rate, a->decay, a->momentum,
                         a->epsilon, s.count);
    return TR_OK;
}

#endif
