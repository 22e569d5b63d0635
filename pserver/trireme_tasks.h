/* trireme_tasks.h - the C API of tasks that server 0 hands out: pieces of the data, each to one trainer at a time.
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
 *             tr_job_task_idle(job);               // all that is left is being done by others: ask again in a while
 *     }
 *
 * A task is leased: if its trainer leaves, dies, or has not said that it is done when the lease runs out, another gets it. The
 * trainer makes its steps task by task, in the order in which it got them, and says of each that it is done before the next
 * step; so the server knows how many steps of a task were made, and who gets it next leaves those out that every server has. A task of a trainer that
 * was only slow may count twice. A pass begins when all tasks of the one before are done. In mode geo a task ends with an exchange.
 *
 * What is done outlives a server that dies, its host where it has a replica, a job that is started again, and is in checkpoints.
 *
 * In mode ssp a trainer that has no task keeps pace with the others by steps without a gradient, so that nobody waits for it, and has their newest
 * parameters when it gets one.
 *
 * What must stay true: such a step is made with no task, and no question for one, under way; an update is not of all trainers (async, ssp, geo). */
#ifndef TRIREME_TASKS_H
#define TRIREME_TASKS_H

#include "pserver/trireme_dist.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tr_tasks_spec {
    uint32_t count;                   /* of the tasks: 0 .. count - 1 */
    uint32_t passes;
    uint64_t digest;                  /* of what the tasks are, 63 bits; all trainers must have the same */
    double   lease;                   /* seconds that a trainer has for one; 300 when 0 */
} tr_tasks_spec;

typedef enum tr_task_answer {
    TR_TASK_GIVEN = 0,
    TR_TASK_WAIT = 1,                 /* the rest is leased to others */
    TR_TASK_END = 2,                  /* all passes are done */
    TR_TASK_ANSWER_COUNT
} tr_task_answer;

typedef struct tr_task {
    tr_task_answer answer;
    uint32_t       task, pass;
    uint64_t       lease;             /* its number: never the same twice */
    uint32_t       skip;              /* steps of it that were made before, by whoever had it */
} tr_task;

/* After tr_job_setup; again, it gives back what it has. A trainer that means other tasks than the first one ends the job. */
TR_API tr_status tr_job_tasks_begin(tr_job *job, const tr_tasks_spec *spec);
/* Ask for a task; *out holds it when the ticket is done, and lives until then. One question at a time. */
TR_API tr_status tr_job_task_ask(tr_job *job, tr_task *out, tr_ticket *ticket);
/* The same question for who wants no task now: the answer is TR_TASK_WAIT while there is something to do, by anybody. */
TR_API tr_status tr_job_task_look(tr_job *job, tr_task *out, tr_ticket *ticket);
/* There is none to be had, between two steps: what others wait for comes now, a checkpoint, or in mode ssp this trainer's next step. */
TR_API tr_status tr_job_task_idle(tr_job *job);
/* How long to wait before that, seconds, when there was none. */
TR_API double    tr_job_task_pause(const tr_job *job);
/* The leased task is done, or (`is_done` false) failed here and is somebody else's. The third failure of a task in a pass
 * ends the job. A lease that ran out is no longer counted. `ticket` may be NULL. */
TR_API tr_status tr_job_task_end(tr_job *job, uint64_t lease, bool is_done, tr_ticket *ticket);

#ifdef __cplusplus
}
#endif
#endif
