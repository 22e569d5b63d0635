/* server_tasks.c - see server_tasks.h. */
#include "pserver/server_tasks.h"

#include <stdlib.h>

#include "framework/memory.h"
#include "pserver/tasks.h"

struct tr__server_tasks {
    tr_tasks *core;
    int       teller;                 /* the trainer that said first what the tasks are */
    tr_wire  *last;                   /* answer to each trainer */
};

bool tr__server_is_task(const tr_wire *wire)
{
    return wire->kind == TR_WIRE_TASKS || wire->kind == TR_WIRE_TASK_ASK || wire->kind == TR_WIRE_TASK_END;
}

static int index_of(const tr_server *server, const tr__trainer *trainer)
{
    return (int)(trainer - server->trainer);
}

static tr_status check_same(const tr_server *server, const tr__trainer *trainer, const tr_tasks_spec *spec)
{
    const tr_tasks_spec *first = tr_tasks_spec_of(server->tasks->core);

    if (first->count == spec->count && first->passes == spec->passes && first->digest == spec->digest &&
        first->lease == spec->lease)
        return TR_OK;
    return tr_fail(TR_EPEER, "%s has %u tasks in %u passes (digest %016llx), %s has %u in %u (%016llx): all trainers are to be "
                   "given the same files", tr__server_trainer_name(server, trainer), spec->count, spec->passes,
                   (unsigned long long)spec->digest, tr__server_trainer_name(server, &server->trainer[server->tasks->teller]),
                   first->count, first->passes, (unsigned long long)first->digest);
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
    server->tasks = tr__must_alloc(sizeof *server->tasks);
    server->tasks->core = tr_tasks_new(&spec);
    server->tasks->teller = index_of(server, trainer);
    server->tasks->last = tr__must_alloc((size_t)server->trainer_count * sizeof *server->tasks->last);
    return TR_OK;
}

static tr_task look(const tr_tasks *tasks)
{
    return (tr_task){.answer = tr_tasks_are_done(tasks) ? TR_TASK_END : TR_TASK_WAIT};
}

static void on_ask(tr_server *server, const tr__trainer *trainer, const tr_wire *wire, int64_t now)
{
    const int     index = index_of(server, trainer);
    const tr_task task = wire->part ? look(server->tasks->core) : tr_tasks_lease(server->tasks->core, now, index);
    tr_wire      *last = &server->tasks->last[index];

    *last = (tr_wire){.kind = TR_WIRE_TASK, .epoch = trainer->epoch, .sender = (uint32_t)server->roster->self,
                      .seq = wire->seq, .step = task.pass, .block = task.task, .part = task.answer, .offset = task.lease};
    tr_outbox_put(&server->outbox, &(tr_message){.peer = trainer->rank, .wire = *last});
}

tr_status tr__server_on_task(tr_server *server, const tr__trainer *trainer, const tr_wire *wire, int64_t now)
{
    if (wire->kind == TR_WIRE_TASKS)
        return on_tasks(server, trainer, wire);
    if (!server->tasks)
        return tr_fail(TR_EPEER, "%s sent %s before it said what the tasks are (or it said so to a server that is dead)",
                       tr__server_trainer_name(server, trainer), tr_wire_kind_name(wire->kind));
    if (wire->kind == TR_WIRE_TASK_ASK)
        on_ask(server, trainer, wire, now);
    else if (wire->part)
        return tr_tasks_failed(server->tasks->core, index_of(server, trainer), wire->offset);
    else
        tr_tasks_done(server->tasks->core, index_of(server, trainer), wire->offset);
    return TR_OK;
}

void tr__server_task_again(tr_server *server, const tr__trainer *trainer, const tr_wire *wire)
{
    const tr_wire *last = server->tasks ? &server->tasks->last[index_of(server, trainer)] : NULL;

    if (last && last->seq == wire->seq)
        tr_outbox_put(&server->outbox, &(tr_message){.peer = trainer->rank, .wire = *last});
}

void tr__server_tasks_leave(tr_server *server, const tr__trainer *trainer)
{
    if (server->tasks)
        tr_tasks_leave(server->tasks->core, index_of(server, trainer));
}

void tr__server_tasks_free(tr_server *server)
{
    if (!server->tasks)
        return;
    tr_tasks_free(server->tasks->core);
    free(server->tasks->last);
    free(server->tasks);
}
