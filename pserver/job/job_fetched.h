/* job_fetched.h - what the step that is about to end has fetched, where the next process in this trainer's place finds it.
 *
 * A script's record of a step (python/trireme/distributed/fetched.py) is written when the run has returned, behind the servers' update: a
 * death between the two would cost it. So before the end of the step is sent, what is computed by then is written into one of two
 * slots by turns. A job goes on from a step that all servers have settled, which is that of the newest slot or of the one before.
 *
 * What must stay true: a slot counts when the step at its end is that at its begin; it is written in one piece. */
#ifndef TR_PSERVER_JOB_FETCHED_H
#define TR_PSERVER_JOB_FETCHED_H

#include "framework/op.h"
#include "pserver/job/job.h"

/* Called by operators, just before they end step `step` of this trainer, counted from the beginning of its training. */
tr_status tr__job_note_fetched(tr_job *job, const tr_run *io, int64_t step);
void      tr__job_fetched_free(struct tr__fetched *fetched);

#endif
