/* server_initiator.c - which trainer begins snapshots (server_snapshot.c): the initiator.
 *
 * The initiator is the first trainer that makes steps. Acknowledgements name it, and a trainer begins a snapshot when all servers name this
 * trainer. A trainer that has made its last step stays in the job until a last snapshot has all steps. When no trainer makes steps any
 * more, the first of those that stay makes this last snapshot. */
#include "pserver/core/server_state.h"

bool tr__server_is_there(const tr__trainer *trainer)
{
    return trainer->state != TR_MEMBER_LEFT && trainer->state != TR_MEMBER_LOST;
}

int tr__server_initiator(const tr_server *server)
{
    int first = -1;

    for (int i = 0; i < server->trainer_count; i++) {
        if (!tr_membership_is_over(server->trainer[i].state))
            return i;
        if (first < 0 && server->trainer[i].state == TR_MEMBER_DRAINING)
            first = i;
    }
    return first;
}

/* Does no trainer make steps any more, and is the last snapshot made? */
static bool is_over(const tr_server *server)
{
    const int initiator = tr__server_initiator(server);

    return server->snapshot.has_last && (initiator < 0 || tr_membership_is_over(server->trainer[initiator].state));
}

/* Is this server still writing a snapshot that an earlier, dead initiator has begun? The new initiator begins none until that is written. */
static bool is_writing_anothers(const tr_server *server, int initiator)
{
    const tr__snapshot *snapshot = &server->snapshot;

    return (snapshot->phase == TR__SNAPSHOT_TAKING || snapshot->phase == TR__SNAPSHOT_WRITING) &&
           (snapshot->initiator != initiator || snapshot->initiator_epoch != server->trainer[initiator].epoch);
}

uint32_t tr__server_initiator_code(const tr_server *server)
{
    const int initiator = tr__server_initiator(server);

    if (is_over(server))
        return TR_INITIATOR_OVER;
    return initiator < 0 || is_writing_anothers(server, initiator) ? TR_INITIATOR_NONE : (uint32_t)initiator;
}

void tr__server_initiator_changed(tr_server *server)
{
    const int initiator = tr__server_initiator(server);

    for (int i = 0; i < server->trainer_count; i++) {
        tr__trainer *t = &server->trainer[i];
        const bool   is_draining = t->state == TR_MEMBER_DRAINING;
        if (is_draining && (is_over(server) || (i == initiator && !is_writing_anothers(server, i))))
            t->over_seq = 0;
        t->owes_ack |= is_draining || (i == initiator && t->state != TR_MEMBER_VACANT);
    }
    tr__server_try_snapshot(server);
    tr__server_decision_moves(server);
}
