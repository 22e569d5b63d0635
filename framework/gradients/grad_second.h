/* grad_second.h - the gradient of a gradient operator: rules for `.second` of a tr_grad_rule. grad_body.h has one more.
 *
 * A forward operator F(X) -> Out has the gradient operator F_grad(..., Out@GRAD) -> X@GRAD. When a later walk meets
 * F_grad, each X@GRAD has a gradient of its own; a rule passes it on to what F_grad has read. A rule appends operators that
 * have gradients, so third gradients need nothing more. docs/adr/0034 has the decision. */
#pragma once

#include "framework/gradients/grad_maker.h"

/* F is linear in all inputs for which its rule makes gradients (mean, reshape2, concat, elementwise_add):
 * the gradient of Out@GRAD is F of the gradients of X@GRAD. */
tr_status tr__second_linear(tr_grad_maker *maker);

/* F is linear in each of the first two inputs for which its rule makes gradients (mul, conv2d, elementwise_mul). With these
 * inputs A and B, the gradients U of A@GRAD and V of B@GRAD, and D = Out@GRAD:
 *     gradient of D = F(U, B) + F(A, V),  of A = dA of F_grad(A, V, D),  of B = dB of F_grad(U, B, D). */
tr_status tr__second_bilinear(tr_grad_maker *maker);

/* F_grad multiplies Out@GRAD, element by element, by numbers that are constant almost everywhere (relu, clip, dropout):
 * the gradient of Out@GRAD is F_grad of the gradient of X@GRAD. */
tr_status tr__second_gate(tr_grad_maker *maker);

/* The turn of an operator that has no rule, though a gradient arrives at it. A gradient operator is refused or has its
 * gradient made; all others end the flow. */
tr_status tr__grad_second(tr_grad_maker *maker, const struct tr_op *record);
/* Does a gradient flow through `op`, by its own rule or by one of these? True, too, where it would be refused. */
bool      tr__grad_flows(const struct tr_op *record, const tr_op_desc *op);
