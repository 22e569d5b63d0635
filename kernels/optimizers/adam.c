/* adam.c - Adam: momentum, with a learning rate for each element by its mean squared gradient.
 *
 * Beta1Pow and Beta2Pow are beta^t for step t; operators of the program multiply them. A row that a sparse gradient
 * does not name has the gradient 0, which moves it, too; with lazy_mode it stays as it is, and so does one that is
 * named with zeros: where sparse gradients travel dense, the two are one (nonzero_rows). */
#ifndef T

#include "kernels/math/training/optimizer.h"
#include "kernels/optimizers/optimizer.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { PARAM, GRAD, LEARNING_RATE, MOMENT1, MOMENT2, BETA1_POW, BETA2_POW };
enum { PARAM_OUT, MOMENT1_OUT, MOMENT2_OUT };

typedef struct attrs {
    float beta1, beta2, epsilon;
    bool  lazy_mode;
} attrs;

static const tr_op_proto proto = {
    .doc = "Moment1 and Moment2 are running means of Grad and Grad^2; ParamOut = Param - rate * Moment1 / "
           "(sqrt(Moment2) + epsilon), rate = LearningRate * sqrt(1 - Beta2Pow) / (1 - Beta1Pow).",
    .in = TR_SLOTS(TR_PARAM_SLOT, TR_GRAD_SLOT, TR_RATE_SLOT, TR_SLOT("Moment1", "like Param", "; mean gradient"),
                   TR_SLOT("Moment2", "like Param", "; mean squared gradient"), TR_NUMBER_SLOT("Beta1Pow", " float; beta1^t"),
                   TR_NUMBER_SLOT("Beta2Pow", " float; beta2^t")),
    .out = TR_SLOTS(TR_PARAM_OUT_SLOT, TR_STATE_OUT_SLOT("Moment1"), TR_STATE_OUT_SLOT("Moment2")),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, beta1, FLOAT, "decay of Moment1", .number = 0.9),
                       TR_ATTR(attrs, beta2, FLOAT, "decay of Moment2", .number = 0.999),
                       TR_ATTR(attrs, epsilon, FLOAT, "keeps the quotient finite", .number = 1e-8),
                       TR_ATTR(attrs, lazy_mode, BOOL, "update only the rows in which a sparse gradient is not zero"),
                       TR_ATTR_IGNORED("min_row_size_to_use_multithread", LONG, .number = 1000)),
};

static const tr_optimizer_state states[] = {{PARAM, PARAM_OUT}, {MOMENT1, MOMENT1_OUT}, {MOMENT2, MOMENT2_OUT}, TR_LAST_STATE};

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- registration ---------------------------------------------------------------------------------- */
TR_REGISTER_OP(adam, .locality = TR_POINTWISE, .proto = &proto, .kernels = TR_FLOAT_KERNELS(adam), .updates = true);

#else /* the kernel, for each T */

static tr_status NAME(adam)(const tr_run *io)
{
    double given;

    TR_TRY(tr__optimizer_rate(&given, io, LEARNING_RATE));
    const attrs   *a = io->attrs;
    const T        rate = NAME(tr_adam_rate)((T)given, (T)tr__optimizer_number(io->in[BETA1_POW]),
                                            (T)tr__optimizer_number(io->in[BETA2_POW]));
    T             *p = io->out[PARAM_OUT]->data, *m1 = io->out[MOMENT1_OUT]->data, *m2 = io->out[MOMENT2_OUT]->data;
    NAME(tr_sweep) s;

    if (a->lazy_mode && io->in[GRAD]->rows) {
        tr_grad_rows g;
        tr__optimizer_load(io, states);
        TR_TRY(NAME(tr__grad_rows)(&g, io, PARAM, GRAD));
        NAME(tr_adam_rows)(p, m1, m2, &g, rate, a->beta1, a->beta2, a->epsilon);
        return TR_OK;
    }
    TR_TRY(NAME(tr__sweep_begin)(&s, io, states, GRAD, -1));
    while (NAME(tr__sweep_next)(&s))
        NAME(tr_adam)(s.to[0], s.to[1], s.to[2], s.from, s.g, rate, a->beta1, a->beta2, a->epsilon, s.count);
    return TR_OK;
}

#endif
