/* server_tasks.h - server 0 leases tasks to trainers: the messages for the core in tasks.h.
 *
 * A trainer makes its steps task by task, and reports the end of a task between two steps. So each step belongs to a known task.
 * The number of made batches of a task follows from the number of the trainer's steps that count.
 *
 * A step counts when every server has settled it. Trainers report that with each STEP_END, and by SETTLED after the
 * end of a task. A task is done when its last step counts. If a trainer dies, the next trainer of its task skips the batches of
 * the steps that count. So every batch is in the parameters of every server at least once, whichever rank dies. A batch is there twice only
 * if it was in a step of a dead trainer, and server 0 did not know yet that this step counts.
 *
 * Leases end with the process that has them. After a replacement or a restart some servers may have steps of the dead process that others
 * lack. The batches of these steps are leased again, and the servers that lack the steps treat them as steps
 * without a gradient (client_steps.c, server_contributions.c).
 *
 * The state is stored in memory that outlives the process (durable_tasks.h), and is sent to the replica before the updates that follow
 * it. */
#pragma once

#include "pserver/core/updates/server_state.h"

/* TASK_ASK, TASK_END, SETTLED. */
extern const tr__handler tr__tasks_handlers[];
/* TASKS: a trainer begins to work on a list of tasks. */
tr_status tr__tasks_on_tasks(tr_server *server, const tr__trainer *trainer, const tr_wire *wire);
/* A trainer has left or died: release its tasks when the steps that it has ended here are settled. */
void      tr__tasks_leave(tr_server *server, const tr__trainer *trainer);
/* A trainer has died, and a replacement is called: its tasks wait until the replacement reports its first step, or is given up. */
void      tr__tasks_vacant(tr_server *server, const tr__trainer *trainer);
/* A process begins after this step, which every server has settled: release the tasks that this trainer had. */
void      tr__tasks_join(tr_server *server, const tr__trainer *trainer, uint64_t step);
/* The same after the state of the last start was lost. In that start other servers may have skipped steps that they lacked, so the steps
 * that the trainer reports now are not reliable. The steps that trainers reported before still count. */
void      tr__tasks_join_with_gap(tr_server *server, const tr__trainer *trainer);
/* Steps were settled and committed: the tasks that ended with them may be done. */
void      tr__tasks_settled(tr_server *server);
/* The trainer reports that every server has settled so many of its steps. */
void      tr__tasks_set_everywhere(tr_server *server, const tr__trainer *trainer, uint64_t steps);
/* Read the state that an earlier process stored. `trainers_live`: failover, so the trainers continue; otherwise they will join. */
tr_status tr__tasks_take_over(tr_server *server, bool trainers_live);
/* Send the state to the replica. */
void      tr__tasks_replicate(tr_server *server);
/* The state for a checkpoint, in which no task is leased. `has_taken_part`: trainer by trainer; every server has all steps of these
 * trainers. Returns malloc'ed bytes; NULL: there are no tasks. */
void     *tr__tasks_pack(const tr_server *server, const bool *has_taken_part, size_t *size);
void      tr__tasks_free(tr_server *server);
