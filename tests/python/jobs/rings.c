/* pipes.c - a transport over socket pairs, for jobs whose ranks are forked from one process that has imported everything: such a job
 * starts in milliseconds. TRIREME_PIPES is "RANK FD FD ...", a descriptor for each rank.
 *
 * A message travels as its header, its size and its payload, each padded to 64 bytes, so that payloads are aligned. Everything is copied. That a rank
 * has died is for the job's liveness to find: these tests kill nobody. */
#include "pserver/transport/transport.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LINE = 64, HEAD = 2 * LINE, READ_AT_ONCE = 1 << 20, MOST_RANKS = 16, MOST_WAITING = 64 << 20 };

typedef struct buffer {
    uint8_t *bytes;
    size_t   begin, end, room;
} buffer;

typedef struct peer {
    int    fd;
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
    const char   *text = getenv("TRIREME_PIPES");
    tr_transport *t = calloc(1, sizeof *t);
    int           used = 0;

    t->events = *events;
    if (!text || sscanf(text, "%d%n", &t->rank, &used) != 1) {
        snprintf(error, error_size, "TRIREME_PIPES is '%s'", text ? text : "");
        return NULL;
    }
    for (text += used; t->size < MOST_RANKS && sscanf(text, "%d%n", &t->peer[t->size].fd, &used) == 1; text += used) {
        if (t->size != t->rank)
            fcntl(t->peer[t->size].fd, F_SETFL, O_NONBLOCK);
        t->size++;
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

static int flush(peer *p)
{
    while (!p->is_dropped && p->out.begin < p->out.end) {
        const ssize_t sent = send(p->fd, p->out.bytes + p->out.begin, p->out.end - p->out.begin, MSG_NOSIGNAL);
        if (sent <= 0)
            return 0;
        p->out.begin += (size_t)sent;
    }
    return 1;
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

static int take(tr_transport *t, int rank)
{
    peer *p = &t->peer[rank];
    int   count = 0;

    while (!p->is_dropped) {
        uint8_t      *to = reserve(&p->in, READ_AT_ONCE);
        const ssize_t got = recv(p->fd, to, READ_AT_ONCE, 0);
        if (got <= 0)
            break;
        p->in.end += (size_t)got;
        for (int64_t bytes; p->in.end - p->in.begin >= HEAD; count++) {
            uint8_t *at = p->in.bytes + p->in.begin;
            memcpy(&bytes, at + LINE, sizeof bytes);
            if (p->in.end - p->in.begin < HEAD + padded(bytes))
                break;
            p->in.begin += HEAD + padded(bytes);
            t->events.receive(t->events.self, rank, at, at + HEAD, bytes, false);
        }
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
    .version = TR_TRANSPORT_VERSION, .name = "pipes", .start = start, .rank = rank_of, .size = size_of,
    .send = send_message, .poll = poll_all, .drop = drop, .unsent = unsent, .stop = stop,
};
