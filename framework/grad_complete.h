/* grad_complete.h - gradient operators that have fewer inputs than ours, in programs that Fluid has written.
 *
 * Each framework decides what of the forward operator a gradient operator reads. Fluid's elementwise_add_grad, for example, has no X, whose shape ours
 * reads. What is missing stands in the forward operator, which is found by the gradients that both name. */
#ifndef TR_FRAMEWORK_GRAD_COMPLETE_H
#define TR_FRAMEWORK_GRAD_COMPLETE_H

#include "framework/program.h"

/* Does a gradient operator lack an input? */
bool tr__gradients_lack_inputs(const tr_program *program);
/* Give such operators these inputs. An input whose value has been overwritten since stays missing, and so does one whose forward operator is not
 * in the program: running the operator then says that it is missing. */
void tr__gradients_complete(tr_program *program);

#endif
