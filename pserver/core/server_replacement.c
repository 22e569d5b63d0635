/* server_replacement.c - a trainer dies, and a standby becomes the trainer of its number: the replacement (docs/protocol.md, "A trainer's
 * death and replacement").
 *
 * Messages. A server that has lost a trainer tells server 0: REPLACE_WANT. Server 0 chooses a standby, remembers which, and sends REPLACE_CALL. The
 * standby sends REPLACE_DONE to every rank before anything else, and then JOIN, as every trainer does at the start. Each server tells it by
 * SERVING how many of its steps are settled there. The replacement begins behind the smallest of these numbers and sends each server the
 * steps that it lacks. Only committed steps are settled, so the successor of a dead server gives the same answer.
 *
 * What a server keeps of the dead trainer: the steps that had ended here, and the places of its stream. Of a step that had not ended, nothing is
 * kept if gradients are gathered for each trainer. In mode sync all trainers' gradients are in one sum: the chunks that had come stay in it,
 * because the replacement computes the same bits, and only chunks that are missing are taken from the replacement.
 *
 * In lockstep modes one server may have a step in its parameters that other servers lack. The replacement computes this step again with the
 * parameters before it. This server still has them in its other buffer, since the next update needs the replacement.
 *
 * Server 0 treats a REPLACE_WANT as its own loss: a trainer that is dead for one server is replaced for all. Where no standby is alive, a server
 * does what it does in a job without standbys. Epochs (tr_roster_next_epoch) distinguish a replacement from the trainer that it replaces, and
 * from another standby that was called before and died when only some servers had heard of it.
 *
 * Invariant: from its death until its replacement has joined, a trainer counts as present, and everything waits for it, snapshots too; so no
 * snapshot has one of its steps on one server alone. A snapshot that was being gathered is given up. None begins before the replacement has made
 * a step: that may take minutes, in which every trainer that had taken part would stand still. The successor of server 0 assumes of every
 * replacement that it has made no step, until the replacement says otherwise (TASKS). */
#include "framework/memory.h"
#include "pserver/core/server_state.h"
#include "pserver/core/server_tasks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* REPLACE_WANT and REPLACE_CALL are repeated while they have no effect: after this time first, and at most every ASK_LAST; nanoseconds. */
static const int64_t ASK_FIRST = 2000000, ASK_LAST = 500000000;

static bool is_replacement(const tr__trainer *trainer)
{
    return tr_roster_is_replacement(trainer->epoch);
}

/* Has server 0 decided that this trainer is lost? Then it gets no replacement. */
static bool is_over(const tr_server *server, int trainer)
{
    return tr__server_has_decisions(server) && server->decisions.trainer[trainer] & TR_TRAINER_LOST;
}

static bool is_missed(const tr__trainer *trainer)
{
    return trainer->state == TR_MEMBER_VACANT && trainer->missed == trainer->rank;
}

/* == what is kept of the dead ==================================================================== */

/* Chunks of the dead trainer that are in a common sum stay there. Chunks that wait for their turn stay too, and are not acknowledged. */
static void keep_parts(tr_server *server, tr__trainer *t)
{
    if (!t->pushed_by)
        t->pushed_by = tr__must_array(server->chunk_count + 1, sizeof *t->pushed_by);
    if (t->pushed_step != t->ended + 1)
        memset(t->pushed_by, 0, server->chunk_count * sizeof *t->pushed_by);
    t->pushed_step = t->ended + 1;
    for (uint64_t chunk = 0; chunk < server->chunk_count; chunk++)
        if (t->pushed[chunk / 8] >> chunk % 8 & 1 && !t->pushed_by[chunk])
            t->pushed_by[chunk] = t->epoch;
    for (tr__held *held = t->held; held; held = held->next)
        held->wire.seq = UINT64_MAX;
}

static void forget_parts(tr_server *server, tr__trainer *t)
{
    tr__round *round = t->round;

    memset(t->pushed, 0, server->chunk_count / 8 + 1);
    t->pushed_count = 0;
    if (round->is_full)
        return;
    const uint64_t step = round->step;
    tr__server_round_next(server, round);
    round->step = step;
}

void tr__server_forget_unended(tr_server *server, tr__trainer *t)
{
    t->is_parked = false;
    tr__server_let_go(server, &t->parked, &t->parked_end);
    tr__server_pulls_free(t);
    tr__server_row_pulls_free(t);
    tr__server_rows_unended(server, t);
    if (!server->policy.gathers_per_trainer)
        return;                                    /* its parts are in a common sum, or wait to be */
    tr__server_let_go(server, &t->held, &t->held_end);
    forget_parts(server, t);
}

static void forget_requests(tr_server *server, tr__trainer *t)
{
    t->accepted = 0;
    t->owes_ack = false;
    t->join_seq = 0;
    for (uint64_t step = t->settled; step < t->ended; step++)
        t->unsettled[step - t->settled] = UINT64_MAX;
    if (!server->policy.gathers_per_trainer)
        keep_parts(server, t);
    tr__server_forget_unended(server, t);
}

/* Only server 0 hears whether a replacement has made a step (TASKS), so only server 0 counts those that are returning. */
bool tr__server_awaits_replacement(const tr_server *server)
{
    for (int i = 0; i < server->trainer_count; i++)
        if (server->trainer[i].state == TR_MEMBER_VACANT || (server->self == 0 && server->trainer[i].state == TR_MEMBER_RETURNING))
            return true;
    return false;
}

void tr__server_replacement_is_there(tr_server *server, tr__trainer *t)
{
    if (t->state != TR_MEMBER_RETURNING)
        return;
    tr__server_move(server, t, TR_MEMBER_ACTIVE);
    tr__server_tell_all(server);
}

/* The trainer's place becomes empty, also if the trainer had said goodbye to this server. */
static void vacate(tr_server *server, tr__trainer *t)
{
    const bool was_gone = tr_membership_is_over(t->state);

    tr__server_snapshot_give_up(server, server->snapshot.number);
    forget_requests(server, t);
    if (t->last_place)                               /* its replacement may make more steps */
        trireme__pserver__snapshot__free_unpacked(t->last_place, NULL);
    t->last_place = NULL;
    tr__server_tasks_vacant(server, t);
    t->epoch++;                                    /* what the dead may still say is refused */
    tr__server_move(server, t, TR_MEMBER_VACANT);
    t->missed = t->rank;
    t->called = -1;
    t->over_seq = 0;
    server->snapshot.has_last = false;
    server->replacements_ask_at = 0;
    tr__server_tell_all(server);
    if (was_gone)
        tr__server_commit(server, false);
}

bool tr__server_has_part(const tr_server *server, const tr__trainer *trainer, const tr_wire *wire, uint64_t chunk)
{
    (void)server;
    return trainer->pushed_by && tr_wire_step(wire) == trainer->pushed_step && trainer->pushed_by[chunk] &&
           trainer->pushed_by[chunk] != wire->epoch;
}

bool tr__server_has_ended(const tr__trainer *trainer, const tr_wire *wire)
{
    return is_replacement(trainer) && tr_wire_step(wire) <= trainer->ended;
}

bool tr__server_ended_again(tr__trainer *trainer, const tr_wire *wire)
{
    if (!tr__server_has_ended(trainer, wire))
        return false;
    if (wire->step_end.step > trainer->settled)
        trainer->unsettled[wire->step_end.step - trainer->settled - 1] = wire->seq;
    return true;
}

/* == parameters for a replacement that is a step behind ================================================ */

bool tr__server_lags(const tr__trainer *trainer, uint64_t step)
{
    return is_replacement(trainer) && step + 1 == trainer->ended;
}

bool tr__server_wants_before(const tr_server *server, const tr__trainer *trainer, uint64_t step)
{
    return server->policy.is_lockstep && tr__server_lags(trainer, step) && trainer->settled == trainer->ended &&
           trainer->applied_in == server->updates && server->store.param_before;
}

/* == who is called =============================================================================== */

static uint32_t number_of(const tr_server *server, const tr__trainer *t)
{
    return (uint32_t)(t - server->trainer);
}

static void say_wanted(tr_server *server, const tr__trainer *t)
{
    tr_outbox_put(&server->outbox, &(tr_message){
        .peer = server->roster->server_rank[0],
        .wire = {.kind = TR_WIRE_REPLACE_WANT, .sender = (uint32_t)server->roster->self,
                 .replace_want = {.trainer = number_of(server, t), .rank = (uint32_t)t->rank}}});
}

static void say_call(tr_server *server, const tr__trainer *t)
{
    tr_outbox_put(&server->outbox, &(tr_message){
        .peer = t->called,
        .wire = {.kind = TR_WIRE_REPLACE_CALL, .sender = (uint32_t)server->roster->self,
                 .replace_call = {.trainer = number_of(server, t), .called = t->called_epoch}}});
}

/* One that was called for nobody. */
static int choose(const tr_server *server, const tr__trainer *t)
{
    bool *called = tr__must_array((size_t)server->roster->size, sizeof *called);

    for (int i = 0; i < server->trainer_count; i++)
        if (is_missed(&server->trainer[i]) && server->trainer[i].called >= 0)
            called[server->trainer[i].called] = true;
    const int replacement = tr_roster_replacement_without(server->roster, t->rank, called);
    free(called);
    return replacement;
}

static bool may_come(const tr_server *server, int standby)
{
    return standby >= 0 && server->roster->rank[standby].role == TR_ROLE_STANDBY && tr_roster_is_here(server->roster, standby);
}

/* It is as where there are no standbys. */
static void give_up(tr_server *server, tr__trainer *t)
{
    char waiting[512];

    if (server->policy.survives_trainers) {
        tr__server_trainer_lost(server, t);
        return;
    }
    tr__server_describe_step(server, waiting, sizeof waiting);
    tr__server_fail(server, tr_fail(TR_EPEER, "%s died, and no standby is left to take its place; %s was waiting for %s",
                                    tr__server_trainer_name(server, t), tr_roster_name(server->roster, server->roster->self), waiting));
}

/* False: there is nobody. */
static bool look_for_replacement(tr_server *server, tr__trainer *t)
{
    if (server->self != 0) {
        if (tr_roster_replacement_for(server->roster, t->rank) < 0)
            return false;
        say_wanted(server, t);
        return true;
    }
    if (!may_come(server, t->called)) {
        t->called = choose(server, t);
        if (t->called < 0)
            return false;
        t->called_epoch = tr_roster_next_epoch(server->roster, (int)(t - server->trainer), t->called_epoch);
    }
    say_call(server, t);
    return true;
}

int64_t tr__server_watch_replacements(tr_server *server, int64_t now)
{
    bool is_waiting = false;

    if (!server->is_running || server->status != TR_OK)
        return INT64_MAX;
    for (int i = 0; i < server->trainer_count; i++) {
        tr__trainer *t = &server->trainer[i];
        if (!is_missed(t))
            continue;
        const bool has_news = server->self == 0 ? !may_come(server, t->called) : tr_roster_replacement_for(server->roster, t->rank) < 0;
        if ((has_news || now >= server->replacements_ask_at) && !look_for_replacement(server, t))
            give_up(server, t);
        is_waiting |= server->status == TR_OK && is_missed(t);
    }
    if (!is_waiting) {
        server->replacements_ask_after = 0;
        return INT64_MAX;
    }
    if (now >= server->replacements_ask_at) {
        server->replacements_ask_after = server->replacements_ask_after ? 2 * server->replacements_ask_after : ASK_FIRST;
        server->replacements_ask_after = server->replacements_ask_after < ASK_LAST ? server->replacements_ask_after : ASK_LAST;
        server->replacements_ask_at = now + server->replacements_ask_after;
    }
    return server->replacements_ask_at;
}

bool tr__server_await_replacement(tr_server *server, tr__trainer *trainer)
{
    const bool is_possible = server->is_running && !is_over(server, (int)(trainer - server->trainer)) &&
                             tr_roster_replacement_for(server->roster, trainer->rank) >= 0;

    if (is_possible || trainer->state == TR_MEMBER_VACANT)
        vacate(server, trainer);
    return trainer->state == TR_MEMBER_VACANT;
}

/* == messages ==================================================================================== */

/* It has joined where another process served, and says here what of it counts yet. */
static void hear_progress(tr_server *server, tr__trainer *t, const tr_form_replace_done *done)
{
    if (done->progress == TR_REPLACEMENT_CALLED)
        return;
    if (t->state == TR_MEMBER_VACANT) {
        tr__server_move(server, t, TR_MEMBER_RETURNING);
        tr__server_tasks_join(server, t, done->step);
        tr__server_tell_all(server);
    }
    if (done->progress == TR_REPLACEMENT_STEPPED)
        tr__server_replacement_is_there(server, t);
}

/* The roster has it already, if it believed it. */
static void on_done(tr_server *server, int peer, const tr_form_replace_done *done)
{
    tr__trainer *t = &server->trainer[done->trainer];

    if (server->roster->trainer_rank[done->trainer] != peer || server->roster->rank[peer].epoch != done->called)
        return;
    if (!server->is_running) {
        tr__server_fail(server, tr_fail(TR_EPEER, "%s died before all trainers had agreed on the work",
                                        tr__server_trainer_name(server, t)));
        return;
    }
    if (is_over(server, (int)done->trainer)) {
        tr__server_refuse(server, peer, done->called);
        return;
    }
    if (t->rank != peer) {
        vacate(server, t);
        t->rank = peer;
        t->epoch = done->called;
        t->missed = -1;
    }
    hear_progress(server, t, done);
    tr__server_say_serving(server, peer);
    if (server->roster->rank[peer].is_dead)
        vacate(server, t);
}

static void on_wanted(tr_server *server, const tr_form_replace_want *want)
{
    tr__trainer *t = &server->trainer[want->trainer];

    if (server->self == 0 && t->rank == (int)want->rank && !is_missed(t) && !is_over(server, (int)want->trainer))
        vacate(server, t);
}

void tr__server_on_replacement(tr_server *server, int peer, const tr_wire *wire)
{
    const uint32_t trainers = (uint32_t)server->trainer_count;

    if (server->status != TR_OK)
        return;
    if (wire->kind == TR_WIRE_REPLACE_DONE && wire->replace_done.trainer < trainers)
        on_done(server, peer, &wire->replace_done);
    else if (wire->kind == TR_WIRE_REPLACE_WANT && wire->replace_want.trainer < trainers && server->is_running)
        on_wanted(server, &wire->replace_want);
}

tr_status tr__server_on_replacement_join(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload)
{
    Trireme__Pserver__Join *join = trireme__pserver__join__unpack(NULL, wire->bytes, payload);
    tr_status               status = TR_OK;

    if (!join)
        return tr_fail(TR_EFORMAT, "the facts of %s are damaged", tr__server_trainer_name(server, trainer));
    if (trainer->join)
        trireme__pserver__join__free_unpacked(trainer->join, NULL);
    trainer->join = join;
    for (int i = 0; i < server->trainer_count; i++)
        if (&server->trainer[i] != trainer && server->trainer[i].join) {
            status = tr__server_compare_join(server, trainer, &server->trainer[i]);
            break;
        }
    tr__server_move(server, trainer, TR_MEMBER_RETURNING);
    tr__server_tell_all(server);
    tr__server_tasks_join(server, trainer, wire->join.everywhere);
    if (trainer->ended == trainer->settled) {      /* else there is a step that was computed with what the dead one had got */
        trainer->pulled = server->updates;
        trainer->pulled_step = UINT64_MAX;         /* nothing yet */
    }
    if (trainer == server->trainer + tr__server_initiator(server))         /* what it had begun is over, also for whoever cuts for it yet */
        tr__server_snapshot_give_up(server, wire->join.newest_snapshot);
    return status;
}
