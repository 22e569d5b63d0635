/* adadelta.c - steps as large as the recent ones, without a learning rate. */
#ifndef T

#include "kernels/math/training/optimizer.h"
#include "kernels/optimizers/optimizer.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { PARAM, GRAD, SQUARED_GRAD, SQUARED_UPDATE };
enum { PARAM_OUT, SQUARED_GRAD_OUT, SQUARED_UPDATE_OUT };

typedef struct attrs {
    float rho, epsilon;
} attrs;

static const tr_op_proto proto = {
    .doc = "S = rho * S + (1 - rho) * Grad^2; step = -sqrt((U + epsilon) / (S + epsilon)) * Grad; U = rho * U + "
           "(1 - rho) * step^2; ParamOut = Param + step; S is AvgSquaredGrad, U AvgSquaredUpdate.",
    .in = TR_SLOTS(TR_PARAM_SLOT, TR_GRAD_SLOT, TR_SLOT("AvgSquaredGrad", "like Param", "; mean squared gradient"),
                   TR_SLOT("AvgSquaredUpdate", "like Param", "; mean squared step")),
    .out = TR_SLOTS(TR_PARAM_OUT_SLOT, TR_STATE_OUT_SLOT("AvgSquaredGrad"), TR_STATE_OUT_SLOT("AvgSquaredUpdate")),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, rho, FLOAT, "decay of both means", .number = 0.95),
                       TR_ATTR(attrs, epsilon, FLOAT, "keeps the quotient finite", .number = 1e-6)),
};

static const tr_optimizer_state states[] = {
    {PARAM, PARAM_OUT}, {SQUARED_GRAD, SQUARED_GRAD_OUT}, {SQUARED_UPDATE, SQUARED_UPDATE_OUT}, TR_LAST_STATE,
};

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- registration ---------------------------------------------------------------------------------- */
TR_REGISTER_OP(adadelta, .locality = TR_POINTWISE, .proto = &proto, .kernels = TR_FLOAT_KERNELS(adadelta), .updates = true);

#else /* the kernel, for each T */

static tr_status NAME(adadelta)(const tr_run *io)
{
    const attrs   *a = io->attrs;
    NAME(tr_sweep) s;

    TR_TRY(NAME(tr__sweep_begin)(&s, io, states, GRAD, -1));
    while (NAME(tr__sweep_next)(&s))
        NAME(tr_adadelta)(s.to[0], s.to[1], s.to[2], s.from, s.g, a->rho, a->epsilon, s.count);
    return TR_OK;
}

#endif
