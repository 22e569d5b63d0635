/* trireme_tasks.h - the C API of tasks that server 0 leases to trainers: pieces of the data, each to one trainer at a time.
 *
 *     tr_job_tasks_begin(job, &spec);              // every trainer, with the same numbers
 *     for (;;) {
 *         tr_job_task_ask(job, &task, &ticket);
 *         tr_job_wait(job, ticket);
 *         if (task.answer == TR_TASK_GIVEN) {
 *             ... read piece `task.task` of the data, train on it ...
 *             tr_job_task_end(job, task.lease, true, NULL);
 *         } else if (task.answer == TR_TASK_END)
 *             break;
 *         else
 *             tr_job_task_idle(job);               // other trainers do all tasks that are left: ask again later
 *     }
 *
 * A task is leased for some time. If its trainer leaves, dies, or does not report the task as done in that time, another trainer gets
 * the task.
 *
 * A trainer makes its steps task by task, in the order in which it got the tasks. It reports the end of a task before its next step. So
 * the server knows how many steps of a task were made. The next trainer with this task leaves out the steps that every server has. A
 * task of a trainer that was only slow may count twice. A pass begins when all tasks of the pass before are done. In mode geo a task
 * ends with an exchange.
 *
 * The record of finished tasks outlives a server's death, the loss of its host if it has a replica, and a restart of the job. It is also
 * in checkpoints.
 *
 * In mode ssp a trainer without a task makes steps without a gradient. So no trainer waits for it, and it has the newest parameters when
 * it gets a task.
 *
 * What must stay true: a trainer makes such a step only while it has no task and no question for one under way. In modes with tasks
 * (async, ssp, geo) an update is not made of all trainers' gradients. */
#ifndef TRIREME_TASKS_H
#define TRIREME_TASKS_H

#include "pserver/trireme_dist.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tr_tasks_spec {
    uint32_t count;                   /* number of tasks: 0 .. count - 1 */
    uint32_t passes;
    uint64_t digest;                  /* 63 bits that identify the tasks' contents; the same in all trainers */
    double   lease;                   /* seconds for one task; 300 when 0 */
} tr_tasks_spec;

typedef enum tr_task_answer {
    TR_TASK_GIVEN = 0,
    TR_TASK_WAIT = 1,                 /* all tasks that are left are leased to other trainers */
    TR_TASK_END = 2,                  /* all passes are done */
    TR_TASK_LATER = 3,                /* other trainers still work on the list before this one: call tr_job_tasks_again, and ask again */
    TR_TASK_ANSWER_COUNT
} tr_task_answer;

typedef struct tr_task {
    tr_task_answer answer;
    uint32_t       task, pass;
    uint64_t       lease;             /* number of the lease; never used twice */
    uint32_t       skip;              /* steps of the task that earlier holders made */
} tr_task;

/* Begin with a list of tasks, after tr_job_setup. The n-th call of each trainer is about the same list, and each list has its passes: a
 * trainer with another `spec` than the first one ends the job. A call gives back the tasks that this trainer still holds of the list
 * before. That list is over when its passes are done, or when no trainer works on it any more. */
TR_API tr_status tr_job_tasks_begin(tr_job *job, const tr_tasks_spec *spec);
/* Say again what the tasks are, after TR_TASK_LATER. It does not wait. */
TR_API tr_status tr_job_tasks_again(tr_job *job, const tr_tasks_spec *spec);
/* Ask for a task. *out has the answer when the ticket is done, and must stay alive until then. One question at a time. */
TR_API tr_status tr_job_task_ask(tr_job *job, tr_task *out, tr_ticket *ticket);
/* Ask without taking a task: the answer is TR_TASK_WAIT while any trainer has a task to do, else TR_TASK_END. */
TR_API tr_status tr_job_task_look(tr_job *job, tr_task *out, tr_ticket *ticket);
/* Call it between two steps after TR_TASK_WAIT. Work that waits for this trainer's next step is done now: a checkpoint, or in mode ssp
 * that step. */
TR_API tr_status tr_job_task_idle(tr_job *job);
/* Seconds to wait before the next tr_job_task_idle. */
TR_API double    tr_job_task_pause(const tr_job *job);
/* Report a leased task as done, or (`is_done` false) as failed here, so that another trainer gets it. The third failure of a task in a
 * pass ends the job. A lease that has expired no longer counts. `ticket` may be NULL. */
TR_API tr_status tr_job_task_end(tr_job *job, uint64_t lease, bool is_done, tr_ticket *ticket);

#ifdef __cplusplus
}
#endif
#endif
