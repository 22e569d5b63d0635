/* places.h - the places of all trainers in a checkpoint, merged from the servers' answers.
 *
 * In modes where all trainers take part in a snapshot, a server that does not mention a trainer has lost it. A trainer may die while the
 * servers take a snapshot: then some servers have a step of it that others lack. The checkpoint treats such a trainer like one that died
 * before: it has no place. A trainer that left has all its steps in all parts. Its place may be missing on a server that took a dead
 * server's place: the trainer has not repeated it there yet, or its goodbye was lost with the dead server.
 *
 * In modes where the initiator takes part alone, all parts must have the same updates. */
#pragma once

#include "framework/base/status.h"
#include "proto/pserver.pb-c.h"

typedef struct tr_places {
    const Trireme__Pserver__Place **place;  /* in the order of trainers; the places point into the answers */
    int                             count;
} tr_places;

/* Merge the answers of all servers. TR_EPEER: the parts are not of one moment. */
tr_status tr_places_merge(tr_places *out, int trainers, bool is_by_all, int servers, Trireme__Pserver__SnapshotDone *const *answer);
void      tr_places_deinit(tr_places *places);
/* Are parts missing only because a rank died? Then the checkpoint may be begun anew. */
bool      tr_places_are_given_up(int servers, Trireme__Pserver__SnapshotDone *const *answer);
