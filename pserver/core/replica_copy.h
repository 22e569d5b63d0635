/* replica_copy.h - a replica takes the state that its server has, or goes on from what is here. */
#ifndef TR_PSERVER_REPLICA_COPY_H
#define TR_PSERVER_REPLICA_COPY_H

#include "pserver/core/replica_state.h"

/* COPY_STATE, COPY_KEEP, COPY_LIVE. */
tr_status tr__replica_on_copy(tr_replica *r, const tr_wire *wire, const uint8_t *payload);
/* VALUE and WRITE_ROWS. */
tr_status tr__replica_on_value(tr_replica *r, const tr_wire *wire, const uint8_t *payload);
tr_status tr__replica_on_write_rows(tr_replica *r, const tr_wire *wire, const uint8_t *payload);

#endif
