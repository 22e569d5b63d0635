/* client_requests.c - the requests of a call: a call is complete when all of its requests are. What kinds of requests have in common is
 * here; in what they differ, their tr__ask says. */
#include "pserver/core/client/client_requests.h"

#include "framework/base/memory.h"

/* == operations =================================================================================== */

void tr__client_init_ops(tr_client *client)
{
    client->ops.first = 1;
    client->ops.capacity = 256;
    client->ops.left = tr__must_array(client->ops.capacity, sizeof *client->ops.left);
    tr__client_op_begin(client);                              /* operation 1: it is done when all servers have sent SERVING */
}

void tr__client_free_ops(tr_client *client)
{
    tr__client_free_requests(client->ops.spare);
    free(client->ops.left);
}

uint64_t tr_client_done(const tr_client *client)
{
    return client->ops.first - 1;
}

uint32_t *tr__client_op_at(tr_client *client, uint64_t op)
{
    return &client->ops.left[op & (client->ops.capacity - 1)];
}

static void grow_ops(tr_client *client)
{
    const uint64_t capacity = 2 * client->ops.capacity;
    uint32_t      *left = tr__must_array(capacity, sizeof *left);

    for (uint64_t op = client->ops.first; op < client->ops.first + client->ops.count; op++)
        left[op & (capacity - 1)] = *tr__client_op_at(client, op);
    free(client->ops.left);
    client->ops.left = left;
    client->ops.capacity = capacity;
}

uint64_t tr__client_op_begin(tr_client *client)
{
    if (client->ops.count == client->ops.capacity)
        grow_ops(client);
    const uint64_t op = client->ops.first + client->ops.count++;
    *tr__client_op_at(client, op) = 1;
    return op;
}

void tr__client_op_count_down(tr_client *client, uint64_t op)
{
    assert(*tr__client_op_at(client, op) > 0);
    --*tr__client_op_at(client, op);
    while (client->ops.count && *tr__client_op_at(client, client->ops.first) == 0) {
        client->ops.first++;
        client->ops.count--;
    }
}

/* == requests ===================================================================================== */

/* The number of steps after which this trainer works with the server. After a restart a server may have settled more steps than the trainer
 * has ended. In modes where servers can undo an update, a replacement uses its own number, which is the smallest of all servers. */
uint64_t tr__client_step_of(const tr_client *client, const tr__stream *s)
{
    if (tr__client_is_replacement(client) && client->policy.is_lockstep)
        return client->step;
    return client->step > s->settled ? client->step : s->settled;
}

bool tr__client_has_step(const tr_client *client, const tr__stream *s)
{
    return client->step + 1 <= s->settled;
}

tr__request *tr__client_add(tr_client *client, tr__stream *s, const tr__ask *ask, const tr_wire *message, uint64_t op, const void *payload,
                            uint64_t bytes)
{
    tr__request *r = client->ops.spare;

    if (r)
        client->ops.spare = r->next;
    else
        r = tr__must_alloc(sizeof *r);
    *r = (tr__request){.ask = ask, .payload = payload, .only_op = op, .wire = *message, .op = r->op, .op_room = r->op_room};
    r->wire.incarnation = client->incarnation;
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
    const bool was_open = r->state == TR__OPEN;
    r->state = TR__DONE;
    if (!was_open)
        return;
    atomic_store_explicit(&client->last_server, (int)(s - client->stream), memory_order_relaxed);
    if (r->ask->done)
        r->ask->done(s, r);
    for (uint32_t i = 0; i < r->op_count; i++)
        tr__client_op_count_down(client, r->op[i]);
    if (r->only_op)
        tr__client_op_count_down(client, r->only_op);
}

void tr__client_forget_answer(tr__request *r)
{
    tr__answer *answer = &r->answer;

    if (!r->ask->receive_buffer)
        return;
    answer->parts = answer->direct = answer->pending = answer->carrier = 0;
    answer->has_gap = false;
    answer->left = answer->size;
}

bool tr__client_is_kept(const tr__stream *s, const tr__request *r)
{
    switch (r->ask->kept) {
    case TR__KEPT_UNTIL_SETTLED:
        return tr_wire_step(&r->wire) > s->settled;
    case TR__KEPT_UNTIL_OVER:
        return r->wire.snapshot.number > s->snapshot_over;
    default:
        return r->ask->kept == TR__KEPT_TO_THE_END;
    }
}

tr__request *tr__client_open(tr__stream *s)
{
    while (s->open && s->open->state == TR__DONE && !s->open->is_flying)
        s->open = s->open->next;
    return s->open;
}

tr__request *tr__client_find(tr__stream *s, uint64_t seq)
{
    tr__request *r = tr__client_open(s);

    while (r && r->wire.seq < seq)
        r = r->next;
    return r && r->wire.seq == seq && r->state == TR__OPEN ? r : NULL;
}

void tr__client_free_requests(tr__request *first)
{
    while (first) {
        tr__request *next = first->next;
        free(first->owned);
        free(first->op);
        free(first);
        first = next;
    }
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
    r->next = client->ops.spare;
    client->ops.spare = r;
}

/* Put the done requests at the head of the stream aside. */
void tr__client_reap(tr_client *client, tr__stream *s)
{
    tr__client_open(s);                            /* moves `open` past the requests that are freed below */
    while (s->first && s->first->state != TR__OPEN && !tr__client_is_kept(s, s->first) && s->first != s->unsent && s->first != s->open) {
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

tr__request *tr__client_add_gathered(tr_client *client, tr__stream *s, const tr__ask *ask, const tr_wire *message, const tr__list *l,
                                     uint64_t bytes, uint8_t **payload)
{
    tr__request   *r = tr__client_add(client, s, ask, message, 0, NULL, bytes);
    const uint64_t room = l->count * sizeof *r->op + bytes;    /* bytes: of at most one chunk */

    if (r->op_room < room) {
        free(r->op);
        r->op_room = (uint32_t)room;
        r->op = tr__must_bytes(room);
    }
    r->op_count = l->count;
    for (uint32_t i = 0; i < l->count; i++)
        r->op[i] = l->item[i].op;
    *payload = (uint8_t *)(r->op + r->op_count);
    r->payload = *payload;
    return r;
}
