/* replica_update.h - how a replica makes an update: it collects the parts, lets the store apply them, commits, and acknowledges. */
#pragma once

#include "pserver/core/replica/replica_state.h"

/* The memory for a piece of a gradient, or of the parameters that the gradient was computed with. NULL: there is no such piece. */
uint8_t  *tr__replica_gradient_buffer(const tr_replica *r, const tr_wire *wire);
/* Handle a piece of a gradient: REPLICA_PUSH, REPLICA_ROWS. */
tr_status tr__replica_on_push(tr_replica *r, const tr_wire *wire, const uint8_t *payload);
tr_status tr__replica_on_set(tr_replica *r, const tr_wire *wire, const uint8_t *payload);
tr_status tr__replica_on_push_rows(tr_replica *r, const tr_wire *wire, const uint8_t *payload);
/* Handle REPLICA_UPDATE and REPLICA_COMMIT. */
tr_status tr__replica_on_update(tr_replica *r, const tr_wire *wire, const uint8_t *payload);
/* The store has computed the update in hand, or has failed. */
void      tr__replica_computed(tr_replica *r, tr_status status);
/* Handle REPLICA_SHARES, REPLICA_TASKS, REPLICA_POST. */
tr_status tr__replica_on_share(tr_replica *r, const tr_wire *wire, const uint8_t *payload);
tr_status tr__replica_on_tasks(tr_replica *r, const tr_wire *wire, const uint8_t *payload);
tr_status tr__replica_on_post(tr_replica *r, const tr_wire *wire, const uint8_t *payload);
