/* array_ops.c - tensor arrays, element by element: write_to_array, read_from_array, lod_array_length.
 *
 * Elements are copied in and out, so that what is read does not change when the element is written again, and an
 * array keeps its memory from run to run. Gradients: see tensor_array.h. */

#include "kernels/base/check.h"
#include "kernels/tensor_arrays/tensor_array.h"

/* -- write_to_array --------------------------------------------------------------------------- */

enum { W_X, W_I };
enum { W_OUT };

static const tr_op_proto write_proto = {
    .doc = "Out[I] = X. The array grows as needed; elements in between are empty.",
    .in = TR_SLOTS({"X", "a tensor; its LoD is kept"}, TR_SLOT("I", "[1]", " int64; from 0")),
    .out = TR_SLOTS({"Out", "a tensor array, of which one element changes"}),
};

static tr_status infer_write(const tr_infer *io)
{
    TR_TRY(tr__check_dense(io, "X", &io->in[W_X]));
    TR_TRY(tr__check_ids(io, "I", &io->in[W_I], true));
    return tr__array_meta(&io->out[W_OUT], io, "Out", &io->in[W_X]);
}

static tr_status run_write(const tr_run *io)
{
    int64_t    index;
    tr_tensor *item;

    TR_TRY(tr__read_index(&index, io, W_I));
    TR_TRY(tr__var_array_at(&item, tr_var_of(io->out[W_OUT]), index));
    return tr_tensor_copy(item, io->in[W_X]);
}

enum { WG_X, WG_I, WG_DOUT };
enum { WG_DX, WG_ARRAY };

static const tr_op_proto write_grad_proto = {
    .doc = "X@GRAD = the gradient of element I, or zeros; the element is empty afterwards.",
    .in = TR_SLOTS({"X", "what was written; only its shape is read"}, {"I", "[1] int64"},
                   {"Out@GRAD", "the array's gradient", TR_SLOT_ANY_KIND}),
    .out = TR_SLOTS({"X@GRAD", "like X", TR_SLOT_OPTIONAL}, {"Array", "Out@GRAD, which changes"}),
};

static tr_status infer_write_grad(const tr_infer *io)
{
    if (io->out[WG_DX].kind != TR_KIND_NONE)
        io->out[WG_DX] = io->in[WG_X];
    return TR_OK;
}

static tr_status run_write_grad(const tr_run *io)
{
    int64_t    index;
    tr_tensor *dx = io->out[WG_DX];

    TR_TRY(tr__read_index(&index, io, WG_I));
    tr_tensor *item = tr__array_find(io->out[WG_ARRAY], index);
    if (dx)
        TR_TRY(item ? tr_tensor_copy(dx, item) : tr__zeros_like(dx, io->in[WG_X]));
    if (item)
        tr__tensor_forget(item);
    return TR_OK;
}

static tr_status make_write_grad(tr_grad_maker *maker)
{
    return tr__make_taking_grad(maker, "write_to_array_grad");
}

static const tr_grad_rule write_rule = {.make = make_write_grad};

TR_REGISTER_OP(write_to_array, .proto = &write_proto, .infer = infer_write, .run = run_write, .grad = &write_rule);
TR_REGISTER_OP(write_to_array_grad, .proto = &write_grad_proto, .infer = infer_write_grad, .run = run_write_grad);

/* -- read_from_array -------------------------------------------------------------------------- */

enum { R_X, R_I };
enum { R_OUT };

static const tr_op_proto read_proto = {
    .doc = "Out = X[I]",
    .in = TR_SLOTS({"X", "a tensor array", TR_SLOT_ANY_KIND}, TR_SLOT("I", "[1]", " int64; an element that was written")),
    .out = TR_SLOTS({"Out", "the element, with its LoD"}),
};

static tr_status infer_read(const tr_infer *io)
{
    TR_TRY(tr__check_array(io, "X", &io->in[R_X]));
    TR_TRY(tr__check_ids(io, "I", &io->in[R_I], true));
    io->out[R_OUT] = tr_meta_dense(io->in[R_X].dtype, io->in[R_X].shape);
    io->out[R_OUT].lod_level = io->in[R_X].lod_level;
    return TR_OK;
}

static tr_status run_read(const tr_run *io)
{
    int64_t    index;
    tr_tensor *item;

    TR_TRY(tr__read_index(&index, io, R_I));
    TR_TRY(tr__array_get(&item, io, R_X, index));
    return tr_tensor_copy(io->out[R_OUT], item);
}

enum { RG_X, RG_I, RG_DOUT };
enum { RG_DX };

static tr_status run_read_grad(const tr_run *io)
{
    const tr_tensor *dout = io->in[RG_DOUT];
    int64_t          index;
    tr_tensor       *item;

    TR_TRY(tr__read_index(&index, io, RG_I));
    TR_TRY(tr__var_array_at(&item, tr_var_of(io->out[RG_DX]), index));
    if (item->dtype == TR_DTYPE_NONE)
        return tr_tensor_copy(item, dout);
    if (item->dtype != dout->dtype || !tr_shape_equal(&item->shape, &dout->shape))
        return tr_fail(TR_ESHAPE, "read_from_array_grad: element %lld of '%s' is %s, its gradient here is %s",
                       (long long)index, tr_run_out_name(io, RG_DX, 0), TR_SHAPE_STR(item->shape),
                       TR_SHAPE_STR(dout->shape));
    return tr__add_values(item->dtype, item->data, dout->data, tr_tensor_count(dout));
}

static const tr_grad_rule read_rule = {
    .op = "read_from_array_grad", .reads = {TR_IN_SHAPE(R_X), TR_IN(R_I), TR_DOUT(R_OUT)}, .makes = {TR_DIN(R_X)},
};

TR_REGISTER_OP(read_from_array, .proto = &read_proto, .infer = infer_read, .run = run_read, .grad = &read_rule);
TR_REGISTER_OP(read_from_array_grad, .grad_of = &tr_op_record_read_from_array, .run = run_read_grad);

/* -- lod_array_length ------------------------------------------------------------------------- */

static const tr_op_proto length_proto = {
    .doc = "Out = the number of elements of X",
    .in = TR_SLOTS({"X", "a tensor array", TR_SLOT_ANY_KIND}),
    .out = TR_SLOTS({"Out", "[1] int64"}),
};

static tr_status infer_length(const tr_infer *io)
{
    TR_TRY(tr__check_array(io, "X", &io->in[0]));
    io->out[0] = tr_meta_dense(TR_INT64, TR_SHAPE(1));
    return TR_OK;
}

static tr_status run_length(const tr_run *io)
{
    *(int64_t *)io->out[0]->data = tr_var_array_count(tr_var_of(io->in[0]));
    return TR_OK;
}

TR_REGISTER_OP(lod_array_length, .proto = &length_proto, .infer = infer_length, .run = run_length);
