/* job_place.h - the place of this trainer in its data: after its last step, whose end may still be on its way, and after the present
 * step.
 *
 * What must stay true: the owner sets it, the driver reads it. */
#pragma once

#include "pserver/rank/rank.h"

typedef struct tr__place tr__place;

tr__place *tr__place_new(const tr__rank *rank);
void       tr__place_free(tr__place *place);
/* Let the client ask for the place when this trainer takes part in another trainer's snapshot. */
void       tr__place_watch(tr__place *place, tr_client *client);
/* The trainer is set up: it is at `state` before its first step, and `period` of its steps are one of the job. */
void       tr__place_begin(tr__place *place, const tr_trainer_state *state, int64_t period);
/* Pack this trainer's place for a snapshot, with the part that a server should write, or NULL. malloc'ed. */
uint8_t   *tr__place_pack(size_t *size, const tr_trainer_state *state, Trireme__Pserver__SnapshotTarget *target);
