/* lod_pick.c - see lod_pick.h. */
#include "kernels/tensor_arrays/lod_pick.h"

#include <assert.h>
#include <string.h>

#include "kernels/base/selected_rows.h"
#include "kernels/tensor_arrays/tensor_array.h"

/* -- parts ------------------------------------------------------------------------------------ */

int64_t tr__parts_of(const tr_tensor *x, int level)
{
    const int levels = tr_tensor_lod_levels(x);

    if (level < 0 || level > levels)
        return -1;
    if (level < levels)
        return tr_tensor_lod_count(x, level) - 1;
    return x->shape.rank > 0 ? x->shape.dim[0] : -1;
}

int64_t tr__part_row(const tr_tensor *x, int level, int64_t k)
{
    for (; level < tr_tensor_lod_levels(x); level++)
        k = tr_tensor_lod_offsets(x, level)[k];
    return k;
}

int64_t tr__lod_size(const tr_tensor *x)
{
    return x->lod ? x->lod->start[x->lod->levels] : 0;
}

/* -- picking ---------------------------------------------------------------------------------- */

tr_status tr__pick_start(tr_pick *pick, const tr_run *io, int levels, int64_t most)
{
    int64_t *memory;

    *pick = (tr_pick){.levels = levels};
    if (levels > TR_PICK_LEVELS)
        return tr_fail(TR_EUNSUPPORTED, "%d LoD levels; no more than %d are possible here", levels, TR_PICK_LEVELS);
    if (levels == 0)
        return TR_OK;
    TR_TRY(tr_run_scratch((void **)&memory, io, (size_t)(levels * (most + 1)) * sizeof *memory));
    for (int l = 0; l < levels; l++) {
        pick->offset[l] = memory + l * (most + 1);
        pick->offset[l][pick->count[l]++] = 0;
    }
    return TR_OK;
}

void tr__pick_add(tr_pick *pick, const tr_tensor *x, int level, int64_t k)
{
    int64_t n = 1;

    assert(level + pick->levels == tr_tensor_lod_levels(x));
    for (int l = 0; l < pick->levels; l++) {
        const int64_t *from = tr_tensor_lod_offsets(x, level + l);
        int64_t       *to = pick->offset[l];
        for (int64_t i = 0; i < n; i++, pick->count[l]++)
            to[pick->count[l]] = to[pick->count[l] - 1] + from[k + i + 1] - from[k + i];
        n = from[k + n] - from[k];
        k = from[k];
    }
    pick->rows += n;
}

static tr_status put_lod(const tr_pick *pick, tr_tensor *out, const tr_tensor *upper, int keep)
{
    int64_t        counts[2 * TR_PICK_LEVELS];
    const int64_t *offsets[2 * TR_PICK_LEVELS];

    if (pick->levels == 0 && keep > 0 && keep == tr_tensor_lod_levels(upper))
        return tr__tensor_copy_lod(out, upper);
    if (keep > TR_PICK_LEVELS)
        return tr_fail(TR_EUNSUPPORTED, "%d LoD levels; no more than %d are possible here", keep, TR_PICK_LEVELS);
    for (int l = 0; l < keep; l++) {
        counts[l] = tr_tensor_lod_count(upper, l);
        offsets[l] = tr_tensor_lod_offsets(upper, l);
    }
    for (int l = 0; l < pick->levels; l++) {
        counts[keep + l] = pick->count[l];
        offsets[keep + l] = pick->offset[l];
    }
    return tr_tensor_set_lod(out, keep + pick->levels, counts, offsets);
}

tr_status tr__pick_finish(tr_pick *pick, tr_tensor *out, const tr_tensor *like, const tr_tensor *upper, int keep)
{
    tr_shape shape = like->shape;

    shape.dim[0] = pick->rows;
    TR_TRY(tr__tensor_reserve(out, like->dtype, &shape));
    return put_lod(pick, out, upper, keep);
}

/* -- rows ------------------------------------------------------------------------------------- */

static char *row_at(const tr_tensor *x, int64_t row)
{
    return (char *)x->data + row * tr__rows_width(x) * tr_dtype_size(x->dtype);
}

void tr__copy_rows(tr_tensor *to, int64_t to_row, const tr_tensor *from, int64_t from_row, int64_t rows)
{
    const size_t bytes = (size_t)(rows * tr__rows_width(to) * tr_dtype_size(to->dtype));

    if (bytes > 0)
        memcpy(row_at(to, to_row), row_at(from, from_row), bytes);
}

tr_status tr__add_rows(tr_tensor *to, int64_t to_row, const tr_tensor *from, int64_t from_row, int64_t rows)
{
    return tr__add_values(to->dtype, row_at(to, to_row), row_at(from, from_row), rows * tr__rows_width(to));
}

bool tr__rows_agree(const tr_tensor *a, const tr_tensor *b)
{
    return a->dtype == b->dtype && a->shape.rank > 0 && b->shape.rank > 0 && tr__rows_width(a) == tr__rows_width(b);
}
