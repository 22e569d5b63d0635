/* server_meter.c - what came when, and how long it lay here: trainer by trainer, for people.
 *
 * Times are those the driver has told last: with a message, a tick, or before an update is said to be applied. */
#include "pserver/core/server_state.h"

void tr_server_tell_time(tr_server *server, int64_t now)
{
    server->now = now;
}

void tr__server_meter_ended(const tr_server *server, tr__trainer *trainer)
{
    if (!trainer->meter.ended_at)
        trainer->meter.ended_at = server->now;
}

void tr__server_meter_begins(tr_server *server)
{
    int64_t first = INT64_MAX;

    for (int i = 0; i < server->trainer_count; i++) {
        const tr_peer_meter *m = &server->trainer[i].meter;
        if (server->takes_part[i] && m->ended_at && m->ended_at < first)
            first = m->ended_at;
    }
    for (int i = 0; i < server->trainer_count; i++) {
        tr_peer_meter *m = &server->trainer[i].meter;
        if (!server->takes_part[i] || !m->ended_at)
            continue;
        tr_counter_add(&m->steps, 1);
        tr_counter_add(&m->late, m->ended_at - first);
        tr_counter_add(&m->kept, server->now - m->ended_at);
        m->ended_at = 0;
    }
}

void tr__server_meter_settled(const tr_server *server, tr__trainer *trainer)
{
    trainer->meter.settled_at = server->now;
    if (trainer->ended == trainer->settled)
        trainer->meter.ended_at = 0;               /* dropped */
}

void tr__server_meter_holds(const tr_server *server, tr__trainer *trainer)
{
    if (!trainer->meter.held_at)
        trainer->meter.held_at = server->now;
}

/* Until its own step was applied it waited for that. */
void tr__server_meter_answered(const tr_server *server, tr__trainer *trainer)
{
    tr_peer_meter *m = &trainer->meter;
    const int64_t  from = m->held_at > m->settled_at ? m->held_at : m->settled_at;

    if (!m->held_at || trainer->pulls)
        return;
    tr_counter_add(&m->held, server->now - from);
    m->held_at = 0;
}

const tr_peer_meter *tr_server_peer_meter(const tr_server *server, int trainer)
{
    return &server->trainer[trainer].meter;
}
