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
    .in = TR_SLOTS({"Param", "[...] float"}, {"Moment", "like Param; the sum of squared gradients"},
                   {"Grad", "like Param, dense or selected rows", TR_SLOT_ROWS}, {"LearningRate", "[1] float", TR_SLOT_ANY_TYPE}),
    .out = TR_SLOTS({"ParamOut", "the same variable as Param"}, {"MomentOut", "the same variable as Moment"}),
    .attr = TR_ATTRS(TR_ATTR(attrs, l1, FLOAT, "weight of the absolute values"),
                     TR_ATTR(attrs, l2, FLOAT, "weight of the squares")),
    .attrs_size = sizeof(attrs),
};

static const tr_optimizer_slot slots[] = {
    {"Param", PARAM, PARAM_OUT}, {"Grad", GRAD, TR_GRADIENT_IN}, {"Moment", MOMENT, MOMENT_OUT},
    {"LearningRate", LEARNING_RATE, TR_NUMBER_IN}, {.name = NULL},
};

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- registration ---------------------------------------------------------------------------------- */
TR_REGISTER_OP(proximal_adagrad, .locality = TR_POINTWISE, .proto = &proto, .infer = tr__optimizer_infer, .family = slots,
               .kernels = TR_FLOAT_KERNELS(proximal_adagrad), .updates = true);

#else /* the kernel, for each T */

static tr_status NAME(proximal_adagrad)(const tr_run *io)
{
    double rate;

    TR_TRY(tr__optimizer_rate(&rate, io, LEARNING_RATE));
    const attrs   *a = io->attrs;
    const T        lr = (T)rate;
    T             *p = io->out[PARAM_OUT]->data, *m = io->out[MOMENT_OUT]->data;
    NAME(tr_sweep) s;

    TR_TRY(NAME(tr__sweep_begin)(&s, io, slots, GRAD));
    while (NAME(tr__sweep_next)(&s))
        NAME(tr_proximal_adagrad)(p + s.begin, m + s.begin, s.from, s.g, lr, a->l1, a->l2, s.count);
    return TR_OK;
}

#endif
