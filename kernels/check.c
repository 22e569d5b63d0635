/* check.c - see check.h. */
#include "kernels/check.h"

tr_status tr__check_dense(const tr_infer *io, const tr_meta *arg, const char *slot)
{
    if (arg->kind != TR_KIND_TENSOR)
        return tr_fail(TR_EUNSUPPORTED, "%s: %s must be a dense tensor, got %s", io->type, slot,
                       arg->kind == TR_KIND_SELECTED_ROWS ? "selected rows" : "another kind of variable");
    return TR_OK;
}

tr_status tr__check_rank(const tr_infer *io, const tr_meta *arg, const char *slot, int rank)
{
    if (arg->shape.rank != rank)
        return tr_fail(TR_ESHAPE, "%s: %s must have rank %d, got %s", io->type, slot, rank,
                       TR_SHAPE_STR(arg->shape));
    return TR_OK;
}

tr_status tr__check_min_rank(const tr_infer *io, const tr_meta *arg, const char *slot, int rank)
{
    if (arg->shape.rank < rank)
        return tr_fail(TR_ESHAPE, "%s: %s must have rank %d or more, got %s", io->type, slot, rank,
                       TR_SHAPE_STR(arg->shape));
    return TR_OK;
}

tr_status tr__check_shape(const tr_infer *io, const tr_meta *arg, const char *slot, const tr_shape *expected)
{
    if (!tr_shape_fits(&arg->shape, expected))
        return tr_fail(TR_ESHAPE, "%s: %s must be %s, got %s", io->type, slot, tr_shape_str(expected),
                       TR_SHAPE_STR(arg->shape));
    return TR_OK;
}

tr_status tr__check_dtype(const tr_infer *io, const tr_meta *arg, const char *slot, tr_dtype expected)
{
    if (arg->dtype != expected && arg->dtype != TR_DTYPE_NONE)
        return tr_fail(TR_EDTYPE, "%s: %s must be %s, got %s", io->type, slot, tr_dtype_name(expected),
                       tr_dtype_name(arg->dtype));
    return TR_OK;
}

tr_status tr__check_ids(const tr_infer *io, const tr_meta *arg, const char *slot, bool allow_int32)
{
    if (allow_int32 && arg->dtype == TR_INT32)
        return TR_OK;
    return tr__check_dtype(io, arg, slot, TR_INT64);
}

tr_status tr__check_one(const tr_infer *io, const tr_meta *arg, const char *slot)
{
    const int64_t count = tr_shape_numel(&arg->shape);

    if (count != 1 && count != -1)
        return tr_fail(TR_ESHAPE, "%s: %s must hold one element, got %s", io->type, slot,
                       TR_SHAPE_STR(arg->shape));
    return TR_OK;
}
