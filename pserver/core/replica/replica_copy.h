/* replica_copy.h - how a replica gets its state: a copy from its server, or the state that an earlier start of the job left on this
 * host. */
#pragma once

#include "pserver/core/replica/replica_state.h"

/* Handle COPY_STATE, COPY_KEEP and COPY_LIVE. */
tr_status tr__replica_on_copy(tr_replica *r, const tr_wire *wire, const uint8_t *payload);
/* Handle a piece of the state: VALUE, WRITE_ROWS. */
tr_status tr__replica_on_value(tr_replica *r, const tr_wire *wire, const uint8_t *payload);
tr_status tr__replica_on_write_rows(tr_replica *r, const tr_wire *wire, const uint8_t *payload);
