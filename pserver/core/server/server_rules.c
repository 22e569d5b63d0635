/* server_rules.c - see server_rules.h.
 *
 * A rule reads the state of several protocols and lets one of them continue. A rule that finds nothing to do does nothing, so it may be due
 * too often. It must be due whenever a state that it reads has changed. Due rules run in the order of tr__rule. So the consequences of a
 * finished update (answers, a snapshot, a copy for the replica) come before the next update begins. */
#include "pserver/core/server/server_rules.h"

#include "pserver/core/members/server_copy.h"
#include "pserver/core/members/server_deaths.h"
#include "pserver/core/members/server_decisions.h"
#include "pserver/core/members/server_members.h"
#include "pserver/core/members/server_waits.h"
#include "pserver/core/server/server_requests.h"
#include "pserver/core/snapshots/server_board.h"
#include "pserver/core/snapshots/server_initiator.h"
#include "pserver/core/snapshots/server_replication.h"
#include "pserver/core/snapshots/server_row_files.h"
#include "pserver/core/snapshots/server_set_rows.h"
#include "pserver/core/snapshots/server_snapshots.h"
#include "pserver/core/snapshots/server_tasks.h"
#include "pserver/core/updates/server_contributions.h"
#include "pserver/core/updates/server_pulls.h"
#include "pserver/core/updates/server_row_pulls.h"
#include "pserver/core/updates/server_rows.h"
#include "pserver/core/updates/server_sets.h"
#include "pserver/core/updates/server_updates.h"

/* The update in hand is over when the store has computed it and the replica has committed it. */
static void finish(tr_server *server)
{
    tr__set_rows_finish(server);
    tr__row_files_look(server);
    if (!tr__updates_is_computed(server) || !tr__replication_has_update(server))
        return;
    tr__updates_finish(server);
    tr__sets_finish(server);
    tr_effects_commit(&server->effects, true);
}

/* Steps were settled. Their commit was carried out before this rule runs. */
static void settled(tr_server *server)
{
    tr__updates_release_rounds(server);
    tr__rows_forget_settled(server);
    tr__tasks_settled(server);
}

static void answer(tr_server *server)
{
    tr__pulls_answer(server);
    tr__row_pulls_answer(server);
    tr__row_files_look(server);
}

/* Answers come first: what they wait for is here. */
static void answer_board(tr_server *server)
{
    tr__board_answer(server);
    tr__waits_resolve(server);
}

static void take_snapshot(tr_server *server)
{
    if (tr__snapshots_may_take(server) && tr__copy_yields(server))
        tr__snapshots_take(server);
}

static void count_staleness(tr_server *server, const tr_update *update)
{
    for (int i = 0; i < server->trainer_count; i++) {
        const tr__trainer *t = &server->trainer[i];
        const uint64_t     pulled = tr__pulls_update_of(server, t, tr__round_of(server, t)->step);
        if (update->takes_part[i])
            tr__updates_count_staleness(server, pulled == UINT64_MAX ? 0 : server->updates - pulled);
    }
}

/* Does the next update set values, in the buffer that pulls are answered from? */
static bool sets_in_next(const tr_server *server)
{
    const tr__trainer *first = &server->trainer[tr__updates_first_in_hand(server)];

    return tr__sets_has(server, first->index, first->settled + 1);
}

/* The next update begins when the store is free, no snapshot is being copied, the replica keeps up, and no message reads the buffer that
 * the update writes. The replica computes it at the same time. */
static void begin_update(tr_server *server)
{
    if (!tr__updates_may_begin(server) || tr__snapshots_phase(server) == TR__SNAPSHOT_TAKING || !tr__copy_lets_begin(server) ||
        tr__pulls_are_read(server, sets_in_next(server)))
        return;
    const tr__trainer *first = &server->trainer[tr__updates_first_in_hand(server)];
    server->update = tr__updates_begin(server);
    server->update.pulled = tr__pulls_copy_of(server, first);
    server->update.rows = tr__rows_update(server, server->update.takes_part);
    tr__sets_give(server, &server->update);
    count_staleness(server, &server->update);
    tr__replication_update(server, &server->update);
    tr_effects_add(&server->effects, TR_EFFECT_APPLY);
}

/* A complete round waits for the store, or, where server 0 decides, for a decision. A step without a gradient is settled at once. */
static void check_rounds(tr_server *server)
{
    tr__round *round = tr__rounds_next_to_check(server);

    if (!round)
        return;
    tr__server_due(server, TR__RULE_ROUNDS);       /* another round may have to be checked, too */
    const tr__round_state state = tr__round_advance(server, round);
    if (state == TR__ROUND_LEFT_OUT) {
        tr__updates_settle_alone(server, &server->trainer[round->first], false);
        tr__replication_commit(server);
    } else if (state == TR__ROUND_COMPLETE && tr__server_decides_updates(server)) {
        round->is_full = true;
        tr__server_due(server, TR__RULE_DECIDE);
    } else if (state == TR__ROUND_COMPLETE) {
        tr__updates_enqueue(server, round);
    }
}

/* Carry out a decision about one trainer. False: there is none to carry out. */
static bool carry_out_member(tr_server *server)
{
    tr_form_replace_done done;
    tr__trainer         *trainer;

    if ((trainer = tr__members_next_vacant(server)))
        tr__deaths_vacate(server, trainer);
    else if ((trainer = tr__members_next_arrived(server, &done)))
        tr__deaths_arrive(server, trainer, &done);
    else if ((trainer = tr__decisions_next_lost(server)))
        tr__deaths_lose(server, trainer);
    return trainer;
}

/* Carry out the decisions about updates and snapshots. False: another rule must run first. */
static bool carry_out_update(tr_server *server)
{
    if (tr__snapshots_are_decided(server))
        tr__decisions_follow_snapshot(server);
    if (!tr__server_decides_updates(server))
        return true;
    if (tr__server_is_due(server, TR__RULE_SNAPSHOT) || tr__decisions_drop_late(server))
        return false;                              /* a snapshot is taken before the next update */
    tr__decisions_queue_update(server);
    return true;
}

/* Carry out the decisions about updates and snapshots, then decide or report. */
static void decide(tr_server *server)
{
    if (server->is_running && (!carry_out_update(server) || (server->status == TR_OK && tr__decisions_advance(server))))
        tr__server_due(server, TR__RULE_DECIDE);
}

/* Carry out the decisions about members, then decide or report. This rule reads the reports of all servers about all trainers, so it is due
 * only after a trainer died, left or was replaced, not in every step. */
static void members(tr_server *server)
{
    const tr__trainer *hopeless = NULL;

    if (!server->is_running)
        return;
    tr__server_due(server, TR__RULE_DECIDE);           /* the next update may not need to wait for this trainer now */
    if (carry_out_member(server) || tr__decisions_advance_members(server, &hopeless))
        tr__server_due(server, TR__RULE_MEMBERS);
    if (hopeless)
        tr__deaths_not_replaced(server, hopeless);
}

static void initiator(tr_server *server)
{
    tr__initiator_release_draining(server);
    tr__server_due(server, TR__RULE_SNAPSHOT);
    tr__server_due(server, TR__RULE_DECIDE);
}

bool tr__rules_run(tr_server *server)
{
    static void (*const rules[TR__RULE_COUNT])(tr_server *server) = {
        [TR__RULE_UNPARK] = tr__requests_unpark, [TR__RULE_FINISH] = finish,         [TR__RULE_SETTLED] = settled,
        [TR__RULE_ANSWER] = answer,              [TR__RULE_BOARD] = answer_board,    [TR__RULE_SNAPSHOT] = take_snapshot,
        [TR__RULE_COPY] = tr__copy_advance,      [TR__RULE_BEGIN] = begin_update,    [TR__RULE_ROUNDS] = check_rounds,
        [TR__RULE_DECIDE] = decide,              [TR__RULE_MEMBERS] = members,       [TR__RULE_INITIATOR] = initiator,
    };

    if (!server->due || server->status != TR_OK)
        return false;
    const int rule = __builtin_ctz(server->due);
    server->due &= ~(1u << rule);
    rules[rule](server);
    return true;
}
