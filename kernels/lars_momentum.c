/* lars_momentum.c - momentum with a learning rate that follows the ratio of the norms of Param and Grad.
 *
 * rate = LearningRate lars_coeff |Param| / (|Grad| + lars_weight_decay |Param|), LearningRate where a norm is 0;
 * Velocity = mu Velocity + rate (Grad + lars_weight_decay Param); Param -= Velocity. */
#ifndef T

#include <math.h>

#include "kernels/check.h"
#include "kernels/math/elementwise.h"
#include "kernels/math/reduce.h"
#include "kernels/optimizer.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { PARAM, GRAD, VELOCITY, LEARNING_RATE };
enum { PARAM_OUT, VELOCITY_OUT };

typedef struct attrs {
    float mu, lars_coeff, lars_weight_decay;
} attrs;

static const tr_op_proto proto = {
    .doc = "Momentum whose learning rate for a whole parameter is scaled by |Param| / |Grad|, for large batches.",
    .in = TR_SLOTS({"Param", "[...] float"}, {"Grad", "like Param; dense"},
                   {"Velocity", "like Param; the running step"}, {"LearningRate", "[1] float"}),
    .out = TR_SLOTS({"ParamOut", "the same variable as Param"}, {"VelocityOut", "the same variable as Velocity"}),
    .attr = TR_ATTRS(TR_ATTR(attrs, mu, FLOAT, "the share of the velocity that stays", .required = true),
                     TR_ATTR(attrs, lars_coeff, FLOAT, "how far a parameter is trusted", .number = 0.001),
                     TR_ATTR(attrs, lars_weight_decay, FLOAT, "weight of Param in the step", .number = 0.0005)),
    .attrs_size = sizeof(attrs),
};

static const tr_optimizer_slot slots[] = {
    {"Param", PARAM, PARAM_OUT}, {"Velocity", VELOCITY, VELOCITY_OUT},
    {"LearningRate", LEARNING_RATE, TR_NUMBER_IN}, {.name = NULL},
};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status infer(const tr_infer *io)
{
    TR_TRY(tr__check_dense(io, "Grad", &io->in[GRAD]));
    return tr__optimizer_infer(io, GRAD, slots);
}

/* -- kernels -------------------------------------------------------------------------------------- */
#define TR_TEMPLATE "kernels/lars_momentum.c"
#include "kernels/math/each_float.h"

/* -- registration ---------------------------------------------------------------------------------- */
TR_REGISTER_OP(lars_momentum, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(lars_momentum));

#else /* the kernel, for each T */

static tr_status NAME(lars_momentum)(const tr_run *io)
{
    const attrs  *a = io->attrs;
    const int64_t n = tr_tensor_count(io->in[PARAM]);
    const T      *g = io->in[GRAD]->data;
    T            *p = io->out[PARAM_OUT]->data, *v = io->out[VELOCITY_OUT]->data;
    double        rate = tr__optimizer_number(io->in[LEARNING_RATE]);

    tr__optimizer_load(io, slots);
    const double p_norm = sqrt(NAME(tr_sum_squares)(p, n)), g_norm = sqrt(NAME(tr_sum_squares)(g, n));
    const double decay = (double)a->lars_weight_decay;
    if (p_norm > 0 && g_norm > 0)
        rate *= (double)a->lars_coeff * p_norm / (g_norm + decay * p_norm);
    NAME(tr_scale)(v, v, a->mu, 0, n);
    NAME(tr_axpy)(v, (T)rate, g, n);
    NAME(tr_axpy)(v, (T)(rate * decay), p, n);
    NAME(tr_axpy)(p, -1, v, n);
    return TR_OK;
}

#endif
