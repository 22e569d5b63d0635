/* assign.c - Out = X: a copy, of selected rows too. Without X it does nothing. Also rnn_memory_helper.
 *
 * Out may lie in X's memory, and then nothing is copied. The gradient is an assign. */
#include "kernels/base/grad_ops.h"
#include "kernels/base/selected_rows.h"

#include <string.h>

/* -- interface ------------------------------------------------------------------------------ */

enum { X };
enum { OUT };

static const tr_op_proto proto = {
    .doc = "Out = X",
    .in = TR_SLOTS({"X", "anything: a tensor, selected rows", TR_SLOT_OPTIONAL | TR_SLOT_ROWS}),
    .out = TR_SLOTS({"Out", "like X"}),
};

/* -- shapes ----------------------------------------------------------------------------------- */

static tr_status infer(const tr_infer *io)
{
    if (io->in[X].kind != TR_KIND_NONE)
        io->out[OUT] = io->in[X];
    else
        io->out[OUT].shape.rank = 0;      /* nothing is written */
    return TR_OK;
}

/* -- kernel: one for all types -------------------------------------------------------------------- */

static tr_status assign(const tr_run *io)
{
    const tr_tensor *x = io->in[X];
    tr_tensor       *out = io->out[OUT];

    if (!x)
        return TR_OK;
    if (out->data != x->data && tr_tensor_count(x) > 0)
        memcpy(out->data, x->data, (size_t)tr_tensor_bytes(x));
    return tr__rows_copy(out, x);
}

/* -- gradient and registration ------------------------------------------------------------------ */

static tr_status make_grad(tr_grad_maker *maker)
{
    return tr__grad_pass(maker, "X", 0);
}

static const tr_grad_rule grad = {.make = make_grad};

/* Under the name that recurrent nets of old programs use it by. */
typedef struct helper_attrs {
    int32_t dtype;
} helper_attrs;

static const tr_op_proto helper_proto = {
    .doc = "Out = X: marks what a step of a recurrent net hands on",
    .in = TR_SLOTS({"X", "a tensor"}),
    .out = TR_SLOTS({"Out", "like X"}),
    TR_ATTRS_OF(helper_attrs, TR_ATTR(helper_attrs, dtype, INT, "X's type", .number = TR_FP32)),
};

TR_REGISTER_OP(rnn_memory_helper, .locality = TR_POINTWISE, .proto = &helper_proto, .infer = infer, .run = assign, .grad = &grad,
               .inplace = {{X, OUT}}, .inplace_count = 1);
TR_REGISTER_OP(assign, .locality = TR_POINTWISE, .proto = &proto, .infer = infer, .run = assign, .grad = &grad, .inplace = {{X, OUT}},
               .inplace_count = 1, .only_copies = true);
