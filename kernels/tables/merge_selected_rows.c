/* merge_selected_rows.c - selected rows with each row once, and their values as a dense tensor.
 *
 * Norms need the first: rows with equal numbers add up, and the length of a sum is not the sum of lengths. What
 * works on values alone, such as a square, takes the second. No gradient flows through them: they are applied to
 * gradients. */
#include "kernels/base/selected_rows.h"

#include <string.h>

/* -- interface ------------------------------------------------------------------------------ */

enum { X };
enum { OUT };

static const tr_op_proto merge_proto = {
    .doc = "Out = X with rows of equal numbers added up, in ascending order.",
    .in = TR_SLOTS({"X", "selected rows, float", TR_SLOT_ROWS}),
    .out = TR_SLOTS({"Out", "selected rows"}),
};

static const tr_op_proto values_proto = {
    .doc = "Out = the values of the rows that X holds, one after the other.",
    .in = TR_SLOTS({"X", "selected rows", TR_SLOT_ROWS}),
    .out = TR_SLOTS({"Out", "[rows held, ...], dense"}),
};

/* -- shapes ----------------------------------------------------------------------------------- */

static tr_status check_rows(const tr_infer *io)
{
    if (io->in[X].kind != TR_KIND_SELECTED_ROWS)
        return tr_fail(TR_EINVAL, "%s: X must be selected rows, got a dense tensor %s", io->type,
                       TR_SHAPE_STR(io->in[X].shape));
    return TR_OK;
}

static tr_status infer_merge(const tr_infer *io)
{
    TR_TRY(check_rows(io));
    io->out[OUT] = io->in[X];
    io->out[OUT].shape.dim[0] = -1;
    return TR_OK;
}

static tr_status infer_values(const tr_infer *io)
{
    TR_TRY(check_rows(io));
    io->out[OUT] = tr_meta_dense(io->in[X].dtype, io->in[X].shape);
    return TR_OK;
}

/* -- kernels ---------------------------------------------------------------------------------- */

static tr_status merge(const tr_run *io) { return tr__rows_merge(io, OUT, io->in[X]); }

static tr_status values(const tr_run *io)
{
    const tr_tensor *x = io->in[X];

    if (io->out[OUT]->shape.dim[0] != x->shape.dim[0])
        TR_TRY(tr_run_resize(io, OUT, 0, x->dtype, &x->shape));
    memcpy(io->out[OUT]->data, x->data, (size_t)tr_tensor_bytes(x));
    return TR_OK;
}

/* -- registration ------------------------------------------------------------------------------- */

TR_REGISTER_OP(merge_selected_rows, .proto = &merge_proto, .infer = infer_merge, .run = merge);
TR_REGISTER_OP(get_tensor_from_selected_rows, .proto = &values_proto, .infer = infer_values, .run = values);
