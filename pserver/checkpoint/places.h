/* places.h - where trainers are in a checkpoint, put together from what servers say of their parts.
 *
 * Where all trainers take part, whom a server does not mention is lost to it. Whoever dies while servers gather a snapshot may have taken part on
 * some of them alone, with a step that others have not: a checkpoint says of such a trainer what it says of those who died before, which is
 * nothing. Who had left is in all parts with all its steps, also where it has not yet said where that was, to a server that has taken a
 * dead one's place, and where its goodbye was lost with it. */
#ifndef TR_PSERVER_PLACES_H
#define TR_PSERVER_PLACES_H

#include "framework/status.h"
#include "proto/pserver.pb-c.h"

typedef struct tr_places {
    const Trireme__Pserver__Place **place;  /* in the order of trainers; the places are the answers' */
    int                             count;
} tr_places;

/* `answer`: of each server, which has a part. TR_EPEER: they are not of one moment. */
tr_status tr_places_merge(tr_places *out, int trainers, bool is_by_all, int servers, Trireme__Pserver__SnapshotDone *const *answer);
void      tr_places_deinit(tr_places *places);
/* Are the parts that are missing missing for the sake of a death alone? Then the checkpoint may be begun anew. */
bool      tr_places_are_given_up(int servers, Trireme__Pserver__SnapshotDone *const *answer);

#endif
