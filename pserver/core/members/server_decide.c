/* server_decide.c - see server_decide.h. */
#include "pserver/core/members/server_decide.h"

#include "pserver/core/snapshots/server_board.h"
#include "pserver/core/snapshots/server_snapshots.h"
#include "pserver/core/updates/server_pulls.h"
#include "pserver/core/updates/server_rounds.h"
#include "pserver/core/updates/server_streams.h"
#include "pserver/core/updates/server_updates.h"

static const tr__report *report_of(const tr_server *server, const tr__report *reports, int from, int trainer)
{
    return &reports[(size_t)from * (size_t)server->trainer_count + (size_t)trainer];
}

/* Has every server all of the trainer's next step? */
static bool is_whole(const tr_server *server, const tr__report *reports, int trainer)
{
    const tr__round *round = tr__round_of(server, &server->trainer[trainer]);

    if (tr__server_is_out(server, trainer) || !round->is_full || round->step != server->decided.settled[trainer] + 1)
        return false;
    for (int s = 1; s < server->roster->servers; s++)
        if (report_of(server, reports, s, trainer)->step != round->step)
            return false;
    return true;
}

/* A server that holds nothing which the step needs, such as the third server for two small parameters, makes no step late. */
static bool is_newest(const tr_server *server, uint64_t pulled)
{
    return pulled == server->updates || pulled == UINT64_MAX;
}

/* Was the trainer's next step computed with the newest parameters of all servers? */
static bool is_fresh(const tr_server *server, const tr__report *reports, int trainer)
{
    const tr__trainer *t = &server->trainer[trainer];
    bool               is_new = is_newest(server, tr__pulls_update_of(server, t, tr__round_of(server, t)->step));

    for (int s = 1; s < server->roster->servers; s++)
        is_new &= is_newest(server, report_of(server, reports, s, trainer)->pulled);
    return is_new || server->policy.goes_on;       /* in these modes no step comes too late */
}

static bool decide_late(tr_server *server, const tr__report *reports, int trainer)
{
    const bool is_late = is_whole(server, reports, trainer) && !is_fresh(server, reports, trainer);

    server->decided.settled[trainer] += is_late;
    return is_late;
}

/* Does the trainer wait in a collective while others still make steps? That happens with backups, when its steps were dropped, and after a
 * restart, when some trainers are ahead. The others must not wait for this trainer, because this trainer waits for them. In sync(degraded)
 * it may be an initiator whose SNAPSHOT has not come to all servers yet. Then their parts are of two updates, and make no checkpoint
 * (places.h). */
static bool is_away(const tr_server *server, const tr__trainer *trainer)
{
    return tr__board_awaits_posts(server, trainer);
}

/* Will another step of it come by itself? Where all trainers take part in snapshots, nobody waits for one that has taken part. Where the
 * initiator alone does, the snapshot is the state without its next step: no update is made without it, also while its SNAPSHOT waits for a
 * freeze of the state. */
static bool will_come(const tr_server *server, const tr__trainer *trainer)
{
    const bool is_moving = server->policy.snapshots_all ? tr__stream_is_moving(server, trainer) : !tr_membership_is_over(trainer->state);
    return is_moving && !is_away(server, trainer);
}

/* The next update is made of the steps that all servers have, if these are enough: those of all trainers but `backups`, or of all living
 * trainers. A trainer that is out counts as one of the slow ones. Otherwise updates near the end of the data would have fewer gradients
 * than all before. */
static bool decide_update(tr_server *server, const tr__report *reports)
{
    const int64_t enough = server->trainer_count - server->policy.backups;
    int64_t       living = 0, there = 0;

    for (int i = 0; i < server->trainer_count; i++) {
        const tr__trainer *t = &server->trainer[i];
        living += !tr__server_is_out(server, i) && (will_come(server, t) || tr__round_of(server, t)->is_full);
        there += is_whole(server, reports, i);
    }
    if (!there || there < (living < enough ? living : enough))
        return false;
    for (int i = 0; i < server->trainer_count; i++)
        if (is_whole(server, reports, i)) {
            server->decided.settled[i]++;
            server->decided.trainer[i] |= TR_TRAINER_IN;
        } else {
            server->decided.trainer[i] &= (uint8_t)~TR_TRAINER_IN;
        }
    server->decided.update++;
    return true;
}

bool tr__decide_update(tr_server *server, const tr__report *reports)
{
    bool is_news = false;

    for (int i = 0; i < server->trainer_count; i++)
        is_news |= decide_late(server, reports, i);
    is_news |= decide_update(server, reports);
    return is_news;
}

/* A snapshot that every server has gathered is taken. A snapshot that server 0 has given up is given up by all. */
bool tr__decide_snapshot(tr_server *server, const uint32_t *gathered)
{
    const uint32_t number = tr__snapshots_number(server);
    const bool     is_gathering = tr__snapshots_phase(server) == TR__SNAPSHOT_GATHERING;

    if (number <= server->decided.snapshot.number)
        return false;
    if (is_gathering) {
        for (int s = 1; s < server->roster->servers; s++)
            if (gathered[s] != number)
                return false;
        if (!tr__snapshots_are_gathered(server))
            return false;
    }
    server->decided.snapshot = (tr_decided_snapshot){number, is_gathering, is_gathering ? server->updates : 0};
    tr__server_due(server, TR__RULE_SNAPSHOT);
    return true;
}
