/* server_replication.h - the stream from a server to its replica: what the server applies, the replica applies, too (docs/protocol.md, "Replication").
 *
 * The replica gets the state first (server_copy.h). Then it gets the gradients of each update when the server begins to apply them, and both compute
 * the update. An update is committed, and trainers hear of it, when both have it. So nothing that was acknowledged is lost when one of them dies.
 * The gradients are sent from where they lie, and stay there until the update is over.
 *
 * While a replica gets the state in the middle of a job, the server does not wait for it: copies of the gradients follow behind the state, one
 * update at a time, because the replica computes one at a time. When the replica has computed all of them, the server tells it that it
 * counts (COPY_LIVE) and waits for it in every update that begins from then on. A replica that is slower than its server must catch up in the
 * end: once it has the state, the server begins one update for every two that the replica has made. */
#ifndef TR_PSERVER_SERVER_REPLICATION_H
#define TR_PSERVER_SERVER_REPLICATION_H

#include "pserver/core/server_state.h"

typedef enum tr__replication_phase {
    TR__REPLICATION_NONE,             /* the server is alone */
    TR__REPLICATION_ASKING,           /* the replica has to say, or has said, what it has */
    TR__REPLICATION_COPYING,          /* it gets the state */
    TR__REPLICATION_CATCHING_UP,      /* it has the state, and gets what happened meanwhile */
    TR__REPLICATION_LIVE              /* the server waits for it in every update */
} tr__replication_phase;

void                  tr__replication_new(tr_server *server);
void                  tr__replication_free(tr_server *server);
/* The core has another `retry`. */
void                  tr__replication_set_retry(tr_server *server);
tr__replication_phase tr__replication_phase_of(const tr_server *server);
/* The rank of the replica; only where there is one. */
int                   tr__replication_peer(const tr_server *server);
/* Is that rank the replica? */
bool                  tr__replication_is_replica(const tr_server *server, int rank);

/* == attaching and dropping == */
/* From here on that rank is the replica, and is to say what it has. */
void                  tr__replication_turn_to(tr_server *server, int rank);
/* Updates go on while the replica gets the state. */
void                  tr__replication_set_late(tr_server *server, bool is_late);
bool                  tr__replication_is_late(const tr_server *server);
/* The state is being sent from here on; what happens comes behind it. */
void                  tr__replication_begin_state(tr_server *server);
/* All of the state is in the stream. */
void                  tr__replication_end_state(tr_server *server);
/* The state must be sent anew: what was to come behind it is forgotten. */
void                  tr__replication_restart(tr_server *server);
/* The server goes on alone: the replica died, or is of no use. */
void                  tr__replication_drop(tr_server *server);
/* Whoever takes this server's place is to know whether it has a replica, and which (`rank`, -1: none). What an earlier one had is old. */
void                  tr__replication_store_rank(tr_server *server, int rank);

/* == the stream == */
/* Put a message of the state into the stream. Takes `owned` over. */
void                  tr__replication_put(tr_server *server, const tr_wire *wire, const void *payload, void *owned);
/* Bytes in the stream that the replica has not acknowledged. */
uint64_t              tr__replication_bytes(const tr_server *server);
/* The store begins with this update. */
void                  tr__replication_update(tr_server *server, const tr_update *update);
/* What is settled has changed without an update: it counts from here on, here (an effect) and with the replica. */
void                  tr__replication_commit(tr_server *server);
/* The replica is to know what is settled. */
void                  tr__replication_send_settled(tr_server *server);
/* A packed Update, malloc'ed: what counts now, or with the update in hand. */
uint8_t              *tr__replication_pack(tr_server *server, bool with_update, size_t *size);
/* The state of leased tasks; a packed post. Both malloc'ed, and taken over. */
void                  tr__replication_tasks(tr_server *server, uint8_t *state, size_t size);
void                  tr__replication_post(tr_server *server, uint8_t *packed, size_t size);
/* What all servers have gathered for the update in hand. */
void                  tr__replication_share(tr_server *server, const void *all, uint64_t bytes);
/* Has the replica committed the update in hand, or is it not waited for? */
bool                  tr__replication_has_update(const tr_server *server);
/* May an update begin, as far as catching up is concerned? `state_bytes`: of the state that is being sent. */
bool                  tr__replication_lets_begin(const tr_server *server, uint64_t state_bytes);

/* == messages == */
void                  tr__replication_on_ack(tr_server *server, uint64_t seq);
bool                  tr__replication_next(tr_server *server, tr_message *out);
/* Send again what was not acknowledged. Returns when to look again. */
int64_t               tr__replication_tick(tr_server *server, int64_t now);

#endif
