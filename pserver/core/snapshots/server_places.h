/* server_places.h - where trainers are in their data when a snapshot is taken: steps, runs, position.
 *
 * A trainer that takes part sends its place in SNAPSHOT. A trainer that has left, or drains, has sent its last place in GOODBYE or DRAIN.
 * When the initiator takes part alone, all trainers have the initiator's place. The exception is a job that was started again after a
 * death. In such a job some trainers may be ahead of others by a number of steps that does not change. */
#pragma once

#include "pserver/core/updates/server_state.h"

void      tr__places_new(tr_server *server);
void      tr__places_free(tr_server *server);
/* DRAIN or GOODBYE. Its payload is the trainer's last place; in a job without checkpoints it has no payload. */
tr_status tr__places_on_leave(tr_server *server, const tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload);
/* The trainer, or its replacement, makes steps again: its last place is invalid. */
void      tr__places_forget(tr_server *server, const tr__trainer *trainer);
/* Are the trainers that make no more steps settled, and are their last places known? */
bool      tr__places_are_complete(const tr_server *server);
/* The last step of this trainer in a snapshot that the initiator begins now, where the initiator takes part alone. */
uint64_t  tr__places_step(const tr__trainer *trainer, const tr__trainer *initiator);
/* Record the places for a snapshot that is taken now. `part`: the SNAPSHOT of each trainer that has taken part, else NULL; it must live
 * until the snapshot is written. */
void      tr__places_record(tr_server *server, Trireme__Pserver__Snapshot *const *part, int initiator);
/* Write the places of all trainers into `done`. The caller frees the arrays `places` and `left`. */
void      tr__places_fill(const tr_server *server, Trireme__Pserver__SnapshotDone *done);
