/* multiplex.c - each row from one of several tensors:  Out[i] = X[Ids[i]][i].
 *
 * Backward: row i of dOut is row i of the gradient of X[Ids[i]]; the others have zeros there. */
#include "framework/gradients/grad_second.h"
#include "kernels/base/check.h"
#include "kernels/base/selected_rows.h"

#include <string.h>

/* -- interface -------------------------------------------------------------------------------- */
enum { IDS, X };
enum { OUT };
enum { G_IDS, G_X, G_DOUT };
enum { G_DX };

static const tr_op_proto proto = {
    .doc = "Takes each row from one of several tensors: Out[i] = X[Ids[i]][i].",
    .in = TR_SLOTS(TR_SLOT("Ids", "[rows] or [rows, 1]", " int32; which of X", TR_SLOT_INT32),
                   TR_SLOT("X", "[rows, ...]", "; two or more of one type and shape", TR_SLOT_REPEATED)),
    .out = TR_SLOTS({"Out", "like X"}),
};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status infer(const tr_infer *io)
{
    const tr_meta_list *list = &io->ins[X];

    if (list->count < 2)
        return tr_fail(TR_ERANGE, "%s: X must be two tensors or more, got %d", io->type, list->count);
    TR_TRY(tr__check_dense_list(io, "X", list));
    for (int i = 1; i < list->count; i++)
        TR_TRY(tr__check_same_shape(io, "X", &list->item[i], "X[0]", &list->item[0]));
    io->out[OUT] = list->item[0];
    return TR_OK;
}

/* -- kernels -------------------------------------------------------------------------------------- */
static tr_status check_ids(const tr_run *io, const char *type, int count)
{
    const int32_t *ids = io->in[IDS]->data;

    for (int64_t i = 0; i < tr_tensor_count(io->in[IDS]); i++)
        if (ids[i] < 0 || ids[i] >= count)
            return tr_fail(TR_ERANGE, "%s: number %d at position %lld of '%s' is none of the %d tensors of X", type, ids[i], (long long)i,
                           tr_run_in_name(io, IDS, 0), count);
    return TR_OK;
}

static tr_status run(const tr_run *io)
{
    const tr_args *x = &io->ins[X];
    const int32_t *ids = io->in[IDS]->data;
    tr_tensor     *out = io->out[OUT];
    const int64_t  bytes = tr__rows_width(out) * tr_dtype_size(out->dtype);

    TR_TRY(check_ids(io, "multiplex", x->count));
    for (int64_t i = 0; i < out->shape.dim[0] && bytes > 0; i++)
        memcpy((char *)out->data + i * bytes, (const char *)x->item[ids[i]]->data + i * bytes, (size_t)bytes);
    return TR_OK;
}

static tr_status run_grad(const tr_run *io)
{
    const tr_args   *dx = &io->outs[G_DX];
    const int32_t   *ids = io->in[G_IDS]->data;
    const tr_tensor *dout = io->in[G_DOUT];
    const int64_t    bytes = tr__rows_width(dout) * tr_dtype_size(dout->dtype);

    TR_TRY(check_ids(io, "multiplex_grad", dx->count));
    for (int k = 0; k < dx->count; k++)
        for (int64_t i = 0; dx->item[k] && bytes > 0 && i < dout->shape.dim[0]; i++) {
            char *to = (char *)dx->item[k]->data + i * bytes;
            if (ids[i] == k)
                memcpy(to, (const char *)dout->data + i * bytes, (size_t)bytes);
            else
                memset(to, 0, (size_t)bytes);
        }
    return TR_OK;
}

/* -- gradient and registration ------------------------------------------------------------------- */
static const tr_grad_rule grad = {
    .op = "multiplex_grad", .reads = {TR_IN(IDS), TR_IN_SHAPE(X), TR_DOUT(OUT)}, .makes = {TR_DIN(X)},
    .second = tr__second_linear,
};
TR_REGISTER_OP(multiplex, .proto = &proto, .infer = infer, .run = run, .grad = &grad);
TR_REGISTER_OP(multiplex_grad, .grad_of = &tr_op_record_multiplex, .run = run_grad);
