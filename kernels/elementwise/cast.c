/* cast.c - Out = X as another data type. The gradient is the cast back. */
#include "kernels/math/tools/cast.h"
#include "kernels/base/grad_ops.h"
#include "framework/operators/op.h"

/* -- interface ------------------------------------------------------------------------------ */

enum { X };
enum { OUT };

typedef struct attrs {
    int32_t in_dtype, out_dtype;
} attrs;

static const tr_op_proto proto = {
    .doc = "Out = X as another data type. Numbers are cut towards 0 to become integers; bool is: not 0.",
    .in = TR_SLOTS({"X", "any shape, any type"}),
    .out = TR_SLOTS({"Out", "X's shape, of type out_dtype"}),
    TR_ATTRS_OF(attrs,
        TR_ATTR(attrs, in_dtype, INT, "X's type; what X really is counts", .required = true),
        TR_ATTR(attrs, out_dtype, INT, "Out's type", .required = true)),
};

/* -- shapes ----------------------------------------------------------------------------------- */

static tr_status infer(const tr_infer *io)
{
    const attrs *a = io->attrs;

    if (tr_dtype_size((tr_dtype)a->out_dtype) == 0)
        return tr_fail(TR_EDTYPE, "cast: out_dtype is %d, which is no data type", a->out_dtype);
    io->out[OUT] = io->in[X];
    io->out[OUT].dtype = (tr_dtype)a->out_dtype;
    return TR_OK;
}

/* -- kernel: one for all types -------------------------------------------------------------------- */

static tr_status cast(const tr_run *io)
{
    const tr_tensor *x = io->in[X], *out = io->out[OUT];

    tr_cast(out->data, out->dtype, x->data, x->dtype, tr_tensor_count(x));
    return TR_OK;
}

/* -- gradient and registration ------------------------------------------------------------------ */

static tr_status make_grad(tr_grad_maker *maker)
{
    const tr_op_desc *forward = tr_grad_forward(maker);
    tr_op_desc       *op = tr__grad_from_dout(maker, "cast", "X", 0);

    if (!op)
        return TR_OK;
    tr_op_desc_set_int(op, "in_dtype", tr_op_desc_attr_int(forward, "out_dtype", 0), TR_ATTR_INT);
    tr_op_desc_set_int(op, "out_dtype", tr_op_desc_attr_int(forward, "in_dtype", 0), TR_ATTR_INT);
    return tr_grad_append(maker, op);
}

static const tr_grad_rule grad = {.make = make_grad};

TR_REGISTER_OP(cast, .locality = TR_POINTWISE, .proto = &proto, .infer = infer, .run = cast, .grad = &grad);
