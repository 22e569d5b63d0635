/* batch_size_like.c - see batch_size_like.h. */
#include "kernels/base/shapes.h"
#include "kernels/creation/batch_size_like.h"

tr_status tr__infer_batch_size_like(const tr_infer *io)
{
    const tr_batch_attrs *a = io->attrs;
    const tr_shape        input = io->in[0].shape;
    tr_dtype              dtype;
    tr_shape              out = {.rank = a->shape.count};

    TR_TRY(tr__dtype_from_attr(&dtype, io, a->dtype));
    if (a->input_dim_idx >= input.rank)
        return tr_fail(TR_ERANGE, "%s: input_dim_idx is %d, but Input is %s", io->type, a->input_dim_idx,
                       TR_SHAPE_STR(input));
    if (a->output_dim_idx >= out.rank || out.rank > TR_MAX_RANK)
        return tr_fail(TR_ERANGE, "%s: output_dim_idx is %d, but attribute shape has %d dimensions", io->type,
                       a->output_dim_idx, out.rank);
    for (int i = 0; i < out.rank; i++) {
        out.dim[i] = a->shape.item[i];
        if (out.dim[i] < 0 && i != a->output_dim_idx)
            return tr_fail(TR_ESHAPE, "%s: dimension %d of attribute shape is %d; only dimension %d is taken from "
                           "Input", io->type, i, a->shape.item[i], a->output_dim_idx);
    }
    const bool counts_sequences = io->in[0].lod_level > 0 && a->input_dim_idx == 0;
    out.dim[a->output_dim_idx] = counts_sequences ? -1 : input.dim[a->input_dim_idx];
    io->out[0] = tr_meta_dense(dtype, out);
    return TR_OK;
}

tr_status tr__resize_batch_size_like(const tr_run *io)
{
    const tr_batch_attrs *a = io->attrs;
    const tr_tensor      *input = io->in[0];
    const tr_lod         *lod = input->lod;
    tr_shape              out = {.rank = a->shape.count};

    if (!lod || a->input_dim_idx != 0)
        return TR_OK;
    for (int i = 0; i < out.rank; i++)
        out.dim[i] = a->shape.item[i];
    out.dim[a->output_dim_idx] = lod->start[lod->levels] - lod->start[lod->levels - 1] - 1;
    return tr_run_resize(io, 0, 0, (tr_dtype)a->dtype, &out);
}
