/* rings.c - a transport over memory that the ranks of a job share, for ranks that are forked from one process that has imported everything:
 * such a job starts in milliseconds, and a poll is no system call. TRIREME_RINGS is "RANK SIZE ADDRESS": zeroed memory, mapped before the
 * forks, which holds a ring of bytes for each pair of ranks.
 *
 * A message travels as its header, its size and its payload, each padded to 64 bytes, so that payloads are aligned. Everything is copied. A
 * ring has one writer and one reader; what it has no room for waits with the sender. That a rank has died is for the job's liveness to
 * find: these tests kill nobody. */
#include "pserver/transport/transport.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 64, HEAD = 2 * LINE, RING = 128 << 10, MOST_RANKS = 16, MOST_WAITING = 64 << 20 };

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
    ring  *from, *to;
    bool   is_dropped;
    buffer in, out;
} peer;

struct tr_transport {
    tr_transport_events events;
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

static tr_transport *start(const tr_transport_events *events, char *error, size_t error_size)
{
    const char   *text = getenv("TRIREME_RINGS");
    tr_transport *t = calloc(1, sizeof *t);
    void         *memory = NULL;

    t->events = *events;
    if (!text || sscanf(text, "%d %d %p", &t->rank, &t->size, &memory) != 3 || t->size > MOST_RANKS) {
        snprintf(error, error_size, "TRIREME_RINGS is '%s'", text ? text : "");
        free(t);
        return NULL;
    }
    ring *rings = memory;
    for (int i = 0; i < t->size; i++) {
        t->peer[i].from = &rings[i * t->size + t->rank];
        t->peer[i].to = &rings[t->rank * t->size + i];
    }
    t->peer[t->rank].is_dropped = true;
    return t;
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

static bool send_message(tr_transport *t, int rank, const uint8_t *header, const void *payload, int64_t bytes, void *token)
{
    peer *p = &t->peer[rank];

    if (p->out.end - p->out.begin > MOST_WAITING)
        return false;
    if (!p->is_dropped) {
        uint8_t *to = reserve(&p->out, HEAD + padded(bytes));
        memset(to, 0, HEAD + padded(bytes));
        memcpy(to, header, TR_TRANSPORT_HEADER);
        memcpy(to + LINE, &bytes, sizeof bytes);
        if (bytes)
            memcpy(to + HEAD, payload, (size_t)bytes);
        p->out.end += HEAD + padded(bytes);
        flush(p);
    }
    if (token)
        t->events.sent(t->events.self, token);
    return true;
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

static int take(tr_transport *t, int rank)
{
    peer *p = &t->peer[rank];
    int   count = 0;

    while (!p->is_dropped && take_bytes(p))
        for (int64_t bytes; p->in.end - p->in.begin >= HEAD; count++) {
            uint8_t *at = p->in.bytes + p->in.begin;
            memcpy(&bytes, at + LINE, sizeof bytes);
            if (p->in.end - p->in.begin < HEAD + padded(bytes))
                break;
            p->in.begin += HEAD + padded(bytes);
            t->events.receive(t->events.self, rank, at, at + HEAD, bytes, false);
        }
    return count;
}

static int poll_all(tr_transport *t)
{
    int count = 0;

    for (int i = 0; i < t->size; i++) {
        flush(&t->peer[i]);
        count += take(t, i);
    }
    return count;
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
    .send = send_message, .poll = poll_all, .drop = drop, .unsent = unsent, .stop = stop,
};
