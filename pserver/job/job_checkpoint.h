/* job_checkpoint.h - what the trainer that makes checkpoints does to make one of all parts.
 *
 * A thread of its own writes what only trainers have, waits for the servers' answers and writes the manifest, so that training does not wait
 * for the disk. What servers do: job_saving.h.
 *
 * What must stay true: tr__checkpointer_command and tr__checkpointer_poll are called by who drives, all else by the owner. */
#ifndef TR_PSERVER_JOB_CHECKPOINT_H
#define TR_PSERVER_JOB_CHECKPOINT_H

#include "pserver/job/job.h"

typedef struct tr__checkpointer tr__checkpointer;

tr__checkpointer *tr__checkpointer_new(tr_job *job);
void       tr__checkpointer_free(tr__checkpointer *checkpointer);
/* Wait for the thread: a job that has failed ends it. */
void       tr__checkpointer_end(tr__checkpointer *checkpointer);
/* The command TR__SNAPSHOT. */
void       tr__checkpointer_command(tr_job *job, const tr_command *command);
/* Look whether the servers have answered, and what they say of who makes checkpoints. */
void       tr__checkpointer_poll(tr_job *job);
/* When the job's steps are over. */
void       tr__checkpointer_last(const tr__checkpointer *checkpointer, tr_job_last *last);
/* Before the goodbye: a checkpoint under way is finished. */
tr_status  tr__checkpointer_finish(tr__checkpointer *checkpointer);

#endif
