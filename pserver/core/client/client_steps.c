/* client_steps.c - the end of a trainer's step (STEP_END). */
#include "pserver/core/client/client_protocols.h"

static void settle(tr__stream *s, const tr__request *r)
{
    s->settled = r->wire.step_end.step;
}

static const tr__ask of_end = {.settled_by = tr_wire_step, .done = settle, .describe = tr__client_describe_step};

void tr__client_send_step_end(tr_client *client, tr__stream *s, uint64_t op, uint64_t step, bool is_idle)
{
    const tr_wire end = {.kind = TR_WIRE_STEP_END,
                         .step_end = {.step = step, .everywhere = tr__client_everywhere(client), .is_idle = is_idle}};

    tr__client_add(client, s, &of_end, &end, op, NULL, 0);
}

static uint64_t end_step(tr_client *client, bool is_idle)
{
    const uint64_t op = tr__client_op_begin(client);

    tr__client_flush_pushes(client);
    tr_client_flush(client);
    client->step++;
    for (int i = 0; i < client->stream_count; i++) {
        if (client->step <= client->stream[i].settled)
            continue;
        tr__stream *s = &client->stream[i];
        tr__client_send_step_end(client, s, op, tr__client_step_of(client, s), is_idle);
    }
    tr_client_rest(client);
    tr__client_op_count_down(client, op);
    return op;
}

uint64_t tr_client_step_end(tr_client *client)
{
    return end_step(client, false);
}

uint64_t tr_client_step_idle(tr_client *client)
{
    return end_step(client, true);
}
