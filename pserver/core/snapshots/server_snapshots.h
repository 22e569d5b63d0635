/* server_snapshots.h - one server's part of a snapshot: a state of the whole job between two steps (docs/protocol.md, "Snapshot").
 *
 * Gathering. A trainer that takes part sends SNAPSHOT in its stream of requests, after the end of a step. Its later requests are parked
 * until every trainer that is not over has taken part and its steps are settled. Then the store copies its state, the parked requests are
 * handled, and the copy is written in the background. Every server divides each trainer's stream at the same request, so the parts of all
 * servers belong together.
 *
 * Initiator. Only the initiator begins a snapshot (server_initiator.h). A server for which another trainer is the initiator declines.
 *
 * Participants. In mode sync the initiator takes part alone. Step s + 1 cannot be applied without the initiator, so after its step s the
 * servers' states depend on the step alone. No trainer is parked, and the copy of step s is made while gradients of step s + 1 arrive. In
 * the other modes all trainers take part: acknowledgements ask them to take part after their next step.
 *
 * Decisions. Where all trainers take part, every server reports to server 0 that it has gathered the snapshot, or has given it up
 * (SNAPSHOT_NEWS). Server 0 decides that the snapshot is taken when all have gathered it, and that it is given up when one has given it up
 * (server_decisions.h). So the servers never differ about a snapshot.
 *
 * Deaths. When another process serves in a dead server's place, the other servers give up the snapshot that they gather. Trainers that had
 * taken part with the dead server send SNAPSHOT again to its successor. Servers decline a snapshot while a replacement has made no step,
 * and acknowledgements tell the initiator so beforehand.
 *
 * No deadlock. A snapshot that is not complete after two minutes is given up. A parked trainer does not count as the slowest one (ssp), and
 * updates do not wait for it (sync with backups). So in ssp other trainers may get further ahead during a snapshot: by one step, by two if
 * parameters overtake the request to take part, and by as many again each time a death restarts the snapshot. A step that
 * sync(backups) has neither applied nor dropped is not in the copy, as if it had been dropped.
 *
 * Invariant: a trainer begins a snapshot only when it has all answers to the one before. */
#pragma once

#include "pserver/core/updates/server_state.h"

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
/* This trainer's last step in the newest snapshot, where the initiator takes part alone. */
uint64_t           tr__snapshots_step(const tr_server *server, const tr__trainer *trainer);
/* Does server 0 decide whether a snapshot is taken? It does where all trainers take part. */
bool               tr__snapshots_are_decided(const tr_server *server);

/* == messages == */
/* SNAPSHOT. `must_wait`: the state is being frozen for a replica. */
tr_status tr__snapshots_on_snapshot(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload, bool must_wait);

/* == gathering == */
/* Have all required trainers taken part? */
bool               tr__snapshots_are_gathered(const tr_server *server);
/* May the state be copied now: is the snapshot gathered and settled, and, where server 0 decides, is the state that of the decided
 * update? */
bool               tr__snapshots_may_take(const tr_server *server);
/* Let the store copy the state and write the copy to the target. */
void               tr__snapshots_take(tr_server *server);
const Trireme__Pserver__SnapshotTarget *tr__snapshots_target(const tr_server *server);
/* The store has copied the state; the store has written the copy. `part`: the packed Part; NULL: it failed, and `error` says why. */
void               tr__snapshots_copied(tr_server *server);
void               tr__snapshots_written(tr_server *server, const uint8_t *part, size_t size, const char *error);
/* A trainer is over: do not wait for it, and give up a snapshot that it has begun. */
void               tr__snapshots_without(tr_server *server, const tr__trainer *trainer);
/* Give up the snapshots up to this number, and let all trainers continue. */
void               tr__snapshots_give_up(tr_server *server, uint32_t number);
/* The freezing of the state is over: handle the SNAPSHOTs that had to wait for it. */
void               tr__snapshots_resume(tr_server *server);
/* Give up a snapshot that has not been complete for too long. Returns the time of the next call. */
int64_t            tr__snapshots_tick(tr_server *server, int64_t now);

/* == fields of acknowledgements == */
/* The number of the snapshot in which trainers are to take part; 0: none, or the initiator takes part alone. */
uint32_t           tr__snapshots_wanted(const tr_server *server);
/* Would a new snapshot be declined now, because a replacement has made no step? */
bool               tr__snapshots_must_wait(const tr_server *server);
/* In policies where all trainers take part: send all trainers an acknowledgement with the news about snapshots. */
void               tr__snapshots_tell_all(tr_server *server);
