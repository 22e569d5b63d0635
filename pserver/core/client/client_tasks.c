/* client_tasks.c - a trainer's messages about leased tasks, to server 0. They are sent in the order of the trainer's steps. Two of them
 * wait until all servers have settled the steps before them: TASKS, with which work on tasks begins, and GOODBYE. */
#include "pserver/core/client/client_protocols.h"

#include "framework/base/memory.h"

/* Have all servers settled all steps that this trainer has ended? A single server needs no report about other servers. */
static bool is_even(const tr_client *client)
{
    return client->stream_count == 1 || tr__client_everywhere(client) == client->step;
}

/* == the requests ================================================================================= */

static void describe(char *out, size_t size, const tr_wire *wire, int server)
{
    (void)wire;
    snprintf(out, size, "a task from server %d", server);
}

static void take(tr_client *client, tr__stream *s, tr__request *r, const tr_wire *wire, const uint8_t *payload, bool is_direct)
{
    const tr_form_task *task = &wire->task;

    (void)payload;
    (void)is_direct;
    if (wire->kind != TR_WIRE_TASK)
        return;
    *r->task = (tr_task){(tr_task_answer)task->answer, task->task, task->pass, task->lease, task->steps};
    if (task->answer == TR_TASK_GIVEN)
        client->tasks.last_lease = task->lease;
    tr__client_finish(client, s, r);
}

static const tr__ask of_word = {.describe = describe};       /* TASKS, TASK_END, SETTLED */
static const tr__ask of_question = {.is_question = true, .needs_receipts = true, .describe = describe, .take = take};

/* == steps that others have made ================================================================== */

/* The highest number of steps that a server has of this trainer, or (`of_all`) of any trainer. */
static uint64_t most_ended(const tr_client *client, bool of_all)
{
    uint64_t most = tr_client_even_from(client);

    for (int i = 0; i < client->stream_count; i++) {
        const tr__stream *s = &client->stream[i];
        most = s->ended > most ? s->ended : most;
        most = of_all && s->fastest > most ? s->fastest : most;
    }
    return most;
}

/* Some servers may have steps of an earlier process of this trainer that others lack. The batches of these steps are leased again, so the
 * servers that lack the steps get them as steps without a gradient. With `keeps_pace` the trainer also ends empty steps until it has as
 * many as the fastest trainer. */
static void even_out(tr_client *client, uint64_t op, bool keeps_pace)
{
    const uint64_t to = most_ended(client, keeps_pace);

    for (int i = 0; client->step < to && i < client->stream_count; i++) {
        tr__stream *s = &client->stream[i];
        for (uint64_t step = (s->settled > client->step ? s->settled : client->step) + 1; step <= to; step++)
            tr__client_send_step_end(client, s, op, step, true);
    }
    client->step = to > client->step ? to : client->step;
}

/* == sending ====================================================================================== */

static bool is_leave(const tr_wire *wire)
{
    return wire->kind == TR_WIRE_GOODBYE || wire->kind == TR_WIRE_DRAIN;
}

static void send(tr_client *client, const tr__task *t)
{
    tr_wire wire = t->task.wire;

    if (wire.kind == TR_WIRE_TASKS)
        wire.tasks.step = tr__client_step_of(client, &client->stream[0]);
    else if (wire.kind == TR_WIRE_TASK_ASK)
        wire.task_ask.last_lease = client->tasks.last_lease;
    else if (is_leave(&wire))
        wire.leave.everywhere = client->step;
    tr__request *r = tr__client_add(client, &client->stream[0], t->ask, &wire, t->op, t->payload, t->bytes);
    r->owned = t->payload;
    if (wire.kind == TR_WIRE_TASK_ASK)
        r->task = t->task.answer;
    client->is_evened |= wire.kind == TR_WIRE_TASKS;
    tr__client_op_count_down(client, t->op);
}

/* Report to server 0 that all servers have settled the last step of a task, so that the task is done. */
static void send_settled(tr_client *client)
{
    if (!client->tasks.report_at || client->stream_count == 1 || tr__client_everywhere(client) < client->tasks.report_at)
        return;
    client->tasks.report_at = 0;
    tr__client_add(client, &client->stream[0], &of_word,
                   &(tr_wire){.kind = TR_WIRE_SETTLED, .settled = {.everywhere = tr__client_everywhere(client)}}, 0, NULL, 0);
}

static bool must_wait(const tr_client *client, const tr_client_task *task)
{
    return (task->wire.kind == TR_WIRE_TASKS || is_leave(&task->wire)) && !is_even(client);
}

void tr__client_send_tasks(tr_client *client)
{
    uint32_t sent = 0;

    if (!client->tasks.has_any)
        return;
    send_settled(client);
    while (sent < client->tasks.count && !must_wait(client, &client->tasks.waiting[sent].task))
        send(client, &client->tasks.waiting[sent++]);
    client->tasks.count -= sent;
    if (sent)
        memmove(client->tasks.waiting, client->tasks.waiting + sent, client->tasks.count * sizeof *client->tasks.waiting);
}

void tr__client_task_later(tr_client *client, const tr__ask *ask, const tr_client_task *task, uint8_t *payload, size_t bytes, uint64_t op)
{
    if (client->tasks.count == client->tasks.capacity) {
        client->tasks.capacity = client->tasks.capacity ? 2 * client->tasks.capacity : 4;
        client->tasks.waiting = tr__must_realloc(client->tasks.waiting, client->tasks.capacity * sizeof *client->tasks.waiting);
    }
    client->tasks.waiting[client->tasks.count++] = (tr__task){ask, *task, payload, bytes, op};
    ++*tr__client_op_at(client, op);
    tr__client_send_tasks(client);
}

uint64_t tr_client_task_request(tr_client *client, const tr_client_task *task)
{
    const uint64_t op = tr__client_op_begin(client);

    client->tasks.has_any = true;
    if (task->is_first)
        even_out(client, op, task->keeps_pace);
    tr__client_task_later(client, task->wire.kind == TR_WIRE_TASK_ASK ? &of_question : &of_word, task, NULL, 0, op);
    if (task->wire.kind == TR_WIRE_TASK_END)
        client->tasks.report_at = client->step;
    tr__client_send_tasks(client);
    tr__client_op_count_down(client, op);
    return op;
}

bool tr__client_has_tasks(const tr_client *client)
{
    return client->tasks.has_any;
}

bool tr__client_has_tasks_to_send(const tr_client *client)
{
    return client->tasks.count > 0;
}

void tr__client_free_tasks(tr_client *client)
{
    for (uint32_t i = 0; i < client->tasks.count; i++)
        free(client->tasks.waiting[i].payload);
    free(client->tasks.waiting);
}
