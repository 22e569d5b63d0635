/* elementwise.c - arithmetic of two tensors, element by element:  Out = X op Y.
 *
 * Y may be smaller than X (see broadcast.h); its gradient is then summed over what it was repeated along. The
 * gradients of sum and difference read neither X nor Y, so that both may be overwritten or freed early.
 *
 * X may be selected rows where Y is one number: products and quotients are then taken of the rows held. */
#ifndef T

#include <string.h>

#include "kernels/math/arrays/elementwise.h"
#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"
#include "framework/gradients/grad_second.h"
#include "framework/operators/op.h"
#include "framework/tensors/half.h"
#include "kernels/math/arrays/reduce.h"
#include "kernels/elementwise/broadcast.h"
#include "kernels/base/check.h"
#include "kernels/base/selected_rows.h"

/* -- interface ------------------------------------------------------------------------------ */

enum { X, Y };               enum { OUT };           /* slots of op: inputs, outputs */
enum { GX, GY, GDOUT };      enum { GDX, GDY };      /* of op_grad; GX and GY are X and Y */

static const tr_slot_def in_slots[] = {
    {"X", "any shape", TR_SLOT_ROWS}, {"Y", "a run of X's dimensions, same dtype as X", TR_SLOT_WIDE}, {NULL},
};
static const tr_slot_def out_slots[] = {TR_SLOT("Out", "like X", ""), {NULL}};
static const tr_attr_def attrs[] = {
    TR_BROADCAST_ATTR,
    TR_ATTR_IGNORED("use_mkldnn", BOOL),
    TR_ATTR_ONLY("x_data_format", STRING, "give the tensor in its plain order"),
    TR_ATTR_ONLY("y_data_format", STRING, "give the tensor in its plain order"),
    {NULL},
};

/* -- shapes ----------------------------------------------------------------------------------- */

static tr_status infer(const tr_infer *io)
{
    TR_TRY(tr__check_dense(io, "X", &io->in[X]));
    return tr__broadcast_check(io);
}

static tr_status infer_scaling(const tr_infer *io)
{
    if (io->in[X].kind != TR_KIND_SELECTED_ROWS)
        return infer(io);
    return tr__check_one(io, "Y, as X is selected rows,", &io->in[Y]);
}

static tr_cut counts(const tr_run *io)
{
    const tr_broadcast_attrs *a = io->attrs;
    return tr__broadcast_of(&io->in[X]->shape, &io->in[Y]->shape, a->axis);
}

/* -- kernels: the end of this file, once for each type ---------------------------------------- */

#include "kernels/math/tools/each_number.h"

/* -- gradients of sums in 16 bits ------------------------------------------------------------- */

/* Where Y is a row: dX has Out's bits, and the columns of dY are added up from them. Anything else is upcast. */
static tr_status sum_grad(const tr_run *io, bool negates)
{
    const tr_tensor *dout = io->in[GDOUT];
    tr_tensor       *dx = io->out[GDX], *dy = io->out[GDY];
    const tr_cut     c = counts(io);
    float           *sums;
    const bool       is_row = c.pre != 1 && c.n != 1 && c.post == 1;

    if (!is_row || !dy || (dy->dtype != TR_FP32 && dy->dtype != dout->dtype) || (dx && dx->dtype != dout->dtype))
        return tr__run_upcast(io);
    sums = dy->data;
    if (dy->dtype != TR_FP32)
        TR_TRY(tr_run_scratch((void **)&sums, io, (size_t)c.n * sizeof *sums));
    tr_sum_columns_of_half(sums, dout->data, dout->dtype, c.pre, c.n);
    for (int64_t i = 0; i < c.n && negates; i++)
        sums[i] = -sums[i];
    if (dy->dtype != TR_FP32)
        tr__half_of_floats(dy->data, sums, dy->dtype, c.n);
    if (dx && dx->data != dout->data)
        memcpy(dx->data, dout->data, (size_t)tr_tensor_bytes(dout));
    return TR_OK;
}

static tr_status elementwise_add_grad_half(const tr_run *io) { return sum_grad(io, false); }
static tr_status elementwise_sub_grad_half(const tr_run *io) { return sum_grad(io, true); }

/* -- from function to operator ---------------------------------------------------------------- */

#define KERNEL(name, op, type) \
    static tr_status name##_##type(const tr_run *io) { return apply_##type(io, TR_BINARY_##op); }
#define GRAD_KERNEL(name, op, type) \
    static tr_status name##_grad_##type(const tr_run *io) { return apply_grad_##type(io, TR_BINARY_##op); }
#define FLOAT_KERNELS(name, op)  KERNEL(name, op, f32) KERNEL(name, op, f64)
#define INT_KERNELS(name, op)    KERNEL(name, op, i32) KERNEL(name, op, i64)
#define GRAD_KERNELS(name, op)   GRAD_KERNEL(name, op, f32) GRAD_KERNEL(name, op, f64)

#define PROTO(name, formula)                                                                        \
    static const tr_op_proto name##_proto = {                                                       \
        .doc = formula, .in = in_slots, .out = out_slots, .attr = attrs,                            \
        .attrs_size = sizeof(tr_broadcast_attrs),                                                   \
    };
#define OPERATOR(name, kernel_table, infer_fn, ...)                                                 \
    TR_REGISTER_OP(name, .locality = TR_POINTWISE, .proto = &name##_proto, .infer = infer_fn, .kernels = kernel_table, \
                   .inplace = {{X, OUT}, {Y, OUT}}, .inplace_count = 2, .is_itemwise = true, ##__VA_ARGS__);

/* READ is TR_IN where the gradient reads the data of X and Y, TR_IN_SHAPE where it does not. COPIES: how many gradients are Out's. HALF: the
 * kernel of 16 bits. */
#define GRADIENT(name, READ, COPIES, HALF, ...)                                                                   \
    static const tr_grad_rule name##_rule = {                                                       \
        .op = #name "_grad", .reads = {READ(X), READ(Y), TR_DOUT(OUT)}, .makes = {TR_DIN(X), TR_DIN(Y)}, \
        ##__VA_ARGS__                                                                               \
    };                                                                                              \
    TR_REGISTER_OP(name##_grad, .grad_of = &tr_op_record_##name,                                    \
                   .kernels = {{[TR_FP32] = name##_grad_f32, [TR_FP64] = name##_grad_f64, [TR_BF16] = HALF, [TR_FP16] = HALF}}, \
                   .inplace = {{GDOUT, GDX}}, .inplace_count = 1,                                   \
                   .copies = {{GDOUT, GDX}, {GDOUT, GDY}}, .copy_count = COPIES, .is_itemwise = true);

#define NUMBER_OPERATOR(name, op, formula, infer_fn, READ, COPIES, HALF, ...)                         \
    FLOAT_KERNELS(name, op) INT_KERNELS(name, op) GRAD_KERNELS(name, op)                            \
    PROTO(name, formula)                                                                            \
    TR_DECLARE_OP(name);                                                                            \
    GRADIENT(name, READ, COPIES, HALF, ##__VA_ARGS__)                                                             \
    OPERATOR(name, TR_NUMBER_KERNELS(name), infer_fn, .grad = &name##_rule)

/* dX = dOut / Y, and dY = -dOut X / Y^2 as the gradient of a product with -X / Y^2, which adds up what was broadcast. */
static tr_status divide_back(tr_composite *c)
{
    const int axis = ((const tr_broadcast_attrs *)tr_composite_attrs(c))->axis;

    TR_TRY(tr_composite_add(c, "reciprocal(X=Y) -> share"));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=Out@GRAD, Y=share) {axis=%d} -> quotient", axis));
    TR_TRY(tr_composite_add(c, "assign(X=quotient) -> X@GRAD"));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=X, Y=share) {axis=%d} -> ratio", axis));
    TR_TRY(tr_composite_add(c, "scale(X=ratio) {scale=-1.0} -> turned"));
    return tr_composite_add(c, "elementwise_mul_grad(X=turned, Y=Y, Out@GRAD=quotient) {axis=%d} -> Y@GRAD=Y@GRAD", axis);
}

/* The gradient goes to X where `lead` is greater than 0, else to Y. */
static tr_status choose_back(tr_composite *c, double sign)
{
    const int axis = ((const tr_broadcast_attrs *)tr_composite_attrs(c))->axis;

    TR_TRY(tr_composite_add(c, "elementwise_sub(X=X, Y=Y) {axis=%d} -> difference", axis));
    TR_TRY(tr_composite_add(c, "scale(X=difference) {scale=%.1f} -> lead", sign));
    TR_TRY(tr_composite_add(c, "relu(X=lead) -> positive"));
    TR_TRY(tr_composite_add(c, "sign(X=positive) -> is_x"));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=Out@GRAD, Y=is_x) -> share"));
    TR_TRY(tr_composite_add(c, "assign(X=share) -> X@GRAD"));
    TR_TRY(tr_composite_add(c, "elementwise_sub(X=Out@GRAD, Y=share) -> rest"));
    return tr_composite_add(c, "elementwise_add_grad(X=X, Y=Y, Out@GRAD=rest) {axis=%d} -> Y@GRAD=Y@GRAD", axis);
}

static tr_status largest_back(tr_composite *c)  { return choose_back(c, 1); }
static tr_status smallest_back(tr_composite *c) { return choose_back(c, -1); }

NUMBER_OPERATOR(elementwise_add, ADD, "Out = X + Y", infer, TR_IN_SHAPE, 2, elementwise_add_grad_half, .second = tr__second_linear)
NUMBER_OPERATOR(elementwise_sub, SUB, "Out = X - Y", infer, TR_IN_SHAPE, 1, elementwise_sub_grad_half, .second = tr__second_linear)
NUMBER_OPERATOR(elementwise_mul, MUL, "Out = X * Y", infer_scaling, TR_IN, 0, tr__run_upcast, .second = tr__second_bilinear)
NUMBER_OPERATOR(elementwise_div, DIV, "Out = X / Y; of integers cut towards 0, and 0 where Y is 0", infer_scaling,
                TR_IN, 0, tr__run_upcast, .second = tr__second_body, .body = divide_back)
NUMBER_OPERATOR(elementwise_max, MAX, "Out = max(X, Y); where they are equal the gradient is Y's", infer, TR_IN, 0, tr__run_upcast,
                .second = tr__second_body, .body = largest_back)
NUMBER_OPERATOR(elementwise_min, MIN, "Out = min(X, Y); where they are equal the gradient is Y's", infer, TR_IN, 0, tr__run_upcast,
                .second = tr__second_body, .body = smallest_back)

FLOAT_KERNELS(elementwise_pow, POW)
GRAD_KERNELS(elementwise_pow, POW)
PROTO(elementwise_pow, "Out = X to the power of Y")
TR_DECLARE_OP(elementwise_pow);

/* dX = dOut Y X^(Y - 1), and dY = dOut X^Y log X as the gradient of a sum, which adds up what was broadcast. */
static tr_status power_back(tr_composite *c)
{
    const int axis = ((const tr_broadcast_attrs *)tr_composite_attrs(c))->axis;

    TR_TRY(tr_composite_add(c, "scale(X=Y) {bias=-1.0} -> less"));
    TR_TRY(tr_composite_add(c, "elementwise_pow(X=X, Y=less) {axis=%d} -> lower", axis));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=lower, Y=Y) {axis=%d} -> slope", axis));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=Out@GRAD, Y=slope) -> X@GRAD"));
    TR_TRY(tr_composite_add(c, "elementwise_pow(X=X, Y=Y) {axis=%d} -> power", axis));
    TR_TRY(tr_composite_add(c, "log(X=X) -> logs"));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=power, Y=logs) -> growth"));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=Out@GRAD, Y=growth) -> weighted"));
    return tr_composite_add(c, "elementwise_add_grad(X=X, Y=Y, Out@GRAD=weighted) {axis=%d} -> Y@GRAD=Y@GRAD", axis);
}

GRADIENT(elementwise_pow, TR_IN, 0, tr__run_upcast, .second = tr__second_body, .body = power_back)
OPERATOR(elementwise_pow, TR_FLOAT_KERNELS(elementwise_pow), infer, .grad = &elementwise_pow_rule)

#define TR_INT_KERNELS(name) {{[TR_INT32] = name##_i32, [TR_INT64] = name##_i64}}

INT_KERNELS(elementwise_mod, MOD)
PROTO(elementwise_mod, "Out = the remainder of X / Y, with the sign of Y; 0 where Y is 0")
OPERATOR(elementwise_mod, TR_INT_KERNELS(elementwise_mod), infer)

INT_KERNELS(elementwise_floordiv, FLOORDIV)
PROTO(elementwise_floordiv, "Out = the largest whole number <= X / Y; 0 where Y is 0")
OPERATOR(elementwise_floordiv, TR_INT_KERNELS(elementwise_floordiv), infer)

#else /* -- kernels ---------------------------------------------------------------------------- */

static tr_status NAME(apply)(const tr_run *io, tr_binary op)
{
    const tr_cut c = counts(io);

    NAME(tr_binary_apply)(op, io->out[OUT]->data, io->in[X]->data, io->in[Y]->data, c.pre, c.n, c.post);
    return tr__rows_copy(io->out[OUT], io->in[X]);
}

#if T_IS_FLOATING
static tr_status NAME(apply_grad)(const tr_run *io, tr_binary op)
{
    const tr_cut c = counts(io);
    T *dx = io->out[GDX] ? io->out[GDX]->data : NULL, *dy = io->out[GDY] ? io->out[GDY]->data : NULL;

    NAME(tr_binary_grad)(op, dx, dy, io->in[GDOUT]->data, io->in[GX]->data, io->in[GY]->data, c.pre, c.n, c.post);
    return TR_OK;
}
#endif

#endif
