/* composite.h - operators that are defined by others.
 *
 * Such an operator has a body instead of kernels: `.expand` of its record appends other operators, its parts, to a small
 * program. A body is expanded when a plan is made (expanded.h), so programs keep the operator under its own name, and the
 * parts are fused and share memory like all others. The gradient operator has neither kernels nor a body of its own: its
 * parts are those of the gradient of the body, derived by the rules of backward.c.
 *
 *     static tr_status expand(tr_composite *c)
 *     {
 *         TR_TRY(tr_composite_add(c, "elementwise_sub(X=X, Y=Y) -> difference"));
 *         TR_TRY(tr_composite_add(c, "square(X=difference) -> squares"));
 *         return tr_composite_add(c, "reduce_sum(X=squares) {dim=[1], keep_dim=true} -> Out");
 *     }
 *
 * A name in a line that is a slot of the composite operator means the slot's arguments; `X.1` is the second one of a
 * list. All other names are variables of the body. An input that is absent may be named, where the part's slot is optional.
 *
 * What must stay true:
 *   - A body depends on attributes, types, ranks and on which arguments are there, never on dimensions: those may be others
 *     when the plan runs. Only which of two arguments is repeated along the other one may follow from what the program declares.
 *   - Each variable is written once, and no part draws random numbers if there is a gradient: the parts may be computed a
 *     second time for it.
 *   - A variable whose gradient is stopped is a constant in gradients of gradients, too.
 *   - The gradient rule reads all inputs and outputs. What the derived gradient does not need costs nothing. */
#pragma once

#include "framework/operators/op.h"
#include "framework/programs/program.h"

typedef struct tr_composite tr_composite;

/* Append a part: a line as in op_text.h, made by printf. */
tr_status tr_composite_add(tr_composite *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Pieces of such a line: a text made by printf, and lists of any length: "3, 1, 2", and "part0, part1" of the variables `part`0 to `part`count-1. The texts belong to
 * the body. */
const char *tr_composite_text(tr_composite *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *tr_composite_ints(tr_composite *c, const tr_ints *list);
const char *tr_composite_names(tr_composite *c, const char *part, int count);
/* No gradient flows back through this variable of the body. */
void tr_composite_stop_gradient(tr_composite *c, const char *name);

/* The decoded attributes. */
const void *tr_composite_attrs(const tr_composite *c);
/* Arguments of a slot that are there. */
int      tr_composite_count(const tr_composite *c, const char *slot);
/* Of the first argument of a slot, or of a variable of the body: the shape (rank 0: not known), and the type. */
tr_shape tr_composite_declared(const tr_composite *c, const char *name);
tr_dtype tr_composite_dtype(const tr_composite *c, const char *name);
/* The rank; a failure that asks for it where it is not known. */
tr_status tr_composite_known_rank(int *out, const tr_composite *c, const char *name);

/* -- for expanded.c and grad_body.c --------------------------------------------------------------------- */

/* The parts of one operator, in a program of their own. */
typedef struct tr__body {
    tr_program *program;              /* block 0 has the body's parts, then those of its gradient */
    int         body_count;           /* the body's */
    bool       *keep;                 /* per operator: does an output depend on it? */
    tr_map      names;                /* variable of the parts -> argument of the operator that it stands for. Of a gradient
                                         operator not those that the body writes: it has them as inputs */
    tr_map      stopped;              /* variables of the parts that no gradient flows back through */
    char      **owned;                /* the names that are keys and values there */
    int         owned_count;
} tr__body;

/* Expand `desc`, an operator that stands (or may stand) in `block`: by its own body, or by the `parts` of its gradient rule. */
tr_status tr__body_init(tr__body *parts, const tr_op *op, const tr_op_desc *desc, tr_block *block);
/* As tr__body_init for a gradient operator: its parts, or, where its forward operator has kernels, the `body` of the rule or the
 * gradient of the rule's `parts`. */
tr_status tr__body_init_gradient(tr__body *parts, const tr_op *op, const tr_op_desc *desc, tr_block *block);
/* Keep the parts on which the variables in `needed` depend, which gets these parts' inputs, too. */
void      tr__body_mark(tr__body *parts, tr_map *needed);
void      tr__body_deinit(tr__body *parts);
