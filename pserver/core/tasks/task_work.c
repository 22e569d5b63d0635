/* task_work.c - see task_work.h. */
#include "pserver/core/tasks/task_work.h"

#include <string.h>

bool tr_task_span_is_open(const tr_task_span *span)
{
    return span->to == TR_TASK_NOT_YET;
}

void tr_task_work_drop(tr_task_work *work, uint64_t at)
{
    work->spans--;
    memmove(&work->span[at], &work->span[at + 1], (work->spans - at) * sizeof *work->span);
}

tr_task_span *tr_task_work_first_open(tr_task_work *work)
{
    for (uint64_t i = 0; i < work->spans; i++)
        if (tr_task_span_is_open(&work->span[i]))
            return &work->span[i];
    return NULL;
}

bool tr_task_work_finish(tr_task_work *work, tr_tasks *core, int trainer, uint64_t steps)
{
    bool has_changed = false;

    for (uint64_t i = 0; i < work->spans;) {
        const tr_task_span *s = &work->span[i];
        if (tr_task_span_is_open(s) || (s->to > steps && s->to > s->from)) {
            i++;
            continue;
        }
        tr_tasks_done(core, trainer, s->lease);
        tr_task_work_drop(work, i);
        has_changed = true;
    }
    return has_changed;
}

/* The number of the task's batches that are in the trainer's first `steps` steps. */
static uint32_t made_of(const tr_task_span *s, uint64_t steps, uint64_t batches)
{
    const uint64_t last = tr_task_span_is_open(s) || steps < s->to ? steps : s->to;

    return s->from != TR_TASK_NOT_YET && last > s->from ? (uint32_t)((last - s->from) * batches) : 0;
}

void tr_task_work_give_back(tr_task_work *work, tr_tasks *core, int trainer, uint64_t steps, uint64_t batches)
{
    tr_task_work_finish(work, core, trainer, steps);
    for (uint64_t i = 0; i < work->spans; i++)
        tr_tasks_made(core, trainer, work->span[i].lease, made_of(&work->span[i], steps, batches));
    work->spans = 0;
    work->releases_at = 0;
    tr_tasks_leave(core, trainer);
}
