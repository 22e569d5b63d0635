/* ftrl.c - follow the regularised leader: sparse weights for linear models. */
#ifndef T

#include "kernels/math/training/optimizer.h"
#include "kernels/optimizers/optimizer.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { PARAM, SQUARED, LINEAR, GRAD, LEARNING_RATE };
enum { PARAM_OUT, SQUARED_OUT, LINEAR_OUT };

typedef struct attrs {
    float l1, l2, lr_power;
} attrs;

static const tr_op_proto proto = {
    .doc = "Minimises the sum of the linearised losses so far plus l1 * |Param| + l2 * Param^2 and a term that "
           "keeps it near its past. A learning rate of 0 changes nothing.",
    .in = TR_SLOTS(TR_PARAM_SLOT, TR_SLOT("SquaredAccumulator", "like Param", "; the sum of squared gradients"),
                   TR_SLOT("LinearAccumulator", "like Param", "; the sum of linearised losses"), TR_GRAD_SLOT, TR_RATE_SLOT),
    .out = TR_SLOTS(TR_PARAM_OUT_SLOT, TR_SLOT("SquaredAccumOut", "like Param", "; the same variable as SquaredAccumulator"),
                    TR_SLOT("LinearAccumOut", "like Param", "; the same variable as LinearAccumulator")),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, l1, FLOAT, "weight of the absolute values"),
                       TR_ATTR(attrs, l2, FLOAT, "weight of the squares"),
                       TR_ATTR(attrs, lr_power, FLOAT, "power of the squared sum in the learning rate", .number = -0.5)),
};

static const tr_optimizer_state states[] = {{PARAM, PARAM_OUT}, {SQUARED, SQUARED_OUT}, {LINEAR, LINEAR_OUT}, TR_LAST_STATE};

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- registration ---------------------------------------------------------------------------------- */
TR_REGISTER_OP(ftrl, .locality = TR_POINTWISE, .proto = &proto, .kernels = TR_FLOAT_KERNELS(ftrl), .updates = true);

#else /* the kernel, for each T */

static tr_status NAME(ftrl)(const tr_run *io)
{
    const attrs   *a = io->attrs;
    NAME(tr_sweep) s;

    TR_TRY(NAME(tr__sweep_begin)(&s, io, states, GRAD, LEARNING_RATE));
    while (NAME(tr__sweep_next)(&s))
        NAME(tr_ftrl)(s.to[0], s.to[1], s.to[2], s.from, s.g, s.rate, a->l1, a->l2, a->lr_power, s.count);
    return TR_OK;
}

#endif
