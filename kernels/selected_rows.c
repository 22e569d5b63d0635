/* selected_rows.c - see selected_rows.h. */
#include "kernels/selected_rows.h"
#include "kernels/math/rows.h"

#include <string.h>

int64_t tr__rows_width(const tr_tensor *x)
{
    return tr_shape_product(&x->shape, 1, x->shape.rank);
}

tr_status tr__rows_copy(tr_tensor *out, const tr_tensor *x)
{
    int64_t *index;

    if (!x->rows || out->rows == x->rows)
        return TR_OK;
    TR_TRY(tr__tensor_reserve_rows(out, x->rows->height, x->rows->count, &index));
    memcpy(index, x->rows->index, (size_t)x->rows->count * sizeof *index);
    return TR_OK;
}

tr_status tr__rows_merge(const tr_run *io, int slot, const tr_tensor *x)
{
    const int64_t count = x->rows->count;
    tr_tensor    *out = io->out[slot];
    tr_shape      shape = x->shape;
    int64_t      *unique, *index;

    TR_TRY(tr_run_scratch((void **)&unique, io, (size_t)(5 * count + 1) * sizeof *unique));
    int64_t *const first = unique + count, *const order = first + count + 1, *const work = order + count;
    const int64_t  groups = tr_rows_group(unique, first, order, work, x->rows->index, count);

    shape.dim[0] = groups;
    TR_TRY(tr_run_resize(io, slot, 0, x->dtype, &shape));
    TR_TRY(tr__tensor_reserve_rows(out, x->rows->height, groups, &index));
    memcpy(index, unique, (size_t)groups * sizeof *index);
    if (x->dtype == TR_FP32)
        tr_rows_sum_groups_f32(out->data, x->data, first, order, groups, tr__rows_width(x));
    else if (x->dtype == TR_FP64)
        tr_rows_sum_groups_f64(out->data, x->data, first, order, groups, tr__rows_width(x));
    else
        return tr_fail(TR_EDTYPE, "selected rows of %s cannot be added up; only float32 and float64",
                       tr_dtype_name(x->dtype));
    return TR_OK;
}
