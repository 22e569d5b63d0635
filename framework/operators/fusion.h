/* fusion.h - operators that one other operator can do at once.
 *
 * The framework knows no operator by name; kernels/ registers its fusions as data. A fusion names a chain of
 * operators: each one's output 0 is input 0 of the next, and is used by nothing else. Operators that want
 * only the shape of such an intermediate get that of the chain's last output, so every output of a chain must
 * have the same shape and type. */
#pragma once

#include "framework/programs/program.h"

enum { TR_FUSION_MAX = 6 };

typedef struct tr_fusion {
    const char *chain[TR_FUSION_MAX];        /* operator types; ends with NULL */
    const char *into;                        /* the operator that does it all */
    /* Fill slots and attributes of `fused` from the matched operators (after the last: NULL); false: these do
     * not fit after all. */
    bool      (*build)(tr_op_desc *fused, const tr_op_desc *const *matched, tr_block *block);
} tr_fusion;

/* An optimizer that runs with the operator that makes its gradient. The product of a gradient can be added to the parameter as it
 * comes, so that no memory holds it. The slots of `into` have the names that they have in the two operators. */
typedef struct tr_update_fusion {
    const char *gradient, *update, *into;    /* operator types */
    const char *of;                          /* the gradient operator's input that is the parameter */
    const char *made, *taken;                /* its output that is the gradient; the optimizer's input for it */
    const char *param, *param_out;           /* slots of the optimizer */
} tr_update_fusion;

void tr_update_fusions_add(const tr_update_fusion *fusions, int count);

/* Longer chains must come first. The table is borrowed for ever. */
void tr_fusions_add(const tr_fusion *fusions, int count);
