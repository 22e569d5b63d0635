/* server_snapshots.h - one server's part of a snapshot: a state of the whole job between two steps (docs/protocol.md, "Snapshot").
 *
 * Gathering. A trainer that takes part sends SNAPSHOT in its stream of requests, behind the end of a step. What it sends after that is parked
 * until every trainer that is not over has taken part and its steps are settled. Then the store copies its state, the parked requests are taken in, and
 * the copy is written in the background. Every server divides each trainer's stream at the same request, so the parts of all servers belong
 * together.
 *
 * Initiator. Only the initiator begins a snapshot (server_initiator.h). A server for which another trainer is the initiator declines.
 *
 * Participants. In mode sync the initiator alone: nothing of step s + 1 can be applied without the initiator, so behind its step s the
 * servers' states depend on the step alone. Nobody is parked, and the copy of step s is made while gradients of step s + 1 come in. In the
 * other modes all trainers take part: acknowledgements ask them to, behind their next step.
 *
 * Decisions. Where all trainers take part, every server tells server 0 that it has gathered the snapshot, or has given it up (SNAPSHOT_NEWS). Server 0
 * decides that it is taken when all have gathered it, and that it is given up when one has given it up (server_decisions.h). So the servers never differ
 * about a snapshot.
 *
 * Deaths. A server that hears that another process serves in a dead server's place gives up the snapshot that it gathers. Trainers that had
 * taken part with the dead server send SNAPSHOT again to its successor. Servers decline a snapshot while a replacement has made no step, and
 * acknowledgements tell the initiator so beforehand.
 *
 * No deadlock. A snapshot that is not complete after two minutes is given up. A parked trainer does not count as the slowest one (ssp) and is not
 * waited for (sync with backups). So in ssp other trainers may come further ahead during a snapshot: by one step, by two where
 * parameters overtake the request to take part, and by as many again each time a death makes the snapshot begin anew. A step that
 * sync(backups) has neither applied nor dropped is not in the copy, as if it had been dropped.
 *
 * Invariant: a trainer begins a snapshot only when it has all answers to the one before. */
#ifndef TR_PSERVER_SERVER_SNAPSHOTS_H
#define TR_PSERVER_SERVER_SNAPSHOTS_H

#include "pserver/core/server_state.h"

typedef enum tr__snapshot_phase {
    TR__SNAPSHOT_NONE,
    TR__SNAPSHOT_GATHERING,           /* trainers take part */
    TR__SNAPSHOT_TAKING,              /* the store copies its state; nothing is applied */
    TR__SNAPSHOT_WRITING              /* the copy is being written */
} tr__snapshot_phase;

void               tr__snapshots_new(tr_server *server);
void               tr__snapshots_free(tr_server *server);
tr__snapshot_phase tr__snapshots_phase(const tr_server *server);
/* Is this server still copying or writing a snapshot that another trainer than this one has begun, or an earlier process of this one? */
bool               tr__snapshots_are_anothers(const tr_server *server, int initiator);
/* The number of the newest snapshot: 1, 2, ...; 0: there was none. */
uint32_t           tr__snapshots_number(const tr_server *server);
/* The step of its initiator behind which it was begun. */
uint64_t           tr__snapshots_step(const tr_server *server);
/* Does server 0 decide whether a snapshot is taken? It does where all trainers take part. */
bool               tr__snapshots_are_decided(const tr_server *server);

/* == messages == */
/* SNAPSHOT. `must_wait`: the state is being frozen for a replica. */
tr_status          tr__snapshots_on_snapshot(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload, bool must_wait);

/* == gathering == */
/* Have all trainers taken part that must? */
bool               tr__snapshots_are_gathered(const tr_server *server);
/* Is all gathered, settled, and (where that is decided) the state of the decided update? */
bool               tr__snapshots_may_take(const tr_server *server);
/* Let the store copy the state, and write it to the target. */
void               tr__snapshots_take(tr_server *server);
const Trireme__Pserver__SnapshotTarget *tr__snapshots_target(const tr_server *server);
/* The store has copied the state; has written the copy: the packed Part, or (NULL) why not. */
void               tr__snapshots_copied(tr_server *server);
void               tr__snapshots_written(tr_server *server, const uint8_t *part, size_t size, const char *error);
/* A trainer is over: it is not waited for, and a snapshot that it has begun is given up. */
void               tr__snapshots_without(tr_server *server, const tr__trainer *trainer);
/* Let all trainers go on without the snapshots up to this number. */
void               tr__snapshots_give_up(tr_server *server, uint32_t number);
/* The state is not being frozen any more: trainers that had to wait take part now. */
void               tr__snapshots_resume(tr_server *server);
/* Give up a snapshot for which a trainer keeps the others waiting. Returns when to look again. */
int64_t            tr__snapshots_tick(tr_server *server, int64_t now);

/* == what acknowledgements say == */
/* The number of the snapshot in which trainers are to take part; 0: none, or the initiator takes part alone. */
uint32_t           tr__snapshots_wanted(const tr_server *server);
/* Is no snapshot to be begun now, since a replacement has made no step? */
bool               tr__snapshots_must_wait(const tr_server *server);
/* All trainers hear by an acknowledgement what has changed of snapshots, in policies where all take part. */
void               tr__snapshots_tell_all(tr_server *server);

#endif
