/* shapes.c - see shapes.h. */
#include "kernels/base/shapes.h"
#include "framework/tensors/half.h"
#include "kernels/base/check.h"

tr_status tr__infer_like_first(const tr_infer *io)
{
    TR_TRY(tr__check_dense(io, "its first input", &io->in[0]));
    io->out[0] = io->in[0];
    return TR_OK;
}

tr_status tr__infer_one_element(const tr_infer *io)
{
    TR_TRY(tr__check_dense(io, "its first input", &io->in[0]));
    io->out[0] = tr_meta_dense(io->in[0].dtype, TR_SHAPE(1));
    return TR_OK;
}

tr_dtype tr__kept_type(tr_dtype dtype)
{
    return tr_dtype_is_half(dtype) ? TR_FP32 : dtype;
}

tr_status tr__dtype_from_attr(tr_dtype *out, const tr_infer *io, int32_t dtype)
{
    if (tr_dtype_size((tr_dtype)dtype) == 0)
        return tr_fail(TR_EDTYPE, "%s: attribute dtype is %d, which is no data type", io->type, dtype);
    *out = (tr_dtype)dtype;
    return TR_OK;
}

/* The dimensions are `ints` or else `longs`. */
static tr_status meta_from(tr_meta *out, const tr_infer *io, int32_t dtype, int count, const int32_t *ints, const int64_t *longs)
{
    *out = tr_meta_dense((tr_dtype)dtype, (tr_shape){.rank = count});
    TR_TRY(tr__dtype_from_attr(&out->dtype, io, dtype));
    if (count < 1 || count > TR_MAX_RANK)
        return tr_fail(TR_ESHAPE, "%s: attribute shape must have 1 to %d dimensions; got %d", io->type, TR_MAX_RANK, count);
    for (int i = 0; i < count; i++) {
        out->shape.dim[i] = ints ? ints[i] : longs[i];
        if (out->shape.dim[i] < 0)
            return tr_fail(TR_ESHAPE, "%s: dimension %d of attribute shape is %lld", io->type, i, (long long)out->shape.dim[i]);
    }
    return TR_OK;
}

tr_status tr__meta_from_ints(tr_meta *out, const tr_infer *io, const tr_ints *dims, int32_t dtype)
{
    return meta_from(out, io, dtype, dims->count, dims->item, NULL);
}

tr_status tr__meta_from_longs(tr_meta *out, const tr_infer *io, const tr_longs *dims, int32_t dtype)
{
    return meta_from(out, io, dtype, dims->count, NULL, dims->item);
}
