/* momentum.c - gradient descent with momentum.
 *
 * Velocity = mu Velocity + Grad; Param -= LearningRate Velocity, or with Nesterov LearningRate (Grad + mu Velocity). */
#ifndef T

#include "kernels/math/training/optimizer.h"
#include "kernels/optimizers/optimizer.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { PARAM, GRAD, VELOCITY, LEARNING_RATE };
enum { PARAM_OUT, VELOCITY_OUT };

typedef struct attrs {
    float mu;
    bool  use_nesterov;
} attrs;

static const tr_op_proto proto = {
    .doc = "Velocity = mu * Velocity + Grad; ParamOut = Param - LearningRate * Velocity.",
    .in = TR_SLOTS(TR_PARAM_SLOT, TR_GRAD_SLOT, TR_SLOT("Velocity", "like Param", "; the running sum of gradients"), TR_RATE_SLOT),
    .out = TR_SLOTS(TR_PARAM_OUT_SLOT, TR_STATE_OUT_SLOT("Velocity")),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, mu, FLOAT, "the share of the velocity that stays", .required = true),
                       TR_ATTR(attrs, use_nesterov, BOOL, "look ahead by one step")),
};

static const tr_optimizer_state states[] = {{PARAM, PARAM_OUT}, {VELOCITY, VELOCITY_OUT}, TR_LAST_STATE};

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- registration ---------------------------------------------------------------------------------- */
TR_REGISTER_OP(momentum, .locality = TR_POINTWISE, .proto = &proto, .kernels = TR_FLOAT_KERNELS(momentum), .updates = true);

#else /* the kernel, for each T */

static tr_status NAME(momentum)(const tr_run *io)
{
    const attrs   *a = io->attrs;
    NAME(tr_sweep) s;

    TR_TRY(NAME(tr__sweep_begin)(&s, io, states, GRAD, LEARNING_RATE));
    while (NAME(tr__sweep_next)(&s))
        NAME(tr_momentum)(s.to[0], s.to[1], s.from, s.g, s.rate, a->mu, a->use_nesterov, s.count);
    return TR_OK;
}

#endif
