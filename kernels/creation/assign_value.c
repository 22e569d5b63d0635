/* assign_value.c - a tensor whose values stand in the program. */
#include "kernels/base/shapes.h"

#include <string.h>

/* -- interface ------------------------------------------------------------------------------ */

enum { OUT };

typedef struct attrs {
    tr_ints   shape;
    int32_t   dtype;
    tr_floats fp32_values;
    tr_ints   int32_values;
} attrs;

static const tr_op_proto proto = {
    .doc = "Out = the values that the attributes give",
    .out = TR_SLOTS({"Out", "of shape `shape` and type `dtype`"}),
    TR_ATTRS_OF(attrs,
        TR_ATTR(attrs, shape, INTS, "Out's shape", .required = true),
        TR_ATTR(attrs, dtype, INT, "Out's type: float32 or int32", .required = true),
        TR_ATTR(attrs, fp32_values, FLOATS, "the values of float32, row by row"),
        TR_ATTR(attrs, int32_values, INTS, "the values of int32, row by row")),
};

/* -- shapes ----------------------------------------------------------------------------------- */

static tr_status infer(const tr_infer *io)
{
    const attrs *a = io->attrs;
    const int    given = a->dtype == TR_FP32 ? a->fp32_values.count : a->int32_values.count;
    tr_meta     *out = &io->out[OUT];

    if (a->dtype != TR_FP32 && a->dtype != TR_INT32)
        return tr_fail(TR_EDTYPE, "assign_value: dtype must be float32 (%d) or int32 (%d), got %d", TR_FP32, TR_INT32,
                       a->dtype);
    TR_TRY(tr__meta_from_ints(out, io, &a->shape, a->dtype));
    if (tr_shape_numel(&out->shape) != given)
        return tr_fail(TR_ESHAPE, "assign_value: shape is %s, so there must be %lld values of %s; got %d", TR_SHAPE_STR(out->shape),
                       (long long)tr_shape_numel(&out->shape), tr_dtype_name(out->dtype), given);
    return TR_OK;
}

/* -- kernel and registration ---------------------------------------------------------------------- */

static tr_status assign_value(const tr_run *io)
{
    const attrs *a = io->attrs;
    tr_tensor   *out = io->out[OUT];
    const void  *values = a->dtype == TR_FP32 ? (const void *)a->fp32_values.item : a->int32_values.item;

    if (tr_tensor_count(out) > 0)
        memcpy(out->data, values, (size_t)tr_tensor_bytes(out));
    return TR_OK;
}

TR_REGISTER_OP(assign_value, .proto = &proto, .infer = infer, .run = assign_value, .key = TR_KEY_OUT);
