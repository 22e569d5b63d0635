/* tasks.c - see tasks.h. */
#include "pserver/core/tasks/tasks.h"

#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"

/* The end of a lease that was just loaded: its time starts at the next tr_tasks_lease. */
static const int64_t NOT_SEEN_YET = INT64_MIN;

typedef enum state { TO_DO, LEASED, DONE } state;

typedef struct task {
    uint8_t  state, failures;
    int      trainer;                 /* LEASED: the trainer that has it; `lease` and `until` are valid then */
    uint32_t skip;                    /* steps of it that were made, which the next trainer skips */
    uint64_t lease;
    int64_t  until;
} task;

struct tr_tasks {
    tr_tasks_spec   spec;
    uint32_t        list;
    int64_t         lease_time;
    tr_tasks_counts counts;
    uint32_t        first;            /* all tasks before this one are leased or done */
    int64_t         next_end;         /* no lease expires before this time */
    task           *task;
};

tr_tasks *tr_tasks_new(const tr_tasks_spec *spec, uint32_t list, const tr_tasks *before)
{
    tr_tasks *tasks = tr__must_alloc(sizeof *tasks);

    tasks->spec = *spec;
    tasks->list = list;
    tasks->counts.leases = before ? before->counts.leases : 0;
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

uint32_t tr_tasks_list(const tr_tasks *tasks)
{
    return tasks->list;
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

static tr_task given(const tr_tasks *tasks, const task *t)
{
    return (tr_task){TR_TASK_GIVEN, (uint32_t)(t - tasks->task), tasks->counts.pass, t->lease, t->skip};
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
        if (t->until == NOT_SEEN_YET)
            t->until = now + tasks->lease_time;
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
    return given(tasks, t);
}

static task *find(const tr_tasks *tasks, int trainer, uint64_t lease)
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

void tr_tasks_made(tr_tasks *tasks, int trainer, uint64_t lease, uint32_t steps)
{
    task *t = find(tasks, trainer, lease);

    if (t)
        t->skip += steps;
}

tr_task tr_tasks_leased(const tr_tasks *tasks, int trainer, uint64_t lease)
{
    const task *t = find(tasks, trainer, lease);

    return t ? given(tasks, t) : (tr_task){.answer = TR_TASK_WAIT};
}

void tr_tasks_extend(tr_tasks *tasks, uint32_t passes, double lease)
{
    const bool are_done = tr_tasks_are_done(tasks);

    tasks->spec.passes = passes;
    tasks->spec.lease = lease;
    tasks->lease_time = (int64_t)(lease * 1e9);
    if (are_done && tasks->spec.count && !tr_tasks_are_done(tasks)) {
        tasks->counts.pass--;
        begin_pass(tasks);
    }
}

/* == as bytes ================================================================================= */

/* Numbers of 8 bytes, little-endian: version, count, passes, digest, lease in nanoseconds, pass, leases, ran out, failed, list;
 * then two for each task: its state, failures (8 bits each), trainer (16) and steps (32), lowest first; its lease. */
enum { VERSION = 3, NUMBERS = 10 };

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

size_t tr_tasks_size(uint32_t count)
{
    return 8 * (NUMBERS + 2 * (size_t)count);
}

tr_status tr_tasks_save(void **out, size_t *size, const tr_tasks *tasks)
{
    const tr_tasks_counts *c = &tasks->counts;
    const uint64_t numbers[NUMBERS] = {VERSION, tasks->spec.count, tasks->spec.passes, tasks->spec.digest,
                                       (uint64_t)tasks->lease_time, c->pass, c->leases, c->ran_out, c->failed, tasks->list};

    *size = tr_tasks_size(tasks->spec.count);
    uint8_t *to = *out = tr__must_bytes(*size);
    for (int i = 0; i < NUMBERS; i++)
        put(&to, numbers[i]);
    for (uint32_t i = 0; i < tasks->spec.count; i++) {
        const task *t = &tasks->task[i];
        put(&to, t->state | (uint64_t)t->failures << 8 | (uint64_t)(uint16_t)t->trainer << 16 | (uint64_t)t->skip << 32);
        put(&to, t->lease);
    }
    return TR_OK;
}

static tr_status bad_state(size_t size, const uint64_t *numbers)
{
    return tr_fail(TR_EFORMAT, "the state of tasks is damaged: %zu bytes, version %llu, %llu tasks", size,
                   (unsigned long long)numbers[0], (unsigned long long)numbers[1]);
}

static void take_task(tr_tasks *tasks, uint32_t index, uint64_t bits, uint64_t lease)
{
    task *t = &tasks->task[index];

    *t = (task){(uint8_t)bits, (uint8_t)(bits >> 8), (uint16_t)(bits >> 16), (uint32_t)(bits >> 32), lease,
                NOT_SEEN_YET};
    tasks->counts.to_do += t->state == TO_DO;
    tasks->counts.leased += t->state == LEASED;
    tasks->counts.done += t->state == DONE;
}

tr_status tr_tasks_load(tr_tasks **out, const void *bytes, size_t size)
{
    const uint8_t *from = bytes;
    uint64_t       numbers[NUMBERS] = {0};

    for (int i = 0; i < NUMBERS && size >= tr_tasks_size(0); i++)
        numbers[i] = get(&from);
    const uint64_t count = numbers[1];
    if (numbers[0] != VERSION || count > UINT32_MAX || size != tr_tasks_size((uint32_t)count) || numbers[2] > UINT32_MAX ||
        numbers[5] > numbers[2] || numbers[4] > INT64_MAX || numbers[9] > UINT32_MAX)
        return bad_state(size, numbers);
    for (uint64_t i = 0; i < count; i++)
        if (from[16 * i] > DONE)
            return bad_state(size, numbers);
    const tr_tasks_spec spec = {(uint32_t)count, (uint32_t)numbers[2], numbers[3], (double)numbers[4] / 1e9};
    tr_tasks *tasks = tr_tasks_new(&spec, (uint32_t)numbers[9], NULL);
    tasks->lease_time = (int64_t)numbers[4];
    tasks->counts = (tr_tasks_counts){.pass = (uint32_t)numbers[5], .leases = numbers[6], .ran_out = numbers[7],
                                      .failed = numbers[8]};
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t bits = get(&from);
        take_task(tasks, i, bits, get(&from));
    }
    tasks->next_end = INT64_MIN;
    *out = tasks;
    return TR_OK;
}
