/* adagrad.c - a learning rate for each element that falls with the sum of its squared gradients.
 *
 * Moment += Grad^2; Param -= LearningRate Grad / (sqrt(Moment) + epsilon). Rows without a gradient do not change. */
#ifndef T

#include "kernels/math/training/optimizer.h"
#include "kernels/optimizers/optimizer.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { PARAM, GRAD, MOMENT, LEARNING_RATE };
enum { PARAM_OUT, MOMENT_OUT };

typedef struct attrs {
    float epsilon;
} attrs;

static const tr_op_proto proto = {
    .doc = "Moment += Grad^2; ParamOut = Param - LearningRate * Grad / (sqrt(Moment) + epsilon).",
    .in = TR_SLOTS(TR_PARAM_SLOT, TR_GRAD_SLOT, TR_SLOT("Moment", "like Param", "; the sum of squared gradients"), TR_RATE_SLOT),
    .out = TR_SLOTS(TR_PARAM_OUT_SLOT, TR_STATE_OUT_SLOT("Moment")),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, epsilon, FLOAT, "keeps the quotient finite", .number = 1e-6)),
};

static const tr_optimizer_state states[] = {{PARAM, PARAM_OUT}, {MOMENT, MOMENT_OUT}, TR_LAST_STATE};

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- registration ---------------------------------------------------------------------------------- */
TR_REGISTER_OP(adagrad, .locality = TR_POINTWISE, .proto = &proto, .kernels = TR_FLOAT_KERNELS(adagrad), .updates = true);

#else /* the kernel, for each T */

static tr_status NAME(adagrad)(const tr_run *io)
{
    double rate;

    TR_TRY(tr__optimizer_rate(&rate, io, LEARNING_RATE));
    const attrs *a = io->attrs;
    const T      lr = (T)rate;
    T           *p = io->out[PARAM_OUT]->data, *m = io->out[MOMENT_OUT]->data;
    tr_grad_rows g;

    if (!io->in[GRAD]->rows) {
        const T *from[TR_OPTIMIZER_ARRAYS];
        NAME(tr__optimizer_from)(from, io, states);
        NAME(tr_adagrad)(p, m, from, io->in[GRAD]->data, lr, a->epsilon, tr_tensor_count(io->in[PARAM]));
        return TR_OK;
    }
    tr__optimizer_load(io, states);
    TR_TRY(NAME(tr__grad_rows)(&g, io, PARAM, GRAD));
    NAME(tr_adagrad_rows)(p, m, &g, lr, a->epsilon);
    return TR_OK;
}

#endif
