/* server_streams.c - see server_streams.h. */
#include "pserver/core/updates/server_streams.h"

#include "framework/base/memory.h"

#include <stdlib.h>
#include <string.h>

typedef struct stream {
    uint64_t      taken;
    uint64_t      open[TR__OPEN_COUNT];
    bool          is_parked;
    tr__deferred_list parked;
} stream;

enum { BITS = 64 };

struct tr__streams {
    stream   *of;                     /* the stream of each trainer */
    uint64_t *owed;                   /* a bit for each trainer, BITS in a word: an acknowledgement is owed to it */
};

static stream *stream_of(const tr_server *server, const tr__trainer *trainer)
{
    return &server->streams->of[trainer->index];
}

/* == requests that wait ======================================================================== */

void tr__deferred_put(tr_server *server, tr__deferred_list *list, const tr_wire *wire, uint8_t *payload, bool is_owned)
{
    tr__deferred *held = tr__must_bytes(sizeof *held);

    if (!is_owned) {
        uint8_t *copy = wire->bytes ? tr__server_buffer_new(server, wire->bytes) : NULL;
        if (copy)
            memcpy(copy, payload, wire->bytes);
        payload = copy;
    }
    *held = (tr__deferred){NULL, *wire, payload};
    if (list->last)
        list->last->next = held;
    else
        list->first = held;
    list->last = held;
}

tr__deferred *tr__deferred_take(tr__deferred_list *list)
{
    tr__deferred *held = list->first;

    if (held) {
        list->first = held->next;
        if (!list->first)
            list->last = NULL;
    }
    return held;
}

void tr__deferred_drop(tr_server *server, tr__deferred_list *list)
{
    tr__deferred *held;

    while ((held = tr__deferred_take(list))) {
        tr__server_buffer_free(server, held->payload);
        free(held);
    }
}

/* == life ====================================================================================== */

void tr__streams_new(tr_server *server)
{
    server->streams = tr__must_alloc(sizeof *server->streams);
    server->streams->of = tr__must_array((size_t)server->trainer_count, sizeof *server->streams->of);
    server->streams->owed = tr__must_array((size_t)server->trainer_count / BITS + 1, sizeof *server->streams->owed);
}

void tr__streams_free(tr_server *server)
{
    for (int i = 0; i < server->trainer_count; i++)
        tr__deferred_drop(server, &server->streams->of[i].parked);
    free(server->streams->owed);
    free(server->streams->of);
    free(server->streams);
}

void tr__stream_restart(tr_server *server, const tr__trainer *trainer)
{
    stream *s = stream_of(server, trainer);

    s->taken = 0;
    tr__stream_owe_nothing(server, trainer);
    memset(s->open, 0, sizeof s->open);
    tr__stream_forget_parked(server, trainer);
}

/* == numbers =================================================================================== */

uint64_t tr__stream_taken(const tr_server *server, const tr__trainer *trainer)
{
    return stream_of(server, trainer)->taken;
}

void tr__stream_take(tr_server *server, const tr__trainer *trainer, uint64_t seq)
{
    stream_of(server, trainer)->taken = seq;
    tr__stream_owe(server, trainer);
}

void tr__stream_open(tr_server *server, const tr__trainer *trainer, tr__open kind, uint64_t seq)
{
    stream_of(server, trainer)->open[kind] = seq;
}

bool tr__stream_is_open(const tr_server *server, const tr__trainer *trainer, tr__open kind)
{
    return stream_of(server, trainer)->open[kind] != 0;
}

uint64_t tr__stream_done(const tr_server *server, const tr__trainer *trainer)
{
    const stream *s = stream_of(server, trainer);
    uint64_t      done = s->taken;

    for (int kind = 0; kind < TR__OPEN_COUNT; kind++)
        if (s->open[kind] && s->open[kind] <= done)
            done = s->open[kind] - 1;
    return done;
}

/* == acknowledgements ========================================================================== */

void tr__stream_owe(tr_server *server, const tr__trainer *trainer)
{
    server->streams->owed[trainer->index / BITS] |= 1ull << trainer->index % BITS;
}

void tr__stream_owe_nothing(tr_server *server, const tr__trainer *trainer)
{
    server->streams->owed[trainer->index / BITS] &= ~(1ull << trainer->index % BITS);
}

void tr__streams_owe_all(tr_server *server)
{
    for (int i = 0; i < server->trainer_count; i++) {
        const tr__trainer *t = &server->trainer[i];
        if (tr__server_is_present(t) && t->state != TR_MEMBER_VACANT)
            tr__stream_owe(server, t);
    }
}

const tr__trainer *tr__streams_next_owed(tr_server *server)
{
    for (int first = 0; first < server->trainer_count; first += BITS) {
        const uint64_t owed = server->streams->owed[first / BITS];
        if (owed) {
            const tr__trainer *t = &server->trainer[first + __builtin_ctzll(owed)];
            tr__stream_owe_nothing(server, t);
            return t;
        }
    }
    return NULL;
}

/* == parked ==================================================================================== */

static void set_first_open(tr_server *server, const tr__trainer *trainer)
{
    const tr__deferred *first = stream_of(server, trainer)->parked.first;

    tr__stream_open(server, trainer, TR__OPEN_PARKED, first ? first->wire.seq : 0);
}

bool tr__stream_is_parked(const tr_server *server, const tr__trainer *trainer)
{
    return stream_of(server, trainer)->is_parked;
}

void tr__stream_park(tr_server *server, const tr__trainer *trainer)
{
    stream_of(server, trainer)->is_parked = true;
}

bool tr__stream_is_moving(const tr_server *server, const tr__trainer *trainer)
{
    return !tr_membership_is_over(trainer->state) && !tr__stream_is_parked(server, trainer);
}

void tr__stream_defer(tr_server *server, const tr__trainer *trainer, const tr_wire *wire, uint8_t *payload, bool is_owned)
{
    tr__deferred_put(server, &stream_of(server, trainer)->parked, wire, payload, is_owned);
    set_first_open(server, trainer);
}

tr__deferred *tr__stream_first_parked(const tr_server *server, const tr__trainer *trainer)
{
    return stream_of(server, trainer)->parked.first;
}

tr__deferred *tr__stream_parked(const tr_server *server, const tr__trainer *trainer, uint64_t seq)
{
    tr__deferred *held = tr__stream_first_parked(server, trainer);

    while (held && held->wire.seq != seq)
        held = held->next;
    return held;
}

void tr__stream_unpark(tr_server *server, const tr__trainer *trainer)
{
    stream *s = stream_of(server, trainer);

    if (!s->is_parked)
        return;
    s->is_parked = false;
    if (tr__server_is_present(trainer))
        tr__stream_owe(server, trainer);
    tr__server_due(server, TR__RULE_UNPARK);
    tr__server_due(server, TR__RULE_ANSWER);       /* in ssp, pulls must wait for this trainer again */
    tr__server_due(server, TR__RULE_DECIDE);
}

void tr__streams_unpark_all(tr_server *server)
{
    for (int i = 0; i < server->trainer_count; i++)
        tr__stream_unpark(server, &server->trainer[i]);
}

tr__deferred_list tr__stream_take_parked(tr_server *server, const tr__trainer *trainer)
{
    stream             *s = stream_of(server, trainer);
    const tr__deferred_list list = s->parked;

    if (s->is_parked)
        return (tr__deferred_list){NULL, NULL};
    s->parked = (tr__deferred_list){NULL, NULL};
    set_first_open(server, trainer);
    return list;
}

void tr__stream_forget_parked(tr_server *server, const tr__trainer *trainer)
{
    stream *s = stream_of(server, trainer);

    s->is_parked = false;
    tr__deferred_drop(server, &s->parked);
    s->open[TR__OPEN_PARKED] = 0;
}
