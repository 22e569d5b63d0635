/* reverse.c - the elements of some dimensions in the opposite order. The gradient is the same operator. */
#include "kernels/base/check.h"
#include "kernels/base/grad_ops.h"
#include "kernels/math/arrays/transpose.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { X };
enum { OUT };

typedef struct attrs {
    tr_ints axis;
} attrs;

static const tr_op_proto proto = {
    .doc = "Turns the order of the elements round, along each dimension of `axis`.",
    .in = TR_SLOTS({"X", "any shape, any type"}),
    .out = TR_SLOTS({"Out", "like X, without sequences"}),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, axis, INTS, "which dimensions; negative ones count from the end", .required = true)),
};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status infer(const tr_infer *io)
{
    const attrs *a = io->attrs;
    int          axis;

    for (int i = 0; i < a->axis.count; i++)
        TR_TRY(tr__check_axis(&axis, io, "axis", a->axis.item[i], io->in[X].shape.rank));
    io->out[OUT] = tr_meta_dense(io->in[X].dtype, io->in[X].shape);
    return TR_OK;
}

/* -- kernel --------------------------------------------------------------------------------------- */
static tr_status run(const tr_run *io)
{
    const attrs     *a = io->attrs;
    const tr_tensor *x = io->in[X];
    const int64_t    size = tr_dtype_size(x->dtype);
    int64_t          strides[TR_MAX_RANK], from[TR_MAX_RANK], step = 1, first = 0;
    unsigned         turned = 0;

    if (tr_tensor_count(x) == 0)
        return TR_OK;
    for (int i = 0; i < a->axis.count; i++)
        turned |= 1u << (a->axis.item[i] < 0 ? a->axis.item[i] + x->shape.rank : a->axis.item[i]);
    for (int d = x->shape.rank - 1; d >= 0; step *= x->shape.dim[d--]) {
        strides[d] = step;
        from[d] = turned >> d & 1 ? -step : step;
        first += turned >> d & 1 ? (x->shape.dim[d] - 1) * step : 0;
    }
    tr_copy_strided(io->out[OUT]->data, strides, (const char *)x->data + first * size, from, x->shape.rank, x->shape.dim, size);
    return TR_OK;
}

/* -- gradient and registration ------------------------------------------------------------------- */
static tr_status make_grad(tr_grad_maker *maker)
{
    const tr_op_desc *forward = tr_grad_forward(maker);
    tr_op_desc       *op = tr__grad_from_dout(maker, "reverse", "X", 0);
    int64_t           axis[TR_MAX_RANK];
    const int         count = tr_op_desc_attr_size(forward, "axis");

    if (!op)
        return TR_OK;
    for (int i = 0; i < count; i++)
        axis[i] = tr_op_desc_attr_int(forward, "axis", i);
    tr_op_desc_set_ints(op, "axis", count, axis, TR_ATTR_INTS);
    return tr_grad_append(maker, op);
}

static tr_status check(const void *attributes)
{
    const attrs *a = attributes;

    if (a->axis.count < 1 || a->axis.count > TR_MAX_RANK)
        return tr_fail(TR_ERANGE, "reverse: attribute 'axis' has %d dimensions; it must have 1 to %d", a->axis.count, TR_MAX_RANK);
    return TR_OK;
}

static const tr_grad_rule grad = {.make = make_grad};

TR_REGISTER_OP(reverse, .proto = &proto, .infer = infer, .run = run, .grad = &grad, .check = check);
