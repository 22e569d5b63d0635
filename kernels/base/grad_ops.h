/* grad_ops.h - for gradients that are made of other operators. */
#pragma once

#include "framework/gradients/grad_maker.h"

/* A new operator with X = Out@GRAD and Out = the gradient of the forward operator's input `slot`, argument
 * `index`; set its attributes, then give it to tr_grad_append. NULL: nobody wants that gradient. */
static inline tr_op_desc *tr__grad_from_dout(tr_grad_maker *maker, const char *type, const char *slot, int index)
{
    const tr_op_desc *forward = tr_grad_forward(maker);
    const char       *dout = tr_grad_of_output(maker, tr_op_desc_output(forward, "Out", 0));
    const char       *din = tr_grad_for_input(maker, tr_op_desc_input(forward, slot, index));

    if (!dout || !din)
        return NULL;
    tr_op_desc *op = tr_op_desc_new(type);
    tr_op_desc_set_input(op, "X", 1, &dout);
    tr_op_desc_set_output(op, "Out", 1, &din);
    return op;
}

/* The gradient of that argument is Out's. */
static inline tr_status tr__grad_pass(tr_grad_maker *maker, const char *slot, int index)
{
    tr_op_desc *op = tr__grad_from_dout(maker, "assign", slot, index);

    return op ? tr_grad_append(maker, op) : TR_OK;
}
