/* server_decisions.h - the decisions of server 0: what all servers must agree on, in one order (docs/protocol.md, "Decisions", and
 * adr/0028).
 *
 * Servers hear of a step, a death or a snapshot at different moments, and of some they never hear. So they report to server 0, and server 0
 * decides for all: which process each trainer is (server_members.h); where all trainers take part in snapshots, whether a snapshot is
 * taken; in sync(backups) and sync(degraded), which contributions make an update (server_decide.h). Every server, server 0 too, carries out
 * exactly what is decided. A job with one server does the same without messages.
 *
 * Decisions are numbered. A decision contains everything of earlier decisions, so a server that missed some needs only the newest one.
 *   Repetition. A server repeats a report, less and less often, until server 0 has decided. Server 0 answers a report with the newest
 * decision.
 *   Death of server 0. Server 0 commits a decision before it sends it, so its successor sends the same one. The others then repeat their
 * reports.
 *   Death of another server. Server 0 drops the dead server's reports. The successor reports again when trainers have repeated their
 * requests.
 * A snapshot that is being gathered is given up when any server dies: the other servers give it up when the successor begins to serve.
 *
 * Updates. A step that every server has may be in an update. No server is more than one update behind: a step that may be in an update was
 * computed with the parameters of the update before, as every server had them, or its trainer took part in that update. If a trainer dies
 * after a decision has counted its step in, and before the successor of a dead server has that step, nobody can complete the update: the
 * job fails and is started again from the update before.
 *
 * Invariant: a trainer's step is in an update of all servers, or of none. */
#pragma once

#include "pserver/core/updates/server_state.h"

void      tr__decisions_new(tr_server *server);
void      tr__decisions_free(tr_server *server);
/* All trainers have joined, or this is a failover: begin with the settled steps. `commit`: the commit of the dead server; NULL: there is
 * none. */
tr_status tr__decisions_begin(tr_server *server, const tr_commit *commit);
/* Is every trainer out, and is every decision carried out? */
bool      tr__decisions_are_complete(const tr_server *server);
/* READY, MEMBER, SNAPSHOT_NEWS, DECISION or SERVING of a server. */
tr_status tr__decisions_on_message(tr_server *server, int peer, const tr_wire *wire, const uint8_t *payload);
/* Repeat the reports that are not decided. Returns the time of the next call. */
int64_t   tr__decisions_tick(tr_server *server, int64_t now);
/* Describe the reports or the decision that this server waits for. False: it waits for none. */
bool      tr__decisions_describe(const tr_server *server, char *out, size_t size);

/* == carrying out == */
/* Carry out server 0's decision about the snapshot. */
void      tr__decisions_follow_snapshot(tr_server *server);
/* Drop the steps that came too late for their update. Returns whether a round has changed. */
bool      tr__decisions_drop_late(tr_server *server);
/* Queue the decided update if all of its contributions are here. The core fails if they can never arrive. */
void      tr__decisions_queue_update(tr_server *server);
/* A trainer that is decided to be lost, and is not in the state LOST here yet. NULL: there is none. */
tr__trainer *tr__decisions_next_lost(tr_server *server);
/* Decide about updates and snapshots (server 0), or report. Returns whether there is something new to carry out. */
bool      tr__decisions_advance(tr_server *server);
/* The same about members. *hopeless is set when a trainer has died, cannot be replaced, and the mode needs it; otherwise it is
 * unchanged. */
bool      tr__decisions_advance_members(tr_server *server, const tr__trainer **hopeless);
