/* shape_op.c - the operator `shape`: Out = the dimensions of Input, as numbers. */
#include "framework/operators/op.h"

/* -- interface ------------------------------------------------------------------------------ */

enum { INPUT };
enum { OUT };

static const tr_op_proto proto = {
    .doc = "Out = the dimensions of Input",
    .in = TR_SLOTS({"Input", "any shape, any type; only the shape is read"}),
    .out = TR_SLOTS({"Out", "[rank of Input] int32"}),
};

/* -- shapes ----------------------------------------------------------------------------------- */

static tr_status infer(const tr_infer *io)
{
    io->out[OUT] = tr_meta_dense(TR_INT32, TR_SHAPE(io->in[INPUT].shape.rank));
    return TR_OK;
}

/* -- kernel and registration ---------------------------------------------------------------------- */

static tr_status shape(const tr_run *io)
{
    const tr_shape input = io->in[INPUT]->shape;
    int32_t       *out = io->out[OUT]->data;

    for (int i = 0; i < input.rank; i++) {
        if (input.dim[i] > INT32_MAX)
            return tr_fail(TR_ERANGE, "shape: Input is %s, and int32 cannot say so", TR_SHAPE_STR(input));
        out[i] = (int32_t)input.dim[i];
    }
    return TR_OK;
}

TR_REGISTER_OP(shape, .proto = &proto, .infer = infer, .run = shape);
