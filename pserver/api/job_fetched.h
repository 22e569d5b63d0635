/* job_fetched.h - the values that the ending step has fetched, kept for the process that takes this trainer's place.
 *
 * A script's record of a step (python/trireme/distributed/fetched.py) is written when the run has returned, after the servers' update. A
 * death between the two would lose the record. So the values that are computed by then are written before the end of the step is sent, into
 * two slots by turns. A job goes on from a step that all servers have settled: it is the step of the newest slot or the step before.
 *
 * What must stay true: a slot is written in one piece. It counts when it begins and ends with the same step. */
#pragma once

#include "framework/operators/op.h"
#include "pserver/api/job.h"

/* Called by operators just before they end a step. `step`: the number of the step, counted from the beginning of the trainer's training. */
tr_status tr__job_note_fetched(tr_job *job, const tr_run *io, int64_t step);
void      tr__job_fetched_free(struct tr__fetched *fetched);
