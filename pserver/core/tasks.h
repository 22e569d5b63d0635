/* tasks.h - the core that deals tasks out: which are to be done, which are leased to whom until when, which are done.
 *
 * It never reads a clock (times are nanoseconds of any origin, given) and knows nothing of messages. Its state is some
 * bytes a task, as many for any state: for a checkpoint, or for whoever takes a server's place. */
#ifndef TR_PSERVER_TASKS_H
#define TR_PSERVER_TASKS_H

#include "framework/status.h"
#include "pserver/trireme_tasks.h"

typedef struct tr_tasks tr_tasks;

enum { TR_TASK_FAILURES = 3 };        /* of one task in one pass: then it is the task's fault */

tr_tasks *tr_tasks_new(const tr_tasks_spec *spec);
void      tr_tasks_free(tr_tasks *tasks);
const tr_tasks_spec *tr_tasks_spec_of(const tr_tasks *tasks);

/* The next task for a trainer. Leases that ran out by now are over first. */
tr_task   tr_tasks_lease(tr_tasks *tasks, int64_t now, int trainer);
/* Are all passes done? */
bool      tr_tasks_are_done(const tr_tasks *tasks);
/* A lease has ended well; false: it was over already, and the task is or was another's. */
bool      tr_tasks_done(tr_tasks *tasks, int trainer, uint64_t lease);
/* A lease has ended badly. TR_EPEER when that was the task's last chance. */
tr_status tr_tasks_failed(tr_tasks *tasks, int trainer, uint64_t lease);
/* A trainer has left or died: its tasks are to be done by others. */
void      tr_tasks_leave(tr_tasks *tasks, int trainer);
/* So many steps of this lease's task were made; nothing if it is over. */
void      tr_tasks_made(tr_tasks *tasks, int trainer, uint64_t lease, uint32_t steps);
/* The task of a lease that a trainer has, as it was given; TR_TASK_WAIT: it has it no more. */
tr_task   tr_tasks_leased(const tr_tasks *tasks, int trainer, uint64_t lease);
/* The same tasks are gone over `passes` times in all, with leases of `lease` seconds. */
void      tr_tasks_extend(tr_tasks *tasks, uint32_t passes, double lease);

typedef struct tr_tasks_counts {
    uint32_t pass;                    /* being made; `passes` when all are */
    uint32_t to_do, leased, done;     /* tasks of this pass */
    uint64_t leases;                  /* given out so far */
    uint64_t ran_out;                 /* of them, in vain: too slow, or their trainer left */
    uint64_t failed;
} tr_tasks_counts;

tr_tasks_counts tr_tasks_count(const tr_tasks *tasks);

/* The state as bytes (malloc'ed), and back; the time of leases begins anew then. Damaged ones are refused. */
tr_status tr_tasks_save(void **out, size_t *size, const tr_tasks *tasks);
tr_status tr_tasks_load(tr_tasks **out, const void *bytes, size_t size);
size_t    tr_tasks_size(uint32_t count);

#endif
