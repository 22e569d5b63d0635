/* update_plan.h - how a server computes an update: its optimizer program in the form in which it runs.
 *
 * The transpiler in Python decides which operators and rows a server gets, and which operators work point by point on one block
 * (op_pointwise_on). This file takes no such decision. It rewrites the program once:
 *
 *  - Each operator writes the double buffer's other side (double_buffers.h), and each later operator reads there.
 *  - The operators of a block that work point by point move to a small program, which runs on views of some elements. A piece of a gradient
 *    that has just arrived still lies in the cache then, and others are still on their way. A block that is smaller than a piece stays.
 *  - Values that these programs read, and no gradient changes (learning rates), are computed before the first piece of an update.
 *
 * They are the same operators on the same values, so the bits are those of the program as it was sent.
 *
 * What must stay true: an operator reads one of two buffers and writes the other one. So computing a piece again, or a part of an update
 * that never counts, changes nothing. No piece is computed while the rest of the program runs. */
#pragma once

#include "framework/base/weak.h"
#include "framework/trireme.h"
#include "pserver/state/state.h"

typedef struct tr_update_plan tr_update_plan;

/* Names of the program's variables. */
typedef struct tr_update_block {
    const char *param, *grad;
} tr_update_block;

/* Rewrite block 0 of `program`. `scope` holds all variables that are kept between updates, and `state` gets memory for their other side.
 * All three and the names are borrowed. `job`: in which its runs take part, or NULL. Without `by_pieces` all operators stay in the
 * program. */
tr_status tr_update_plan_new(tr_update_plan **out, tr_weak *job, tr_program *program, tr_scope *scope, tr_state *state, bool by_pieces,
                             uint32_t count, const tr_update_block *blocks);
void      tr_update_plan_free(tr_update_plan *plan);
/* Is the block computed piece by piece? */
bool      tr_update_plan_has_pieces(const tr_update_plan *plan, uint32_t block);
/* Compute the elements at byte `offset` of such a block; `grad` are their `bytes` bytes of gradient. */
tr_status tr_update_plan_piece(tr_update_plan *plan, uint32_t block, uint64_t offset, uint64_t bytes, const void *grad);
/* Compute the rest, when all gradients are there, one for each block. */
tr_status tr_update_plan_run(tr_update_plan *plan, uint8_t *const *grads);
/* Does tr_update_plan_run take no more than some tens of microseconds, and wait for no other rank? */
bool      tr_update_plan_is_quick(const tr_update_plan *plan);
/* Exchange the two buffers: the update counts, or the one before counts again. */
void      tr_update_plan_switch(tr_update_plan *plan);
