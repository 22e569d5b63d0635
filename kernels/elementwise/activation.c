/* activation.c - functions of one number as operators:  Out = f(X), element by element.
 *
 * ACTIVATION turns a function of math/arrays/activation.h into two records, <name> and <name>_grad; what the gradient
 * reads (X, Out, or only the shape) comes from that header's list. To add an operator, add the function there,
 * its slope to activation_slopes.h unless it is made of straight lines, a line here, and one to ops.def.
 *
 * Forward, Out may lie in X's memory, backward, X@GRAD in Out@GRAD's. */
#ifndef T

#include "kernels/base/body_lines.h"
#include "kernels/math/arrays/activation.h"
#include "framework/composites/grad_body.h"
#include "framework/gradients/grad_second.h"
#include "framework/operators/op.h"
#include "kernels/base/shapes.h"

/* -- interface ------------------------------------------------------------------------------ */

enum { X };              enum { OUT };         /* slots of f: inputs, outputs */
enum { READ, DOUT };     enum { DX };          /* of f_grad; READ is X or Out */

typedef struct params {
    float p, q;          /* as math/arrays/activation.h numbers them; 0 where a function has none */
} params;

#include "kernels/elementwise/activation_slopes.h"

static const tr_slot_def in_slots[] = {{"X", "any shape, float"}, {NULL}};
static const tr_slot_def out_slots[] = {{"Out", "like X"}, {NULL}};

/* How second gradients are made: the slope is constant almost everywhere, or there is a body for it. */
#define GATE             .second = tr__second_gate
#define SLOPE(name)      .second = tr__second_body, .body = name##_slope

#define NO_ATTRS NULL
#define LIBRARY_ATTRS \
    TR_ATTR_IGNORED("use_mkldnn", BOOL), TR_ATTR_IGNORED("use_cudnn", BOOL)
#define PARAM(attr_name, field, default_value, about, ...)                                          \
    {.name = #attr_name, .type = TR_ATTR_FLOAT, .offset = offsetof(params, field),                  \
     .number = default_value, .comment = about, ##__VA_ARGS__}

/* -- kernels: the end of this file, once for each type ---------------------------------------- */

#include "kernels/math/tools/each_float.h"

/* -- from function to operator ---------------------------------------------------------------- */

enum {
#define READS(name, reads) READS_##name = (int)TR_ACT_READS_##reads,
    TR_ACT_LIST(READS)
#undef READS
};

#define ACTIVATION(name, formula, attributes, ...)                                                      \
    static tr_status name##_f32(const tr_run *io) { return apply_f32(io, TR_ACT_##name); }          \
    static tr_status name##_f64(const tr_run *io) { return apply_f64(io, TR_ACT_##name); }          \
    static tr_status name##_grad_f32(const tr_run *io) { return apply_grad_f32(io, TR_ACT_##name); } \
    static tr_status name##_grad_f64(const tr_run *io) { return apply_grad_f64(io, TR_ACT_##name); } \
    static const tr_op_proto name##_proto = {                                                       \
        .doc = formula, .in = in_slots, .out = out_slots, .attr = attributes,                       \
        .attrs_size = sizeof(params),                                                               \
    };                                                                                              \
    static const tr_grad_rule name##_rule = {                                                       \
        .op = #name "_grad",                                                                        \
        .reads = {{READS_##name == (int)TR_ACT_READS_OUT ? TR_GRAD_OUT : TR_GRAD_IN, 0,                  \
                   READS_##name == (int)TR_ACT_READS_NONE}, TR_DOUT(OUT)},                               \
        .makes = {TR_DIN(X)}, ##__VA_ARGS__                                                         \
    };                                                                                              \
    TR_REGISTER_OP(name, .locality = TR_POINTWISE, .proto = &name##_proto, .infer = tr__infer_like_first, \
                   .kernels = TR_FLOAT_KERNELS(name), .grad = &name##_rule,                         \
                   .inplace = {{X, OUT}}, .inplace_count = 1, .is_itemwise = true);                                      \
    TR_REGISTER_OP(name##_grad, .locality = TR_POINTWISE, .grad_of = &tr_op_record_##name, .infer = tr__infer_like_first, \
                   .kernels = TR_FLOAT_KERNELS(name##_grad),                                        \
                   .inplace = {{DOUT, DX}}, .inplace_count = 1, .is_itemwise = true);

ACTIVATION(abs,         "Out = |X|",                      TR_ATTRS(LIBRARY_ATTRS), GATE)
ACTIVATION(acos,        "Out = arc cosine of X",          NO_ATTRS, SLOPE(acos))
ACTIVATION(asin,        "Out = arc sine of X",            NO_ATTRS, SLOPE(asin))
ACTIVATION(atan,        "Out = arc tangent of X",         NO_ATTRS, SLOPE(atan))
ACTIVATION(ceil,        "Out = the smallest whole number >= X; the gradient is 0", TR_ATTRS(LIBRARY_ATTRS), GATE)
ACTIVATION(cos,         "Out = cos(scale * X)",
           TR_ATTRS(PARAM(scale, p, 1.0, "factor of X", .range = TR_GREATER(0)), LIBRARY_ATTRS), SLOPE(cos))
ACTIVATION(erf,         "Out = erf(X), the integral of 2 e^(-t^2) / sqrt(pi) from 0 to X", NO_ATTRS, SLOPE(erf))
ACTIVATION(exp,         "Out = e^X",                      TR_ATTRS(LIBRARY_ATTRS), SLOPE(exp))
ACTIVATION(floor,       "Out = the largest whole number <= X; the gradient is 0", TR_ATTRS(LIBRARY_ATTRS), GATE)
ACTIVATION(gelu,        "Out = X * P(N(0, 1) <= X) = X * (1 + erf(X / sqrt(2))) / 2", TR_ATTRS(LIBRARY_ATTRS), SLOPE(gelu))
ACTIVATION(log,         "Out = natural logarithm of X",   TR_ATTRS(LIBRARY_ATTRS), SLOPE(log))
ACTIVATION(logsigmoid,  "Out = log(1 / (1 + e^-X))",      TR_ATTRS(LIBRARY_ATTRS), SLOPE(logsigmoid))
ACTIVATION(reciprocal,  "Out = 1 / X",                    TR_ATTRS(LIBRARY_ATTRS), SLOPE(reciprocal))
ACTIVATION(relu,        "Out = max(X, 0)",                TR_ATTRS(LIBRARY_ATTRS), GATE)
ACTIVATION(round,       "Out = the whole number next to X, halves away from 0; the gradient is 0",
           TR_ATTRS(LIBRARY_ATTRS), GATE)
ACTIVATION(rsqrt,       "Out = 1 / sqrt(X)",              TR_ATTRS(LIBRARY_ATTRS), SLOPE(rsqrt))
ACTIVATION(sigmoid,     "Out = 1 / (1 + e^-X)",           TR_ATTRS(LIBRARY_ATTRS), SLOPE(sigmoid))
ACTIVATION(sign,        "Out = -1, 0 or 1 as X is negative, zero or positive; the gradient is 0", NO_ATTRS, GATE)
ACTIVATION(sin,         "Out = sin(X)",                   TR_ATTRS(LIBRARY_ATTRS), SLOPE(sin))
ACTIVATION(softplus,    "Out = log(1 + e^X)",             TR_ATTRS(LIBRARY_ATTRS), SLOPE(softplus))
ACTIVATION(softsign,    "Out = X / (1 + |X|)",            TR_ATTRS(LIBRARY_ATTRS), SLOPE(softsign))
ACTIVATION(sqrt,        "Out = sqrt(X)",                  TR_ATTRS(LIBRARY_ATTRS), SLOPE(sqrt))
ACTIVATION(square,      "Out = X^2",                      TR_ATTRS(LIBRARY_ATTRS), SLOPE(square))
ACTIVATION(tanh,        "Out = (e^X - e^-X) / (e^X + e^-X)", TR_ATTRS(LIBRARY_ATTRS), SLOPE(tanh))
ACTIVATION(tanh_shrink, "Out = X - tanh(X)",              TR_ATTRS(LIBRARY_ATTRS), SLOPE(tanh_shrink))

ACTIVATION(brelu, "Out = min(max(X, t_min), t_max)",
           TR_ATTRS(PARAM(t_min, p, 0.0, "the least value"), PARAM(t_max, q, 24.0, "the greatest value")), GATE)
ACTIVATION(elu, "Out = X where X > 0, else alpha * (e^X - 1)",
           TR_ATTRS(PARAM(alpha, p, 1.0, "what -Out tends to for small X")), SLOPE(elu))
ACTIVATION(hard_shrink, "Out = X where |X| > threshold, else 0",
           TR_ATTRS(PARAM(threshold, p, 0.5, "values up to here become 0")), GATE)
ACTIVATION(hard_sigmoid, "Out = min(max(slope * X + offset, 0), 1)",
           TR_ATTRS(PARAM(slope, p, 0.2, "slope between 0 and 1"), PARAM(offset, q, 0.5, "value at X = 0")), GATE)
ACTIVATION(leaky_relu, "Out = X where X > 0, else alpha * X",
           TR_ATTRS(PARAM(alpha, p, 0.02, "slope for negative X")), GATE)
ACTIVATION(pow, "Out = X^factor",
           TR_ATTRS(PARAM(factor, p, 1.0, "the exponent")), SLOPE(pow))
ACTIVATION(relu6, "Out = min(max(X, 0), threshold)",
           TR_ATTRS(PARAM(threshold, p, 6.0, "the greatest value")), GATE)
ACTIVATION(selu, "Out = scale * (X where X > 0, else alpha * (e^X - 1))",
           TR_ATTRS(PARAM(scale, p, 1.0507009873554804934193349852946, "factor of the whole"),
                    PARAM(alpha, q, 1.6732632423543772848170429916717, "what -Out / scale tends to for small X")), SLOPE(selu))
ACTIVATION(soft_relu, "Out = log(1 + e^min(max(X, -threshold), threshold))",
           TR_ATTRS(PARAM(threshold, p, 40.0, "X is cut to this range")), SLOPE(soft_relu))
ACTIVATION(softshrink, "Out = X - lambda where X > lambda, X + lambda where X < -lambda, else 0",
           TR_ATTRS(PARAM(lambda, p, 0.5, "how much |X| shrinks")), GATE)
ACTIVATION(stanh, "Out = scale_b * tanh(scale_a * X)",
           TR_ATTRS(PARAM(scale_a, p, 2.0 / 3.0, "factor of X"), PARAM(scale_b, q, 1.7159, "factor of Out")), SLOPE(stanh))
ACTIVATION(swish, "Out = X / (1 + e^(-beta * X))",
           TR_ATTRS(PARAM(beta, p, 1.0, "steepness")), SLOPE(swish))
ACTIVATION(thresholded_relu, "Out = X where X > threshold, else 0",
           TR_ATTRS(PARAM(threshold, p, 1.0, "values up to here become 0")), GATE)

#else /* -- kernels ---------------------------------------------------------------------------- */

static tr_status NAME(apply)(const tr_run *io, tr_act act)
{
    const params    *a = io->attrs;
    const tr_tensor *x = io->in[X];

    NAME(tr_act_apply)(act, io->out[OUT]->data, x->data, tr_tensor_count(x), (T)a->p, (T)a->q);
    return TR_OK;
}

static tr_status NAME(apply_grad)(const tr_run *io, tr_act act)
{
    const params      *a = io->attrs;
    const tr_tensor   *read = io->in[READ], *dout = io->in[DOUT];
    const tr_act_reads reads = tr_act_grad_reads(act);

    NAME(tr_act_grad)(act, io->out[DX]->data, dout->data, reads == TR_ACT_READS_X ? read->data : NULL,
                      reads == TR_ACT_READS_OUT ? read->data : NULL, tr_tensor_count(dout), (T)a->p, (T)a->q);
    return TR_OK;
}

#endif
