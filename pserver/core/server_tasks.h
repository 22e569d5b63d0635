/* server_tasks.h - a server that hands tasks out: messages to and from the core tasks.h. Server 0 does.
 *
 * A trainer makes its steps task by task and says that a task is done between two of them. So each of its steps belongs to a task
 * that is known, and how many of a task's batches are made follows from how many of the trainer's steps count.
 *
 * A step counts when every server has settled it: trainers say which do, with each end of a step, and once more behind the
 * end of a task. A task is done then, and not before; and what somebody who died has made of a task is left out by the next one up
 * to there. So whoever dies, each batch is in the parameters of every server at least once, and twice only where it was in a step of a trainer
 * that died, of which nobody knew yet that it counts.
 *
 * Leases end with the process that has them. Its replacement, or it itself when the job is started again, may find steps that
 * some servers have and others have not: their batches are given out anew, and the servers that lack them leave these
 * steps out (client_calls.c, server_contributions.c).
 *
 * The state outlives the process (durable_tasks.h), and the replica has it: each change goes in front of the updates behind it. */
#ifndef TR_PSERVER_SERVER_TASKS_H
#define TR_PSERVER_SERVER_TASKS_H

#include "pserver/core/server_state.h"

/* TASKS, TASK_ASK, TASK_END, SETTLED; and a TASK_ASK that was taken before and has come again, which gets the same answer. */
tr_status tr__tasks_on_request(tr_server *server, const tr__trainer *trainer, const tr_wire *wire);
void      tr__tasks_on_request_again(tr_server *server, const tr__trainer *trainer, const tr_wire *wire);
/* A trainer has left or died: its tasks are others' when the steps that it has ended here are settled. */
void      tr__tasks_leave(tr_server *server, const tr__trainer *trainer);
/* A trainer has died, and a replacement is called: its tasks wait until that one says where it begins, or nobody comes. */
void      tr__tasks_vacant(tr_server *server, const tr__trainer *trainer);
/* A process begins behind this step, which every server has settled: what it or an earlier one had is others'. */
void      tr__tasks_join(tr_server *server, const tr__trainer *trainer, uint64_t step);
/* The same when this server does not know what became of steps: the last start's state was lost, and in that start other servers may have left out steps that
 * they had not. What trainers said before counts. */
void      tr__tasks_join_with_gap(tr_server *server, const tr__trainer *trainer);
/* Steps were settled, and that is committed: tasks that they ended may be done. */
void      tr__tasks_settled(tr_server *server);
/* The trainer says that every server has settled so many of its steps. */
void      tr__tasks_set_everywhere(tr_server *server, const tr__trainer *trainer, uint64_t steps);
/* Take over what an earlier process kept. `trainers_live`: they go on; otherwise they will join. */
tr_status tr__tasks_take_over(tr_server *server, bool trainers_live);
/* The replica is to have the state. */
void      tr__tasks_replicate(tr_server *server);
/* The state for a checkpoint, at a snapshot: nobody has a task. `has_taken_part`: trainer by trainer; every server has all steps of those. malloc'ed; NULL:
 * there are no tasks. */
void     *tr__tasks_pack(const tr_server *server, const bool *has_taken_part, size_t *size);
void      tr__tasks_free(tr_server *server);

#endif
