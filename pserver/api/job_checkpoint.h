/* job_checkpoint.h - the trainer that makes checkpoints: it joins all parts into one.
 *
 * A thread of its own writes the variables that only trainers have, waits for the servers' answers, and writes the manifest. So training
 * does not wait for the disk. The servers' side is rank_saving.h.
 *
 * What must stay true: the driver calls tr__checkpointer_hear and _poll; the owner calls the rest. */
#pragma once

#include "pserver/rank/rank.h"

typedef struct tr__checkpointer tr__checkpointer;

tr__checkpointer *tr__checkpointer_new(tr_job *job);
void       tr__checkpointer_free(tr__checkpointer *checkpointer);
/* Wait for the thread. If the job has failed, the thread ends by itself. */
void       tr__checkpointer_end(tr__checkpointer *checkpointer);
/* Servers have said something: look which trainer makes checkpoints now. */
void       tr__checkpointer_hear(tr__checkpointer *checkpointer, const tr_client *client);
/* Look whether the servers have answered. */
void       tr__checkpointer_poll(tr__checkpointer *checkpointer, const tr_client *client);
/* Fill in what tr_job_stay returns. */
void       tr__checkpointer_last(const tr__checkpointer *checkpointer, tr_job_last *last);
/* Before the goodbye: wait for a checkpoint that is under way. */
tr_status  tr__checkpointer_finish(tr__checkpointer *checkpointer);
