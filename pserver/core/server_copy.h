/* server_copy.h - how a replica gets the state of its server, and how a server finds a replica.
 *
 * When work begins, the replica says what it has. If that is the server's state, as after most new starts of a job, it goes on from there; otherwise
 * it gets all. Until that is done nothing is applied.
 *
 * In the middle of the job training does not wait: the store freezes the state of the moment, as for a checkpoint, and the state is copied from
 * there. What is applied meanwhile comes behind it (server_replication.h). A table has one such moment, and a checkpoint goes first: then the copy
 * begins anew behind it.
 *
 * When the replica dies, the server goes on alone and calls a standby of another host (REPLICA_CALL). A standby follows the first server that calls
 * it: it tells all ranks so (REPLICA_DONE) and sends its REPLICA_STATE to that server.
 *
 * Invariant: between the freezing and the first message behind the copy (the commit of that moment) nothing is applied. */
#ifndef TR_PSERVER_SERVER_COPY_H
#define TR_PSERVER_SERVER_COPY_H

#include "pserver/core/server_state.h"

void    tr__copy_new(tr_server *server);
void    tr__copy_free(tr_server *server);
/* The server is running, with its state. */
void    tr__copy_begin(tr_server *server);
/* This rank has taken the place of a server that had perhaps a replica. */
void    tr__copy_take_over(tr_server *server);
/* REPLICA_STATE of the replica, or of a rank that was called to be it. */
void    tr__copy_on_state(tr_server *server, int rank, const tr_wire *wire, const uint8_t *payload);
/* The replica died. */
void    tr__copy_drop_replica(tr_server *server);
/* Give the replica the state as soon as that can be. */
void    tr__copy_advance(tr_server *server);
/* Put more of the state into the stream, while there is room. */
void    tr__copy_feed(tr_server *server);
/* Is the store freezing its state? Then nothing is applied, and no trainer takes part in a snapshot. */
bool    tr__copy_is_freezing(const tr_server *server);
/* The store has frozen its state, or cannot. */
void    tr__copy_frozen(tr_server *server, bool is_frozen);
/* May an update begin, as far as the copy is concerned? */
bool    tr__copy_lets_begin(const tr_server *server);
/* A snapshot is about to be taken. False: not now. A copy of tables that is under way begins anew behind the snapshot. */
bool    tr__copy_yields(tr_server *server);
/* Ask again, or call another replica. Returns when to look again. */
int64_t tr__copy_tick(tr_server *server, int64_t now, bool is_done);

#endif
