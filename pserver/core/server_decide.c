/* server_decide.c - see server_decide.h. */
#include "pserver/core/server_decide.h"

#include "pserver/core/server_board.h"
#include "pserver/core/server_pulls.h"
#include "pserver/core/server_rounds.h"
#include "pserver/core/server_snapshots.h"
#include "pserver/core/server_streams.h"
#include "pserver/core/server_updates.h"

static const tr__report *report_of(const tr_server *server, const tr__evidence *e, int from, int trainer)
{
    return &e->report[(size_t)from * (size_t)server->trainer_count + (size_t)trainer];
}

/* Has every server all of the trainer's next step? */
static bool is_whole(const tr_server *server, const tr__evidence *e, int trainer)
{
    const tr__round *round = tr__round_of(server, &server->trainer[trainer]);

    if (tr__server_is_out(server, trainer) || !round->is_full || round->step != server->decided.settled[trainer] + 1)
        return false;
    for (int s = 1; s < server->roster->servers; s++)
        if (report_of(server, e, s, trainer)->step != round->step)
            return false;
    return true;
}

/* Was it computed with the newest parameters of all servers? */
static bool is_fresh(const tr_server *server, const tr__evidence *e, int trainer)
{
    bool is_new = tr__pulls_update_of(server, &server->trainer[trainer]) == server->updates;

    for (int s = 1; s < server->roster->servers; s++)
        is_new &= report_of(server, e, s, trainer)->pulled == server->updates;
    return is_new || server->policy.goes_on;       /* then no step is ever late */
}

/* A trainer that has said goodbye is out when all its steps are settled. A trainer that is lost for any server is out at once. */
static bool decide_out(tr_server *server, const tr__evidence *e, int trainer)
{
    const tr__trainer *t = &server->trainer[trainer];
    const bool         has_left = tr_membership_is_over(t->state) && t->state != TR_MEMBER_LOST && t->settled == t->ended;
    bool               is_lost = t->state == TR_MEMBER_LOST;

    for (int s = 1; s < server->roster->servers; s++)
        is_lost |= report_of(server, e, s, trainer)->is_lost;
    if (tr__server_is_out(server, trainer) || !(has_left || is_lost))
        return false;
    server->decided.trainer[trainer] |= TR_TRAINER_OUT | (has_left ? 0 : TR_TRAINER_LOST);
    return true;
}

static bool decide_late(tr_server *server, const tr__evidence *e, int trainer)
{
    const bool is_late = is_whole(server, e, trainer) && !is_fresh(server, e, trainer);

    server->decided.settled[trainer] += is_late;
    return is_late;
}

/* A trainer may be in a collective while others have steps to make yet: with backups, when its steps were dropped, and in a job that was started again
 * behind a death, when some trainers are ahead. The others do not wait for this trainer, because this trainer waits for them. */
static bool is_away(const tr_server *server, const tr__trainer *trainer)
{
    return tr__board_is_meeting(server, trainer);
}

/* The next update is made of the trainers that are there, if they are enough: all but as many as may be slow, or all that live. A trainer that is out
 * counts as one of the slow ones. Otherwise, when trainers come to the end of their data, updates would be of fewer gradients than any before. */
static bool decide_update(tr_server *server, const tr__evidence *e)
{
    const int64_t enough = server->trainer_count - server->policy.backups;
    int64_t       living = 0, there = 0;

    for (int i = 0; i < server->trainer_count; i++) {
        const tr__trainer *t = &server->trainer[i];
        const bool         will_come = tr__stream_is_moving(server, t) && !is_away(server, t);
        living += !tr__server_is_out(server, i) && (will_come || tr__round_of(server, t)->is_full);
        there += is_whole(server, e, i);
    }
    if (!there || there < (living < enough ? living : enough))
        return false;
    for (int i = 0; i < server->trainer_count; i++)
        if (is_whole(server, e, i)) {
            server->decided.settled[i]++;
            server->decided.trainer[i] |= TR_TRAINER_IN;
        } else {
            server->decided.trainer[i] &= (uint8_t)~TR_TRAINER_IN;
        }
    server->decided.update++;
    return true;
}

/* A snapshot that every server has gathered is the state as it is now. A snapshot that was given up here is given up by all. */
static bool decide_snapshot(tr_server *server, const tr__evidence *e)
{
    const uint32_t number = tr__snapshots_number(server);
    const bool     is_gathering = tr__snapshots_phase(server) == TR__SNAPSHOT_GATHERING;

    if (!tr__snapshots_are_decided(server) || number <= tr__snapshots_decided(server))
        return false;
    if (is_gathering) {
        for (int s = 1; s < server->roster->servers; s++)
            if (e->gathered[s] != number)
                return false;
        if (!tr__snapshots_are_gathered(server))
            return false;
    }
    tr__snapshots_set_decided(server, number, is_gathering ? server->updates : UINT64_MAX);
    return true;
}

bool tr__decide(tr_server *server, const tr__evidence *e)
{
    bool is_news = false;

    if (tr__updates_queued(server) || tr__server_is_pending(server))
        return false;
    for (int i = 0; i < server->trainer_count; i++) {
        is_news |= decide_out(server, e, i);
        is_news |= decide_late(server, e, i);
    }
    is_news |= decide_snapshot(server, e);
    is_news |= decide_update(server, e);
    server->decided.number += is_news;
    return is_news;
}
