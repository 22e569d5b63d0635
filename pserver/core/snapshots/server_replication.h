/* server_replication.h - the stream from a server to its replica, which repeats every update (docs/protocol.md, "Replication").
 *
 * The replica gets the state first (server_copy.h). Then it gets the gradients of each update when the server begins to apply them, and
 * both compute the update. An update is committed and acknowledged to trainers when both have it. So no acknowledged update is lost when
 * one of the two dies. The gradients are sent without a copy, and do not change until the update is over.
 *
 * While a replica gets the state in the middle of a job, the server does not wait for it. Copies of the gradients are sent after the state,
 * one update at a time, because the replica computes one at a time. When the replica has computed all of them, the server sends COPY_LIVE:
 * from then on the replica counts, and every update waits for it. A replica that is slower than its server must still catch up. So once the
 * replica has the state, the server begins only one update for every two that the replica has made. */
#pragma once

#include "pserver/core/updates/server_state.h"

typedef enum tr__replication_phase {
    TR__REPLICATION_NONE,             /* there is no replica */
    TR__REPLICATION_ASKING,           /* the replica must report its state, or has reported it */
    TR__REPLICATION_COPYING,          /* the replica gets the state */
    TR__REPLICATION_CATCHING_UP,      /* the replica has the state, and gets the updates that were made meanwhile */
    TR__REPLICATION_LIVE              /* the server waits for the replica in every update */
} tr__replication_phase;

void                  tr__replication_new(tr_server *server);
void                  tr__replication_free(tr_server *server);
/* The core's `retry` has changed. */
void                  tr__replication_set_retry(tr_server *server);
tr__replication_phase tr__replication_phase_of(const tr_server *server);
/* The rank of the replica; only where there is one. */
int                   tr__replication_peer(const tr_server *server);
/* Is that rank the replica? */
bool                  tr__replication_is_replica(const tr_server *server, int rank);

/* == attaching and dropping == */
/* Make that rank the replica; it must report its state first. */
void                  tr__replication_turn_to(tr_server *server, int rank);
/* Set whether updates continue while the replica gets the state. */
void                  tr__replication_set_late(tr_server *server, bool is_late);
bool                  tr__replication_is_late(const tr_server *server);
/* Begin to send the state; updates made from now on are sent after it. */
void                  tr__replication_begin_state(tr_server *server);
/* All of the state is in the stream. */
void                  tr__replication_end_state(tr_server *server);
/* The state must be sent again from the beginning: drop the updates that wait to be sent after it. */
void                  tr__replication_restart(tr_server *server);
/* Continue without the replica: it died, or it failed. */
void                  tr__replication_drop(tr_server *server);
/* Store the replica's rank for this server's successor (-1: none). -1 also raises the state generation, so that the
 * state of an earlier replica is out of date. */
void                  tr__replication_store_rank(tr_server *server, int rank);

/* == the stream == */
/* Put a message of the state into the stream. The stream frees `owned`. */
void                  tr__replication_put(tr_server *server, const tr_wire *wire, const void *payload, void *owned);
/* Bytes in the stream that the replica has not acknowledged. */
uint64_t              tr__replication_bytes(const tr_server *server);
/* The store begins this update: send it to the replica. */
void                  tr__replication_update(tr_server *server, const tr_update *update);
/* Steps were settled without an update: commit that here (by an effect) and on the replica. */
void                  tr__replication_commit(tr_server *server);
/* Send the settled steps to the replica. */
void                  tr__replication_send_settled(tr_server *server);
/* A packed Update, malloc'ed: the settled steps now, or after the update in hand. */
uint8_t              *tr__replication_pack(tr_server *server, bool with_update, size_t *size);
/* Send the state of leased tasks; send a packed post. Both are malloc'ed, and the stream frees them. */
void                  tr__replication_tasks(tr_server *server, uint8_t *state, size_t size);
void                  tr__replication_post(tr_server *server, uint8_t *packed, size_t size);
/* Send rows that a trainer has set. Returns whether the server waits until the replica has them. */
bool                  tr__replication_set_rows(tr_server *server, const tr_form_write_rows *what, const uint8_t *rows, uint64_t bytes);
/* Has the replica the rows that trainers have set? True also when the server does not wait for a replica. */
bool                  tr__replication_has_rows(const tr_server *server);
/* Send the values that all servers have gathered for the update in hand. */
void                  tr__replication_share(tr_server *server, const void *all, uint64_t bytes);
/* Has the replica committed the update in hand? True also when the server does not wait for a replica. */
bool                  tr__replication_has_update(const tr_server *server);
/* Does the replica's progress allow that an update begins? `state_bytes`: the size of the state that is being sent. */
bool                  tr__replication_lets_begin(const tr_server *server, uint64_t state_bytes);

/* == messages == */
void                  tr__replication_on_ack(tr_server *server, uint64_t seq);
bool                  tr__replication_next(tr_server *server, tr_message *out);
/* Repeat unacknowledged messages. Returns the time of the next call. */
int64_t               tr__replication_tick(tr_server *server, int64_t now);
