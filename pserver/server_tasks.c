/* server_tasks.c - see server_tasks.h. */
#include "pserver/server_tasks.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "framework/memory.h"
#include "pserver/tasks.h"

/* What a trainer works on. */
typedef struct work {
    uint64_t lease;                   /* the task of its next step; 0: none */
    uint64_t mark;                    /* its steps before that task's */
} work;

/* A task whose last step is not settled yet. */
typedef struct ending {
    uint64_t lease, step;
} ending;

enum { MOST_ENDING = 8 };

struct tr__server_tasks {
    tr_tasks *core;
    int       teller;                 /* the trainer that said first what the tasks are; -1: an earlier process knew */
    tr_wire  *last;                   /* answer to each trainer */
    work     *work;                   /* of each trainer */
    ending  (*ending)[MOST_ENDING];
    int      *endings;
    uint8_t  *kept;                   /* memory that outlives the process, or NULL */
};

bool tr__server_is_task(const tr_wire *wire)
{
    return wire->kind == TR_WIRE_TASKS || wire->kind == TR_WIRE_TASK_ASK || wire->kind == TR_WIRE_TASK_END;
}

static int index_of(const tr_server *server, const tr__trainer *trainer)
{
    return (int)(trainer - server->trainer);
}

/* == kept ========================================================================================= */

/* The number of the place that counts, the size of a place; then two places: work of each trainer, the core's state. */
typedef struct kept_head {
    _Atomic uint64_t current;
    uint64_t         place_bytes;     /* 0: nothing was kept yet */
} kept_head;

enum { KEPT_HEAD = 64 };

static uint64_t place_bytes(const tr_server *server, uint32_t count)
{
    return ((uint64_t)server->trainer_count * sizeof(work) + tr_tasks_size(count) + 63) / 64 * 64;
}

/* Let the state as it is now count: written to the place that does not, which then does. */
static void keep(tr_server *server)
{
    struct tr__server_tasks *t = server->tasks;
    const size_t             works = (size_t)server->trainer_count * sizeof *t->work;
    void                    *bytes;
    size_t                   size;

    if (!t->kept || tr_tasks_save(&bytes, &size, t->core) != TR_OK)
        return;
    kept_head     *head = (kept_head *)(void *)t->kept;
    const uint64_t next = 1 - atomic_load(&head->current), place = place_bytes(server, tr_tasks_spec_of(t->core)->count);
    uint8_t       *to = t->kept + KEPT_HEAD + next * place;
    memcpy(to, t->work, works);
    memcpy(to + works, bytes, size);
    atomic_store(&head->current, next);
    head->place_bytes = place;
    free(bytes);
}

static struct tr__server_tasks *tasks_new(const tr_server *server, tr_tasks *core, int teller)
{
    struct tr__server_tasks *t = tr__must_alloc(sizeof *t);
    const size_t             trainers = (size_t)server->trainer_count;

    t->core = core;
    t->teller = teller;
    t->last = tr__must_alloc(trainers * sizeof *t->last);
    t->work = tr__must_alloc(trainers * sizeof *t->work);
    t->ending = tr__must_alloc(trainers * sizeof *t->ending);
    t->endings = tr__must_alloc(trainers * sizeof *t->endings);
    return t;
}

/* Batches in a step that the server knows of. */
static uint64_t batches_of_step(const tr_server *server)
{
    return server->mode.kind == TR_MODE_GEO ? (uint64_t)server->mode.count : 1;
}

/* Steps that a trainer has made of its task, when it has made `steps` in all. */
static uint32_t made_of(const tr_server *server, const work *w, uint64_t steps)
{
    return steps > w->mark ? (uint32_t)((steps - w->mark) * batches_of_step(server)) : 0;
}

/* Nobody has a task any more; of what was begun the next one leaves out what was made. */
static void end_all(const tr_server *server, tr_tasks *core, work *all, const uint64_t *steps)
{
    for (int i = 0; i < server->trainer_count; i++) {
        tr_tasks_made(core, i, all[i].lease, made_of(server, &all[i], steps[i]));
        all[i] = (work){0};
    }
    tr_tasks_end_leases(core);
}

tr_status tr__server_tasks_take_over(tr_server *server, const tr_commit *commit, bool leases_stand)
{
    const size_t works = (size_t)server->trainer_count * sizeof(work);
    uint64_t     size = 0;
    uint8_t     *kept = server->store.tasks && server->self == 0 ? server->store.tasks(server->store.self, &size) : NULL;
    tr_tasks    *core;

    const kept_head *head = (const kept_head *)(const void *)kept;
    if (!kept || size < KEPT_HEAD || !head->place_bytes || size < KEPT_HEAD + 2 * head->place_bytes)
        return TR_OK;
    const uint8_t *from = kept + KEPT_HEAD + atomic_load(&head->current) * head->place_bytes;
    uint32_t       count;
    memcpy(&count, from + works + sizeof(uint64_t), sizeof count);     /* the second number, as every server lays it out */
    TR_TRY(tr_tasks_load(&core, from + works, tr_tasks_size(count)));
    server->tasks = tasks_new(server, core, -1);
    server->tasks->kept = kept;
    memcpy(server->tasks->work, from, works);
    if (!leases_stand)
        end_all(server, core, server->tasks->work, commit->settled);
    keep(server);
    return TR_OK;
}

void *tr__server_tasks_pack(const tr_server *server, size_t *size)
{
    void     *bytes = NULL, *packed = NULL;
    tr_tasks *copy = NULL;

    if (!server->tasks || tr_tasks_save(&bytes, size, server->tasks->core) != TR_OK)
        return NULL;
    if (tr_tasks_load(&copy, bytes, *size) == TR_OK) {
        work     *all = tr__must_alloc((size_t)server->trainer_count * sizeof *all);
        uint64_t *steps = tr__must_alloc((size_t)server->trainer_count * sizeof *steps);
        memcpy(all, server->tasks->work, (size_t)server->trainer_count * sizeof *all);
        for (int i = 0; i < server->trainer_count; i++)
            steps[i] = server->trainer[i].ended;
        end_all(server, copy, all, steps);
        if (tr_tasks_save(&packed, size, copy) != TR_OK)
            packed = NULL;
        free(all);
        free(steps);
    }
    tr_tasks_free(copy);
    free(bytes);
    return packed;
}

/* == what the tasks are ============================================================================ */

/* Those that the job's checkpoint tells of, when they are the same. */
static tr_tasks *of_checkpoint(const tr_server *server, const tr_tasks_spec *spec)
{
    const Trireme__Pserver__Setup *setup = server->setup;
    tr_tasks                      *core = NULL;

    if (!setup || !setup->has_tasks || tr_tasks_load(&core, setup->tasks.data, setup->tasks.len) != TR_OK)
        return NULL;
    if (tr_tasks_spec_of(core)->count == spec->count && tr_tasks_spec_of(core)->digest == spec->digest) {
        tr_tasks_extend(core, spec->passes, spec->lease);
        return core;
    }
    tr_tasks_free(core);                               /* other files: a new beginning */
    return NULL;
}

static const char *teller(const tr_server *server)
{
    const int index = server->tasks->teller;
    return index < 0 ? "the job before" : tr__server_trainer_name(server, &server->trainer[index]);
}

static tr_status check_same(const tr_server *server, const tr__trainer *trainer, const tr_tasks_spec *spec)
{
    const tr_tasks_spec *first = tr_tasks_spec_of(server->tasks->core);

    if (first->count == spec->count && first->passes == spec->passes && first->digest == spec->digest &&
        first->lease == spec->lease)
        return TR_OK;
    return tr_fail(TR_EPEER, "%s has %u tasks in %u passes (digest %016llx), %s has %u in %u (%016llx): all trainers are to be "
                   "given the same files", tr__server_trainer_name(server, trainer), spec->count, spec->passes,
                   (unsigned long long)spec->digest, teller(server), first->count, first->passes, (unsigned long long)first->digest);
}

static tr_status on_tasks(tr_server *server, const tr__trainer *trainer, const tr_wire *wire)
{
    const tr_tasks_spec spec = {wire->block, wire->part, wire->offset, wire->weight};

    if (server->self != 0)
        return tr_fail(TR_EPEER, "%s: server 0 alone hands tasks out", tr__server_trainer_name(server, trainer));
    if (server->mode.kind != TR_MODE_ASYNC && server->mode.kind != TR_MODE_GEO)
        return tr_fail(TR_EPEER, "%s wants tasks on lease, which need mode async or geo: elsewhere trainers wait for the steps of "
                       "one that has none", tr__server_trainer_name(server, trainer));
    if (server->tasks)
        return check_same(server, trainer, &spec);
    tr_tasks *known = of_checkpoint(server, &spec);
    server->tasks = tasks_new(server, known ? known : tr_tasks_new(&spec), index_of(server, trainer));
    uint64_t bytes = KEPT_HEAD + 2 * place_bytes(server, spec.count);
    if (server->store.tasks)
        server->tasks->kept = server->store.tasks(server->store.self, &bytes);
    keep(server);
    return TR_OK;
}

static tr_task look(const tr_tasks *tasks)
{
    return (tr_task){.answer = tr_tasks_are_done(tasks) ? TR_TASK_END : TR_TASK_WAIT};
}

/* In geo a step of a trainer is known when it is exchanged: what it made of its task since the last one is not. */
static uint64_t mark_now(const tr_server *server, const tr__trainer *trainer)
{
    const work *w = &server->tasks->work[index_of(server, trainer)];
    return trainer->ended + (server->mode.kind == TR_MODE_GEO && (trainer->ended || w->mark));
}

/* A lease for a trainer. One more than it knows of is the answer that a server which is dead has given it. */
static tr_task lease(tr_server *server, const tr__trainer *trainer, uint32_t held, int64_t now)
{
    struct tr__server_tasks *t = server->tasks;
    const int                index = index_of(server, trainer);
    work                    *w = &t->work[index];

    if (tr_tasks_held(t->core, index) > held + (uint32_t)t->endings[index])
        return tr_tasks_newest(t->core, index);
    const tr_task task = tr_tasks_lease(t->core, now, index);
    if (task.answer == TR_TASK_GIVEN && !w->lease)
        *w = (work){task.lease, mark_now(server, trainer)};
    keep(server);
    return task;
}

static void on_ask(tr_server *server, const tr__trainer *trainer, const tr_wire *wire, int64_t now)
{
    const int     index = index_of(server, trainer);
    const tr_task task = wire->part ? look(server->tasks->core) : lease(server, trainer, wire->block, now);
    tr_wire      *last = &server->tasks->last[index];

    *last = (tr_wire){.kind = TR_WIRE_TASK, .epoch = trainer->epoch, .sender = (uint32_t)server->roster->self,
                      .seq = wire->seq, .step = task.pass, .block = task.task, .part = task.answer, .offset = task.lease,
                      .weight = task.skip};
    tr_outbox_put(&server->outbox, &(tr_message){.peer = trainer->rank, .wire = *last});
}

/* Its next step is of the next task. */
static void go_on(tr_server *server, const tr__trainer *trainer, uint64_t lease, uint64_t mark)
{
    const int index = index_of(server, trainer);
    work     *w = &server->tasks->work[index];

    if (w->lease == lease)
        *w = (work){tr_tasks_next_held(server->tasks->core, index, lease), mark};
}

/* The oldest of the trainer's that wait to be done are. */
static void finish(tr_server *server, const tr__trainer *trainer, uint64_t settled)
{
    struct tr__server_tasks *t = server->tasks;
    const int                index = index_of(server, trainer);
    ending                  *all = t->ending[index];
    int                      count = 0;

    while (count < t->endings[index] && all[count].step <= settled) {
        tr_tasks_done(t->core, index, all[count].lease);
        go_on(server, trainer, all[count].lease, all[count].step + (mark_now(server, trainer) - trainer->ended));
        count++;
    }
    if (!count)
        return;
    t->endings[index] -= count;
    memmove(all, all + count, (size_t)t->endings[index] * sizeof *all);
    keep(server);
}

static tr_status on_end(tr_server *server, const tr__trainer *trainer, const tr_wire *wire)
{
    struct tr__server_tasks *t = server->tasks;
    const int                index = index_of(server, trainer);

    if (wire->part) {
        const tr_status status = tr_tasks_failed(t->core, index, wire->offset);
        go_on(server, trainer, wire->offset, mark_now(server, trainer));
        keep(server);
        return status;
    }
    if (t->endings[index] == MOST_ENDING)
        return tr_fail(TR_EPEER, "%s ends %d tasks between two steps", tr__server_trainer_name(server, trainer), MOST_ENDING + 1);
    t->ending[index][t->endings[index]++] = (ending){wire->offset, trainer->ended};
    finish(server, trainer, trainer->settled);
    return TR_OK;
}

tr_status tr__server_on_task(tr_server *server, const tr__trainer *trainer, const tr_wire *wire, int64_t now)
{
    if (wire->kind == TR_WIRE_TASKS)
        return on_tasks(server, trainer, wire);
    if (!server->tasks)
        return tr_fail(TR_EPEER, "%s sent %s before it said what the tasks are", tr__server_trainer_name(server, trainer),
                       tr_wire_kind_name(wire->kind));
    if (wire->kind == TR_WIRE_TASK_END)
        return on_end(server, trainer, wire);
    on_ask(server, trainer, wire, now);
    return TR_OK;
}

void tr__server_tasks_settled(tr_server *server)
{
    for (int i = 0; server->tasks && i < server->trainer_count; i++)
        if (server->tasks->endings[i])
            finish(server, &server->trainer[i], server->trainer[i].settled);
}

void tr__server_task_again(tr_server *server, const tr__trainer *trainer, const tr_wire *wire)
{
    const tr_wire *last = server->tasks ? &server->tasks->last[index_of(server, trainer)] : NULL;

    if (last && last->seq == wire->seq)
        tr_outbox_put(&server->outbox, &(tr_message){.peer = trainer->rank, .wire = *last});
}

void tr__server_tasks_leave(tr_server *server, const tr__trainer *trainer)
{
    const int index = index_of(server, trainer);

    if (!server->tasks)
        return;
    finish(server, trainer, trainer->ended);           /* what it has ended counts */
    work *w = &server->tasks->work[index];
    tr_tasks_made(server->tasks->core, index, w->lease, made_of(server, w, trainer->ended));
    *w = (work){0};
    tr_tasks_leave(server->tasks->core, index);
    keep(server);
}

void tr__server_tasks_free(tr_server *server)
{
    if (!server->tasks)
        return;
    tr_tasks_free(server->tasks->core);
    free(server->tasks->last);
    free(server->tasks->work);
    free(server->tasks->ending);
    free(server->tasks->endings);
    free(server->tasks);
}
