/* task_work.h - what one trainer works on: the tasks that are leased to it, and which of its steps belong to each. Part of the state that outlives the process.
 *
 * A trainer makes its steps task by task. A task is done when every server has settled the trainer's last step of it. */
#ifndef TR_PSERVER_TASK_WORK_H
#define TR_PSERVER_TASK_WORK_H

#include "pserver/core/tasks.h"

#define TR_TASK_NOT_YET UINT64_MAX

enum { TR_TASK_SPANS = 16 };

/* Steps that a trainer makes of a task: those behind `from`, up to `to`. */
typedef struct tr_task_span {
    uint64_t lease;
    uint64_t from;                    /* TR_TASK_NOT_YET: it is not begun */
    uint64_t to;                      /* TR_TASK_NOT_YET: it is not ended, the span is open */
} tr_task_span;

typedef struct tr_task_work {
    uint64_t     everywhere;          /* steps of the trainer that all servers have settled, as far as it has said */
    uint64_t     releases_at;       /* the trainer is gone: its tasks are others' when so many steps and 1 less are settled; 0: it is */
                                      /* there; TR_TASK_NOT_YET: its replacement will say where it begins */
    uint64_t     spans;
    tr_task_span span[TR_TASK_SPANS];                 /* in the order in which they were leased */
} tr_task_work;

bool          tr_task_span_is_open(const tr_task_span *span);
void          tr_task_work_drop(tr_task_work *work, uint64_t at);
/* The first open span; NULL: there is none. */
tr_task_span *tr_task_work_first_open(tr_task_work *work);
/* Every server has the trainer's first `steps` steps: what was ended within them is done. A task without a step has nothing to wait for. Returns whether
 * anything has changed. */
bool          tr_task_work_finish(tr_task_work *work, tr_tasks *core, int trainer, uint64_t steps);
/* The trainer has no task any more. Another trainer that gets one leaves out what every server has of it. `batches`: in a step. */
void          tr_task_work_give_back(tr_task_work *work, tr_tasks *core, int trainer, uint64_t steps, uint64_t batches);

#endif
