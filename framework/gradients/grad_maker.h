/* grad_maker.h - the turn of one forward operator: what its gradient rule is told, and what the rule makes. */
#pragma once

#include "framework/programs/program.h"

/* The context in which a rule that is a function works on one forward operator. */
typedef struct tr_grad_maker tr_grad_maker;

const tr_op_desc *tr_grad_forward(const tr_grad_maker *maker);
/* The gradient of a variable that the forward operator writes; NULL: it has none. */
const char *tr_grad_of_output(const tr_grad_maker *maker, const char *var);
/* The same, or a variable of zeros. */
tr_status   tr_grad_of_output_or_zeros(const char **out, tr_grad_maker *maker, const char *var);
/* A new contribution to the gradient of a variable that the forward operator reads: the name to be written,
 * or NULL when nobody wants it. Each call is one more contribution. */
const char *tr_grad_for_input(tr_grad_maker *maker, const char *var);
/* The name under which a value that the forward operator read (or wrote) can still be read. */
const char *tr_grad_saved(tr_grad_maker *maker, const char *var, bool is_output);
/* Append a gradient operator, which is taken over. Role and origin are filled in. */
tr_status tr_grad_append(tr_grad_maker *maker, tr_op_desc *op);
/* Declare a gradient variable that looks like `like`, before an operator that computes it is appended. */
tr_status tr_grad_declare(tr_grad_maker *maker, const char *grad, const char *like);

/* One gradient operator, by a rule that is data. */
tr_status tr__grad_apply_rule(tr_grad_maker *maker, const tr_op *record);
