/* task_work.h - the tasks that are leased to one trainer, and the steps that belong to each task. Part of the state that outlives the
 * process.
 *
 * A trainer makes its steps task by task. A task is done when every server has settled the trainer's last step of it. */
#pragma once

#include "pserver/core/tasks/tasks.h"

#define TR_TASK_NOT_YET UINT64_MAX

enum { TR_TASK_SPANS = 16 };

/* The steps from + 1 .. to, which a trainer makes of a task. */
typedef struct tr_task_span {
    uint64_t lease;
    uint64_t from;                    /* TR_TASK_NOT_YET: the task is not begun */
    uint64_t to;                      /* TR_TASK_NOT_YET: the task is not ended, and the span is open */
} tr_task_span;

typedef struct tr_task_work {
    uint64_t     everywhere;          /* steps that all servers have settled, by the trainer's newest report */
    uint64_t     releases_at;         /* 0: the trainer is present. n: it is gone, and its tasks are released when n - 1 steps are
                                       * settled. */
                                      /* TR_TASK_NOT_YET: it is gone, and n follows when its replacement reports its first step */
    uint64_t     spans;
    tr_task_span span[TR_TASK_SPANS];                 /* in the order in which they were leased */
    uint64_t     list;                /* the list of tasks that the trainer works on, or wants to */
} tr_task_work;

bool          tr_task_span_is_open(const tr_task_span *span);
void          tr_task_work_drop(tr_task_work *work, uint64_t at);
/* The first open span; NULL: there is none. */
tr_task_span *tr_task_work_first_open(tr_task_work *work);
/* Every server has the trainer's first `steps` steps: the tasks that ended within these steps are done. A task without a step is done at
 * once. Returns whether anything has changed. */
bool          tr_task_work_finish(tr_task_work *work, tr_tasks *core, int trainer, uint64_t steps);
/* Take all tasks from the trainer. The next trainer of a task skips the batches that every server has. `batches`: the number of batches in
 * a step. */
void          tr_task_work_give_back(tr_task_work *work, tr_tasks *core, int trainer, uint64_t steps, uint64_t batches);
