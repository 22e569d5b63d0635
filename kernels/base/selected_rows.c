/* selected_rows.c - see selected_rows.h. */
#include "kernels/base/selected_rows.h"
#include "kernels/math/arrays/rows.h"

#include <inttypes.h>
#include <string.h>

int64_t tr__rows_width(const tr_tensor *x)
{
    return tr_shape_product(&x->shape, 1, x->shape.rank);
}

tr_meta tr__rows_grad_meta(const tr_meta *w, bool is_sparse, int64_t rows)
{
    tr_meta grad = tr_meta_dense(w->dtype, w->shape);

    if (is_sparse) {
        grad.kind = TR_KIND_SELECTED_ROWS;
        grad.height = w->shape.dim[0];
        grad.shape.dim[0] = rows;
    }
    return grad;
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

tr_status tr__rows_groups(tr_row_groups *out, const tr_run *io, const tr_tensor *x, size_t extra)
{
    const int64_t count = x->rows->count;
    const size_t  numbers = ((size_t)(5 * count + 1) * sizeof *out->unique + 63) & ~(size_t)63;

    TR_TRY(tr_run_scratch((void **)&out->unique, io, numbers + extra));
    out->first = out->unique + count;
    out->order = out->first + count + 1;
    out->extra = (char *)out->unique + numbers;
    out->count = tr_rows_group(out->unique, out->first, out->order, out->order + count, x->rows->index, count);
    return TR_OK;
}

static int64_t place_of(const tr_row_groups *g, int64_t id)
{
    const int64_t at = tr_rows_place(g->unique, g->count, id);
    return at < g->count && g->unique[at] == id ? g->order[g->first[at]] : -1;
}

/* The position of each of `count` ids among the rows that x holds (the first, if there are several); -1: x does not hold it. In scratch memory. */
static tr_status places_of(int64_t **out, const tr_run *io, const tr_tensor *x, const int64_t *ids, int64_t count)
{
    tr_row_groups g;

    TR_TRY(tr__rows_groups(&g, io, x, (size_t)count * sizeof **out));
    *out = g.extra;
    for (int64_t i = 0; i < count; i++)
        (*out)[i] = place_of(&g, ids[i]);
    return TR_OK;
}

tr_status tr__rows_lookup(const tr_run *io, const char *op, int w, int ids, int64_t padding, bool must_hold)
{
    const tr_tensor *held = io->in[w];
    const int64_t    count = tr_tensor_count(io->in[ids]), bytes = tr__rows_width(held) * tr_dtype_size(held->dtype), *id = io->in[ids]->data;
    char            *to = io->out[0]->data;
    int64_t         *place = NULL;

    TR_TRY(places_of(&place, io, held, id, count));
    for (int64_t i = 0; i < count; i++, to += bytes) {
        const bool is_padding = padding != -1 && id[i] == padding;
        if (place[i] >= 0 && !is_padding)
            memcpy(to, (const char *)held->data + place[i] * bytes, (size_t)bytes);
        else if (is_padding || !must_hold)
            memset(to, 0, (size_t)bytes);
        else
            return tr_fail(TR_ERANGE, "%s: id %" PRId64 " at position %" PRId64 " of '%s' is none of the %" PRId64 " rows that '%s' holds", op, id[i], i,
                           tr_run_in_name(io, ids, 0), held->rows->count, tr_run_in_name(io, w, 0));
    }
    return TR_OK;
}

tr_status tr__rows_merge(const tr_run *io, int slot, const tr_tensor *x)
{
    tr_tensor    *out = io->out[slot];
    tr_shape      shape = x->shape;
    tr_row_groups g;
    int64_t      *index;

    TR_TRY(tr__rows_groups(&g, io, x, 0));
    shape.dim[0] = g.count;
    TR_TRY(tr_run_resize(io, slot, 0, x->dtype, &shape));
    TR_TRY(tr__tensor_reserve_rows(out, x->rows->height, g.count, &index));
    memcpy(index, g.unique, (size_t)g.count * sizeof *index);
    if (x->dtype == TR_FP32)
        tr_rows_sum_groups_f32(out->data, x->data, g.first, g.order, g.count, tr__rows_width(x));
    else if (x->dtype == TR_FP64)
        tr_rows_sum_groups_f64(out->data, x->data, g.first, g.order, g.count, tr__rows_width(x));
    else
        return tr_fail(TR_EDTYPE, "selected rows of %s cannot be added up; only float32 and float64",
                       tr_dtype_name(x->dtype));
    return TR_OK;
}
