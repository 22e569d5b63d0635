/* server_initiator.c - see server_initiator.h. */
#include "pserver/core/snapshots/server_initiator.h"

#include "pserver/core/snapshots/server_snapshots.h"
#include "pserver/core/updates/server_streams.h"

/* Does no trainer make steps any more, and is the last snapshot made? */
static bool is_over(const tr_server *server, int initiator)
{
    return server->has_last_snapshot && (initiator < 0 || tr_membership_is_over(server->trainer[initiator].state));
}

uint32_t tr__initiator_code(const tr_server *server)
{
    const int initiator = tr__server_initiator(server);

    if (is_over(server, initiator))
        return TR_INITIATOR_OVER;
    return initiator < 0 || tr__snapshots_are_anothers(server, initiator) ? TR_INITIATOR_NONE : (uint32_t)initiator;
}

void tr__initiator_set_last(tr_server *server, bool has_last)
{
    server->has_last_snapshot = has_last;
}

void tr__initiator_release_draining(tr_server *server)
{
    const int initiator = tr__server_initiator(server);

    for (int i = 0; i < server->trainer_count; i++) {
        const tr__trainer *t = &server->trainer[i];
        const bool         is_draining = t->state == TR_MEMBER_DRAINING;
        if (is_draining && (is_over(server, initiator) || (i == initiator && !tr__snapshots_are_anothers(server, i))))
            tr__stream_open(server, t, TR__OPEN_DRAIN, 0);
        if (is_draining || (i == initiator && t->state != TR_MEMBER_VACANT))
            tr__stream_owe(server, t);
    }
}
