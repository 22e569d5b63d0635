/* view.c - see view.h. */
#include "kernels/shapes/view.h"

#include <string.h>

tr_meta tr__view_meta(const tr_meta *x, const tr_shape *shape)
{
    tr_meta out = *x;

    if (shape->rank == 0 || x->shape.rank == 0 || shape->dim[0] != x->shape.dim[0])
        return tr_meta_dense(x->dtype, *shape);
    out.shape = *shape;
    return out;
}

tr_status tr__view_xshape(tr_meta *out, const tr_infer *io, const tr_meta *x)
{
    tr_shape shape = {.rank = x->shape.rank + 1};

    if (shape.rank > TR_MAX_RANK)
        return tr_fail(TR_ESHAPE, "%s: X is %s; its rank must be below %d", io->type, TR_SHAPE_STR(x->shape),
                       TR_MAX_RANK);
    memcpy(shape.dim + 1, x->shape.dim, (size_t)x->shape.rank * sizeof shape.dim[0]);
    *out = tr_meta_dense(x->dtype, shape);
    return TR_OK;
}

static void copy_bytes(tr_tensor *out, const tr_tensor *x)
{
    if (out->data != x->data)
        memcpy(out->data, x->data, (size_t)(tr_tensor_count(x) * tr_dtype_size(x->dtype)));
}

tr_status tr__view_run(const tr_run *io)
{
    copy_bytes(io->out[TR_VIEW_OUT], io->in[TR_VIEW_X]);
    return TR_OK;
}

tr_status tr__view_grad_infer(const tr_infer *io)
{
    const tr_meta *x = &io->in[TR_VIEW_GRAD_X], *dout = &io->in[TR_VIEW_GRAD_DOUT];
    const int64_t  wanted = tr_shape_numel(&x->shape), given = tr_shape_numel(&dout->shape);

    if (wanted >= 0 && given >= 0 && dout->shape.rank > 0 && x->shape.rank > 0 && wanted != given)
        return tr_fail(TR_ESHAPE, "%s: X is %s, so Out@GRAD must have as many elements; got %s", io->type,
                       TR_SHAPE_STR(x->shape), TR_SHAPE_STR(dout->shape));
    if (x->dtype != TR_DTYPE_NONE && dout->dtype != TR_DTYPE_NONE && x->dtype != dout->dtype)
        return tr_fail(TR_EDTYPE, "%s: X is %s, so Out@GRAD must be, too; got %s", io->type, tr_dtype_name(x->dtype),
                       tr_dtype_name(dout->dtype));
    io->out[TR_VIEW_GRAD_DX] = *x;
    return TR_OK;
}

tr_status tr__view_grad_run(const tr_run *io)
{
    copy_bytes(io->out[TR_VIEW_GRAD_DX], io->in[TR_VIEW_GRAD_DOUT]);
    return TR_OK;
}
