/* activation_slopes.h - what the gradients of activations compute, as operators that have gradients themselves: for second
 * gradients (framework/gradients/grad_second.h). Part of activation.c.
 *
 * Each body computes X@GRAD from Out@GRAD and from X or Out, whichever the gradient's kernel reads. Activations that consist of
 * straight lines have no body: their slope is constant almost everywhere (tr__second_gate). */
#pragma once

#include "framework/composites/composite.h"

/* A body of lines without parameters, the last of which makes `slope`. */
#define TR_SLOPE(name, ...)                                                                         \
    static tr_status name##_slope(tr_composite *c)                                                  \
    {                                                                                               \
        static const char *const lines[] = {__VA_ARGS__};                                           \
        for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)                                   \
            TR_TRY(tr_composite_add(c, "%s", lines[i]));                                            \
        return times_slope(c);                                                                      \
    }

static tr_status times_slope(tr_composite *c)
{
    return tr_composite_add(c, "elementwise_mul(X=Out@GRAD, Y=slope) -> X@GRAD");
}

/* -- that read Out ------------------------------------------------------------------------------ */

static tr_status exp_slope(tr_composite *c)
{
    return tr_composite_add(c, "elementwise_mul(X=Out@GRAD, Y=Out) -> X@GRAD");
}

TR_SLOPE(reciprocal, "square(X=Out) -> squares", "scale(X=squares) {scale=-1.0} -> slope")
TR_SLOPE(rsqrt,      "pow(X=Out) {factor=3.0} -> cubes", "scale(X=cubes) {scale=-0.5} -> slope")
TR_SLOPE(sigmoid,    "square(X=Out) -> squares", "elementwise_sub(X=Out, Y=squares) -> slope")
TR_SLOPE(sqrt,       "reciprocal(X=Out) -> shares", "scale(X=shares) {scale=0.5} -> slope")
TR_SLOPE(tanh,       "square(X=Out) -> squares", "scale(X=squares) {scale=-1.0, bias=1.0} -> slope")

/* 1 - e^-Out where X was not cut, which is where the gradient is not 0 */
static tr_status soft_relu_slope(tr_composite *c)
{
    const params *a = tr_composite_attrs(c);

    TR_TRY(tr__add_ones(c, "Out", "ones"));
    TR_TRY(tr_composite_add(c, "soft_relu_grad(Out=Out, Out@GRAD=ones) {threshold=%.9g} -> inner", (double)a->p));
    TR_TRY(tr_composite_add(c, "sign(X=inner) -> is_within"));
    tr_composite_stop_gradient(c, "is_within");
    TR_TRY(tr_composite_add(c, "scale(X=Out) {scale=-1.0} -> turned"));
    TR_TRY(tr_composite_add(c, "exp(X=turned) -> power"));
    TR_TRY(tr_composite_add(c, "scale(X=power) {scale=-1.0, bias=1.0} -> steep"));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=steep, Y=is_within) -> slope"));
    return times_slope(c);
}

/* scale where X > 0, else scale alpha e^X = Out + scale alpha */
static tr_status selu_slope(tr_composite *c)
{
    const params *a = tr_composite_attrs(c);

    TR_TRY(tr_composite_add(c, "relu(X=Out) -> above"));
    TR_TRY(tr_composite_add(c, "elementwise_sub(X=Out, Y=above) -> below"));
    TR_TRY(tr_composite_add(c, "sign(X=above) -> is_above"));
    TR_TRY(tr_composite_add(c, "scale(X=is_above) {scale=%.9g, bias=%.9g} -> level", (double)(a->p - a->p * a->q), (double)(a->p * a->q)));
    TR_TRY(tr_composite_add(c, "elementwise_add(X=level, Y=below) -> slope"));
    return times_slope(c);
}

/* -- that read X -------------------------------------------------------------------------------- */

static tr_status log_slope(tr_composite *c)
{
    return tr_composite_add(c, "elementwise_div(X=Out@GRAD, Y=X) -> X@GRAD");
}

TR_SLOPE(acos,        "square(X=X) -> squares", "scale(X=squares) {scale=-1.0, bias=1.0} -> rest", "rsqrt(X=rest) -> shares",
                      "scale(X=shares) {scale=-1.0} -> slope")
TR_SLOPE(asin,        "square(X=X) -> squares", "scale(X=squares) {scale=-1.0, bias=1.0} -> rest", "rsqrt(X=rest) -> slope")
TR_SLOPE(atan,        "square(X=X) -> squares", "scale(X=squares) {bias=1.0} -> sum", "reciprocal(X=sum) -> slope")
TR_SLOPE(erf,         "square(X=X) -> squares", "scale(X=squares) {scale=-1.0} -> powers", "exp(X=powers) -> bell",
                      "scale(X=bell) {scale=1.12837917} -> slope")
/* P + X p, with the normal distribution's function P and density p */
TR_SLOPE(gelu,        "scale(X=X) {scale=0.707106781} -> x", "erf(X=x) -> bent", "scale(X=bent) {scale=0.5, bias=0.5} -> level",
                      "square(X=x) -> squares", "scale(X=squares) {scale=-1.0} -> powers", "exp(X=powers) -> bell",
                      "scale(X=bell) {scale=0.39894228} -> density", "elementwise_mul(X=X, Y=density) -> rest",
                      "elementwise_add(X=level, Y=rest) -> slope")
TR_SLOPE(logsigmoid,  "scale(X=X) {scale=-1.0} -> turned", "sigmoid(X=turned) -> slope")
TR_SLOPE(sin,         "cos(X=X) -> slope")
TR_SLOPE(softplus,    "sigmoid(X=X) -> slope")
TR_SLOPE(softsign,    "abs(X=X) -> size", "scale(X=size) {bias=1.0} -> sum", "pow(X=sum) {factor=-2.0} -> slope")
TR_SLOPE(square,      "scale(X=X) {scale=2.0} -> slope")
TR_SLOPE(tanh_shrink, "tanh(X=X) -> bent", "square(X=bent) -> slope")

static tr_status cos_slope(tr_composite *c)
{
    const params *a = tr_composite_attrs(c);

    TR_TRY(tr_composite_add(c, "scale(X=X) {scale=%.9g} -> angle", (double)a->p));
    TR_TRY(tr_composite_add(c, "sin(X=angle) -> height"));
    TR_TRY(tr_composite_add(c, "scale(X=height) {scale=%.9g} -> slope", -(double)a->p));
    return times_slope(c);
}

/* 1 where X > 0, else alpha e^X */
static tr_status elu_slope(tr_composite *c)
{
    const params *a = tr_composite_attrs(c);

    TR_TRY(tr_composite_add(c, "relu(X=X) -> above"));
    TR_TRY(tr_composite_add(c, "elementwise_sub(X=X, Y=above) -> below"));
    TR_TRY(tr_composite_add(c, "exp(X=below) -> power"));
    TR_TRY(tr_composite_add(c, "scale(X=power) {scale=%.9g} -> bent", (double)a->p));
    TR_TRY(tr_composite_add(c, "sign(X=above) -> is_above"));
    TR_TRY(tr_composite_add(c, "scale(X=is_above) {scale=%.9g} -> level", 1 - (double)a->p));
    TR_TRY(tr_composite_add(c, "elementwise_add(X=bent, Y=level) -> slope"));
    return times_slope(c);
}

static tr_status pow_slope(tr_composite *c)
{
    const params *a = tr_composite_attrs(c);

    if (a->p == 0)                                     /* not 0 times infinity at 0 */
        TR_TRY(tr_composite_add(c, "fill_zeros_like(X=X) -> slope"));
    else
        TR_TRY(tr_composite_add(c, "pow(X=X) {factor=%.9g} -> power", (double)a->p - 1));
    if (a->p != 0)
        TR_TRY(tr_composite_add(c, "scale(X=power) {scale=%.9g} -> slope", (double)a->p));
    return times_slope(c);
}

static tr_status stanh_slope(tr_composite *c)
{
    const params *a = tr_composite_attrs(c);
    const double  steep = (double)a->p * a->q;

    TR_TRY(tr_composite_add(c, "scale(X=X) {scale=%.9g} -> scaled", (double)a->p));
    TR_TRY(tr_composite_add(c, "tanh(X=scaled) -> bent"));
    TR_TRY(tr_composite_add(c, "square(X=bent) -> squares"));
    TR_TRY(tr_composite_add(c, "scale(X=squares) {scale=%.9g, bias=%.9g} -> slope", -steep, steep));
    return times_slope(c);
}

/* With s = sigmoid(beta X):  s + beta X (s - s^2) */
static tr_status swish_slope(tr_composite *c)
{
    const params *a = tr_composite_attrs(c);

    TR_TRY(tr_composite_add(c, "scale(X=X) {scale=%.9g} -> scaled", (double)a->p));
    TR_TRY(tr_composite_add(c, "sigmoid(X=scaled) -> share"));
    TR_TRY(tr_composite_add(c, "square(X=share) -> squares"));
    TR_TRY(tr_composite_add(c, "elementwise_sub(X=share, Y=squares) -> steep"));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=scaled, Y=steep) -> turn"));
    TR_TRY(tr_composite_add(c, "elementwise_add(X=share, Y=turn) -> slope"));
    return times_slope(c);
}
