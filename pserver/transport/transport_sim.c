/* transport_sim.c - a heap of events; ties are broken by the order of creation. */
#include "pserver/transport/transport_sim.h"

#include "framework/memory.h"
#include "pserver/core/outbox.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* What MPI's transport sends in one piece with the header is not placed either. */
static const uint64_t INLINE_MAX = 4032;

typedef enum event_kind { DELIVER, CALL, KILL, NOTICE } event_kind;

typedef struct event {
    int64_t    time;
    uint64_t   order;
    event_kind kind;
    int        from, to;
    uint8_t    header[TR_WIRE_HEADER];
    uint8_t   *payload;               /* a copy, or NULL */
    const void *lent;                 /* it lies there, on this loan, until it arrives */
    tr_loan   *loan;
    bool       is_receipt;
    void     (*call)(void *payload);
    void      *argument;
} event;

/* Receipts that their receiver has not read, in the order in which they came. */
typedef struct receipts {
    event  *item;
    size_t  count, capacity;
} receipts;

struct tr_sim {
    tr_sim_options options;
    int            size;
    uint64_t       random;
    int64_t        now;
    tr_node       *node;
    bool          *is_dead;
    int64_t       *tick_at;
    int64_t       *last;              /* of pair from * size + to: the latest arrival so far */
    event         *heap;
    size_t         count, capacity;
    receipts      *unread;            /* rank by rank */
    uint64_t       created;
};

tr_sim *tr_sim_new(int size, const tr_sim_options *options)
{
    tr_sim *sim = tr__must_alloc(sizeof *sim);

    sim->options = *options;
    sim->size = size;
    sim->random = options->seed * 2 + 1;
    sim->node = tr__must_array((size_t)size, sizeof *sim->node);
    sim->is_dead = tr__must_array((size_t)size, sizeof *sim->is_dead);
    sim->tick_at = tr__must_array((size_t)size, sizeof *sim->tick_at);
    sim->last = tr__must_array((size_t)size * (size_t)size, sizeof *sim->last);
    sim->unread = tr__must_array((size_t)size, sizeof *sim->unread);
    return sim;
}

void tr_sim_free(tr_sim *sim)
{
    if (!sim)
        return;
    for (size_t i = 0; i < sim->count; i++)
        free(sim->heap[i].payload);
    free(sim->heap);
    for (int i = 0; i < sim->size; i++)
        free(sim->unread[i].item);
    free(sim->unread);
    free(sim->node);
    free(sim->is_dead);
    free(sim->tick_at);
    free(sim->last);
    free(sim);
}

int64_t tr_sim_now(const tr_sim *sim)
{
    return sim->now;
}

bool tr_sim_is_dead(const tr_sim *sim, int rank)
{
    return sim->is_dead[rank];
}

/* splitmix64 */
static uint64_t draw(tr_sim *sim)
{
    uint64_t z = sim->random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

uint64_t tr_sim_random(tr_sim *sim, uint64_t limit)
{
    return draw(sim) % limit;
}

static bool happens(tr_sim *sim, double probability)
{
    return probability > 0 && (double)(draw(sim) >> 11) * 0x1p-53 < probability;
}

/* == the heap ================================================================================= */

static bool is_before(const event *a, const event *b)
{
    return a->time < b->time || (a->time == b->time && a->order < b->order);
}

static void swap(event *a, event *b)
{
    const event t = *a;
    *a = *b;
    *b = t;
}

static void push(tr_sim *sim, event e)
{
    if (sim->count == sim->capacity) {
        sim->capacity = sim->capacity ? 2 * sim->capacity : 64;
        sim->heap = tr__must_realloc(sim->heap, sim->capacity * sizeof *sim->heap);
    }
    e.order = sim->created++;
    sim->heap[sim->count] = e;
    for (size_t i = sim->count++; i && is_before(&sim->heap[i], &sim->heap[(i - 1) / 2]); i = (i - 1) / 2)
        swap(&sim->heap[i], &sim->heap[(i - 1) / 2]);
}

static event pop(tr_sim *sim)
{
    const event top = sim->heap[0];

    sim->heap[0] = sim->heap[--sim->count];
    for (size_t i = 0;;) {
        size_t least = i;
        for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < sim->count; child++)
            if (is_before(&sim->heap[child], &sim->heap[least]))
                least = child;
        if (least == i)
            return top;
        swap(&sim->heap[i], &sim->heap[least]);
        i = least;
    }
}

/* == messages ================================================================================= */

static uint8_t *copy_of(const void *payload, uint64_t bytes)
{
    return memcpy(tr__must_aligned(bytes), payload, bytes);
}

static void send_copy(tr_sim *sim, int from, const tr_message *message)
{
    int64_t *last = &sim->last[from * sim->size + message->peer];
    int64_t  time = sim->now + 1 + (int64_t)tr_sim_random(sim, (uint64_t)sim->options.delay);
    event    e = {.kind = DELIVER, .from = from, .to = message->peer, .is_receipt = message->is_receipt};

    if (time <= *last)
        time = *last + 1;
    *last = e.time = time;
    tr_wire_encode(e.header, &message->wire);
    if (message->loan) {
        e.lent = message->payload;
        e.loan = message->loan;
        e.loan->readers++;
    } else if (message->wire.bytes) {
        e.payload = copy_of(message->payload, message->wire.bytes);
    }
    push(sim, e);
}

/* What a rank has lent, and wants back (or, `is_all`, takes with it when it dies): the message has a copy from here on. */
static void give_back(tr_sim *sim, int rank, bool is_all)
{
    tr_wire wire;

    for (size_t i = 0; i < sim->count; i++) {
        event *e = &sim->heap[i];
        if (e->from != rank || !e->loan || !(is_all || (e->loan->is_wanted && happens(sim, 0.5))))
            continue;
        if (tr_wire_decode(&wire, e->header) == TR_OK)
            e->payload = copy_of(e->lent, wire.bytes);
        e->loan->readers--;
        e->loan = NULL;
    }
}

/* Messages to the dead keep what they have on loan, as MPI keeps its requests. */
static void hand_over(tr_sim *sim, event *e)
{
    tr_node *node = &sim->node[e->to];
    tr_wire  wire;

    if (sim->is_dead[e->to])
        return;
    const tr_status status = tr_wire_decode(&wire, e->header);
    assert(status == TR_OK);
    (void)status;
    if (e->loan) {
        e->payload = copy_of(e->lent, wire.bytes);
        e->loan->readers--;
    }
    void      *payload = e->payload;
    const bool is_placed = wire.bytes > INLINE_MAX || (wire.bytes && tr_sim_random(sim, 2));
    if (is_placed) {
        payload = node->place(node->self, e->from, &wire);
        if (!payload)
            return;
        memcpy(payload, e->payload, wire.bytes);
    }
    node->receive(node->self, sim->now, e->from, &wire, payload, is_placed);
}

static bool awaits_receipts(const tr_sim *sim, int rank)
{
    const tr_node *node = &sim->node[rank];
    return !node->awaits_receipts || node->awaits_receipts(node->self, true);
}

/* Those of this sender; from -1: all. */
static void read_receipts(tr_sim *sim, int from, int to)
{
    receipts *u = &sim->unread[to];
    size_t    left = 0;

    for (size_t i = 0; i < u->count; i++)
        if (from < 0 || u->item[i].from == from)
            hand_over(sim, &u->item[i]);
        else
            u->item[left++] = u->item[i];
    u->count = left;
}

static void leave_unread(receipts *u, const event *e)
{
    if (u->count == u->capacity) {
        u->capacity = u->capacity ? 2 * u->capacity : 16;
        u->item = tr__must_realloc(u->item, u->capacity * sizeof *u->item);
        assert(u->item);
    }
    u->item[u->count++] = *e;
}

static void deliver(tr_sim *sim, event *e)
{
    if (e->is_receipt && !sim->is_dead[e->to] && !awaits_receipts(sim, e->to)) {
        leave_unread(&sim->unread[e->to], e);
        return;
    }
    read_receipts(sim, e->from, e->to);
    hand_over(sim, e);
}

static void pump(tr_sim *sim, int rank)
{
    tr_node   *node = &sim->node[rank];
    tr_message message;

    if (!node->self || sim->is_dead[rank])
        return;
    if (sim->unread[rank].count && awaits_receipts(sim, rank))
        read_receipts(sim, -1, rank);
    node->tick(node->self, sim->now);
    while (node->next(node->self, &message)) {
        if (!happens(sim, sim->options.drop)) {
            send_copy(sim, rank, &message);
            if (happens(sim, sim->options.duplicate))
                send_copy(sim, rank, &message);
        }
        tr_message_over(&message);
    }
    if (node->awaits_loans && node->awaits_loans(node->self))
        give_back(sim, rank, false);
    sim->tick_at[rank] = node->tick(node->self, sim->now);
}

static void pump_all(tr_sim *sim)
{
    for (int i = 0; i < sim->size; i++)
        pump(sim, i);
}

static void die(tr_sim *sim, int rank)
{
    give_back(sim, rank, true);
    sim->is_dead[rank] = true;
    sim->tick_at[rank] = INT64_MAX;
    for (int i = 0; i < sim->size; i++)
        if (i != rank)
            push(sim, (event){.kind = NOTICE, .from = rank, .to = i,
                              .time = sim->now + 1 + (int64_t)tr_sim_random(sim, (uint64_t)sim->options.notice + 1)});
}

static void happen(tr_sim *sim, event *e)
{
    switch (e->kind) {
    case DELIVER:
        deliver(sim, e);
        break;
    case CALL:
        e->call(e->argument);
        break;
    case KILL:
        die(sim, e->to);
        break;
    case NOTICE:
        if (!sim->is_dead[e->to])
            sim->node[e->to].lost(sim->node[e->to].self, e->from, "died");
        break;
    }
}

/* == calls ==================================================================================== */

void tr_sim_attach(tr_sim *sim, int rank, const tr_node *node)
{
    sim->node[rank] = *node;
    sim->tick_at[rank] = INT64_MAX;
}

void tr_sim_call(tr_sim *sim, int64_t after, void (*call)(void *payload), void *payload)
{
    push(sim, (event){.kind = CALL, .time = sim->now + after, .call = call, .argument = payload});
}

void tr_sim_kill(tr_sim *sim, int rank, int64_t after)
{
    push(sim, (event){.kind = KILL, .time = sim->now + after, .to = rank});
}

static int64_t next_tick(const tr_sim *sim)
{
    int64_t at = INT64_MAX;

    for (int i = 0; i < sim->size; i++)
        if (!sim->is_dead[i] && sim->tick_at[i] < at)
            at = sim->tick_at[i];
    return at;
}

bool tr_sim_run(tr_sim *sim, int64_t limit, bool (*drive)(void *payload), void *payload)
{
    for (int64_t i = 0; i < limit; i++) {
        if (drive(payload))
            return true;
        pump_all(sim);
        const int64_t tick = next_tick(sim);
        if (!sim->count && tick == INT64_MAX)
            return false;
        if (!sim->count || sim->heap[0].time > tick) {
            sim->now = tick > sim->now ? tick : sim->now + 1;
            continue;                              /* pump_all lets the ticks happen */
        }
        event e = pop(sim);
        sim->now = e.time > sim->now ? e.time : sim->now;
        happen(sim, &e);
        free(e.payload);
    }
    return false;
}
