/* server_deaths.c - see server_deaths.h. */
#include "pserver/core/members/server_deaths.h"

#include "pserver/core/members/server_describe.h"
#include "pserver/core/members/server_members.h"
#include "pserver/core/members/server_serving.h"
#include "pserver/core/members/server_start.h"
#include "pserver/core/snapshots/server_initiator.h"
#include "pserver/core/snapshots/server_places.h"
#include "pserver/core/snapshots/server_replication.h"
#include "pserver/core/snapshots/server_snapshots.h"
#include "pserver/core/snapshots/server_tasks.h"
#include "pserver/core/updates/server_contributions.h"
#include "pserver/core/updates/server_pulls.h"
#include "pserver/core/updates/server_row_pulls.h"
#include "pserver/core/updates/server_rows.h"
#include "pserver/core/updates/server_streams.h"
#include "pserver/core/updates/server_updates.h"

/* == a trainer makes no more steps ============================================================= */

/* A trainer left or died: mark the rules that no longer wait for it, and let another trainer begin snapshots. */
static void resume_others(tr_server *server, tr__trainer *trainer)
{
    tr__snapshots_without(server, trainer);
    tr__round_turns_change(server, tr__round_of(server, trainer));
    tr__server_due(server, TR__RULE_INITIATOR);
    tr__server_due(server, TR__RULE_ANSWER);
}

static void go(tr_server *server, tr__trainer *trainer, tr_membership to)
{
    const bool was_awaited = trainer->state == TR_MEMBER_VACANT || trainer->state == TR_MEMBER_RETURNING;

    tr__server_move(server, trainer, to);
    if (was_awaited)
        tr__snapshots_tell_all(server);
    tr__tasks_leave(server, trainer);
    tr__server_due(server, TR__RULE_BOARD);
    if (!server->contributions)
        return;
    if (server->is_running)
        tr__replication_commit(server);
    resume_others(server, trainer);
}

void tr__deaths_leave(tr_server *server, tr__trainer *trainer, bool is_draining)
{
    go(server, trainer, is_draining ? TR_MEMBER_DRAINING : TR_MEMBER_LEFT);
}

void tr__deaths_drained(tr_server *server, tr__trainer *trainer)
{
    tr__server_move(server, trainer, TR_MEMBER_LEFT);
    tr__stream_open(server, trainer, TR__OPEN_DRAIN, 0);
    tr__snapshots_without(server, trainer);
    tr__server_due(server, TR__RULE_INITIATOR);
}

/* == a trainer dies ============================================================================ */

/* Drop the trainer's contribution to a step that it has not ended, its pulls, and its parked requests. */
static void abandon(tr_server *server, const tr__trainer *t)
{
    tr__stream_forget_parked(server, t);
    tr__pulls_forget(server, t);
    tr__row_pulls_abandon(server, t);
    tr__rows_abandon(server, t);
    tr__contributions_abandon(server, t);
}

/* The incarnation of the dead process ends. If the process comes back, it gets REPLACED. */
void tr__deaths_lose(tr_server *server, tr__trainer *trainer)
{
    trainer->incarnation++;
    tr__stream_owe_nothing(server, trainer);
    abandon(server, trainer);
    go(server, trainer, TR_MEMBER_LOST);
}

void tr__deaths_vacate(tr_server *server, tr__trainer *t)
{
    const bool was_over = tr_membership_is_over(t->state);

    tr__snapshots_give_up(server, tr__snapshots_number(server));
    tr__contributions_keep_for_replacement(server, t);
    abandon(server, t);
    tr__stream_restart(server, t);
    tr__updates_forget_requests(server, t);
    tr__places_forget(server, t);                  /* its replacement may make more steps */
    tr__tasks_vacant(server, t);
    t->incarnation++;
    tr__server_move(server, t, TR_MEMBER_VACANT);
    tr__initiator_set_last(server, false);
    tr__snapshots_tell_all(server);
    if (was_over)
        tr__replication_commit(server);
}

void tr__deaths_died(tr_server *server, const tr__trainer *trainer, const char *how)
{
    if (server->is_running && (server->policy.survives_trainers || tr__members_are_replaceable(server, trainer)))
        tr__server_due(server, TR__RULE_MEMBERS);
    else
        tr__describe_failure(server, trainer->rank, how);
}

void tr__deaths_not_replaced(tr_server *server, const tr__trainer *trainer)
{
    tr__describe_failure(server, trainer->rank, "died, and no standby is left to take its place");
}

/* == a replacement comes ======================================================================= */

void tr__deaths_replaced(tr_server *server, tr__trainer *trainer)
{
    if (trainer->state != TR_MEMBER_RETURNING)
        return;
    tr__server_move(server, trainer, TR_MEMBER_ACTIVE);
    tr__snapshots_tell_all(server);
}

static void returns(tr_server *server, tr__trainer *t, uint64_t even)
{
    tr__server_move(server, t, TR_MEMBER_RETURNING);
    tr__snapshots_tell_all(server);
    tr__tasks_join(server, t, even);
}

/* The replacement joined the predecessor of this server. Its REPLACE_DONE says how much of that still holds here. */
static void apply_progress(tr_server *server, tr__trainer *t, const tr_form_replace_done *done)
{
    if (done->progress == TR_REPLACEMENT_CALLED)
        return;
    if (t->state == TR_MEMBER_VACANT)
        returns(server, t, done->step);
    if (done->progress == TR_REPLACEMENT_STEPPED)
        tr__deaths_replaced(server, t);
}

static void answer(tr_server *server, tr__trainer *t, const tr_form_replace_done *done)
{
    apply_progress(server, t, done);
    tr__serving_send(server, t->rank);
}

void tr__deaths_arrive(tr_server *server, tr__trainer *t, const tr_form_replace_done *done)
{
    t->rank = server->decided.member[t->index].rank;
    t->incarnation = done->called;
    answer(server, t, done);
}

/* The driver has entered the replacement in the roster already, unless the roster refused it. */
void tr__deaths_on_done(tr_server *server, int peer, const tr_form_replace_done *done)
{
    if (server->status != TR_OK || done->trainer >= (uint32_t)server->trainer_count)
        return;
    tr__trainer *t = &server->trainer[done->trainer];
    if (server->roster->trainer_rank[done->trainer] != peer || server->roster->rank[peer].incarnation != done->called)
        return;
    if (!server->is_running) {
        tr__server_fail(server, tr_fail(TR_EPEER, "%s died before all trainers had agreed on the work",
                                        tr__server_trainer_name(server, t)));
    } else if (tr__server_is_decided_lost(server, t->index) || done->called < server->decided.member[t->index].incarnation) {
        tr__server_refuse(server, peer, done->called);
    } else if (t->rank == peer) {
        answer(server, t, done);
    } else {
        tr__members_on_done(server, done);
        tr__server_due(server, TR__RULE_MEMBERS);
    }
}

tr_status tr__deaths_on_join(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload)
{
    const tr_status status = tr__start_rejoin(server, trainer, wire, payload);

    returns(server, trainer, wire->join.everywhere);
    if (trainer->ended == trainer->settled)        /* otherwise a step here was computed with the parameters that the dead trainer had */
        tr__pulls_set(server, trainer, server->updates, UINT64_MAX);
    if (trainer->index == tr__server_initiator(server))            /* a snapshot that the dead trainer began is over */
        tr__snapshots_give_up(server, wire->join.newest_snapshot);
    return status;
}
