/* sgd.c - stochastic gradient descent:  ParamOut = Param - LearningRate Grad. */
#ifndef T

#include "kernels/math/training/optimizer.h"
#include "kernels/optimizers/optimizer.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { PARAM, LEARNING_RATE, GRAD };
enum { PARAM_OUT };

static const tr_op_proto proto = {
    .doc = "ParamOut = Param - LearningRate * Grad.",
    .in = TR_SLOTS(TR_PARAM_SLOT, TR_RATE_SLOT, TR_GRAD_SLOT),
    .out = TR_SLOTS(TR_PARAM_OUT_SLOT),
};

static const tr_optimizer_state states[] = {{PARAM, PARAM_OUT}, TR_LAST_STATE};

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- registration ---------------------------------------------------------------------------------- */
TR_REGISTER_OP(sgd, .locality = TR_POINTWISE, .proto = &proto, .kernels = TR_FLOAT_KERNELS(sgd), .updates = true);

#else /* the kernel, for each T */

static tr_status NAME(sgd)(const tr_run *io)
{
    double rate;

    TR_TRY(tr__optimizer_rate(&rate, io, LEARNING_RATE));
    const T      lr = (T)rate;
    T           *p = io->out[PARAM_OUT]->data;
    tr_grad_rows g;

    if (!io->in[GRAD]->rows) {
        const T *from[TR_OPTIMIZER_ARRAYS];
        NAME(tr__optimizer_from)(from, io, states);
        NAME(tr_sgd)(p, from, io->in[GRAD]->data, lr, tr_tensor_count(io->in[PARAM]));
        return TR_OK;
    }
    tr__optimizer_load(io, states);
    TR_TRY(NAME(tr__grad_rows)(&g, io, PARAM, GRAD));
    NAME(tr_sgd_rows)(p, &g, lr);
    return TR_OK;
}

#endif
