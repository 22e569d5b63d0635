/* fill.c - tensors of one value: fill_constant, fill_constant_batch_size_like, fill_zeros_like, fill_zeros_like2. And fill, which
 * has a value for each element. */
#include "kernels/creation/fill.h"

#include "kernels/base/shapes.h"
#include "kernels/creation/batch_size_like.h"
#include "kernels/math/arrays/elementwise.h"
#include "kernels/math/tools/cast.h"

#include <string.h>

enum { OUT };

void tr__fill(tr_tensor *out, double value)
{
    uint64_t item = 0;

    tr_cast(&item, out->dtype, &value, TR_FP64, 1);
    tr_fill(out->data, &item, tr_dtype_size(out->dtype), tr_tensor_count(out));
}

/* -- fill_constant ------------------------------------------------------------------------------- */

typedef struct constant_attrs {
    int32_t  dtype;
    tr_longs shape;
    float    value;
} constant_attrs;

static const tr_op_proto constant_proto = {
    .doc = "Out = value, everywhere",
    .out = TR_SLOTS({"Out", "of shape `shape` and type `dtype`"}),
    TR_ATTRS_OF(constant_attrs,
        TR_ATTR(constant_attrs, dtype, INT, "Out's type", .number = TR_FP32),
        TR_ATTR(constant_attrs, shape, LONGS, "Out's shape", .required = true),
        TR_ATTR(constant_attrs, value, FLOAT, "the value of every element"),
        TR_ATTR_IGNORED("force_cpu", BOOL)),
};

static tr_status infer_constant(const tr_infer *io)
{
    const constant_attrs *a = io->attrs;

    return tr__meta_from_longs(&io->out[OUT], io, &a->shape, a->dtype);
}

static tr_status fill_constant(const tr_run *io)
{
    const constant_attrs *a = io->attrs;

    tr__fill(io->out[OUT], a->value);
    return TR_OK;
}

TR_REGISTER_OP(fill_constant, .proto = &constant_proto, .infer = infer_constant, .run = fill_constant,
               .key = TR_KEY_OUT);

/* -- fill_constant_batch_size_like ------------------------------------------------------------------ */

typedef struct batch_attrs {
    tr_batch_attrs batch;
    float          value;
} batch_attrs;

static const tr_op_proto batch_proto = {
    .doc = "Out = value, everywhere, with one dimension of Input's",
    .in = TR_SLOTS({"Input", "any shape; only that is read"}),
    .out = TR_SLOTS({"Out", "of shape `shape`, but for dimension output_dim_idx, and type `dtype`"}),
    TR_ATTRS_OF(batch_attrs, TR_BATCH_ATTRS, TR_ATTR(batch_attrs, value, FLOAT, "the value of every element")),
};

static tr_status fill_constant_batch_size_like(const tr_run *io)
{
    const batch_attrs *a = io->attrs;

    TR_TRY(tr__resize_batch_size_like(io));
    tr__fill(io->out[OUT], a->value);
    return TR_OK;
}

TR_REGISTER_OP(fill_constant_batch_size_like, .proto = &batch_proto, .infer = tr__infer_batch_size_like,
               .run = fill_constant_batch_size_like);

/* -- fill_zeros_like ------------------------------------------------------------------------------ */

static const tr_op_proto zeros_proto = {
    .doc = "Out = 0, everywhere, in the shape of X",
    .in = TR_SLOTS({"X", "any shape, any type; only they are read"}),
    .out = TR_SLOTS({"Out", "like X"}),
};

static tr_status fill_zeros_like(const tr_run *io)
{
    tr_tensor *out = io->out[OUT];

    if (tr_tensor_count(out) > 0)
        memset(out->data, 0, (size_t)tr_tensor_bytes(out));
    return TR_OK;
}

TR_REGISTER_OP(fill_zeros_like, .locality = TR_POINTWISE, .proto = &zeros_proto, .infer = tr__infer_like_first, .run = fill_zeros_like,
               .inplace = {{0, OUT}}, .inplace_count = 1);

/* -- fill_zeros_like2 ------------------------------------------------------------------------------ */

typedef struct zeros2_attrs {
    int32_t dtype;
} zeros2_attrs;

static const tr_op_proto zeros2_proto = {
    .doc = "Out = 0, everywhere, in the shape of X, of a type of its own",
    .in = TR_SLOTS({"X", "any shape, any type; only the shape is read"}),
    .out = TR_SLOTS(TR_SLOT("Out", "like X", ", of type `dtype`", TR_SLOT_ANY_TYPE)),
    TR_ATTRS_OF(zeros2_attrs, TR_ATTR(zeros2_attrs, dtype, INT, "Out's type", .number = TR_FP32)),
};

static tr_status infer_zeros2(const tr_infer *io)
{
    return tr__dtype_from_attr(&io->out[OUT].dtype, io, ((const zeros2_attrs *)io->attrs)->dtype);
}

TR_REGISTER_OP(fill_zeros_like2, .proto = &zeros2_proto, .infer = infer_zeros2, .run = fill_zeros_like);

/* -- fill -------------------------------------------------------------------------------------------- */

typedef struct fill_attrs {
    tr_floats value;
    tr_ints   shape;
    int32_t   dtype;
} fill_attrs;

static const tr_op_proto fill_proto = {
    .doc = "Out = the numbers of `value`, in their order",
    .out = TR_SLOTS({"Out", "of shape `shape` and type `dtype`"}),
    TR_ATTRS_OF(fill_attrs, TR_ATTR(fill_attrs, value, FLOATS, "as many numbers as the shape has elements", .required = true),
                            TR_ATTR(fill_attrs, shape, INTS, "Out's shape", .required = true),
                            TR_ATTR(fill_attrs, dtype, INT, "Out's type", .number = TR_FP32), TR_ATTR_IGNORED("force_cpu", BOOL)),
};

static tr_status infer_fill(const tr_infer *io)
{
    const fill_attrs *a = io->attrs;
    const tr_shape   *shape = &io->out[OUT].shape;

    TR_TRY(tr__meta_from_ints(&io->out[OUT], io, &a->shape, a->dtype));
    if (tr_shape_numel(shape) != a->value.count)
        return tr_fail(TR_ERANGE, "%s: attribute 'value' has %d numbers, but a shape of %s has %lld elements", io->type, a->value.count,
                       tr_shape_str(shape), (long long)tr_shape_numel(shape));
    return TR_OK;
}

static tr_status fill(const tr_run *io)
{
    const fill_attrs *a = io->attrs;

    tr_cast(io->out[OUT]->data, io->out[OUT]->dtype, a->value.item, TR_FP32, a->value.count);
    return TR_OK;
}

TR_REGISTER_OP(fill, .proto = &fill_proto, .infer = infer_fill, .run = fill, .key = TR_KEY_OUT);
