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
    .in = TR_SLOTS({"Param", "[...] float"}, {"SquaredAccumulator", "like Param; the sum of squared gradients"},
                   {"LinearAccumulator", "like Param; the sum of linearised losses"},
                   {"Grad", "like Param, dense or selected rows", TR_SLOT_ROWS}, {"LearningRate", "[1] float", TR_SLOT_ANY_TYPE}),
    .out = TR_SLOTS({"ParamOut", "the same variable as Param"},
                    {"SquaredAccumOut", "the same variable as SquaredAccumulator"},
                    {"LinearAccumOut", "the same variable as LinearAccumulator"}),
    .attr = TR_ATTRS(TR_ATTR(attrs, l1, FLOAT, "weight of the absolute values"),
                     TR_ATTR(attrs, l2, FLOAT, "weight of the squares"),
                     TR_ATTR(attrs, lr_power, FLOAT, "power of the squared sum in the learning rate", .number = -0.5)),
    .attrs_size = sizeof(attrs),
};

static const tr_optimizer_slot slots[] = {
    {"Param", PARAM, PARAM_OUT}, {"Grad", GRAD, TR_GRADIENT_IN}, {"SquaredAccumulator", SQUARED, SQUARED_OUT},
    {"LinearAccumulator", LINEAR, LINEAR_OUT}, {"LearningRate", LEARNING_RATE, TR_NUMBER_IN}, {.name = NULL},
};

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- registration ---------------------------------------------------------------------------------- */
TR_REGISTER_OP(ftrl, .locality = TR_POINTWISE, .proto = &proto, .infer = tr__optimizer_infer, .family = slots,
               .kernels = TR_FLOAT_KERNELS(ftrl), .updates = true);

#else /* the kernel, for each T */

static tr_status NAME(ftrl)(const tr_run *io)
{
    double rate;

    TR_TRY(tr__optimizer_rate(&rate, io, LEARNING_RATE));
    const attrs   *a = io->attrs;
    const T        lr = (T)rate;
    T             *p = io->out[PARAM_OUT]->data, *sq = io->out[SQUARED_OUT]->data, *linear = io->out[LINEAR_OUT]->data;
    NAME(tr_sweep) s;

    TR_TRY(NAME(tr__sweep_begin)(&s, io, slots, GRAD));
    while (NAME(tr__sweep_next)(&s))
        NAME(tr_ftrl)(p + s.begin, sq + s.begin, linear + s.begin, s.from, s.g, lr, a->l1, a->l2, a->lr_power, s.count);
    return TR_OK;
}

#endif
