/* grad_turn.h - the order in which a block's operators have their gradients made. */
#pragma once

#include "framework/gradients/grad_walk.h"

/* Which variables want gradients, of the first `count` operators in program order: those computed from something
 * that does. */
void      tr__grad_find_wants(tr_grad_walk *w, int count);
/* The turns of the first `count` operators, last first. */
tr_status tr__grad_walk_ops(tr_grad_walk *w, int count);
