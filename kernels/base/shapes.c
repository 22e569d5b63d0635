/* shapes.c - see shapes.h. */
#include "kernels/base/shapes.h"
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

static tr_status check_rank(const tr_infer *io, int count)
{
    if (count < 1 || count > TR_MAX_RANK)
        return tr_fail(TR_ESHAPE, "%s: attribute shape must have 1 to %d dimensions; got %d", io->type,
                       TR_MAX_RANK, count);
    return TR_OK;
}

static tr_status check_dim(const tr_infer *io, int64_t dim, int index)
{
    if (dim < 0)
        return tr_fail(TR_ESHAPE, "%s: dimension %d of attribute shape is %lld", io->type, index,
                       (long long)dim);
    return TR_OK;
}

tr_status tr__shape_from_ints(tr_shape *out, const tr_infer *io, const tr_ints *dims)
{
    TR_TRY(check_rank(io, dims->count));
    out->rank = dims->count;
    for (int i = 0; i < dims->count; i++) {
        TR_TRY(check_dim(io, dims->item[i], i));
        out->dim[i] = dims->item[i];
    }
    return TR_OK;
}

tr_status tr__shape_from_longs(tr_shape *out, const tr_infer *io, const tr_longs *dims)
{
    TR_TRY(check_rank(io, dims->count));
    out->rank = dims->count;
    for (int i = 0; i < dims->count; i++) {
        TR_TRY(check_dim(io, dims->item[i], i));
        out->dim[i] = dims->item[i];
    }
    return TR_OK;
}

tr_status tr__dtype_from_attr(tr_dtype *out, const tr_infer *io, int32_t dtype)
{
    if (tr_dtype_size((tr_dtype)dtype) == 0)
        return tr_fail(TR_EDTYPE, "%s: attribute dtype is %d, which is no data type", io->type, dtype);
    *out = (tr_dtype)dtype;
    return TR_OK;
}

tr_status tr__meta_from_ints(tr_meta *out, const tr_infer *io, const tr_ints *dims, int32_t dtype)
{
    *out = tr_meta_dense((tr_dtype)dtype, (tr_shape){.rank = 0});
    TR_TRY(tr__dtype_from_attr(&out->dtype, io, dtype));
    return tr__shape_from_ints(&out->shape, io, dims);
}

tr_status tr__meta_from_longs(tr_meta *out, const tr_infer *io, const tr_longs *dims, int32_t dtype)
{
    *out = tr_meta_dense((tr_dtype)dtype, (tr_shape){.rank = 0});
    TR_TRY(tr__dtype_from_attr(&out->dtype, io, dtype));
    return tr__shape_from_longs(&out->shape, io, dims);
}
