/* rings.c - a transport over memory that the ranks of a job share, for ranks that are forked from one process that has imported
 * everything: such a job starts in milliseconds, and a poll is no system call. Its ranks take turns (turns.h), so the job is a
 * function of a seed. TRIREME_RINGS is "RANK FILE": an open file of memory that turns_prepare has filled, with a ring of bytes for
 * each pair of ranks behind it.
 *
 * A message travels as its header, when it arrives, its size and its payload, each padded to 64 bytes, so that payloads are aligned.
 * Everything is copied. A ring has one writer and one reader; what it has no room for waits with the sender. */
#include "pserver/transport/transport.h"
#include "turns.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 64, HEAD = 2 * LINE, RING = 128 << 10, MOST_WAITING = 64 << 20 };

/* `written` and `read` count bytes from the start of the job. */
typedef struct ring {
    _Alignas(LINE) atomic_size_t written;
    _Alignas(LINE) atomic_size_t read;
    _Alignas(LINE) uint8_t bytes[RING];
} ring;

typedef struct buffer {
    uint8_t *bytes;
    size_t   begin, end, room;
} buffer;

typedef struct peer {
    ring   *from, *to;
    bool    is_dropped, is_reported;
    int64_t last;                     /* when the newest message to it arrives: they stay in order */
    buffer  in, out;
} peer;

/* The second line of a message. */
typedef struct about {
    int64_t bytes, at;
} about;

struct tr_transport {
    tr_transport_events events;
    turns              *turns;
    int                 rank, size;
    peer                peer[MOST_RANKS];
};

static size_t padded(int64_t bytes)
{
    return ((size_t)bytes + LINE - 1) / LINE * LINE;
}

/* Make room for `bytes` behind the end. What is there moves to the front. */
static uint8_t *reserve(buffer *b, size_t bytes)
{
    if (b->begin == b->end)
        b->begin = b->end = 0;
    if (b->room - b->end < bytes) {
        const size_t used = b->end - b->begin, room = padded((int64_t)(2 * (used + bytes)));
        uint8_t     *to = aligned_alloc(LINE, room);
        if (!to)
            abort();
        memcpy(to, b->bytes + b->begin, used);
        free(b->bytes);
        *b = (buffer){to, 0, used, room};
    }
    return b->bytes + b->end;
}

static tr_transport *own;

static tr_transport *start(const tr_transport_events *events, char *error, size_t error_size)
{
    tr_transport *t = calloc(1, sizeof *t);

    t->events = *events;
    t->turns = turns_of(&t->rank);
    if (!t->turns) {
        snprintf(error, error_size, "TRIREME_RINGS is not set");
        free(t);
        return NULL;
    }
    t->size = t->turns->size;
    ring *rings = (ring *)((uint8_t *)t->turns + padded(sizeof(turns)));
    for (int i = 0; i < t->size; i++) {
        t->peer[i].from = &rings[i * t->size + t->rank];
        t->peer[i].to = &rings[t->rank * t->size + i];
    }
    t->peer[t->rank].is_dropped = true;
    return own = t;
}

static int rank_of(const tr_transport *t)
{
    return t->rank;
}

static int size_of(const tr_transport *t)
{
    return t->size;
}

/* Copy between `bytes` and a ring, from the ring's byte `at` on. */
static void copy(uint8_t *ring_bytes, size_t at, uint8_t *bytes, size_t count, bool is_in)
{
    const size_t place = at % RING, until_end = RING - place, first = count < until_end ? count : until_end;

    memcpy(is_in ? bytes : ring_bytes + place, is_in ? ring_bytes + place : bytes, first);
    memcpy(is_in ? bytes + first : ring_bytes, is_in ? ring_bytes : bytes + first, count - first);
}

static void flush(peer *p)
{
    if (p->is_dropped || p->out.begin == p->out.end)
        return;
    const size_t written = atomic_load_explicit(&p->to->written, memory_order_relaxed);
    const size_t room = RING - (written - atomic_load_explicit(&p->to->read, memory_order_acquire));
    const size_t waiting = p->out.end - p->out.begin, count = waiting < room ? waiting : room;

    copy(p->to->bytes, written, p->out.bytes + p->out.begin, count, false);
    p->out.begin += count;
    atomic_store_explicit(&p->to->written, written + count, memory_order_release);
}

/* A rank that is gone reads nothing any more. */
static bool is_away(const tr_transport *t, int rank)
{
    return t->peer[rank].is_dropped || t->turns->rank[rank].is_gone;
}

static bool send_message(tr_transport *t, int rank, const uint8_t *header, const void *payload, int64_t bytes, void *token)
{
    peer         *p = &t->peer[rank];
    const int64_t at = t->turns->now + turns_draw(t->turns, t->turns->delay);

    if (p->out.end - p->out.begin > MOST_WAITING && !is_away(t, rank))
        return false;
    if (!is_away(t, rank)) {
        uint8_t *to = reserve(&p->out, HEAD + padded(bytes));
        p->last = at > p->last ? at : p->last;
        memset(to, 0, HEAD + padded(bytes));
        memcpy(to, header, TR_TRANSPORT_HEADER);
        memcpy(to + LINE, &(about){bytes, p->last}, sizeof(about));
        if (bytes)
            memcpy(to + HEAD, payload, (size_t)bytes);
        p->out.end += HEAD + padded(bytes);
        flush(p);
        turns_message(t->turns, rank, p->last);
    }
    if (token)
        t->events.sent(t->events.self, token);
    return true;
}

static void beat(tr_transport *t, int rank, const uint8_t *header)
{
    send_message(t, rank, header, NULL, 0, NULL);
}

/* Move what the ring has to the end of `in`. */
static bool take_bytes(peer *p)
{
    const size_t read = atomic_load_explicit(&p->from->read, memory_order_relaxed);
    const size_t count = atomic_load_explicit(&p->from->written, memory_order_acquire) - read;

    if (count) {
        copy(p->from->bytes, read, reserve(&p->in, count), count, true);
        p->in.end += count;
        atomic_store_explicit(&p->from->read, read + count, memory_order_release);
    }
    return count > 0;
}

/* The next whole message of this peer; NULL: there is none. */
static uint8_t *next_message(peer *p, about *of)
{
    take_bytes(p);
    if (p->is_dropped || p->in.end - p->in.begin < HEAD)
        return NULL;
    memcpy(of, p->in.bytes + p->in.begin + LINE, sizeof *of);
    return p->in.end - p->in.begin < HEAD + padded(of->bytes) ? NULL : p->in.bytes + p->in.begin;
}

static int take(tr_transport *t, int rank)
{
    peer    *p = &t->peer[rank];
    int      count = 0;
    about    of;

    for (uint8_t *at; (at = next_message(p, &of)) && of.at <= t->turns->now; count++) {
        p->in.begin += HEAD + padded(of.bytes);
        t->events.receive(t->events.self, rank, at, at + HEAD, of.bytes, false);
    }
    return count;
}

/* What a dead rank has sent before it died comes first. */
static bool report(tr_transport *t, int rank)
{
    const int64_t at = t->turns->rank[t->rank].reported[rank];
    about         of;

    if (!at || at > t->turns->now || t->peer[rank].is_reported || next_message(&t->peer[rank], &of))
        return false;
    t->peer[rank].is_reported = t->peer[rank].is_dropped = true;
    t->events.dead(t->events.self, rank);
    return true;
}

static int poll_all(tr_transport *t)
{
    int count = 0;

    for (int i = 0; i < t->size; i++) {
        const size_t waiting = t->peer[i].out.end - t->peer[i].out.begin;
        if (is_away(t, i))
            t->peer[i].out.begin = t->peer[i].out.end;
        flush(&t->peer[i]);
        if (waiting > t->peer[i].out.end - t->peer[i].out.begin)
            turns_message(t->turns, i, t->turns->now);
        count += take(t, i) + report(t, i);
    }
    return count;
}

int64_t rings_next(void)
{
    int64_t next = INT64_MAX;

    for (int i = 0; own && i < own->size; i++) {
        const int64_t reported = own->turns->rank[own->rank].reported[i];
        about         of;
        if (next_message(&own->peer[i], &of) && of.at < next)
            next = of.at;
        if (reported && !own->peer[i].is_reported && reported < next)
            next = reported;
        if (own->peer[i].out.begin < own->peer[i].out.end)
            next = own->turns->now;
    }
    return next;
}

static void drop(tr_transport *t, int rank)
{
    t->peer[rank].is_dropped = true;
}

static int unsent(const tr_transport *t)
{
    int count = 0;

    for (int i = 0; i < t->size; i++)
        count += !t->peer[i].is_dropped && t->peer[i].out.begin < t->peer[i].out.end;
    return count;
}

static void stop(tr_transport *t, bool is_clean)
{
    (void)t, (void)is_clean;                       /* the process ends soon */
}

extern const tr_transport_table tr_transport_mpi;
const tr_transport_table tr_transport_mpi = {
    .version = TR_TRANSPORT_VERSION, .name = "rings", .start = start, .rank = rank_of, .size = size_of,
    .send = send_message, .beat = beat, .poll = poll_all, .drop = drop, .unsent = unsent, .stop = stop,
    .schedule = &turns_schedule, .adapt = turns_adapt,
};
