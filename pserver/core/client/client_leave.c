/* client_leave.c - a trainer's last steps are made: it stays for the last checkpoint (DRAIN), and leaves (GOODBYE). */
#include "pserver/core/client/client_protocols.h"

static void describe_drain(char *out, size_t size, const tr_wire *wire, int server)
{
    (void)wire;
    snprintf(out, size, "server %d to say that the last checkpoint is made", server);
}

static void describe_goodbye(char *out, size_t size, const tr_wire *wire, int server)
{
    snprintf(out, size, "server %d to let it go after step %llu", server, (unsigned long long)wire->leave.step);
}

static const tr__ask of_drain = {.kept = TR__KEPT_TO_THE_END, .describe = describe_drain};
static const tr__ask of_goodbye = {.kept = TR__KEPT_TO_THE_END, .describe = describe_goodbye};

/* The trainer sends its last place once: in DRAIN, or, if it has not drained, in GOODBYE. */
static uint64_t send_last_place(tr_client *client, const tr__ask *ask, tr_wire_kind kind)
{
    const uint64_t op = tr__client_op_begin(client);

    tr_client_flush(client);
    for (int i = 0; i < client->stream_count; i++) {
        size_t        size;
        uint8_t      *place = tr__client_pack_place(client, &size);
        const tr_wire leave = {.kind = kind, .leave = {.step = tr__client_step_of(client, &client->stream[i])}};
        if (i == 0 && tr__client_has_tasks(client))         /* server 0 gets it after all servers have settled the steps, so that its tasks
                                                             * are done */
            tr__client_task_later(client, ask, &(tr_client_task){.wire = leave}, place, size, op);
        else
            tr__client_add(client, &client->stream[i], ask, &leave, op, place, size)->owned = place;
    }
    tr__client_op_count_down(client, op);
    return op;
}

uint64_t tr_client_drain(tr_client *client)
{
    client->is_draining = true;
    return send_last_place(client, &of_drain, TR_WIRE_DRAIN);
}

uint64_t tr_client_goodbye(tr_client *client)
{
    client->has_left = true;
    if (!client->is_draining)
        return send_last_place(client, &of_goodbye, TR_WIRE_GOODBYE);
    const uint64_t op = tr__client_op_begin(client);
    for (int i = 0; i < client->stream_count; i++) {
        tr__stream   *s = &client->stream[i];
        const tr_wire leave = {.kind = TR_WIRE_GOODBYE,
                               .leave = {.step = tr__client_step_of(client, s), .has_last = tr_client_is_initiator(client)}};
        tr__client_add(client, s, &of_goodbye, &leave, op, NULL, 0);
    }
    tr__client_op_count_down(client, op);
    return op;
}
