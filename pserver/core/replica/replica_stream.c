/* replica_stream.c - a list of the unacknowledged messages, with a pointer to the first unsent one. */
#include "pserver/core/replica/replica_stream.h"

#include "framework/base/memory.h"

#include <stdlib.h>
#include <string.h>

typedef struct item {
    struct item *next;
    tr_wire      wire;
    const void  *payload;
    void        *owned;
    bool         was_sent;
} item;

struct tr_replica_stream {
    int      self, peer;
    int64_t  retry, sent_at;          /* when the first message was last sent, or the last ACK came; 0: no message is unacknowledged */
    int64_t  now;
    uint64_t last, done, bytes;
    item    *first, **end, *unsent;
};

tr_replica_stream *tr_replica_stream_new(int self, int peer)
{
    tr_replica_stream *m = tr__must_alloc(sizeof *m);

    *m = (tr_replica_stream){.self = self, .peer = peer};
    m->end = &m->first;
    return m;
}

void tr_replica_stream_set_retry(tr_replica_stream *m, int64_t retry)
{
    m->retry = retry;
}

static void drop_first(tr_replica_stream *m)
{
    item *acked = m->first;

    m->first = acked->next;
    if (!m->first)
        m->end = &m->first;
    if (m->unsent == acked)
        m->unsent = acked->next;
    m->bytes -= acked->wire.bytes;
    free(acked->owned);
    free(acked);
}

void tr_replica_stream_free(tr_replica_stream *m)
{
    if (!m)
        return;
    while (m->first)
        drop_first(m);
    free(m);
}

int tr_replica_stream_peer(const tr_replica_stream *m)
{
    return m->peer;
}

uint64_t tr_replica_stream_put(tr_replica_stream *m, const tr_wire *wire, const void *payload, void *owned)
{
    item *it = tr__must_bytes(sizeof *it);

    *it = (item){.wire = *wire, .payload = payload, .owned = owned};
    it->wire.seq = ++m->last;
    it->wire.sender = (uint32_t)m->self;
    *m->end = it;
    m->end = &it->next;
    if (!m->unsent)
        m->unsent = it;
    m->bytes += wire->bytes;
    return m->last;
}

void tr_replica_stream_acked(tr_replica_stream *m, uint64_t seq)
{
    if (seq > m->last || seq <= m->done)
        return;
    while (m->first && m->first->wire.seq <= seq)
        drop_first(m);
    m->done = seq;
    m->sent_at = m->now;
}

uint64_t tr_replica_stream_done(const tr_replica_stream *m)
{
    return m->done;
}

uint64_t tr_replica_stream_bytes(const tr_replica_stream *m)
{
    return m->bytes;
}

bool tr_replica_stream_next(tr_replica_stream *m, tr_message *out)
{
    item *it = m->unsent;

    if (!it)
        return false;
    m->unsent = it->next;
    if (it == m->first)
        m->sent_at = m->now;
    *out = (tr_message){.peer = m->peer, .wire = it->wire, .payload = it->payload};
    if (it->was_sent && it->payload)               /* the first copy may be acknowledged, and the payload go, while this one waits to be
                                                    * sent */
        out->payload = out->owned = memcpy(tr__must_bytes(it->wire.bytes + 1), it->payload, it->wire.bytes);
    it->was_sent = true;
    return true;
}

int64_t tr_replica_stream_tick(tr_replica_stream *m, int64_t now)
{
    m->now = now;
    if (!m->retry || !m->first || m->first == m->unsent)
        return INT64_MAX;
    if (now - m->sent_at < m->retry)
        return m->sent_at + m->retry;
    m->unsent = m->first;
    m->sent_at = now;
    return now + m->retry;
}
