/* grad_body.h - a rule for `.second` of a tr_grad_rule, beside those of grad_second.h: derived from a body.
 *
 * The gradient operator computes what the operators of the rule's `body` compute; of a composite operator, what the gradient of its
 * parts computes. Its own gradient is that of these operators. */
#ifndef TR_FRAMEWORK_GRAD_BODY_H
#define TR_FRAMEWORK_GRAD_BODY_H

#include "framework/grad_maker.h"

tr_status tr__second_body(tr_grad_maker *maker);

#endif
