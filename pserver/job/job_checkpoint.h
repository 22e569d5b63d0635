/* job_checkpoint.h - what the trainer that makes checkpoints does to make one of all parts.
 *
 * A thread of its own writes what only trainers have, waits for the servers' answers and writes the manifest, so that training does not wait
 * for the disk. What servers do: job_saving.h.
 *
 * What must stay true: tr__maker_command and tr__maker_poll are called by who drives, all else by the owner. */
#ifndef TR_PSERVER_JOB_CHECKPOINT_H
#define TR_PSERVER_JOB_CHECKPOINT_H

#include "pserver/job/job.h"

typedef struct tr__maker tr__maker;

tr__maker *tr__maker_new(tr_job *job);
void       tr__maker_free(tr__maker *maker);
/* Wait for the thread: a job that has failed ends it. */
void       tr__maker_end(tr__maker *maker);
/* The command TR__CUT. */
void       tr__maker_command(tr_job *job, const tr_command *command);
/* Look whether the servers have answered, and what they say of who makes checkpoints. */
void       tr__maker_poll(tr_job *job);
/* When the job's steps are over. */
void       tr__maker_last(const tr__maker *maker, tr_job_last *last);
/* Before the goodbye: a checkpoint under way is finished. */
tr_status  tr__maker_finish(tr__maker *maker);

#endif
