/* server_sets.h - values that trainers' scripts set between two steps: a learning rate, a parameter, a state of an optimizer.
 *
 * A value that was set before step s belongs to the contribution of step s: its trainer sends SET before the gradients of that step, and
 * the store assigns it before it applies them. So ordering, failover and replay are those of contributions.
 *
 * - Where trainers make their steps together (is_lockstep) all of them set the same: each sends its value, the first to come is kept, and
 * the others are
 *   compared with it. A difference, or a trainer that has not set it, fails the job.
 * - Where they do not, the values of the first trainer that is there count, and those of others are dropped.
 *
 * What must stay true: the values of a step are here before any gradient of the same trainer for this step. */
#pragma once

#include "pserver/core/updates/server_state.h"

void      tr__sets_new(tr_server *server);
void      tr__sets_free(tr_server *server);
tr_status tr__sets_on_set(tr_server *server, const tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload);
/* The trainer ends its step. Has it set what others have? A step without a gradient leaves its values to the next one. */
tr_status tr__sets_ended(tr_server *server, const tr__trainer *trainer, uint64_t step, bool has_gradient);
/* Was a value set before this step, of any trainer, or of this one (`trainer` >= 0)? */
bool      tr__sets_has(const tr_server *server, int trainer, uint64_t step);
/* Put into an update what its trainers have set for it. */
void      tr__sets_give(tr_server *server, tr_update *update);
/* The update that has got them is over. */
void      tr__sets_finish(tr_server *server);
