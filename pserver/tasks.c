/* tasks.c - see tasks.h. */
#include "pserver/tasks.h"

#include <stdlib.h>
#include <string.h>

#include "framework/memory.h"

typedef enum state { TO_DO, LEASED, DONE } state;

typedef struct task {
    uint8_t  state, failures;
    int      trainer;                 /* LEASED: whose it is, under this lease, until then */
    uint64_t lease;
    int64_t  until;
} task;

struct tr_tasks {
    tr_tasks_spec   spec;
    int64_t         lease_time;
    tr_tasks_counts counts;
    uint32_t        first;            /* no task before it is to be done */
    int64_t         next_end;         /* no lease runs out before */
    task           *task;
};

tr_tasks *tr_tasks_new(const tr_tasks_spec *spec)
{
    tr_tasks *tasks = tr__must_alloc(sizeof *tasks);

    tasks->spec = *spec;
    if (spec->lease == 0)
        tasks->spec.lease = 300;
    tasks->lease_time = (int64_t)(tasks->spec.lease * 1e9);
    tasks->task = tr__must_alloc((size_t)spec->count * sizeof *tasks->task);
    tasks->counts.to_do = spec->count;
    tasks->counts.pass = spec->count ? 0 : spec->passes;
    tasks->next_end = INT64_MAX;
    return tasks;
}

void tr_tasks_free(tr_tasks *tasks)
{
    if (tasks)
        free(tasks->task);
    free(tasks);
}

const tr_tasks_spec *tr_tasks_spec_of(const tr_tasks *tasks)
{
    return &tasks->spec;
}

tr_tasks_counts tr_tasks_count(const tr_tasks *tasks)
{
    return tasks->counts;
}

/* == leases =================================================================================== */

static void take_back(tr_tasks *tasks, task *t)
{
    const uint32_t index = (uint32_t)(t - tasks->task);

    t->state = TO_DO;
    tasks->counts.leased--;
    tasks->counts.to_do++;
    if (index < tasks->first)
        tasks->first = index;
}

static void end_old_leases(tr_tasks *tasks, int64_t now)
{
    if (now < tasks->next_end)
        return;
    tasks->next_end = INT64_MAX;
    for (uint32_t i = 0; i < tasks->spec.count; i++) {
        task *t = &tasks->task[i];
        if (t->state != LEASED)
            continue;
        if (now >= t->until) {
            take_back(tasks, t);
            tasks->counts.ran_out++;
        } else if (t->until < tasks->next_end) {
            tasks->next_end = t->until;
        }
    }
}

static void begin_pass(tr_tasks *tasks)
{
    tasks->counts.pass++;
    if (tasks->counts.pass == tasks->spec.passes)
        return;
    memset(tasks->task, 0, (size_t)tasks->spec.count * sizeof *tasks->task);
    tasks->counts.done = 0;
    tasks->counts.to_do = tasks->spec.count;
    tasks->first = 0;
    tasks->next_end = INT64_MAX;
}

bool tr_tasks_are_done(const tr_tasks *tasks)
{
    return tasks->counts.pass >= tasks->spec.passes;
}

tr_task tr_tasks_lease(tr_tasks *tasks, int64_t now, int trainer)
{
    end_old_leases(tasks, now);
    if (tr_tasks_are_done(tasks))
        return (tr_task){.answer = TR_TASK_END};
    if (!tasks->counts.to_do)
        return (tr_task){.answer = TR_TASK_WAIT};
    while (tasks->task[tasks->first].state != TO_DO)
        tasks->first++;
    task *t = &tasks->task[tasks->first];
    t->state = LEASED;
    t->trainer = trainer;
    t->lease = ++tasks->counts.leases;
    t->until = now + tasks->lease_time;
    if (t->until < tasks->next_end)
        tasks->next_end = t->until;
    tasks->counts.to_do--;
    tasks->counts.leased++;
    return (tr_task){TR_TASK_GIVEN, tasks->first, tasks->counts.pass, t->lease};
}

static task *find(tr_tasks *tasks, int trainer, uint64_t lease)
{
    for (uint32_t i = 0; i < tasks->spec.count; i++) {
        task *t = &tasks->task[i];
        if (t->state == LEASED && t->trainer == trainer && t->lease == lease)
            return t;
    }
    return NULL;
}

bool tr_tasks_done(tr_tasks *tasks, int trainer, uint64_t lease)
{
    task *t = find(tasks, trainer, lease);

    if (!t)
        return false;
    t->state = DONE;
    tasks->counts.leased--;
    if (++tasks->counts.done == tasks->spec.count)
        begin_pass(tasks);
    return true;
}

tr_status tr_tasks_failed(tr_tasks *tasks, int trainer, uint64_t lease)
{
    task *t = find(tasks, trainer, lease);

    if (!t)
        return TR_OK;
    take_back(tasks, t);
    tasks->counts.failed++;
    if (++t->failures < TR_TASK_FAILURES)
        return TR_OK;
    return tr_fail(TR_EPEER, "task %u of %u has failed %d times in pass %u", (unsigned)(t - tasks->task), tasks->spec.count,
                   t->failures, tasks->counts.pass);
}

void tr_tasks_leave(tr_tasks *tasks, int trainer)
{
    for (uint32_t i = 0; i < tasks->spec.count; i++) {
        task *t = &tasks->task[i];
        if (t->state != LEASED || t->trainer != trainer)
            continue;
        take_back(tasks, t);
        tasks->counts.ran_out++;
    }
}

/* == as bytes ================================================================================= */

/* Numbers of 8 bytes, little-endian: version, count, passes, digest, lease in nanoseconds, pass, leases, ran out, failed;
 * then a bit for each task, 1 for done, and zeros up to 8 bytes. */
enum { VERSION = 1, NUMBERS = 9 };

static void put(uint8_t **to, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        *(*to)++ = (uint8_t)(value >> 8 * i);
}

static uint64_t get(const uint8_t **from)
{
    uint64_t value = 0;

    for (int i = 0; i < 8; i++)
        value |= (uint64_t)*(*from)++ << 8 * i;
    return value;
}

static size_t size_of(uint64_t count)
{
    return 8 * (NUMBERS + (count + 63) / 64);
}

tr_status tr_tasks_save(void **out, size_t *size, const tr_tasks *tasks)
{
    const tr_tasks_counts *c = &tasks->counts;
    const uint64_t numbers[NUMBERS] = {VERSION, tasks->spec.count, tasks->spec.passes, tasks->spec.digest,
                                       (uint64_t)tasks->lease_time, c->pass, c->leases, c->ran_out, c->failed};

    *size = size_of(tasks->spec.count);
    uint8_t *to = *out = calloc(1, *size);
    if (!to)
        return tr_fail(TR_ENOMEM, "no memory for the state of %u tasks", tasks->spec.count);
    for (int i = 0; i < NUMBERS; i++)
        put(&to, numbers[i]);
    for (uint32_t i = 0; i < tasks->spec.count; i++)
        to[i / 8] |= (uint8_t)((tasks->task[i].state == DONE) << i % 8);
    return TR_OK;
}

tr_status tr_tasks_load(tr_tasks **out, const void *bytes, size_t size)
{
    const uint8_t *from = bytes;
    uint64_t       numbers[NUMBERS] = {0};

    for (int i = 0; i < NUMBERS && size >= size_of(0); i++)
        numbers[i] = get(&from);
    const uint64_t count = numbers[1];
    if (numbers[0] != VERSION || count > UINT32_MAX || size != size_of(count) || numbers[2] > UINT32_MAX ||
        numbers[5] > numbers[2] || numbers[4] > INT64_MAX)
        return tr_fail(TR_EFORMAT, "the state of tasks is damaged: %zu bytes, version %llu, %llu tasks", size,
                       (unsigned long long)numbers[0], (unsigned long long)count);
    const tr_tasks_spec spec = {(uint32_t)count, (uint32_t)numbers[2], numbers[3], (double)numbers[4] / 1e9};
    tr_tasks *tasks = tr_tasks_new(&spec);
    tasks->lease_time = (int64_t)numbers[4];
    tasks->counts = (tr_tasks_counts){.pass = (uint32_t)numbers[5], .leases = numbers[6], .ran_out = numbers[7],
                                      .failed = numbers[8]};
    for (uint32_t i = 0; i < count; i++)
        if (from[i / 8] >> i % 8 & 1) {
            tasks->task[i].state = DONE;
            tasks->counts.done++;
        }
    tasks->counts.to_do = spec.count - tasks->counts.done;
    *out = tasks;
    return TR_OK;
}
