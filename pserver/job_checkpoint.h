/* job_checkpoint.h - a job's checkpoints: what a server does when its core wants its state kept, and what the trainer
 * that makes checkpoints does to make one of all.
 *
 * On both a thread of its own writes, so that neither messages nor training wait for the disk. A server's main thread,
 * which applies updates, makes the copy. That trainer's thread writes what only trainers have, waits for the servers'
 * answers and writes the manifest.
 *
 * What must stay true: `tr__saving_begin` and `tr__saving_poll` are called by who drives, all else by the owner. */
#ifndef TR_PSERVER_JOB_CHECKPOINT_H
#define TR_PSERVER_JOB_CHECKPOINT_H

#include "pserver/job.h"

typedef struct tr__saving tr__saving;

tr__saving *tr__saving_new(tr_job *job);
void        tr__saving_free(tr__saving *saving);
/* Wait for the thread: a job that has failed ends it. */
void        tr__saving_end(tr__saving *saving);

/* == servers == */
/* The job will want checkpoints: make memory ready, and leave signals that ask for an end to trainers. */
void      tr__saving_expect(tr__saving *saving);
void      tr__saving_begin(tr__saving *saving, const Trireme__Pserver__Wish *wish);
/* Do what is due, in the main thread's loop. */
tr_status tr__saving_serve(tr__saving *saving);
/* Is there something to do at once? */
bool      tr__saving_is_due(const tr__saving *saving);
/* The commands TR__SNAPPED and TR__WRITTEN. */
void      tr__saving_server_command(tr_job *job, const tr_command *command);

/* == trainers == */
/* Let the client ask here where this trainer is, when it cuts because others do. */
void      tr__saving_watch_places(tr__saving *saving);
/* Where the trainer is before its first step. */
void      tr__saving_first_place(tr__saving *saving, const tr_trainer_state *place);
/* The command TR__CUT. */
void      tr__saving_trainer_command(tr_job *job, const tr_command *command);
/* Look whether the servers have answered, and what they say of who makes checkpoints. */
void      tr__saving_poll(tr_job *job);
/* When the job's steps are over. */
void      tr__saving_last(const tr__saving *saving, tr_job_last *last);
/* Before the goodbye: a checkpoint under way is finished. */
tr_status tr__saving_finish(tr__saving *saving);

#endif
