/* client_setup.c - the start of a trainer: the job's work (SETUP, from trainer 0), the first rows and values, and its part in it (JOIN). */
#include "framework/base/memory.h"
#include "pserver/core/client/client_protocols.h"

static void describe(char *out, size_t size, const tr_wire *wire, int server)
{
    (void)wire;
    snprintf(out, size, "the setup by server %d", server);
}

static const tr__ask of_setup = {.describe = describe};

/* The job continues from the smallest number of steps of all servers: a step that one of them lacks is repeated. */
bool tr_client_resumes(const tr_client *client, uint64_t *step)
{
    *step = UINT64_MAX;
    for (int i = 0; i < client->stream_count; i++) {
        const tr__stream *s = &client->stream[i];
        if (!s->has_state)
            return false;
        *step = s->settled < *step ? s->settled : *step;
    }
    return client->stream_count > 0;
}

static void index_blocks(tr_client *client, uint32_t count, const tr_client_block *blocks)
{
    client->block_count = count;
    client->block = tr__must_array(count + 1, sizeof *client->block);
    for (uint32_t i = 0; i < count; i++) {
        const int s = blocks[i].server;
        client->block[i] = (tr__client_block){s, client->local_count[s]++, blocks[i].bytes, NULL, blocks[i].is_rounded};
    }
    for (int s = 0; s < client->stream_count; s++)
        client->global[s] = tr__must_array(client->local_count[s] + 1, sizeof(uint32_t));
    for (uint32_t i = 0; i < count; i++)
        client->global[client->block[i].server][client->block[i].local] = i;
}

static uint64_t least_updates(const tr_client *client)
{
    uint64_t least = UINT64_MAX;

    for (int i = 0; i < client->stream_count; i++)
        least = client->stream[i].updates < least ? client->stream[i].updates : least;
    return least;
}

/* Rows come before values: with the last value the server's state is complete. */
static void add_values(tr_client *client, tr__stream *s, const tr_client_setup *setup, uint64_t op)
{
    const uint64_t chunk = client->options.chunk_bytes;

    for (uint32_t i = 0; i < setup->row_count; i++)
        tr__client_write_first_rows(client, s, &setup->rows[i], op);
    for (uint32_t v = 0; v < setup->value_count; v++) {
        const tr_client_value *value = &setup->values[v];
        for (uint64_t offset = 0; offset < value->bytes; offset += chunk) {
            const uint64_t left = value->bytes - offset;
            tr__client_add(client, s, &of_setup, &(tr_wire){.kind = TR_WIRE_VALUE, .value = {.offset = offset, .value = v}}, op,
                           (const uint8_t *)value->data + offset, left < chunk ? left : chunk);
        }
    }
}

static void join(tr_client *client, tr__stream *s, const tr_client_setup *setup, uint64_t op)
{
    const tr_wire say = {
        .kind = TR_WIRE_JOIN,
        .join = {.step = tr__client_step_of(client, s), .everywhere = client->step, .newest_snapshot = tr__client_known_snapshot(client)}};

    tr__client_add(client, s, &of_setup, &say, op, setup->join, setup->join_bytes)->owned = setup->join;
}

uint64_t tr_client_setup_all(tr_client *client, const tr_client_setup *setups, uint32_t block_count, const tr_client_block *blocks,
                             const tr_policy *policy, bool joins)
{
    const uint64_t op = tr__client_op_begin(client);
    uint64_t       step;
    const bool     resumes = tr_client_resumes(client, &step);

    assert(!tr__client_is_set_up(client));
    index_blocks(client, block_count, blocks);
    client->policy = *policy;
    client->step = client->first_step = resumes ? step : 0;
    tr__client_forget_snapshots(client);
    /* Where servers never undo an update, one that has settled more steps than others keeps them, and does not get them again. */
    for (int i = 0; i < client->stream_count; i++)
        if (!resumes || (policy->is_lockstep && !tr__client_is_replacement(client)))
            client->stream[i].settled = client->step;
    for (int i = 0; i < client->stream_count; i++) {
        const tr_client_setup *setup = &setups[i];
        tr__stream                *s = &client->stream[i];
        if (setup->setup) {
            const tr_wire say = {.kind = TR_WIRE_SETUP,
                                 .setup = {.updates = resumes ? least_updates(client) : 0, .resumes = resumes}};
            tr__client_add(client, s, &of_setup, &say, op, setup->setup, setup->setup_bytes)->owned = setup->setup;
            if (!resumes)
                add_values(client, s, setup, op);
        }
        if (joins)
            join(client, s, setup, op);
    }
    tr__client_op_count_down(client, op);
    return op;
}

uint64_t tr_client_join_all(tr_client *client, const tr_client_setup *setups)
{
    const uint64_t op = tr__client_op_begin(client);

    for (int i = 0; i < client->stream_count; i++)
        join(client, &client->stream[i], &setups[i], op);
    tr__client_op_count_down(client, op);
    return op;
}
