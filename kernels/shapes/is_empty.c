/* is_empty.c - Out = X has no elements. */
#include "framework/operators/op.h"

static const tr_op_proto proto = {
    .doc = "Out = X has no elements",
    .in = TR_SLOTS({"X", "any shape, any type; only the shape is read"}),
    .out = TR_SLOTS(TR_SLOT("Out", "[1]", " bool", TR_SLOT_BOOL)),
};

static tr_status is_empty(const tr_run *io)
{
    *(bool *)io->out[0]->data = tr_tensor_count(io->in[0]) == 0;
    return TR_OK;
}

TR_REGISTER_OP(is_empty, .proto = &proto, .run = is_empty);
