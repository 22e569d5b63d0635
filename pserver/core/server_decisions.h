/* server_decisions.h - decisions: which contributions make an update, in the modes where that is not all of them: sync(backups) and sync(fewer)
 * (docs/protocol.md, "Decisions about updates").
 *
 * Servers get a trainer's step at different moments, and of a trainer that dies some servers get the last step and others never do. So server 0
 * decides for all. Every server reports to server 0 which steps it has completely and which trainers are dead for it (READY). A step that every server
 * has may be in an update. Server 0 decides which steps are in it, which are dropped, and which trainers are out (DECISION). Every server, server 0 too,
 * applies and drops exactly these. A job with one server does the same without messages.
 *
 * A decision contains everything that earlier decisions said: for each trainer, how many steps are in the updates so far, and which trainers
 * make the newest update. So a server that missed some decisions needs only the newest one. No server is more than one update behind: a step that may
 * be in an update was computed with the parameters of the update before, as every server had them, or its trainer took part in that update. A server that
 * misses a decision repeats READY, and server 0 answers with the newest.
 *
 * Server 0 commits a decision before it sends it, so its successor sends the same one; the other servers then repeat their READY. Server 0 forgets the
 * reports of a server that has died; its successor reports when trainers have sent it again what it lacks. If a trainer dies
 * after a decision has counted its step in, and before the successor of a dead server has that step, nobody can complete the update: the job fails and is
 * started again from the update before.
 *
 * Invariant: a trainer's step is in an update of all servers, or of none. */
#ifndef TR_PSERVER_SERVER_DECISIONS_H
#define TR_PSERVER_SERVER_DECISIONS_H

#include "pserver/core/server_state.h"

void      tr__decisions_new(tr_server *server);
void      tr__decisions_free(tr_server *server);
/* All trainers agree, or a state was taken over: begin with what is settled. `commit`: what server 0 had decided; NULL: nothing. */
void      tr__decisions_begin(tr_server *server, const tr_commit *commit);
/* Every trainer is out, and all that was decided is carried out. */
bool      tr__decisions_are_complete(const tr_server *server);
/* READY, DECISION or SERVING of a server. */
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
/* Decide (server 0), or report. Returns whether there is something new to carry out. */
bool      tr__decisions_advance(tr_server *server);

#endif
