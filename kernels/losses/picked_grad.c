/* picked_grad.c - see picked_grad.h. */
#ifndef T
#include "kernels/losses/picked_grad.h"

#include <string.h>

#include "kernels/base/selected_rows.h"

void tr__picked_infer_grad(const tr_infer *io, const tr_meta *x, const tr_meta *w, const tr_meta *bias, bool is_sparse)
{
    io->out[TR_PICKED_DX] = tr_meta_dense(x->dtype, x->shape);
    io->out[TR_PICKED_DX].lod_level = x->lod_level;
    io->out[TR_PICKED_DX].lod_source = x->lod_source;
    io->out[TR_PICKED_DW] = tr__rows_grad_meta(w, is_sparse, -1);
    if (bias->kind != TR_KIND_NONE)
        io->out[TR_PICKED_DBIAS] = tr__rows_grad_meta(bias, is_sparse, -1);
}

/* Ready to be written: dense zeros, or a row for each group. */
static tr_status prepare(const tr_run *io, int slot, const tr_picked_groups *groups, int64_t height, int64_t width,
                         bool is_sparse)
{
    tr_tensor *out = io->out[slot];
    int64_t   *rows;

    if (!is_sparse) {
        memset(out->data, 0, (size_t)tr_tensor_bytes(out));
        return TR_OK;
    }
    TR_TRY(tr_run_resize(io, slot, 0, io->in[0]->dtype, &TR_SHAPE(groups->count, width)));
    TR_TRY(tr__tensor_reserve_rows(out, height, groups->count, &rows));
    memcpy(rows, groups->id, (size_t)groups->count * sizeof *rows);
    return TR_OK;
}

#include "kernels/math/tools/each_float.h"
#else

tr_status NAME(tr__picked_grad)(const tr_run *io, const T *dscore, const NAME(tr_picked) *p, int64_t *memory, int64_t height,
                                bool is_sparse)
{
    const tr_tensor *dx = io->out[TR_PICKED_DX], *dw = io->out[TR_PICKED_DW], *dbias = io->out[TR_PICKED_DBIAS];
    tr_picked_groups groups;

    if (dx)
        NAME(tr_picked_dx)(dx->data, dscore, p);
    if (!dw && !dbias)
        return TR_OK;
    tr_picked_group(&groups, memory, p->id, p->rows, p->picks);
    if (dw) {
        TR_TRY(prepare(io, TR_PICKED_DW, &groups, height, p->width, is_sparse));
        NAME(tr_picked_dw)(dw->data, is_sparse, dscore, p, &groups);
    }
    if (dbias) {
        TR_TRY(prepare(io, TR_PICKED_DBIAS, &groups, height, 1, is_sparse));
        NAME(tr_picked_dbias)(dbias->data, is_sparse, dscore, &groups);
    }
    return TR_OK;
}

#endif
