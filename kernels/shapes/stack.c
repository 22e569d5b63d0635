/* stack.c - stack and unstack: tensors of one shape laid along a new axis, and the reverse.
 *
 * Each is the other's gradient; neither gradient reads data of its inputs. */
#include <string.h>

#include "framework/gradients/grad_second.h"
#include "kernels/base/check.h"
#include "kernels/base/cut.h"
#include "kernels/math/arrays/transpose.h"

/* -- interface: stack ----------------------------------------------------------------------------- */
enum { X };
enum { Y };
enum { G_X, G_DY };
enum { G_DX };

typedef struct stack_attrs {
    int32_t axis;
} stack_attrs;

static const tr_op_proto stack_proto = {
    .doc = "Lays tensors of one shape along a new axis.",
    .in = TR_SLOTS({"X", "tensors of one shape and type", TR_SLOT_REPEATED}),
    .out = TR_SLOTS({"Y", "like X, with a new dimension: how many there are"}),
    TR_ATTRS_OF(stack_attrs, TR_ATTR(stack_attrs, axis, INT, "place of the new dimension in Y; negative counts from the end")),
};

/* -- interface: unstack --------------------------------------------------------------------------- */
typedef struct unstack_attrs {
    int32_t axis, num;
} unstack_attrs;

static const tr_op_proto unstack_proto = {
    .doc = "Cuts X along `axis` into slices without that axis.",
    .in = TR_SLOTS(TR_SLOT("X", "[n, m, ...]", " of any type")),
    .out = TR_SLOTS({"Y", "num slices", TR_SLOT_REPEATED}),
    TR_ATTRS_OF(unstack_attrs, TR_ATTR(unstack_attrs, axis, INT, "where to cut; negative counts from the end"),
                               TR_ATTR(unstack_attrs, num, INT, "X's extent along the axis", .required = true,
                                       .range = TR_GREATER(0))),
};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status infer_stack(const tr_infer *io)
{
    const stack_attrs *a = io->attrs;
    const tr_shape     x = io->in[X].shape;
    tr_shape           y = {.rank = x.rank + 1};
    int                axis;

    if (y.rank > TR_MAX_RANK)
        return tr_fail(TR_ESHAPE, "%s: X is %s; its rank must be below %d", io->type, TR_SHAPE_STR(x), TR_MAX_RANK);
    TR_TRY(tr__check_axis(&axis, io, "axis", a->axis, y.rank));
    for (int i = 0; i < io->ins[X].count; i++) {
        TR_TRY(tr__check_dtype(io, "X", &io->ins[X].item[i], io->in[X].dtype));
        TR_TRY(tr__check_same_shape(io, "X", &io->ins[X].item[i], "X[0]", &io->in[X]));
    }
    for (int d = 0; d < y.rank; d++)
        y.dim[d] = d == axis ? io->ins[X].count : x.dim[d - (d > axis)];
    io->out[Y] = tr_meta_dense(io->in[X].dtype, y);
    return TR_OK;
}

static tr_status infer_unstack(const tr_infer *io)
{
    const unstack_attrs *a = io->attrs;
    const tr_shape       x = io->in[X].shape;
    tr_shape             y = {.rank = x.rank - 1};
    int                  axis;

    TR_TRY(tr__check_axis(&axis, io, "axis", a->axis, x.rank));
    if (io->outs[Y].count != a->num || (x.dim[axis] >= 0 && x.dim[axis] != a->num))
        return tr_fail(TR_ESHAPE, "%s: num is %d, X is %s (axis %d) and Y has %d variables; the three must agree",
                       io->type, a->num, TR_SHAPE_STR(x), axis, io->outs[Y].count);
    for (int d = 0; d < y.rank; d++)
        y.dim[d] = x.dim[d + (d >= axis)];
    for (int i = 0; i < a->num; i++)
        io->outs[Y].item[i] = tr_meta_dense(io->in[X].dtype, y);
    return TR_OK;
}

/* -- kernels --------------------------------------------------------------------------------------- */

/* Slice i of `whole` along the axis is a part; to the whole, or from it. Absent parts are passed over. */
static void join(tr_tensor *whole, const tr_args *parts, int axis)
{
    const tr_cut  c = tr__cut_at(&whole->shape, axis);
    const int64_t bytes = c.post * tr_dtype_size(whole->dtype);

    for (int64_t i = 0; i < parts->count; i++)
        if (parts->item[i])
            tr_copy_blocks((char *)whole->data + i * bytes, c.n * bytes, parts->item[i]->data, bytes, c.pre, bytes);
}

static void cut_up(const tr_args *parts, const tr_tensor *whole, int axis)
{
    const tr_cut  c = tr__cut_at(&whole->shape, axis);
    const int64_t bytes = c.post * tr_dtype_size(whole->dtype);

    for (int64_t i = 0; i < parts->count; i++)
        if (parts->item[i])
            tr_copy_blocks(parts->item[i]->data, bytes, (const char *)whole->data + i * bytes, c.n * bytes, c.pre,
                           bytes);
}

static tr_status run_stack(const tr_run *io)
{
    const stack_attrs *a = io->attrs;
    join(io->out[Y], &io->ins[X], a->axis);
    return TR_OK;
}

static tr_status run_stack_grad(const tr_run *io)
{
    const stack_attrs *a = io->attrs;
    cut_up(&io->outs[G_DX], io->in[G_DY], a->axis);
    return TR_OK;
}

static tr_status run_unstack(const tr_run *io)
{
    const unstack_attrs *a = io->attrs;
    cut_up(&io->outs[Y], io->in[X], a->axis);
    return TR_OK;
}

/* A slice whose gradient is absent (nobody used it) counts as zeros. */
static tr_status run_unstack_grad(const tr_run *io)
{
    const unstack_attrs *a = io->attrs;
    tr_tensor           *dx = io->out[G_DX];
    bool                 all = true;

    for (int i = 0; i < io->ins[G_DY].count; i++)
        all = all && io->ins[G_DY].item[i];
    if (!all)
        memset(dx->data, 0, (size_t)(tr_tensor_count(dx) * tr_dtype_size(dx->dtype)));
    join(dx, &io->ins[G_DY], a->axis);
    return TR_OK;
}

/* -- gradients and registration ------------------------------------------------------------------ */
static const tr_grad_rule stack_rule = {
    .op = "stack_grad", .reads = {TR_IN_SHAPE(X), TR_DOUT(Y)}, .makes = {TR_DIN(X)},
    .second = tr__second_linear,
};
TR_REGISTER_OP(stack, .proto = &stack_proto, .infer = infer_stack, .run = run_stack, .grad = &stack_rule);
TR_REGISTER_OP(stack_grad, .grad_of = &tr_op_record_stack, .run = run_stack_grad);

static const tr_grad_rule unstack_rule = {
    .op = "unstack_grad", .reads = {TR_IN_SHAPE(X), TR_DOUT(Y)}, .makes = {TR_DIN(X)},
    .second = tr__second_linear,
};
TR_REGISTER_OP(unstack, .proto = &unstack_proto, .infer = infer_unstack, .run = run_unstack, .grad = &unstack_rule);
TR_REGISTER_OP(unstack_grad, .grad_of = &tr_op_record_unstack, .run = run_unstack_grad);
