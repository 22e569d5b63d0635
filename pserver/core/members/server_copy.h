/* server_copy.h - how a replica gets the state of its server, and how a server finds a replica.
 *
 * At the start of the job the replica reports its state. If this is the server's state, as after most restarts, the replica keeps it.
 * Otherwise the server sends the whole state. No update is applied until that is done.
 *
 * In the middle of the job training does not wait: the store freezes its state, as for a checkpoint, and the server sends the frozen state.
 * Updates that are applied meanwhile are sent after it (server_replication.h). A table can be frozen only once at a time, and a checkpoint
 * has priority: the copy is then given up, and starts again after the checkpoint.
 *
 * When the replica dies, the server continues alone and calls a standby of another host (REPLICA_CALL). A standby accepts the first server
 * that calls it: the standby sends REPLICA_DONE to all ranks, and REPLICA_STATE to that server.
 *
 * Invariant: no update is applied between the freezing and the first message after the copy, which is the commit of the frozen state. */
#pragma once

#include "pserver/core/updates/server_state.h"

void    tr__copy_new(tr_server *server);
void    tr__copy_free(tr_server *server);
/* The server is running, with its state. */
void    tr__copy_begin(tr_server *server);
/* Failover: this rank has taken the place of a server that may have had a replica. */
void    tr__copy_take_over(tr_server *server);
/* REPLICA_STATE of the replica, or of a rank that was called to become the replica. */
void    tr__copy_on_state(tr_server *server, int rank, const tr_wire *wire, const uint8_t *payload);
/* The replica died. */
void    tr__copy_drop_replica(tr_server *server);
/* Begin the copy of the state if nothing prevents it now. */
void    tr__copy_advance(tr_server *server);
/* Put more of the state into the stream, up to the limit of unacknowledged bytes. */
void    tr__copy_feed(tr_server *server);
/* Is the store freezing its state? Then nothing is applied, and no trainer takes part in a snapshot. */
bool    tr__copy_is_freezing(const tr_server *server);
/* The store has frozen its state, or cannot. */
void    tr__copy_frozen(tr_server *server, bool is_frozen);
/* Does the copy allow that an update begins? */
bool    tr__copy_lets_begin(const tr_server *server);
/* A snapshot is about to be taken: give up a copy of tables that is under way, and start it again after the snapshot. False: the snapshot
 * must wait. */
bool    tr__copy_yields(tr_server *server);
/* Ask the replica for its state again, or call another replica. Returns the time of the next call. */
int64_t tr__copy_tick(tr_server *server, int64_t now, bool is_done);
