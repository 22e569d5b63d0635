/* backward.h - turning gradient rules into operators of the program. */
#ifndef TR_FRAMEWORK_BACKWARD_H
#define TR_FRAMEWORK_BACKWARD_H

#include "framework/program.h"

/* What a rule that is a function works with. The forward operator is given; each tr_grad_op appends one
 * operator to the gradient's list. */
typedef struct tr_grad_maker tr_grad_maker;

/* The forward operator. */
const tr_op_desc *tr_grad_forward(const tr_grad_maker *maker);
/* Names: of the gradient of output `slot`'s argument i (NULL: it has none), and of the gradient wanted for
 * input `slot`'s argument i (NULL: nobody wants it). */
const char *tr_grad_dout(tr_grad_maker *maker, const char *slot, int index);
const char *tr_grad_din(tr_grad_maker *maker, const char *slot, int index);
/* Start an operator, to be filled by tr_op_desc_set_...; the list owns it. */
tr_op_desc *tr_grad_op(tr_grad_maker *maker, const char *type);

#endif
