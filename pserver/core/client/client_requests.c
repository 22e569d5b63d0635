/* client_requests.c - the requests of a call: a call is complete when all of its requests are. Small pushes and pulls of one server share a
 * message. */
#include "pserver/core/client/client_requests.h"

#include "framework/base/memory.h"
#include "storage/util/little_endian.h"

/* == operations =================================================================================== */

uint32_t *tr__client_op_at(tr_client *client, uint64_t op)
{
    return &client->op_left[op & (client->op_capacity - 1)];
}

static void grow_ops(tr_client *client)
{
    const uint64_t capacity = 2 * client->op_capacity;
    uint32_t      *left = tr__must_array(capacity, sizeof *left);

    for (uint64_t op = client->op_first; op < client->op_first + client->op_count; op++)
        left[op & (capacity - 1)] = *tr__client_op_at(client, op);
    free(client->op_left);
    client->op_left = left;
    client->op_capacity = capacity;
}

uint64_t tr__client_op_begin(tr_client *client)
{
    if (client->op_count == client->op_capacity)
        grow_ops(client);
    const uint64_t op = client->op_first + client->op_count++;
    *tr__client_op_at(client, op) = 1;
    return op;
}

void tr__client_op_count_down(tr_client *client, uint64_t op)
{
    assert(*tr__client_op_at(client, op) > 0);
    --*tr__client_op_at(client, op);
    while (client->op_count && *tr__client_op_at(client, client->op_first) == 0) {
        client->op_first++;
        client->op_count--;
    }
}

/* == requests ===================================================================================== */

/* The number of steps after which this trainer works with the server. After a restart a server may have settled more steps than the trainer has ended.
 * In modes where servers can undo an update, a replacement uses its own number, which is the smallest of all servers. */
uint64_t tr__client_step_of(const tr_client *client, const tr__stream *s)
{
    if (tr__client_is_replacement(client) && !client->keeps_settled)
        return client->step;
    return client->step > s->settled ? client->step : s->settled;
}

bool tr__client_has_step(const tr_client *client, const tr__stream *s)
{
    return client->step + 1 <= s->settled;
}

tr__request *tr__client_add(tr_client *client, tr__stream *s, const tr_wire *message, uint64_t op, const void *payload,
                            uint64_t bytes)
{
    tr__request *r = client->spare;

    if (r)
        client->spare = r->next;
    else
        r = tr__must_alloc(sizeof *r);
    *r = (tr__request){.payload = payload, .only_op = op, .wire = *message, .op = r->op, .op_room = r->op_room};
    r->wire.epoch = client->epoch;
    r->wire.sender = (uint32_t)client->roster->self;
    r->wire.seq = ++s->last_seq;
    r->wire.bytes = bytes;
    *s->end = r;
    s->end = &r->next;
    s->last = r;
    if (!s->unsent)
        s->unsent = r;
    if (!s->open)
        s->open = r;
    if (op)
        ++*tr__client_op_at(client, op);
    return r;
}

bool tr__client_is_push(const tr__request *r)
{
    return tr_wire_is_push(r->wire.kind);
}

bool tr__client_is_pull(const tr__request *r)
{
    return r->wire.kind == TR_WIRE_PULL || r->wire.kind == TR_WIRE_PULL_ROWS || r->wire.kind == TR_WIRE_READ_ROWS ||
           r->wire.kind == TR_WIRE_POST;
}

static void land(tr__stream *s, tr__request *r)
{
    if (r->is_flying)
        s->in_flight -= r->wire.bytes;
    r->is_flying = false;
}

/* A finished request stays in its stream until tr__client_reap. */
void tr__client_finish(tr_client *client, tr__stream *s, tr__request *r)
{
    land(s, r);
    r->is_needed_again = false;
    if (r->is_done)
        return;
    r->is_done = true;
    atomic_store_explicit(&client->last_server, (int)(s - client->stream), memory_order_relaxed);
    if (r->wire.kind == TR_WIRE_STEP_END)
        s->settled = r->wire.step_end.step;
    for (uint32_t i = 0; i < r->op_count; i++)
        tr__client_op_count_down(client, r->op[i]);
    if (r->only_op)
        tr__client_op_count_down(client, r->only_op);
}

static bool is_last_place(const tr__request *r)
{
    return r->wire.kind == TR_WIRE_GOODBYE || r->wire.kind == TR_WIRE_DRAIN;
}

/* Is a done request lost with its server, so that the successor needs it? That holds for this trainer's last place, which servers need for
 * checkpoints, and for a SNAPSHOT whose snapshot is not over. */
static bool must_repeat(const tr__stream *s, const tr__request *r)
{
    return is_last_place(r) || (tr__client_is_push(r) && tr_wire_step(&r->wire) > s->settled) ||
           (r->wire.kind == TR_WIRE_SNAPSHOT && r->wire.snapshot.number > s->snapshot_over);
}

static bool is_over(const tr__stream *s, const tr__request *r)
{
    return r->is_done && !must_repeat(s, r);
}

tr__request *tr__client_open(tr__stream *s)
{
    while (s->open && s->open->is_done && !s->open->is_needed_again && !s->open->is_flying)
        s->open = s->open->next;
    return s->open;
}

/* Most memory for operations and their payload that a spare request keeps. Small pushes need no allocation then. */
static const uint32_t KEPT_ROOM = 2048;

static void become_spare(tr_client *client, tr__request *r)
{
    free(r->owned);
    r->owned = NULL;
    if (r->op_room > KEPT_ROOM) {
        free(r->op);
        r->op = NULL;
        r->op_room = 0;
    }
    r->next = client->spare;
    client->spare = r;
}

/* Put the done requests at the head of the stream aside. */
void tr__client_reap(tr_client *client, tr__stream *s)
{
    tr__client_open(s);                            /* moves `open` past the requests that are freed below */
    while (s->first && is_over(s, s->first) && s->first != s->unsent && s->first != s->open) {
        tr__request *done = s->first;
        s->first = done->next;
        if (!s->first) {
            s->end = &s->first;
            s->last = NULL;
        }
        become_spare(client, done);
    }
}

/* == gathering ==================================================================================== */

void tr__client_gather(tr__list *l, uint32_t index, const void *data, uint64_t op, uint64_t bytes)
{
    if (l->count == l->capacity) {
        l->capacity = l->capacity ? 2 * l->capacity : 16;
        l->item = tr__must_realloc(l->item, l->capacity * sizeof *l->item);
    }
    l->item[l->count++] = (tr__gathered){index, data, op};
    l->bytes += bytes;
}

static uint8_t *gathered_payload(const tr__request *r)
{
    return (uint8_t *)(r->op + r->op_count);
}

/* Add a request that is part of the operations of all items in the list. The caller fills its payload of `bytes` bytes in. */
static tr__request *add_gathered(tr_client *client, tr__stream *s, const tr_wire *message, const tr__list *l, uint64_t bytes)
{
    tr__request   *r = tr__client_add(client, s, message, 0, NULL, bytes);
    const uint64_t room = l->count * sizeof *r->op + bytes;    /* bytes: of at most one chunk */

    if (r->op_room < room) {
        free(r->op);
        r->op_room = (uint32_t)room;
        r->op = tr__must_bytes(room);
    }
    r->op_count = l->count;
    for (uint32_t i = 0; i < l->count; i++)
        r->op[i] = l->item[i].op;
    r->payload = gathered_payload(r);
    return r;
}

void tr__client_flush_pushes(tr_client *client, tr__stream *s)
{
    tr__list    *l = &s->pushes;
    uint64_t cursor = (uint64_t)l->count * TR_WIRE_ENTRY;

    if (!l->count)
        return;
    const tr_wire push = {.kind = TR_WIRE_PUSH_MANY,
                          .push_many = {.step = client->step + 1, .weight = s->weight, .count = l->count}};
    uint8_t      *payload = gathered_payload(add_gathered(client, s, &push, l, l->bytes));
    for (uint32_t i = 0; i < l->count; i++) {
        const tr__client_block *b = &client->block[l->item[i].block];
        memcpy(tr_wire_entry_put(payload, i, &cursor, b->local, b->bytes), l->item[i].data, b->bytes);
    }
    l->count = 0;
    l->bytes = 0;
}

void tr__client_flush_pulls(tr_client *client, tr__stream *s)
{
    tr__list *l = &s->pulls;

    if (!l->count)
        return;
    const uint64_t step = tr__client_step_of(client, s);
    const tr_wire  pull = {.kind = TR_WIRE_PULL, .pull = {.step = step, .remakes = (uint32_t)(step - client->step)}};
    tr__request   *r = add_gathered(client, s, &pull, l, 4 * (uint64_t)l->count);
    uint8_t       *payload = gathered_payload(r);
    for (uint32_t i = 0; i < l->count; i++) {
        const tr__client_block *b = &client->block[l->item[i].block];
        tr_put_u32(payload + 4 * i, b->local | (b->is_rounded ? TR_ROUNDED_BIT : 0));
    }
    r->left = r->size = l->wanted;
    l->count = 0;
    l->bytes = l->wanted = 0;
}

static void flush_stream(tr_client *client, tr__stream *s)
{
    tr__client_flush_pushes(client, s);
    tr__client_flush_pulls(client, s);
}

void tr_client_flush(tr_client *client)
{
    for (int i = 0; i < client->stream_count; i++)
        flush_stream(client, &client->stream[i]);
}

void tr__client_send_step_end(tr_client *client, tr__stream *s, uint64_t op, uint64_t step, bool is_idle)
{
    const tr_wire end = {.kind = TR_WIRE_STEP_END,
                         .step_end = {.step = step, .everywhere = tr__client_everywhere(client), .is_idle = is_idle}};

    tr__client_add(client, s, &end, op, NULL, 0);
}
