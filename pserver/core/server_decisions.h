/* server_decisions.h - the decisions of server 0: what all servers must agree on, in one order (docs/protocol.md, "Decisions", and adr/0028).
 *
 * Servers hear of a step, a death or a snapshot at different moments, and of some they never hear. So they report to server 0, and server 0 decides for
 * all: which process each trainer is (server_members.h); where all trainers take part in snapshots, whether a snapshot is taken; in sync(backups) and
 * sync(fewer), which contributions make an update (server_decide.h). Every server, server 0 too, carries out exactly what is decided. A job with one
 * server does the same without messages.
 *
 * Decisions are numbered. A decision contains everything that earlier decisions said, so a server that missed some needs only the newest one.
 *   Repetition. A server repeats a report until that is decided, less and less often. Server 0 answers it with the newest decision.
 *   Death of server 0. Server 0 commits a decision before it sends it, so its successor sends the same one. The others then repeat their reports.
 *   Death of another server. Server 0 forgets its reports. Its successor reports when trainers have sent it again what it lacks.
 * A snapshot that is being gathered outlives no server: the others give it up when they hear that another process serves.
 *
 * Updates. A step that every server has may be in an update. No server is more than one update behind: a step that may be in an update was computed
 * with the parameters of the update before, as every server had them, or its trainer took part in that update. If a trainer dies after a decision
 * has counted its step in, and before the successor of a dead server has that step, nobody can complete the update: the job fails and is started
 * again from the update before.
 *
 * Invariant: a trainer's step is in an update of all servers, or of none. */
#ifndef TR_PSERVER_SERVER_DECISIONS_H
#define TR_PSERVER_SERVER_DECISIONS_H

#include "pserver/core/server_state.h"

void      tr__decisions_new(tr_server *server);
void      tr__decisions_free(tr_server *server);
/* All trainers agree, or a state was taken over: begin with what is settled. `commit`: what the server that died had committed; NULL: nothing. */
tr_status tr__decisions_begin(tr_server *server, const tr_commit *commit);
/* Every trainer is out, and all that was decided is carried out. */
bool      tr__decisions_are_complete(const tr_server *server);
/* READY, MEMBER, SNAPSHOT_NEWS, DECISION or SERVING of a server. */
tr_status tr__decisions_on_message(tr_server *server, int peer, const tr_wire *wire, const uint8_t *payload);
/* Say again what was not answered. Returns when to look again. */
int64_t   tr__decisions_tick(tr_server *server, int64_t now);
/* What others have not said, in words; false: nothing. */
bool      tr__decisions_describe(const tr_server *server, char *out, size_t size);

/* == carrying out == */
/* What server 0 has decided of a snapshot holds here. */
void      tr__decisions_follow_snapshot(tr_server *server);
/* Drop the late steps that are here. Returns whether a round goes on. */
bool      tr__decisions_drop_late(tr_server *server);
/* Queue the decided update if all of it is here. Fails when it never will be. */
void      tr__decisions_queue_update(tr_server *server);
/* A trainer that is decided to be lost, and counts here yet. NULL: there is none. */
tr__trainer *tr__decisions_next_lost(tr_server *server);
/* Decide about updates and snapshots (server 0), or report. Returns whether there is something new to carry out. */
bool      tr__decisions_advance(tr_server *server);
/* The same about members. *hopeless: a trainer that has died, and that can be neither replaced nor done without; else it stays as it is. */
bool      tr__decisions_advance_members(tr_server *server, const tr__trainer **hopeless);

#endif
