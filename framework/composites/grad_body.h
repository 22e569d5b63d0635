/* grad_body.h - gradients that are derived from a body: a rule for `.second` of a tr_grad_rule, beside those of grad_second.h.
 *
 * The gradient operator computes what the operators of the rule's `body` compute. Or the rule has `parts`: then the gradient operator
 * computes the gradient of these, as that of a composite operator does. Its own gradient is that of the operators found either way. */
#pragma once

#include "framework/gradients/grad_maker.h"

tr_status tr__second_body(tr_grad_maker *maker);

/* For `.rest` of a rule: passes on the gradients of outputs that the rule does not read, through the gradient of `.parts`. Such outputs are mostly
 * intermediate ones, and second gradients lead to them. */
tr_status tr__grad_by_parts(tr_grad_maker *maker);
/* The same for outputs that are constant, such as 1 where a loss is active: gradients end there. */
tr_status tr__grad_ends(tr_grad_maker *maker);
