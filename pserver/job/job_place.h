/* job_place.h - the place of this trainer: after its last step, whose end may still be on its way, and after the step that is being made.
 *
 * What must stay true: the owner sets it, the driver reads it. */
#ifndef TR_PSERVER_JOB_PLACE_H
#define TR_PSERVER_JOB_PLACE_H

#include "pserver/job/job.h"

typedef struct tr__place tr__place;

tr__place *tr__place_new(const tr_job *job);
void       tr__place_free(tr__place *place);
/* Let the client ask here, when it takes part because others do. */
void       tr__place_watch(tr__place *place);
/* Where the trainer is before its first step. */
void       tr__place_begin(tr__place *place, const tr_trainer_state *state);
/* Pack this trainer's place for a snapshot, and (or NULL) the part that a server is to write. malloc'ed. */
uint8_t   *tr__place_pack(size_t *size, const tr_trainer_state *state, Trireme__Pserver__SnapshotTarget *target);

#endif
