/* server_meters.c - see server_meters.h. */
#include "pserver/core/updates/server_meters.h"

static tr_peer_meter *meter_of(const tr_server *server, const tr__trainer *trainer)
{
    return &server->meters[trainer->index];
}

void tr__meters_ended(tr_server *server, const tr__trainer *trainer)
{
    tr_peer_meter *m = meter_of(server, trainer);

    if (!m->ended_at)
        m->ended_at = server->now;
}

void tr__meters_begins(tr_server *server, const bool *takes_part)
{
    int64_t first = INT64_MAX;

    for (int i = 0; i < server->trainer_count; i++) {
        const tr_peer_meter *m = &server->meters[i];
        if (takes_part[i] && m->ended_at && m->ended_at < first)
            first = m->ended_at;
    }
    for (int i = 0; i < server->trainer_count; i++) {
        tr_peer_meter *m = &server->meters[i];
        if (!takes_part[i] || !m->ended_at)
            continue;
        tr_counter_add(&m->steps, 1);
        tr_counter_add(&m->late, m->ended_at - first);
        tr_counter_add(&m->kept, server->now - m->ended_at);
        m->ended_at = 0;
    }
}

void tr__meters_settled(tr_server *server, const tr__trainer *trainer)
{
    tr_peer_meter *m = meter_of(server, trainer);

    m->settled_at = server->now;
    if (trainer->ended == trainer->settled)
        m->ended_at = 0;                           /* the step was dropped */
}

void tr__meters_holds(tr_server *server, const tr__trainer *trainer)
{
    tr_peer_meter *m = meter_of(server, trainer);

    if (!m->waiting_since)
        m->waiting_since = server->now;
}

/* The time before the trainer's own step was settled does not count as waiting for others. */
void tr__meters_answered(tr_server *server, const tr__trainer *trainer)
{
    tr_peer_meter *m = meter_of(server, trainer);
    const int64_t  from = m->waiting_since > m->settled_at ? m->waiting_since : m->settled_at;

    if (!m->waiting_since)
        return;
    tr_counter_add(&m->held, server->now - from);
    m->waiting_since = 0;
}

const tr_peer_meter *tr__meters_of(const tr_server *server, int trainer)
{
    return &server->meters[trainer];
}
