/* server_tasks.c - see server_tasks.h. */
#include "pserver/core/snapshots/server_tasks.h"

#include "framework/base/memory.h"
#include "pserver/core/snapshots/server_replication.h"
#include "pserver/core/tasks/durable_tasks.h"
#include "pserver/core/tasks/task_work.h"

#include <stdlib.h>
#include <string.h>

struct tr__tasks {
    tr_tasks *core;
    int       declared_by;                 /* the trainer whose TASKS came first; -1: the tasks are from an earlier process */
    tr_wire  *last;                   /* the last answer to each trainer */
    tr_task_work *work;               /* the work of each trainer */
    tr_durable_tasks durable;
};

static tr_task_work *work_of(const tr_server *server, const tr__trainer *trainer)
{
    return &server->tasks->work[trainer->index];
}

/* == kept ========================================================================================= */

/* Pack the state for durable memory: the work of each trainer, then the state of the core in tasks.h. malloc'ed. */
static uint8_t *pack_all(const tr_server *server, size_t *size)
{
    const tr__tasks *t = server->tasks;
    const size_t                   works = (size_t)server->trainer_count * sizeof *t->work;
    void                          *bytes;
    size_t                         count;

    if (tr_tasks_save(&bytes, &count, t->core) != TR_OK)
        return NULL;
    uint8_t *all = tr__must_alloc(works + count);
    memcpy(all, t->work, works);
    memcpy(all + works, bytes, count);
    free(bytes);
    *size = works + count;
    return all;
}

/* Store the present state, here and on the replica. */
static void store_state(tr_server *server)
{
    size_t   size;
    uint8_t *all = pack_all(server, &size);

    if (!all)
        return;
    tr_durable_tasks_put(&server->tasks->durable, all, size);
    tr__replication_tasks(server, all, size);
}

void tr__tasks_replicate(tr_server *server)
{
    size_t   size;
    uint8_t *all = server->tasks ? pack_all(server, &size) : NULL;

    if (all)
        tr__replication_tasks(server, all, size);
}

static tr__tasks *tasks_new(const tr_server *server, tr_tasks *core, int declared_by)
{
    tr__tasks *t = tr__must_alloc(sizeof *t);
    const size_t             trainers = (size_t)server->trainer_count;

    t->core = core;
    t->declared_by = declared_by;
    t->last = tr__must_alloc(trainers * sizeof *t->last);
    t->work = tr__must_alloc(trainers * sizeof *t->work);
    return t;
}

/* == steps and tasks ============================================================================== */

/* The number of batches in a step, by the tasks' specification. */
static uint64_t batches_of_step(const tr_server *server)
{
    return (uint64_t)server->policy.period;
}

/* The number of the trainer's steps that every server has settled: by its report, or, with one server, by this server's own count. */
static uint64_t everywhere(const tr_server *server, const tr__trainer *trainer)
{
    const uint64_t said = work_of(server, trainer)->everywhere;

    return server->roster->servers == 1 || said > trainer->settled ? trainer->settled : said;
}

static void look_at(tr_server *server, const tr__trainer *trainer)
{
    const int      index = trainer->index;
    tr_task_work *w = work_of(server, trainer);
    tr_tasks      *core = server->tasks->core;
    const uint64_t steps = everywhere(server, trainer);

    if (!w->spans && !w->releases_at)
        return;
    if (w->releases_at && trainer->settled + 1 >= w->releases_at) {
        tr_task_work_give_back(w, core, index, steps, batches_of_step(server));
        store_state(server);
    } else if (tr_task_work_finish(w, core, index, steps)) {
        store_state(server);
    }
}

void tr__tasks_settled(tr_server *server)
{
    for (int i = 0; server->tasks && i < server->trainer_count; i++)
        look_at(server, &server->trainer[i]);
}

static void set_everywhere(const tr_server *server, const tr__trainer *trainer, uint64_t steps)
{
    work_of(server, trainer)->everywhere = steps;
    tr_durable_tasks_set_everywhere(&server->tasks->durable, trainer->index, steps);
}

/* While a dead trainer's tasks wait to be released, a report is not about its steps, so it is ignored. */
void tr__tasks_set_everywhere(tr_server *server, const tr__trainer *trainer, uint64_t steps)
{
    tr_task_work *w = server->tasks ? work_of(server, trainer) : NULL;

    if (!w || w->releases_at || steps <= w->everywhere)
        return;
    set_everywhere(server, trainer, steps);
    look_at(server, trainer);
}

void tr__tasks_leave(tr_server *server, const tr__trainer *trainer)
{
    tr_task_work *w = server->tasks ? work_of(server, trainer) : NULL;

    if (!w || !w->spans || (w->releases_at && w->releases_at != TR_TASK_NOT_YET))
        return;
    w->releases_at = trainer->ended + 1;
    store_state(server);
    look_at(server, trainer);
}

void tr__tasks_vacant(tr_server *server, const tr__trainer *trainer)
{
    tr_task_work *w = server->tasks ? work_of(server, trainer) : NULL;

    if (!w || !w->spans || w->releases_at)
        return;
    w->releases_at = TR_TASK_NOT_YET;
    store_state(server);
}

/* What it had is of a process before it. */
static void give_back(tr_server *server, const tr__trainer *trainer)
{
    work_of(server, trainer)->releases_at = 0;
    tr__tasks_leave(server, trainer);
}

void tr__tasks_join(tr_server *server, const tr__trainer *trainer, uint64_t step)
{
    if (!server->tasks)
        return;
    set_everywhere(server, trainer, step);
    give_back(server, trainer);
}

void tr__tasks_join_with_gap(tr_server *server, const tr__trainer *trainer)
{
    if (server->tasks)
        give_back(server, trainer);
}

/* For trainers that are gone: no more steps than those that are settled here will ever be settled. */
static void release_left(tr_server *server)
{
    for (int i = 0; i < server->trainer_count; i++) {
        const tr__trainer *t = &server->trainer[i];
        tr_task_work *w = work_of(server, t);
        if (tr_membership_is_over(t->state) || w->releases_at)
            w->releases_at = t->settled + 1;
    }
    tr__tasks_settled(server);
}

static bool are_works(const uint8_t *from, int count)
{
    tr_task_work w;

    for (int i = 0; i < count; i++) {
        memcpy(&w, from + (size_t)i * sizeof w, sizeof w);
        if (w.spans > TR_TASK_SPANS)
            return false;
    }
    return true;
}

tr_status tr__tasks_take_over(tr_server *server, bool trainers_live)
{
    const size_t  works = (size_t)server->trainer_count * sizeof(tr_task_work);
    tr_durable_tasks durable = {NULL};
    size_t        size = 0;
    tr_tasks     *core;

    if (server->self != 0 || !tr_durable_tasks_attach(&durable, &server->store))
        return TR_OK;
    const uint8_t *from = tr_durable_tasks_get(&durable, &size);
    if (size < works || !are_works(from, server->trainer_count))
        return tr_fail(TR_EFORMAT, "the state of tasks is damaged: %zu bytes for %d trainers", size, server->trainer_count);
    TR_TRY(tr_tasks_load(&core, from + works, size - works));
    server->tasks = tasks_new(server, core, -1);
    server->tasks->durable = durable;
    memcpy(server->tasks->work, from, works);
    for (int i = 0; i < server->trainer_count; i++) {
        const uint64_t noted = tr_durable_tasks_everywhere(&durable, i);
        tr_task_work *w = &server->tasks->work[i];
        w->everywhere = noted > w->everywhere ? noted : w->everywhere;
    }
    if (trainers_live)
        release_left(server);
    return TR_OK;
}

/* Close all leases in a copy of the state, for a checkpoint. Every server has all steps of the trainers that took part in the snapshot. */
static void end_all(const tr_server *server, tr_tasks *core, const bool *has_taken_part)
{
    for (int i = 0; i < server->trainer_count; i++) {
        const tr__trainer *t = &server->trainer[i];
        tr_task_work       w = *work_of(server, t);
        tr_task_work_give_back(&w, core, i, has_taken_part[i] ? t->ended : everywhere(server, t), batches_of_step(server));
    }
}

void *tr__tasks_pack(const tr_server *server, const bool *has_taken_part, size_t *size)
{
    void     *bytes = NULL, *packed = NULL;
    tr_tasks *copy = NULL;

    if (!server->tasks || tr_tasks_save(&bytes, size, server->tasks->core) != TR_OK)
        return NULL;
    if (tr_tasks_load(&copy, bytes, *size) == TR_OK) {
        end_all(server, copy, has_taken_part);
        if (tr_tasks_save(&packed, size, copy) != TR_OK)
            packed = NULL;
    }
    tr_tasks_free(copy);
    free(bytes);
    return packed;
}

/* == what the tasks are ============================================================================ */

/* The tasks in the checkpoint from which the job began. NULL: there are none, or they are of other data. */
static tr_tasks *of_checkpoint(const tr_server *server, const tr_tasks_spec *spec, uint32_t list)
{
    const Trireme__Pserver__Setup *setup = server->setup;
    tr_tasks                      *core = NULL;

    if (!setup || !setup->has_tasks || tr_tasks_load(&core, setup->tasks.data, setup->tasks.len) != TR_OK)
        return NULL;
    if (tr_tasks_list(core) > list)
        return core;                                   /* the script comes to that list later */
    if (tr_tasks_list(core) == list && tr_tasks_spec_of(core)->count == spec->count && tr_tasks_spec_of(core)->digest == spec->digest) {
        tr_tasks_extend(core, spec->passes, spec->lease);
        return core;
    }
    tr_tasks_free(core);                               /* the data files have changed, so the tasks begin from the first */
    return NULL;
}

static const char *declared_by(const tr_server *server)
{
    const int index = server->tasks->declared_by;
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
                   (unsigned long long)spec->digest, declared_by(server), first->count, first->passes, (unsigned long long)first->digest);
}

/* Memory for the state of these tasks and of all trainers, where it outlives the process. */
static void make_durable(tr_server *server)
{
    tr__tasks   *t = server->tasks;
    const size_t size = (size_t)server->trainer_count * sizeof(tr_task_work) + tr_tasks_size(tr_tasks_spec_of(t->core)->count);

    if (tr_durable_tasks_capacity(&t->durable) != size)
        tr_durable_tasks_create(&t->durable, &server->store, size, server->trainer_count);
    for (int i = 0; i < server->trainer_count; i++)
        tr_durable_tasks_set_everywhere(&t->durable, i, t->work[i].everywhere);
    store_state(server);
}

/* Is the present list over: are its passes done, or does every trainer want a later one? */
static bool is_list_over(const tr_server *server)
{
    bool is_wanted = false;

    for (int i = 0; i < server->trainer_count; i++)
        is_wanted |= !tr_membership_is_over(server->trainer[i].state) &&
                     work_of(server, &server->trainer[i])->list <= tr_tasks_list(server->tasks->core);
    return !is_wanted || tr_tasks_are_done(server->tasks->core);
}

static void begin_list(tr_server *server, const tr__trainer *trainer, const tr_tasks_spec *spec, uint32_t list)
{
    tr_tasks *before = server->tasks->core;

    server->tasks->core = tr_tasks_new(spec, list, before);
    server->tasks->declared_by = trainer->index;
    tr_tasks_free(before);
    make_durable(server);
}

static void begin_first_list(tr_server *server, const tr__trainer *trainer, const tr_tasks_spec *spec, uint32_t list)
{
    tr_tasks *known = of_checkpoint(server, spec, list);

    server->tasks = tasks_new(server, known ? known : tr_tasks_new(spec, list, NULL), trainer->index);
    work_of(server, trainer)->list = list;
    make_durable(server);
}

/* TASKS: the trainer begins a list. Leases that it still has are of an earlier process or list. A list before the present one is over. */
tr_status tr__tasks_on_tasks(tr_server *server, const tr__trainer *trainer, const tr_wire *wire)
{
    const tr_tasks_spec spec = {wire->tasks.count, wire->tasks.passes, wire->tasks.digest, wire->tasks.milliseconds / 1e3};
    const uint32_t      list = wire->tasks.list;

    if (server->self != 0)
        return tr_fail(TR_EPEER, "%s: server 0 alone hands tasks out", tr__server_trainer_name(server, trainer));
    if (!server->policy.leases_tasks)
        return tr_fail(TR_EPEER, "%s wants tasks on lease, which need mode async, ssp or geo: elsewhere trainers wait for the gradients "
                       "of one that has none", tr__server_trainer_name(server, trainer));
    if (!server->tasks) {
        begin_first_list(server, trainer, &spec, list);
        return TR_OK;
    }
    tr__tasks_set_everywhere(server, trainer, wire->tasks.step);
    tr__tasks_leave(server, trainer);
    work_of(server, trainer)->list = list;
    if (list > tr_tasks_list(server->tasks->core) && is_list_over(server))
        begin_list(server, trainer, &spec, list);
    return list == tr_tasks_list(server->tasks->core) ? check_same(server, trainer, &spec) : TR_OK;
}

/* The answer where no task is leased. */
static tr_task look(const tr_server *server, const tr__trainer *trainer)
{
    const tr_tasks *core = server->tasks->core;
    const uint64_t  list = work_of(server, trainer)->list;

    if (list > tr_tasks_list(core))
        return (tr_task){.answer = TR_TASK_LATER};
    return (tr_task){.answer = list < tr_tasks_list(core) || tr_tasks_are_done(core) ? TR_TASK_END : TR_TASK_WAIT};
}

/* Record a lease in the trainer's work. The trainer begins the task at once if it has no other one. */
static void begin(tr_server *server, const tr__trainer *trainer, uint64_t lease)
{
    tr_task_work *w = work_of(server, trainer);
    const bool is_next = !tr_task_work_first_open(w);

    w->span[w->spans++] = (tr_task_span){lease, is_next ? trainer->ended : TR_TASK_NOT_YET, TR_TASK_NOT_YET};
}

/* Find a lease whose TASK was lost with a dead server 0: its number is higher than that of any lease which the trainer knows. */
static tr_task lost_answer(const tr_server *server, const tr__trainer *trainer, uint64_t known)
{
    tr_task_work *w = work_of(server, trainer);

    for (uint64_t i = 0; i < w->spans; i++) {
        if (w->span[i].lease <= known)
            continue;
        const tr_task task = tr_tasks_leased(server->tasks->core, trainer->index, w->span[i].lease);
        if (task.answer == TR_TASK_GIVEN)
            return task;
        tr_task_work_drop(w, i--);                             /* the lease has expired meanwhile */
    }
    return (tr_task){.answer = TR_TASK_WAIT};
}

/* Lease a task to a trainer whose newest known lease is `known`. */
static tr_status lease(tr_task *out, tr_server *server, const tr__trainer *trainer, uint64_t known, int64_t now)
{
    tr_task_work *w = work_of(server, trainer);

    *out = (tr_task){.answer = TR_TASK_WAIT};
    if (w->releases_at)
        return TR_OK;
    *out = lost_answer(server, trainer, known);
    if (out->answer == TR_TASK_GIVEN)
        return TR_OK;
    if (w->spans == TR_TASK_SPANS)
        return tr_fail(TR_EPEER, "%s wants a task more than the %d that it has", tr__server_trainer_name(server, trainer),
                       TR_TASK_SPANS);
    *out = tr_tasks_lease(server->tasks->core, now, trainer->index);
    if (out->answer == TR_TASK_GIVEN) {
        begin(server, trainer, out->lease);
        store_state(server);
    }
    return TR_OK;
}

static tr_status on_ask(tr_server *server, const tr__trainer *trainer, const tr_wire *wire, int64_t now)
{
    tr_wire *last = &server->tasks->last[trainer->index];
    tr_task  task = look(server, trainer);

    if (!wire->task_ask.only_asks && work_of(server, trainer)->list == tr_tasks_list(server->tasks->core))
        TR_TRY(lease(&task, server, trainer, wire->task_ask.last_lease, now));
    *last = (tr_wire){.kind = TR_WIRE_TASK, .incarnation = trainer->incarnation,
                      .seq = wire->seq, .task = {.lease = task.lease, .answer = (uint32_t)task.answer, .task = task.task,
                                                 .pass = task.pass, .steps = task.skip}};
    tr__server_send(server, trainer->rank, *last, NULL);
    return TR_OK;
}

/* TASK_END. The trainer's next step belongs to its next task. If the ended task is not open here, a dead server 0 had recorded its end
 * already. */
static tr_status on_end(tr_server *server, const tr__trainer *trainer, const tr_wire *wire)
{
    const bool has_failed = wire->task_end.has_failed;
    tr_task_work *w = work_of(server, trainer);
    uint64_t   at = 0;
    tr_status  status = TR_OK;

    while (at < w->spans && (w->span[at].lease != wire->task_end.lease || !tr_task_span_is_open(&w->span[at])))
        at++;
    if (at == w->spans)
        return TR_OK;
    w->span[at].to = trainer->ended;
    if (has_failed) {
        status = tr_tasks_failed(server->tasks->core, trainer->index, wire->task_end.lease);
        tr_task_work_drop(w, at);
    }
    tr_task_span *next = tr_task_work_first_open(w);
    if (next && next->from == TR_TASK_NOT_YET)
        next->from = trainer->ended;
    tr_task_work_finish(w, server->tasks->core, trainer->index, everywhere(server, trainer));
    store_state(server);
    return status;
}

/* Handle a request about a task of the list. */
static tr_status on_request(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint8_t *payload, bool is_owned)
{
    (void)payload;
    (void)is_owned;
    if (!server->tasks)
        return tr_fail(TR_EPEER, "%s sent %s before it said what the tasks are", tr__server_trainer_name(server, trainer),
                       tr_wire_kind_name(wire->kind));
    if (wire->kind == TR_WIRE_TASK_ASK)
        return on_ask(server, trainer, wire, server->now);
    if (wire->kind == TR_WIRE_TASK_END)
        return on_end(server, trainer, wire);
    tr__tasks_set_everywhere(server, trainer, wire->settled.everywhere);
    return TR_OK;
}

/* A repeated TASK_ASK gets the same answer. */
static void on_ask_again(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload)
{
    const tr_wire *last = server->tasks ? &server->tasks->last[trainer->index] : NULL;

    (void)payload;
    if (last && last->seq == wire->seq)
        tr__server_send(server, trainer->rank, *last, NULL);
}

const tr__handler tr__tasks_handlers[] = {
    {TR_WIRE_TASK_ASK, on_request, on_ask_again}, {TR_WIRE_TASK_END, on_request, NULL}, {TR_WIRE_SETTLED, on_request, NULL}, {0}};

void tr__tasks_free(tr_server *server)
{
    if (!server->tasks)
        return;
    tr_tasks_free(server->tasks->core);
    free(server->tasks->last);
    free(server->tasks->work);
    free(server->tasks);
}
