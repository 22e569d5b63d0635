/* client_calls.c - what a trainer asks for, as requests. */
#include "pserver/client_state.h"

/* == setup ======================================================================================== */

static void index_blocks(tr_client *client, uint32_t count, const tr_client_block *blocks)
{
    client->block_count = count;
    client->block = calloc(count + 1, sizeof *client->block);
    for (uint32_t i = 0; i < count; i++) {
        const int s = blocks[i].server;
        client->block[i] = (tr__client_block){s, client->local_count[s]++, blocks[i].bytes, NULL};
    }
    for (int s = 0; s < client->stream_count; s++)
        client->global[s] = calloc(client->local_count[s] + 1, sizeof(uint32_t));
    for (uint32_t i = 0; i < count; i++)
        client->global[client->block[i].server][client->block[i].local] = i;
}

/* The least of what the servers have: what one of them lacks is made again. */
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

    for (uint32_t i = 0; i < setup->row_count; i++) {
        tr__request *r = tr__client_add(client, s, TR_WIRE_WRITE_ROWS, op, setup->rows[i].data, setup->rows[i].bytes);
        r->wire.block = setup->rows[i].table;
        r->wire.part = setup->rows[i].has_candidates;
        r->owned = setup->rows[i].data;
    }
    for (uint32_t v = 0; v < setup->value_count; v++) {
        const tr_client_value *value = &setup->values[v];
        for (uint64_t offset = 0; offset < value->bytes; offset += chunk) {
            const uint64_t left = value->bytes - offset;
            tr__request   *r = tr__client_add(client, s, TR_WIRE_VALUE, op, (const uint8_t *)value->data + offset,
                                              left < chunk ? left : chunk);
            r->wire.block = v;
            r->wire.offset = offset;
        }
    }
}

uint64_t tr_client_setup_all(tr_client *client, const tr_client_setup *setups, uint32_t block_count,
                             const tr_client_block *blocks)
{
    const uint64_t op = tr__client_op_begin(client);

    uint64_t       step;
    const bool     resumes = tr_client_resumes(client, &step);

    assert(!client->block);
    index_blocks(client, block_count, blocks);
    client->step = client->first_step = resumes ? step : 0;
    for (int i = 0; i < client->stream_count; i++)
        if (!resumes || (!client->keeps_settled && !tr__client_is_heir(client)))
            client->stream[i].settled = client->step;
    for (int i = 0; i < client->stream_count; i++) {
        const tr_client_setup *setup = &setups[i];
        tr__stream                *s = &client->stream[i];
        if (setup->setup) {
            tr__request *r = tr__client_add(client, s, TR_WIRE_SETUP, op, setup->setup, setup->setup_bytes);
            r->owned = setup->setup;
            r->wire.part = resumes;
            r->wire.step = resumes ? least_updates(client) : 0;
            if (!resumes)
                add_values(client, s, setup, op);
        }
        tr__request *join = tr__client_add(client, s, TR_WIRE_JOIN, op, setup->join, setup->join_bytes);
        join->owned = setup->join;
        join->wire.part = client->cut_known;
        join->wire.offset = client->step;
    }
    tr__client_op_count_down(client, op);
    return op;
}

/* == steps ======================================================================================== */

static void push_piece(tr_client *client, const tr__client_block *b, tr_wire_kind kind, uint64_t op, uint64_t offset,
                       const uint8_t *payload, uint64_t bytes, double weight)
{
    tr__request *r = tr__client_add(client, &client->stream[b->server], kind, op, payload, bytes);

    r->wire.step = client->step + 1;
    r->wire.block = b->local;
    r->wire.offset = offset;
    r->wire.weight = weight;
}

uint64_t tr_client_push(tr_client *client, uint32_t index, const void *data, double weight)
{
    const tr__client_block *b = &client->block[index];
    tr__stream             *s = &client->stream[b->server];
    const uint64_t          op = tr__client_op_begin(client);

    if (tr__client_has_step(client, s)) {
        tr__client_op_count_down(client, op);
        return op;
    }
    if (tr_wire_is_small(b->bytes, client->options.chunk_bytes)) {
        const uint64_t size = tr_wire_entry_size(b->bytes);
        if (s->pushes.count && (s->weight != weight || s->pushes.bytes + size > client->options.chunk_bytes))
            tr__client_flush_pushes(client, s);
        s->weight = weight;
        tr__client_gather(&s->pushes, index, data, op, size);
        return op;                                 /* its count of 1 is counted down by the request */
    }
    for (uint64_t offset = 0; offset < b->bytes; offset += client->options.chunk_bytes) {
        const uint64_t left = b->bytes - offset;
        const uint64_t bytes = left < client->options.chunk_bytes ? left : client->options.chunk_bytes;
        push_piece(client, b, TR_WIRE_PUSH, op, offset, (const uint8_t *)data + offset, bytes, weight);
    }
    tr__client_op_count_down(client, op);
    return op;
}

uint64_t tr_client_push_compressed(tr_client *client, uint32_t index, const tr_client_pieces *pieces, double weight)
{
    const tr__client_block *b = &client->block[index];
    const uint64_t          op = tr__client_op_begin(client);

    if (tr__client_has_step(client, &client->stream[b->server])) {
        tr__client_op_count_down(client, op);
        return op;
    }
    for (uint64_t i = 0; i * client->options.chunk_bytes < b->bytes; i++)
        push_piece(client, b, TR_WIRE_PUSH_COMPRESSED, op, i * client->options.chunk_bytes, pieces->payload + i * pieces->stride,
                   pieces->bytes[i], weight);
    tr__client_op_count_down(client, op);
    return op;
}

static uint64_t end_step(tr_client *client, bool is_idle)
{
    const uint64_t op = tr__client_op_begin(client);

    tr_client_flush(client);
    client->step++;
    for (int i = 0; i < client->stream_count; i++) {
        if (client->step <= client->stream[i].settled)
            continue;
        tr__request *r = tr__client_add(client, &client->stream[i], TR_WIRE_STEP_END, op, NULL, 0);
        r->wire.part = is_idle;
        r->wire.offset = tr__client_everywhere(client);
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

uint64_t tr_client_pull(tr_client *client, uint32_t count, const int *blocks, void *const *data)
{
    const uint64_t op = tr__client_op_begin(client);

    for (uint32_t i = 0; i < count; i++) {
        tr__client_block *b = &client->block[blocks[i]];
        b->pull_to = data[i];
        ++*tr__client_op_at(client, op);
        tr__stream *s = &client->stream[b->server];
        tr__client_gather(&s->pulls, (uint32_t)blocks[i], NULL, op, 4);
        s->pulls.wanted += b->bytes;
        /* What is asked for first is whole while the rest is on its way. Where trainers do not wait for each other there may be an
         * update between two answers, and a server's blocks are to be of one. */
        if (s->pulls.wanted >= client->options.chunk_bytes / 2 && !client->survives_trainers)
            tr__client_flush_pulls(client, s);
    }
    tr__client_op_count_down(client, op);
    return op;
}

/* Where it was is said once. */
static uint64_t say_farewell(tr_client *client, tr_wire_kind kind)
{
    const uint64_t op = tr__client_op_begin(client);

    tr_client_flush(client);
    for (int i = 0; i < client->stream_count; i++) {
        size_t   size = 0;
        uint8_t *place = client->block && client->pack_place ? client->pack_place(client->pack_self, &size, client->step) : NULL;
        if (i == 0 && client->has_tasks)               /* what it made of its tasks counts */
            tr__client_task_later(client, &(tr_client_task){.wire = {.kind = kind}}, place, size, op);
        else
            tr__client_add(client, &client->stream[i], kind, op, place, size)->owned = place;
    }
    tr__client_op_count_down(client, op);
    return op;
}

uint64_t tr_client_stay(tr_client *client)
{
    client->stays = true;
    return say_farewell(client, TR_WIRE_OVER);
}

uint64_t tr_client_goodbye(tr_client *client)
{
    client->has_left = true;
    if (!client->stays)
        return say_farewell(client, TR_WIRE_GOODBYE);
    const uint64_t op = tr__client_op_begin(client);
    for (int i = 0; i < client->stream_count; i++)
        tr__client_add(client, &client->stream[i], TR_WIRE_GOODBYE, op, NULL, 0)->wire.part = tr_client_is_maker(client);
    tr__client_op_count_down(client, op);
    return op;
}

/* == rows of sparse tables ======================================================================== */

uint64_t tr_client_rows_in_piece(const tr_client *client, uint64_t bytes)
{
    return bytes < client->options.chunk_bytes ? client->options.chunk_bytes / bytes : 1;
}

uint64_t tr_client_pull_rows(tr_client *client, const tr_client_rows *rows)
{
    const uint64_t op = tr__client_op_begin(client), most = tr_client_rows_in_piece(client, rows->row_bytes);

    for (int i = 0; i < client->stream_count; i++)
        for (uint64_t at = rows->first[i]; at < rows->first[i + 1]; at += most) {
            const uint64_t left = rows->first[i + 1] - at, n = left < most ? left : most;
            tr__request   *r = tr__client_add(client, &client->stream[i], TR_WIRE_PULL_ROWS, op, rows->keys + at,
                                              n * sizeof(int64_t));
            r->wire.block = rows->table;
            r->wire.offset = at - rows->first[i];
            r->to = rows->to + at * rows->row_bytes;
            r->clock = rows->clock;
            r->left = r->size = n * rows->row_bytes;
        }
    tr__client_op_count_down(client, op);
    return op;
}

uint64_t tr_client_read_rows(tr_client *client, int server, uint32_t shard, tr_client_pack *out)
{
    const uint64_t op = tr__client_op_begin(client);
    tr__request   *r = tr__client_add(client, &client->stream[server], TR_WIRE_READ_ROWS, op, NULL, 0);

    r->wire.block = out->table;
    r->wire.part = shard;
    r->pack = out;
    tr__client_op_count_down(client, op);
    return op;
}

uint64_t tr_client_push_rows(tr_client *client, const tr_client_rows *rows)
{
    const uint64_t op = tr__client_op_begin(client), most = tr_client_rows_in_piece(client, rows->push_bytes);

    for (int i = 0; i < client->stream_count; i++) {
        if (tr__client_has_step(client, &client->stream[i]))
            continue;
        const uint64_t count = rows->first[i + 1] - rows->first[i], pieces = count ? (count + most - 1) / most : 1;
        for (uint64_t piece = 0; piece < pieces; piece++) {
            const uint64_t at = piece * most, n = count - at < most ? count - at : most;
            tr__request *r = tr__client_add(client, &client->stream[i], TR_WIRE_PUSH_ROWS, op,
                                            rows->pieces + (rows->first[i] + at) * rows->push_bytes,
                                            n * rows->push_bytes);
            r->wire.step = client->step + 1;
            r->wire.block = rows->table;
            r->wire.part = (uint32_t)piece;
            r->wire.offset = pieces;
            r->wire.weight = rows->weight;
        }
    }
    tr__client_op_count_down(client, op);
    return op;
}
