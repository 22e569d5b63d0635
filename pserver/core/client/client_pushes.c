/* client_pushes.c - what a trainer's step sends: gradients of dense parameters (PUSH, PUSH_MANY, PUSH_COMPRESSED), and values that its
 * script has set (SET). Small gradients of one server share a message. */
#include "pserver/core/client/client_protocols.h"

#include "framework/base/memory.h"

/* How long pulls may be kept that go through a carrier, in nanoseconds. A trainer that asks for its parameters says when it has asked for
 * all, or waits. This is for one that does neither. It is longer than a processor that runs several trainers takes to come back to one. */
static const int64_t KEPT_MOST = 20000000;

void tr__client_describe_step(char *out, size_t size, const tr_wire *wire, int server)
{
    snprintf(out, size, "server %d to take its gradients of step %llu", server, (unsigned long long)tr_wire_step(wire));
}

const tr__ask tr__ask_push = {.kept = TR__KEPT_UNTIL_SETTLED, .settled_by = tr_wire_step, .describe = tr__client_describe_step};

static void push_piece(tr_client *client, const tr__client_block *b, tr_wire_kind kind, uint64_t op, uint64_t offset,
                       const uint8_t *payload, uint64_t bytes, double weight)
{
    const tr_wire push = {.kind = kind,
                          .push = {.step = client->step + 1, .weight = weight, .offset = offset, .block = b->local}};

    tr__client_add(client, &client->stream[b->server], &tr__ask_push, &push, op, payload, bytes);
}

static void flush_pushes(tr_client *client, tr__stream *s)
{
    tr__list *l = &s->pushes;
    uint64_t  cursor = (uint64_t)l->count * TR_WIRE_ENTRY;
    uint8_t  *payload;

    if (!l->count)
        return;
    const tr_wire push = {.kind = TR_WIRE_PUSH_MANY,
                          .push_many = {.step = client->step + 1, .weight = s->weight, .count = l->count}};
    tr__client_add_gathered(client, s, &tr__ask_push, &push, l, l->bytes, &payload);
    for (uint32_t i = 0; i < l->count; i++) {
        const tr__client_block *b = &client->block[l->item[i].block];
        memcpy(tr_wire_entry_put(payload, i, &cursor, b->local, b->bytes), l->item[i].data, b->bytes);
    }
    l->count = 0;
    l->bytes = 0;
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
            flush_pushes(client, s);
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
        tr__client_add(client, s, &tr__ask_push, &set, op, copy, size)->owned = copy;
    }
    tr__client_op_count_down(client, op);
    return op;
}

void tr__client_flush_pushes(tr_client *client)
{
    for (int i = 0; i < client->stream_count; i++)
        flush_pushes(client, &client->stream[i]);
}

/* Where requests go through a carrier, small gradients stay until the step ends or the message is full. So all trainers of a group push
 * in the same order, which lets the carrier put their pushes together. */
static void flush_stream(tr_client *client, tr__stream *s, bool with_pulls)
{
    if (!s->carrier)
        flush_pushes(client, s);
    if (!s->carrier || with_pulls)
        tr__client_flush_pulls(client, s);
    client->has_kept_pulls |= s->pulls.count > 0;
    s->gathered_from = 0;
}

void tr_client_flush(tr_client *client)
{
    client->has_kept_pulls = false;
    client->kept_since = 0;
    for (int i = 0; i < client->stream_count; i++)
        flush_stream(client, &client->stream[i], true);
}

void tr_client_flush_midway(tr_client *client)
{
    for (int i = 0; i < client->stream_count; i++)
        flush_stream(client, &client->stream[i], false);
}

/* `now` is of the last turn, which may be long ago when pulls are kept. So their time begins here. */
int64_t tr__client_flush_late(tr_client *client)
{
    if (!client->has_kept_pulls)
        return INT64_MAX;
    if (!client->kept_since)
        client->kept_since = client->now ? client->now : 1;
    if (client->now - client->kept_since < KEPT_MOST)
        return client->kept_since + KEPT_MOST;
    tr_client_flush(client);
    return INT64_MAX;
}
