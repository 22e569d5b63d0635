/* op_text.h - an operator written as a line, which is how the bodies of composite operators are written:
 *
 *     mul(X=x, Y=w) {x_num_col_dims=1} -> h
 *     concat(X=[a, b]) {axis=1} -> joined
 *     layer_norm(X=x, Scale=s) {epsilon=1e-05} -> Y=y, Mean=m
 *
 * An output without the name of its slot is of the operator's first one. Attributes that are left out have their
 * defaults. The lines are ours: one that cannot be read is a mistake in the operator (TR_EINTERNAL). */
#pragma once

#include "framework/programs/program.h"

/* The operator is the caller's (tr_op_desc_free). */
tr_status tr__op_desc_parse(tr_op_desc **out, const char *line);
