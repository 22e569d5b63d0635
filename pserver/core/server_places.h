/* server_places.h - where trainers are in their data when a snapshot is taken: steps, runs, position.
 *
 * A trainer that takes part says its place. A trainer that has left, or drains, has said its last place in GOODBYE or DRAIN. Where the initiator takes
 * part alone, all trainers are where it is. The exception is a job that was started again behind a death: there some trainers may be ahead of others,
 * by a number of steps that does not change. */
#ifndef TR_PSERVER_SERVER_PLACES_H
#define TR_PSERVER_SERVER_PLACES_H

#include "pserver/core/server_state.h"

void      tr__places_new(tr_server *server);
void      tr__places_free(tr_server *server);
/* DRAIN or GOODBYE, whose payload says where the trainer ended; in a job without checkpoints there is none. */
tr_status tr__places_on_leave(tr_server *server, const tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload);
/* The trainer makes steps again, or its replacement does. */
void      tr__places_forget(tr_server *server, const tr__trainer *trainer);
/* Does the state have all steps of the trainers that make no more steps, and is it known where these trainers ended? */
bool      tr__places_are_complete(const tr_server *server);
/* A snapshot is taken now. `part`: the word of each trainer that has taken part, else NULL; it stays until the snapshot is written. */
void      tr__places_record(tr_server *server, Trireme__Pserver__Snapshot *const *part, int initiator);
/* Say in `done` where the trainers are. Arrays are malloc'ed: free `places` and `left`. */
void      tr__places_fill(const tr_server *server, Trireme__Pserver__SnapshotDone *done);

#endif
