/* norms.c - numbers that say how large a tensor is: the sum of |X| (l1_norm), of X^2 (squared_l2_norm).
 *
 * The sums are made in double, so that those of large tensors are exact enough and do not overflow.
 * Backward: dX = dOut * sign(X), and dX = 2 * dOut * X. */
#ifndef T

#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"
#include "kernels/base/shapes.h"
#include "kernels/math/arrays/activation.h"
#include "kernels/math/arrays/elementwise.h"
#include "kernels/math/arrays/reduce.h"

/* -- interface ------------------------------------------------------------------------------ */

enum { X };             enum { OUT };      /* slots of the norms: inputs, outputs */
enum { GX, GDOUT };     enum { GDX };      /* of their gradients; GX is X */

static const tr_slot_def in_slots[] = {{"X", "any shape, float"}, {NULL}};
static const tr_slot_def out_slots[] = {{"Out", "[1]"}, {NULL}};

/* -- kernels: the end of this file, once for each type ---------------------------------------- */

#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------ */

static tr_status l1_norm_slope(tr_composite *c)
{
    TR_TRY(tr_composite_add(c, "sign(X=X) -> signs"));
    return tr_composite_add(c, "elementwise_mul(X=signs, Y=Out@GRAD) -> X@GRAD");
}

static tr_status squared_l2_norm_slope(tr_composite *c)
{
    TR_TRY(tr_composite_add(c, "scale(X=X) {scale=2.0} -> twice"));
    return tr_composite_add(c, "elementwise_mul(X=twice, Y=Out@GRAD) -> X@GRAD");
}

#define NORM(name, formula)                                                                         \
    static const tr_op_proto name##_proto = {.doc = formula, .in = in_slots, .out = out_slots};     \
    static const tr_grad_rule name##_rule = {                                                       \
        .op = #name "_grad", .reads = {TR_IN(X), TR_DOUT(OUT)}, .makes = {TR_DIN(X)},               \
        .second = tr__second_body, .body = name##_slope,                                            \
    };                                                                                              \
    TR_REGISTER_OP(name, .proto = &name##_proto, .infer = tr__infer_one_element,                    \
                   .kernels = TR_FLOAT_KERNELS(name), .grad = &name##_rule);                        \
    TR_REGISTER_OP(name##_grad, .grad_of = &tr_op_record_##name,                                    \
                   .kernels = TR_FLOAT_KERNELS(name##_grad), .inplace = {{GX, GDX}}, .inplace_count = 1);

NORM(l1_norm,         "Out = the sum of |X|")
NORM(squared_l2_norm, "Out = the sum of X^2")

#else /* -- kernels ---------------------------------------------------------------------------- */

static tr_status NAME(l1_norm)(const tr_run *io)
{
    *(T *)io->out[OUT]->data = (T)NAME(tr_sum_abs)(io->in[X]->data, tr_tensor_count(io->in[X]));
    return TR_OK;
}

static tr_status NAME(l1_norm_grad)(const tr_run *io)
{
    const tr_tensor *x = io->in[GX];
    const T         *dout = io->in[GDOUT]->data;
    T               *dx = io->out[GDX]->data;

    NAME(tr_act_apply)(TR_ACT_sign, dx, x->data, tr_tensor_count(x), 0, 0);
    NAME(tr_scale)(dx, dx, dout[0], 0, tr_tensor_count(x));
    return TR_OK;
}

static tr_status NAME(squared_l2_norm)(const tr_run *io)
{
    *(T *)io->out[OUT]->data = (T)NAME(tr_sum_squares)(io->in[X]->data, tr_tensor_count(io->in[X]));
    return TR_OK;
}

static tr_status NAME(squared_l2_norm_grad)(const tr_run *io)
{
    const tr_tensor *x = io->in[GX];
    const T         *dout = io->in[GDOUT]->data;

    NAME(tr_scale)(io->out[GDX]->data, x->data, 2 * dout[0], 0, tr_tensor_count(x));
    return TR_OK;
}

#endif
