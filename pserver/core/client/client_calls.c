/* client_calls.c - the calls of a trainer's job (push, pull, end of a step, goodbye), turned into requests to servers. */
#include "framework/base/memory.h"
#include "pserver/core/client/client_requests.h"
#include "pserver/core/client/client_tasks.h"

#include <string.h>

/* == setup ======================================================================================== */

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

    for (uint32_t i = 0; i < setup->row_count; i++) {
        const tr_wire write = {.kind = TR_WIRE_WRITE_ROWS,
                               .write_rows = {.table = setup->rows[i].table, .has_candidates = setup->rows[i].has_candidates}};
        tr__client_add(client, s, &write, op, setup->rows[i].data, setup->rows[i].bytes)->owned = setup->rows[i].data;
    }
    for (uint32_t v = 0; v < setup->value_count; v++) {
        const tr_client_value *value = &setup->values[v];
        for (uint64_t offset = 0; offset < value->bytes; offset += chunk) {
            const uint64_t left = value->bytes - offset;
            tr__client_add(client, s, &(tr_wire){.kind = TR_WIRE_VALUE, .value = {.offset = offset, .value = v}}, op,
                           (const uint8_t *)value->data + offset, left < chunk ? left : chunk);
        }
    }
}

uint64_t tr_client_setup_all(tr_client *client, const tr_client_setup *setups, uint32_t block_count,
                             const tr_client_block *blocks)
{
    const uint64_t op = tr__client_op_begin(client);

    uint64_t       step;
    const bool     resumes = tr_client_resumes(client, &step);

    assert(!tr__client_is_set_up(client));
    index_blocks(client, block_count, blocks);
    client->step = client->first_step = resumes ? step : 0;
    client->snapshot_before = client->snapshot_known;
    for (int i = 0; i < client->stream_count; i++)
        if (!resumes || (!client->keeps_settled && !tr__client_is_replacement(client)))
            client->stream[i].settled = client->step;
    for (int i = 0; i < client->stream_count; i++) {
        const tr_client_setup *setup = &setups[i];
        tr__stream                *s = &client->stream[i];
        if (setup->setup) {
            const tr_wire say = {.kind = TR_WIRE_SETUP,
                                 .setup = {.updates = resumes ? least_updates(client) : 0, .resumes = resumes}};
            tr__client_add(client, s, &say, op, setup->setup, setup->setup_bytes)->owned = setup->setup;
            if (!resumes)
                add_values(client, s, setup, op);
        }
        const tr_wire join = {.kind = TR_WIRE_JOIN, .join = {.step = tr__client_step_of(client, s), .everywhere = client->step,
                                                             .newest_snapshot = client->snapshot_known}};
        tr__client_add(client, s, &join, op, setup->join, setup->join_bytes)->owned = setup->join;
    }
    tr__client_op_count_down(client, op);
    return op;
}

/* == steps ======================================================================================== */

static void push_piece(tr_client *client, const tr__client_block *b, tr_wire_kind kind, uint64_t op, uint64_t offset,
                       const uint8_t *payload, uint64_t bytes, double weight)
{
    const tr_wire push = {.kind = kind,
                          .push = {.step = client->step + 1, .weight = weight, .offset = offset, .block = b->local}};

    tr__client_add(client, &client->stream[b->server], &push, op, payload, bytes);
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

uint64_t tr_client_set(tr_client *client, int server, uint32_t value, const void *data, uint64_t bytes)
{
    const uint64_t op = tr__client_op_begin(client), chunk = client->options.chunk_bytes;
    tr__stream    *s = &client->stream[server];

    for (uint64_t offset = 0; offset < bytes && !tr__client_has_step(client, s); offset += chunk) {
        const uint64_t size = bytes - offset < chunk ? bytes - offset : chunk;
        void          *copy = memcpy(tr__must_bytes(size), (const uint8_t *)data + offset, size);
        const tr_wire  set = {.kind = TR_WIRE_SET, .set = {.step = client->step + 1, .offset = offset, .value = value}};
        tr__client_add(client, s, &set, op, copy, size)->owned = copy;
    }
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

uint64_t tr_client_pull(tr_client *client, uint32_t count, const int *blocks, void *const *data)
{
    const uint64_t op = tr__client_op_begin(client);

    for (uint32_t i = 0; i < count; i++) {
        tr__client_block *b = &client->block[blocks[i]];
        b->pull_to = data[i];
        ++*tr__client_op_at(client, op);
        tr__stream *s = &client->stream[b->server];
        tr__client_gather(&s->pulls, (uint32_t)blocks[i], NULL, op, 4);
        s->pulls.wanted += tr_rounded_bytes(b->bytes, b->is_rounded);
        /* Several small pulls let the trainer use the first blocks while the others arrive. Where trainers do not wait for each other, an update may happen
         * between two answers. There all blocks of a server are pulled at once, so that they are of the same update. */
        if (s->pulls.wanted >= client->options.chunk_bytes / 2 && !client->survives_trainers)
            tr__client_flush_pulls(client, s);
    }
    tr__client_op_count_down(client, op);
    return op;
}

/* The trainer sends its last place once: in DRAIN, or, if it has not drained, in GOODBYE. */
static uint64_t send_last_place(tr_client *client, tr_wire_kind kind)
{
    const uint64_t op = tr__client_op_begin(client);

    tr_client_flush(client);
    for (int i = 0; i < client->stream_count; i++) {
        size_t   size = 0;
        uint8_t *place = tr__client_is_set_up(client) && client->pack_place ? client->pack_place(client->pack_self, &size, client->step) : NULL;
        const tr_wire leave = {.kind = kind, .leave = {.step = tr__client_step_of(client, &client->stream[i])}};
        if (i == 0 && client->has_tasks)               /* server 0 gets it after all servers have settled the steps, so that its tasks are done */
            tr__client_task_later(client, &(tr_client_task){.wire = leave}, place, size, op);
        else
            tr__client_add(client, &client->stream[i], &leave, op, place, size)->owned = place;
    }
    tr__client_op_count_down(client, op);
    return op;
}

uint64_t tr_client_drain(tr_client *client)
{
    client->is_draining = true;
    return send_last_place(client, TR_WIRE_DRAIN);
}

uint64_t tr_client_goodbye(tr_client *client)
{
    client->has_left = true;
    if (!client->is_draining)
        return send_last_place(client, TR_WIRE_GOODBYE);
    const uint64_t op = tr__client_op_begin(client);
    for (int i = 0; i < client->stream_count; i++) {
        tr__stream   *s = &client->stream[i];
        const tr_wire leave = {.kind = TR_WIRE_GOODBYE,
                               .leave = {.step = tr__client_step_of(client, s), .has_last = tr_client_is_initiator(client)}};
        tr__client_add(client, s, &leave, op, NULL, 0);
    }
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
            const uint64_t step = tr__client_step_of(client, &client->stream[i]);
            const tr_wire  pull = {.kind = TR_WIRE_PULL_ROWS,
                                   .pull_rows = {.step = step, .before = at - rows->first[i], .table = rows->table,
                                                 .remakes = (uint32_t)(step - client->step), .is_rounded = rows->is_rounded}};
            tr__request   *r = tr__client_add(client, &client->stream[i], &pull, op, rows->keys + at, n * sizeof(int64_t));
            r->to = rows->to + at * rows->row_bytes;
            r->clock = rows->clock;
            r->left = r->size = tr_rounded_bytes(n * rows->row_bytes, rows->is_rounded);
        }
    tr__client_op_count_down(client, op);
    return op;
}

uint64_t tr_client_read_rows(tr_client *client, int server, uint32_t shard, uint32_t since, tr_client_pack *out)
{
    const uint64_t op = tr__client_op_begin(client);
    tr__stream    *s = &client->stream[server];
    const tr_wire  read = {.kind = TR_WIRE_READ_ROWS,
                           .read_rows = {.step = tr__client_step_of(client, s), .table = out->table, .shard = shard,
                                         .since = since}};

    tr__client_add(client, s, &read, op, NULL, 0)->pack = out;
    tr__client_op_count_down(client, op);
    return op;
}

uint64_t tr_client_write_rows(tr_client *client, int server, const tr_client_pack *rows, bool clears, uint64_t clock)
{
    const uint64_t op = tr__client_op_begin(client);
    const tr_wire  write = {.kind = TR_WIRE_WRITE_ROWS,
                            .write_rows = {.step = client->step, .clock = clock, .table = rows->table, .has_candidates = rows->has_candidates, .clears = clears}};

    tr__client_add(client, &client->stream[server], &write, op, rows->data, rows->bytes)->owned = rows->data;
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
            const tr_wire  push = {.kind = TR_WIRE_PUSH_ROWS,
                                   .push_rows = {.step = client->step + 1, .weight = rows->weight, .table = rows->table,
                                                 .piece = (uint32_t)piece, .pieces = (uint32_t)pieces}};
            tr__client_add(client, &client->stream[i], &push, op, rows->pieces + (rows->first[i] + at) * rows->push_bytes,
                           n * rows->push_bytes);
        }
    }
    tr__client_op_count_down(client, op);
    return op;
}
