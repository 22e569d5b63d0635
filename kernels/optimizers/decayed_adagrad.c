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
    .in = TR_SLOTS({"Param", "[...] float"}, {"Grad", "like Param, dense or selected rows", TR_SLOT_ROWS},
                   {"Moment", "like Param; mean squared gradient"}, {"LearningRate", "[1] float", TR_SLOT_ANY_TYPE}),
    .out = TR_SLOTS({"ParamOut", "the same variable as Param"}, {"MomentOut", "the same variable as Moment"}),
    .attr = TR_ATTRS(TR_ATTR(attrs, decay, FLOAT, "decay of Moment", .number = 0.95),
                     TR_ATTR(attrs, epsilon, FLOAT, "keeps the quotient finite", .number = 1e-6)),
    .attrs_size = sizeof(attrs),
};

static const tr_optimizer_slot slots[] = {
    {"Param", PARAM, PARAM_OUT}, {"Grad", GRAD, TR_GRADIENT_IN}, {"Moment", MOMENT, MOMENT_OUT},
    {"LearningRate", LEARNING_RATE, TR_NUMBER_IN}, {.name = NULL},
};

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- registration ---------------------------------------------------------------------------------- */
TR_REGISTER_OP(decayed_adagrad, .locality = TR_POINTWISE, .proto = &proto, .infer = tr__optimizer_infer, .family = slots,
               .kernels = TR_FLOAT_KERNELS(decayed_adagrad), .updates = true);

#else /* the kernel, for each T */

static tr_status NAME(decayed_adagrad)(const tr_run *io)
{
    double rate;

    TR_TRY(tr__optimizer_rate(&rate, io, LEARNING_RATE));
    const attrs   *a = io->attrs;
    const T        lr = (T)rate;
    T             *p = io->out[PARAM_OUT]->data, *m = io->out[MOMENT_OUT]->data;
    NAME(tr_sweep) s;

    TR_TRY(NAME(tr__sweep_begin)(&s, io, slots, GRAD));
    while (NAME(tr__sweep_next)(&s))
        NAME(tr_decayed_adagrad)(p + s.begin, m + s.begin, s.from, s.g, lr, a->decay, a->epsilon, s.count);
    return TR_OK;
}

#endif
