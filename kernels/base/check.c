/* check.c - see check.h. */
#include "kernels/base/check.h"


tr_status tr__check_dense(const tr_infer *io, const char *slot, const tr_meta *meta)
{
    if (meta->kind != TR_KIND_TENSOR)
        return tr_fail(TR_EUNSUPPORTED, "%s: %s must be a dense tensor, got %s", io->type, slot,
                       meta->kind == TR_KIND_SELECTED_ROWS ? "selected rows" : "another kind of variable");
    return TR_OK;
}

tr_status tr__check_dense_list(const tr_infer *io, const char *slot, const tr_meta_list *list)
{
    for (int i = 0; i < list->count; i++) {
        TR_TRY(tr__check_dense(io, slot, &list->item[i]));
        if (list->item[i].dtype != list->item[0].dtype)
            return tr_fail(TR_EDTYPE, "%s: %s[0] is %s, so %s[%d] must be, too; got %s", io->type, slot,
                           tr_dtype_name(list->item[0].dtype), slot, i, tr_dtype_name(list->item[i].dtype));
    }
    return TR_OK;
}

tr_status tr__check_axis(int *out, const tr_infer *io, const char *attr, int axis, int rank)
{
    if (axis < -rank || axis >= rank)
        return tr_fail(TR_ERANGE, "%s: %s is %d; for a tensor of rank %d it must be in [%d, %d]", io->type, attr,
                       axis, rank, -rank, rank - 1);
    *out = axis < 0 ? axis + rank : axis;
    return TR_OK;
}

tr_status tr__check_rank(const tr_infer *io, const char *slot, const tr_meta *meta, int rank)
{
    if (meta->shape.rank != rank)
        return tr_fail(TR_ESHAPE, "%s: %s must have rank %d, got %s", io->type, slot, rank,
                       TR_SHAPE_STR(meta->shape));
    return TR_OK;
}

tr_status tr__check_min_rank(const tr_infer *io, const char *slot, const tr_meta *meta, int rank)
{
    if (meta->shape.rank < rank)
        return tr_fail(TR_ESHAPE, "%s: %s must have rank %d or more, got %s", io->type, slot, rank,
                       TR_SHAPE_STR(meta->shape));
    return TR_OK;
}

tr_status tr__check_shape(const tr_infer *io, const char *slot, const tr_meta *meta, const tr_shape *expected)
{
    if (!tr_shape_fits(&meta->shape, expected))
        return tr_fail(TR_ESHAPE, "%s: %s must be %s, got %s", io->type, slot, tr_shape_str(expected),
                       TR_SHAPE_STR(meta->shape));
    return TR_OK;
}

tr_status tr__check_like(const tr_infer *io, const char *slot, const tr_meta *meta, const tr_meta *expected)
{
    if (meta->dtype != expected->dtype && meta->dtype != TR_DTYPE_NONE && expected->dtype != TR_DTYPE_NONE)
        return tr_fail(TR_EDTYPE, "%s: %s must be %s, got %s", io->type, slot, tr_dtype_name(expected->dtype),
                       tr_dtype_name(meta->dtype));
    if (meta->shape.rank == 0 || expected->shape.rank == 0)
        return TR_OK;
    return tr__check_shape(io, slot, meta, &expected->shape);
}

tr_status tr__check_same_shape(const tr_infer *io, const char *slot, const tr_meta *meta, const char *other_slot,
                               const tr_meta *other)
{
    if (!tr_shape_fits(&meta->shape, &other->shape))
        return tr_fail(TR_ESHAPE, "%s: %s is %s, but %s is %s; they must be alike", io->type, slot,
                       TR_SHAPE_STR(meta->shape), other_slot, TR_SHAPE_STR(other->shape));
    return TR_OK;
}

tr_status tr__check_dtype(const tr_infer *io, const char *slot, const tr_meta *meta, tr_dtype expected)
{
    if (meta->dtype != expected && meta->dtype != TR_DTYPE_NONE)
        return tr_fail(TR_EDTYPE, "%s: %s must be %s, got %s", io->type, slot, tr_dtype_name(expected),
                       tr_dtype_name(meta->dtype));
    return TR_OK;
}

tr_status tr__check_ids(const tr_infer *io, const char *slot, const tr_meta *meta, bool allow_int32)
{
    if (allow_int32 && meta->dtype == TR_INT32)
        return TR_OK;
    return tr__check_dtype(io, slot, meta, TR_INT64);
}

tr_status tr__check_column(const tr_infer *io, const char *slot, const tr_meta *meta, int64_t rows)
{
    if (meta->shape.rank == 1)
        return tr__check_shape(io, slot, meta, &TR_SHAPE(rows));
    return tr__check_shape(io, slot, meta, &TR_SHAPE(rows, 1));
}

tr_status tr__check_one(const tr_infer *io, const char *slot, const tr_meta *meta)
{
    const int64_t count = tr_shape_numel(&meta->shape);

    if (count != 1 && count != -1)
        return tr_fail(TR_ESHAPE, "%s: %s must hold one element, got %s", io->type, slot,
                       TR_SHAPE_STR(meta->shape));
    return TR_OK;
}

tr_status tr__check_pair(const char *type, const char *attr, const tr_ints *pair, int min)
{
    return tr__check_extents(type, attr, pair, 2, min);
}

tr_status tr__check_extents(const char *type, const char *attr, const tr_ints *list, int count, int min)
{
    bool fits = list->count == count;

    for (int i = 0; fits && i < count; i++)
        fits = list->item[i] >= min;
    if (!fits)
        return tr_fail(TR_EINVAL, "%s: attribute %s must be %s numbers of %d or more: [%sheight, width]", type, attr,
                       count == 2 ? "two" : "three", min, count == 2 ? "" : "depth, ");
    return TR_OK;
}
