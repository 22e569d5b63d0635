/* is_empty.c - Out = X has no elements. */
#include "framework/operators/op.h"

static const tr_op_proto proto = {
    .doc = "Out = X has no elements",
    .in = TR_SLOTS({"X", "any shape, any type; only the shape is read"}),
    .out = TR_SLOTS({"Out", "[1] bool"}),
};

static tr_status infer(const tr_infer *io)
{
    io->out[0] = tr_meta_dense(TR_BOOL, TR_SHAPE(1));
    return TR_OK;
}

static tr_status is_empty(const tr_run *io)
{
    *(bool *)io->out[0]->data = tr_tensor_count(io->in[0]) == 0;
    return TR_OK;
}

TR_REGISTER_OP(is_empty, .proto = &proto, .infer = infer, .run = is_empty);
