/* logical.c - and, or, xor and not of bools, element by element. */
#include "framework/operators/op.h"
#include "kernels/base/shapes.h"
#include "kernels/math/arrays/elementwise.h"

/* -- interface ------------------------------------------------------------------------------ */

enum { X, Y };
enum { OUT };

static const tr_slot_def in_slots[] = {{"X", "any shape, bool"}, TR_SLOT("Y", "like X", ", bool"), {NULL}};
static const tr_slot_def out_slots[] = {TR_SLOT("Out", "like X", ", bool"), {NULL}};

/* -- kernels ---------------------------------------------------------------------------------- */

static tr_status apply(const tr_run *io, tr_logical op)
{
    const tr_tensor *x = io->in[X], *y = io->in[Y];

    tr_logical_apply(op, io->out[OUT]->data, x->data, y->data, tr_tensor_count(x));
    return TR_OK;
}

static tr_status logical_not(const tr_run *io)
{
    tr_logical_not(io->out[OUT]->data, io->in[X]->data, tr_tensor_count(io->in[X]));
    return TR_OK;
}

/* -- registration ------------------------------------------------------------------------------- */

#define LOGICAL(name, op, formula)                                                                  \
    static tr_status name(const tr_run *io) { return apply(io, TR_LOGICAL_##op); }                  \
    static const tr_op_proto name##_proto = {.doc = formula, .in = in_slots, .out = out_slots};     \
    TR_REGISTER_OP(name, .locality = TR_POINTWISE, .proto = &name##_proto, .kernels = {{[TR_BOOL] = name}}, \
                   .inplace = {{X, OUT}, {Y, OUT}}, .inplace_count = 2);

LOGICAL(logical_and, AND, "Out = X and Y")
LOGICAL(logical_or,  OR,  "Out = X or Y, or both")
LOGICAL(logical_xor, XOR, "Out = either X or Y")

static const tr_op_proto not_proto = {
    .doc = "Out = not X",
    .in = TR_SLOTS({"X", "any shape, bool"}),
    .out = out_slots,
};
TR_REGISTER_OP(logical_not, .locality = TR_POINTWISE, .proto = &not_proto, .kernels = {{[TR_BOOL] = logical_not}}, .inplace = {{X, OUT}}, .inplace_count = 1);
