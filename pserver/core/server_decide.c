/* server_decide.c - server 0 decides what makes an update, from what all servers have said (server_decision.c): whose steps are in, whose are
 * dropped, who is out.
 *
 * No deadlock: it waits for READY of the living alone; of those whom any server has lost it waits for nothing. */
#include "pserver/core/server_board.h"

bool tr__server_is_pending(const tr_server *server)
{
    return server->decisions.update > server->updates;
}

bool tr__server_is_out(const tr_server *server, int trainer)
{
    return server->decisions.trainer[trainer] & TR_TRAINER_OUT;
}

const tr__report *tr__server_said_by(const tr_server *server, int from, int trainer)
{
    return &server->decisions.report[(size_t)from * (size_t)server->trainer_count + (size_t)trainer];
}

/* Has every server all of the trainer's next step? */
static bool is_whole(const tr_server *server, int trainer)
{
    const tr__round *round = server->trainer[trainer].round;

    if (tr__server_is_out(server, trainer) || !round->is_full || round->step != server->decisions.settled[trainer] + 1)
        return false;
    for (int s = 1; s < server->roster->servers; s++)
        if (tr__server_said_by(server, s, trainer)->step != round->step)
            return false;
    return true;
}

/* Was it computed with the newest parameters of all servers? */
static bool is_fresh(const tr_server *server, int trainer)
{
    bool is_new = server->trainer[trainer].pulled == server->updates;

    for (int s = 1; s < server->roster->servers; s++)
        is_new &= tr__server_said_by(server, s, trainer)->pulled == server->updates;
    return is_new || server->policy.goes_on;         /* then nobody's step is ever late */
}

/* Who has said goodbye and has all its steps settled is out; and at once who is lost for anybody. */
static bool decide_out(tr_server *server, int trainer)
{
    const tr__trainer *t = &server->trainer[trainer];
    const bool         has_left = tr_membership_is_over(t->state) && t->state != TR_MEMBER_LOST && t->settled == t->ended;
    bool               is_lost = t->state == TR_MEMBER_LOST;

    for (int s = 1; s < server->roster->servers; s++)
        is_lost |= tr__server_said_by(server, s, trainer)->is_lost;
    if (tr__server_is_out(server, trainer) || !(has_left || is_lost))
        return false;
    server->decisions.trainer[trainer] |= TR_TRAINER_OUT | (has_left ? 0 : TR_TRAINER_LOST);
    return true;
}

static bool decide_late(tr_server *server, int trainer)
{
    const bool is_late = is_whole(server, trainer) && !is_fresh(server, trainer);

    server->decisions.settled[trainer] += is_late;
    return is_late;
}

/* With backups a trainer whose steps were dropped comes to a collective when the others have steps to make yet: they do not wait for it, for
 * it waits for them. */
static bool is_away(const tr_server *server, const tr__trainer *trainer)
{
    return !server->policy.goes_on && tr__server_is_meeting(server, trainer);
}

/* The next update is made of those who are there, if they are enough: all but as many as may be slow, or all that live. Who is out
 * was one of the slow; otherwise, when trainers come to the end of their data, updates would be of fewer gradients than any before. */
static bool decide_update(tr_server *server)
{
    const int64_t enough = server->trainer_count - server->policy.backups;
    tr__decisions *v = &server->decisions;
    int64_t       living = 0, there = 0;

    for (int i = 0; i < server->trainer_count; i++) {
        const tr__trainer *t = &server->trainer[i];
        living += !tr__server_is_out(server, i) && ((tr__server_is_moving(t) && !is_away(server, t)) || t->round->is_full);
        there += is_whole(server, i);
    }
    if (!there || there < (living < enough ? living : enough))
        return false;
    for (int i = 0; i < server->trainer_count; i++)
        if (is_whole(server, i)) {
            v->settled[i]++;
            v->trainer[i] |= TR_TRAINER_IN;
        } else {
            v->trainer[i] &= (uint8_t)~TR_TRAINER_IN;
        }
    v->update++;
    return true;
}

/* A snapshot that every server has gathered is the state as it is now; one that was given up here is given up by all. */
static bool decide_snapshot(tr_server *server)
{
    tr__decisions  *v = &server->decisions;
    const tr__snapshot *snapshot = &server->snapshot;

    if (!tr__server_snapshot_is_decided(server) || snapshot->number <= v->snapshot)
        return false;
    if (snapshot->phase == TR__SNAPSHOT_GATHERING) {
        for (int s = 1; s < server->roster->servers; s++)
            if (v->gathered[s] != snapshot->number)
                return false;
        if (!tr__server_snapshot_is_gathered(server))
            return false;
    }
    v->snapshot = snapshot->number;
    v->snapshot_update = snapshot->phase == TR__SNAPSHOT_GATHERING ? server->updates : UINT64_MAX;
    return true;
}

bool tr__server_decide(tr_server *server)
{
    bool is_news = false;

    if (server->queued || tr__server_is_pending(server))
        return false;
    for (int i = 0; i < server->trainer_count; i++) {
        is_news |= decide_out(server, i);
        is_news |= decide_late(server, i);
    }
    is_news |= decide_snapshot(server);
    is_news |= decide_update(server);
    server->decisions.number += is_news;
    return is_news;
}
