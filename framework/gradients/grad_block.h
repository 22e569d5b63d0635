/* grad_block.h - gradient blocks: for the rules of operators that run a sub-block (while, conditional_block,
 * recurrent). docs/adr/0002 and 0008 say what such a block may rely on. */
#pragma once

#include "framework/gradients/grad_maker.h"

/* Build the gradient block of `sub_block`. It expects the gradient of variable
 * vars[i] of an outer block in grads[i] (NULL: not wanted) and leaves the new one there: replaced if the
 * sub-block writes vars[i], added to otherwise. */
tr_status tr_grad_sub_block(int *grad_block, tr_grad_maker *maker, int sub_block, int count, const char *const *vars,
                            const char *const *grads);

/* The values that an operator hands to variables of its block, and those that it takes out of them, in every iteration. */
typedef struct tr_grad_links {
    int                out_count, in_count;
    const char *const *out;           /* taken out: the gradient block finds their gradients in */
    const char       **out_grad;      /*   these variables of its own, which are declared here */
    const char *const *in;            /* handed in: it leaves their gradients in */
    const char       **in_grad;       /*   these; NULL: there is none */
} tr_grad_links;

/* As tr_grad_sub_block, for an operator that also does that; fills in out_grad and in_grad. */
tr_status tr_grad_linked_block(int *grad_block, tr_grad_maker *maker, int sub_block, int count, const char *const *vars,
                               const char *const *grads, const tr_grad_links *links);
