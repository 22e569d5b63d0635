/* kernel.h - which kernel of an operator runs: the one for all types, or that for the type of its key argument.
 *
 * Asked when an operator is added to a program, if the type is known by then, so that the message names the line that
 * added it; and when a plan is built, for programs that were loaded and types that were settled later.
 * Arguments are counted over all slots, inputs first; `counts` says how many each slot has. */
#pragma once

#include "framework/base/status.h"
#include "framework/operators/op.h"

/* The first argument in [from, to) that is there is the key. */
void      tr__kernel_key_args(int *from, int *to, const tr_op *op, const int *counts);
/* The key is argument `arg` (-1: there is none), variable `var`, of type `dtype`. EDTYPE names the types that have
 * a kernel. A composite operator has none (NULL), but its body takes certain types, too. */
tr_status tr__kernel_choose(tr_kernel_fn *out, const tr_op *op, const int *counts, int arg, const char *var,
                            tr_dtype dtype);
