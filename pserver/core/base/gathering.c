/* gathering.c - see gathering.h. */
#include "pserver/core/base/gathering.h"

#include "framework/base/memory.h"
#include "pserver/core/base/outbox.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A gathering's number: its update, and its place among those of the update, 1, 2, ... */
enum { PLACE_BITS = 16 };

/* One server's value in one gathering. */
typedef struct share {
    uint64_t number;                  /* the number of the gathering; 0: the entry is empty */
    uint32_t bytes;
    uint8_t  data[TR_GATHER_MAX];
} share;

/* Values of another server, for the present gathering and the next one, in any order. */
typedef struct places {
    share of[2];
} places;

struct tr_gather {
    const tr_roster *roster;
    int              self;            /* the index of this server */
    int64_t          repeat, ask_at;  /* ask_at INT64_MAX: it is set by the next tick */
    uint64_t         first, begun, done;   /* numbers of gatherings; 0: none */
    uint64_t         count;           /* gatherings that this process has completed */
    share           *own;             /* this server's values of this update and the one before, in order */
    size_t           own_count, own_capacity;
    places          *server;          /* the values of the other servers, one entry for each server */
    uint8_t         *all;
    tr_outbox        outbox;
};

tr_gather *tr_gather_new(const tr_roster *roster, int64_t repeat)
{
    tr_gather *g = tr__must_alloc(sizeof *g);

    g->roster = roster;
    g->self = roster->rank[roster->self].index;
    g->repeat = repeat;
    g->ask_at = INT64_MAX;
    g->server = tr__must_array((size_t)roster->servers, sizeof *g->server);
    return g;
}

void tr_gather_free(tr_gather *g)
{
    if (!g)
        return;
    tr_outbox_deinit(&g->outbox);
    free(g->server);
    free(g->own);
    free(g);
}

/* The value of a server in this gathering. NULL: it has not come, or is not stored any more. */
static const share *share_of(const tr_gather *g, int server, uint64_t number)
{
    if (server != g->self) {
        const share *of = g->server[server].of;
        return of[0].number == number ? &of[0] : of[1].number == number ? &of[1] : NULL;
    }
    for (size_t i = 0; i < g->own_count; i++)
        if (g->own[i].number == number)
            return &g->own[i];
    return NULL;
}

static void send_own(tr_gather *g, int server, const share *own, bool asks)
{
    uint8_t *copy = tr__must_bytes(own->bytes + 1);

    memcpy(copy, own->data, own->bytes);
    tr_outbox_put(&g->outbox, &(tr_message){
        .peer = g->roster->server_rank[server], .payload = copy, .owned = copy,
        .wire = {.kind = TR_WIRE_SHARE, .sender = (uint32_t)g->roster->self, .bytes = own->bytes,
                 .share = {.number = own->number, .asks = asks}}});
}

/* Complete the gathering if the values of all servers are here. */
static tr_status try_finish(tr_gather *g)
{
    if (g->begun == g->done)
        return TR_OK;
    for (int s = 0; s < g->roster->servers; s++)
        if (!share_of(g, s, g->begun))
            return TR_OK;
    const uint32_t bytes = share_of(g, g->self, g->begun)->bytes;
    for (int s = 0; s < g->roster->servers; s++) {
        const share *other = share_of(g, s, g->begun);
        if (other->bytes != bytes)
            return tr_fail(TR_EPEER, "%s has %u bytes of update %llu to share, %s %u",
                           tr_roster_name(g->roster, g->roster->server_rank[s]), other->bytes,
                           (unsigned long long)(g->begun >> PLACE_BITS), tr_roster_name(g->roster, g->roster->self), bytes);
        memcpy(g->all + (size_t)s * bytes, other->data, bytes);
    }
    g->done = g->begun;
    g->count++;
    g->ask_at = INT64_MAX;
    return TR_OK;
}

/* Make a new entry for an own value, and drop the values of updates before the last one. */
static share *new_own(tr_gather *g, uint64_t update)
{
    size_t old = 0;

    while (old < g->own_count && (g->own[old].number >> PLACE_BITS) + 1 < update)
        old++;
    g->own_count -= old;
    if (old)
        memmove(g->own, g->own + old, g->own_count * sizeof *g->own);
    if (g->own_count == g->own_capacity) {
        g->own_capacity = g->own_capacity ? 2 * g->own_capacity : 2;
        g->own = tr__must_realloc(g->own, g->own_capacity * sizeof *g->own);
    }
    return &g->own[g->own_count++];
}

tr_status tr_gather_begin(tr_gather *g, uint64_t update, const void *own, uint32_t bytes, void *all)
{
    assert(g->begun == g->done && bytes <= TR_GATHER_MAX && update >= g->begun >> PLACE_BITS);
    g->begun = (update == g->begun >> PLACE_BITS ? g->begun : update << PLACE_BITS) + 1;
    g->first = g->first ? g->first : g->begun;
    g->all = all;
    share *mine = new_own(g, update);
    *mine = (share){.number = g->begun, .bytes = bytes};
    memcpy(mine->data, own, bytes);
    for (int s = 0; s < g->roster->servers; s++)
        if (s != g->self)
            send_own(g, s, mine, false);
    return try_finish(g);
}

uint64_t tr_gather_done(const tr_gather *g)
{
    return g->count;
}

static tr_status answer(tr_gather *g, uint64_t updates, int server, uint64_t number)
{
    const share *own = share_of(g, g->self, number);

    if (own)
        send_own(g, server, own, false);
    else if (number >> PLACE_BITS <= updates && number < (g->first ? g->first : UINT64_MAX))
        return tr_fail(TR_EPEER, "server %d asks for the sums of update %llu, which only the predecessor of %s had",
                       server, (unsigned long long)(number >> PLACE_BITS), tr_roster_name(g->roster, g->roster->self));
    return TR_OK;
}

tr_status tr_gather_receive(tr_gather *g, uint64_t updates, int peer, const tr_wire *wire, const void *payload)
{
    const tr_rank *rank = &g->roster->rank[peer];
    const uint64_t number = wire->share.number;

    if (rank->role == TR_ROLE_STANDBY)
        return TR_OK;                              /* the sender was a server, and another rank has its place now */
    if (rank->role != TR_ROLE_SERVER || rank->index == g->self || wire->bytes > TR_GATHER_MAX || number == 0)
        return tr_fail(TR_EPEER, "%s shares %llu bytes of gathering %llu with %s", tr_roster_name(g->roster, peer),
                       (unsigned long long)wire->bytes, (unsigned long long)number,
                       tr_roster_name(g->roster, g->roster->self));
    if (wire->share.asks)
        TR_TRY(answer(g, updates, rank->index, number));
    if (number <= g->done || share_of(g, rank->index, number))
        return TR_OK;
    share *of = g->server[rank->index].of, *older = of[0].number < of[1].number ? &of[0] : &of[1];
    if (older->number > g->done)
        return tr_fail(TR_EPEER, "%s is more than one gathering ahead of %s", tr_roster_name(g->roster, peer),
                       tr_roster_name(g->roster, g->roster->self));
    *older = (share){.number = number, .bytes = (uint32_t)wire->bytes};
    memcpy(older->data, payload, wire->bytes);
    return try_finish(g);
}

bool tr_gather_next(tr_gather *g, tr_message *out)
{
    return tr_outbox_take(&g->outbox, out);
}

int64_t tr_gather_tick(tr_gather *g, int64_t now)
{
    if (g->begun == g->done)
        return INT64_MAX;
    if (g->ask_at == INT64_MAX)
        g->ask_at = now + g->repeat;
    if (now < g->ask_at)
        return g->ask_at;
    g->ask_at = now + g->repeat;
    for (int s = 0; s < g->roster->servers; s++)
        if (!share_of(g, s, g->begun))
            send_own(g, s, share_of(g, g->self, g->begun), true);
    return g->ask_at;
}

bool tr_gather_missing(const tr_gather *g, char *out, size_t size)
{
    const char *before = "";
    size_t      used = 0;

    for (int s = 0; s < g->roster->servers && g->begun > g->done && used < size; s++)
        if (!share_of(g, s, g->begun)) {
            used += (size_t)snprintf(out + used, size - used, "%sserver %d", before, s);
            before = ", ";
        }
    return used > 0;
}
