/* foreign_inputs.h - operators of programs that Fluid has written, where they have other inputs than ours.
 *
 * Each framework decides what of the forward operator a gradient operator reads. Fluid's elementwise_add_grad, for example, has no X, whose shape ours
 * reads. What is missing stands in the forward operator, which is found by the gradients that both name. What a gradient operator has beyond that is
 * not needed. Of any other operator an unknown input would change the result, so it is refused. */
#pragma once

#include "framework/programs/program.h"

/* Does a gradient operator lack an input? */
bool tr__gradients_lack_inputs(const tr_program *program);
/* Give such operators these inputs. An input whose value has been overwritten since stays missing, and so does one whose forward operator is not
 * in the program: running the operator then says that it is missing. */
void tr__gradients_complete(tr_program *program);

/* A failure if operator `index` of a block has an input that Trireme's operator does not read, as programs of later versions may have: without it the
 * result would be another one. A gradient operator may name more of its forward operator's variables than ours reads; and gradients of more outputs,
 * if these are zeros. */
tr_status tr__check_unread_inputs(const tr_block *block, int index);
