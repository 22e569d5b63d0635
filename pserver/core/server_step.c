/* server_step.c - when a server applies which contributions: one function for each consistency mode (docs/protocol.md, "A step"). */
#include "framework/memory.h"
#include "pserver/core/server_board.h"
#include "pserver/core/server_state.h"
#include "pserver/core/server_tasks.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tr_status tr__server_check_step(const tr_server *server, const tr__trainer *trainer, const tr_wire *wire, uint64_t step)
{
    if (!server->is_running)
        return tr_fail(TR_EPEER, "%s sent %s before all trainers had agreed on the work",
                       tr__server_trainer_name(server, trainer), tr_wire_kind_name(wire->kind));
    if (tr_wire_step(wire) != step)
        return tr_fail(TR_EPEER, "%s sent %s for step %llu instead of %llu", tr__server_trainer_name(server, trainer),
                       tr_wire_kind_name(wire->kind), (unsigned long long)tr_wire_step(wire), (unsigned long long)step);
    return TR_OK;
}

/* == applying ================================================================================== */

static void count_staleness(tr_server *server, const tr__trainer *trainer)
{
    uint64_t staleness = server->updates - trainer->pulled;
    int      bin = 0;

    while (staleness && bin < TR_STALENESS_BINS - 1) {
        staleness >>= 1;
        bin++;
    }
    atomic_fetch_add_explicit(&server->staleness[bin], 1, memory_order_relaxed);
}

/* Ask the store for the first of the queue. */
static void apply_first(tr_server *server)
{
    const tr__round   *round = server->queue[0];
    const tr__trainer *only = &server->trainer[round->first];

    for (int i = 0; i < server->trainer_count; i++) {
        if (round != &server->merged)
            server->takes_part[i] = i >= round->first && i < round->end && server->trainer[i].ended >= round->step;
        if (server->takes_part[i])
            count_staleness(server, &server->trainer[i]);
    }
    tr__server_meter_begins(server);
    const tr_update update = {.number = server->updates + 1, .grad = round->sum, .pulled = only->copy,
                              .compensation = server->policy.compensation, .takes_part = server->takes_part,
                              .rows = tr__server_rows_update(server)};
    server->is_updating = true;
    server->is_computed = false;
    tr__server_replication_update(server, &update);     /* both compute at once */
    server->store.apply(server->store.self, &update);
}

static void enqueue(tr_server *server, tr__round *round)
{
    round->is_full = true;
    server->queue[server->queued++] = round;
    tr__server_apply_next(server);
}

void tr__server_apply_next(tr_server *server)
{
    if (!server->queued || server->is_updating || server->snapshot.phase == TR__SNAPSHOT_TAKING || !tr__server_replication_is_ready(server))
        return;
    server->awaits_loans = tr__server_is_read(server);
    if (!server->awaits_loans)
        apply_first(server);
}

/* All that the round needs is here. */
static bool is_complete(const tr_server *server, const tr__round *round)
{
    bool is_wanted = false;

    if (!server->is_running || round->is_full || round->chunks_whole != server->chunk_count)
        return false;
    for (int i = round->first; i < round->end; i++) {
        const tr__trainer *t = &server->trainer[i];
        if (tr__server_takes_part(t, round) && t->ended < round->step)
            return false;
        is_wanted |= t->ended >= round->step;
    }
    return is_wanted;
}

void tr__server_settle(tr_server *server, tr__trainer *trainer)
{
    trainer->settled++;
    memmove(trainer->unsettled, trainer->unsettled + 1, (trainer->ended - trainer->settled) * sizeof *trainer->unsettled);
    trainer->owes_ack = true;
    tr__server_rows_settled(server, trainer);
    tr__server_meter_settled(server, trainer);
}

static void next_step(tr_server *server, tr__round *round)
{
    tr__server_round_next(server, round);
    tr__server_round_moves(server, round);
    tr__server_try_apply(server, round);
}

/* -- where it is decided what makes an update -------------------------------------------------- */

/* Its oldest step is settled, and in no update. */
static void settle_without_update(tr_server *server, tr__trainer *trainer)
{
    tr__server_settle(server, trainer);
    trainer->applied_in = 0;
    tr__server_commit(server, false);
    tr__server_tasks_settled(server);
    tr__server_answer_all(server);
    next_step(server, trainer->round);
}

void tr__server_drop(tr_server *server, tr__trainer *trainer)
{
    atomic_fetch_add_explicit(&server->dropped, 1, memory_order_relaxed);
    settle_without_update(server, trainer);
}

/* -- steps without a gradient: what one server has of a dead trainer, and others have not, is made again in another step ------ */

static bool is_left_out(const tr_server *server, const tr__round *round)
{
    const tr__trainer *t = &server->trainer[round->first];

    return t->left_out && !round->is_full && round->step >= t->left_out_from && round->step <= t->left_out;
}

static void leave_out(tr__trainer *trainer)
{
    if (trainer->left_out + 1 != trainer->ended)
        trainer->left_out_from = trainer->ended;
    trainer->left_out = trainer->ended;
}

void tr__server_apply_merged(tr_server *server)
{
    tr__server_merge(server);
    enqueue(server, &server->merged);
}

void tr__server_try_apply(tr_server *server, tr__round *round)
{
    if (is_left_out(server, round)) {
        settle_without_update(server, &server->trainer[round->first]);
        tr__server_try_snapshot(server);
        return;
    }
    if (!is_complete(server, round))
        return;
    if (tr__server_has_decisions(server)) {
        round->is_full = true;
        tr__server_decision_moves(server);
    } else {
        enqueue(server, round);
    }
}

/* -- applied ----------------------------------------------------------------------------------- */

void tr__server_try_finish(tr_server *server)
{
    if (server->is_updating && server->is_computed && tr__server_replication_has_update(server))
        tr__server_update_applied(server);
}

void tr__server_update_applied(tr_server *server)
{
    tr__round *round = server->queue[0];

    assert(server->is_updating);
    server->updates++;
    server->is_updating = false;
    memmove(server->queue, server->queue + 1, (size_t)--server->queued * sizeof *server->queue);
    for (int i = 0; i < server->trainer_count; i++)
        if (server->takes_part[i]) {
            tr__server_settle(server, &server->trainer[i]);
            server->trainer[i].applied_in = server->updates;
        }
    tr__server_commit(server, true);
    tr__server_tasks_settled(server);
    tr__server_answer_all(server);
    tr__server_try_snapshot(server);
    tr__server_copy_begin(server);
    tr__server_apply_next(server);                 /* it uses the thread while the rest goes on here */
    if (round != &server->merged) {
        next_step(server, round);
        return;
    }
    for (int i = 0; i < server->trainer_count; i++)
        if (server->takes_part[i]) {
            server->takes_part[i] = false;
            tr__server_round_next(server, &server->round[i]);
            tr__server_round_moves(server, &server->round[i]);
        }
    for (int i = 0; i < server->trainer_count; i++)
        tr__server_try_apply(server, &server->round[i]);
    tr__server_decision_moves(server);
}

/* == requests ================================================================================== */

static void note_end(tr__trainer *trainer, uint64_t seq)
{
    const uint64_t count = trainer->ended++ - trainer->settled;

    if (count == trainer->unsettled_capacity) {
        trainer->unsettled_capacity = count ? 2 * count : 4;
        trainer->unsettled = tr__must_realloc(trainer->unsettled, trainer->unsettled_capacity * sizeof *trainer->unsettled);
    }
    trainer->unsettled[count] = seq;
}

tr_status tr__server_on_step_end(tr_server *server, tr__trainer *trainer, const tr_wire *wire)
{
    tr__server_replacement_is_there(server, trainer);
    if (tr__server_ended_again(trainer, wire))
        return TR_OK;
    TR_TRY(tr__server_check_step(server, trainer, wire, trainer->ended + 1));
    const bool  has_gradient = !wire->step_end.is_idle;
    const char *missing = has_gradient ? tr__server_first_missing(server, trainer) : NULL;
    if (has_gradient && !missing)
        missing = tr__server_first_missing_rows(server, trainer);
    if (missing)
        return tr_fail(TR_EPEER, "%s ended step %llu without the gradient '%s'", tr__server_trainer_name(server, trainer),
                       (unsigned long long)wire->step_end.step, missing);
    if (!has_gradient && (trainer->pushed_count || !server->policy.gathers_per_trainer || server->policy.decides))
        return tr_fail(TR_EPEER, "%s leaves step %llu out, which it has begun, or which others have, too",
                       tr__server_trainer_name(server, trainer), (unsigned long long)wire->step_end.step);
    note_end(trainer, wire->seq);
    if (!has_gradient)
        leave_out(trainer);
    tr__server_tasks_heard(server, trainer, wire->step_end.everywhere);
    tr__server_meter_ended(server, trainer);
    tr__server_rows_ended(server, trainer);
    trainer->pushed_count = 0;
    memset(trainer->pushed, 0, server->chunk_count / 8 + 1);
    tr__server_try_apply(server, trainer->round);
    return TR_OK;
}

void tr__server_fewer_move(tr_server *server)
{
    tr__server_decision_moves(server);
    tr__server_answer_all(server);
}

/* The others go on without it. */
static void leave(tr_server *server, tr__trainer *trainer, tr_membership to)
{
    const bool was_awaited = trainer->state == TR_MEMBER_VACANT || trainer->state == TR_MEMBER_RETURNING;

    tr__server_move(server, trainer, to);
    if (was_awaited)
        tr__server_tell_all(server);
    tr__server_tasks_leave(server, trainer);
    tr__server_board_moves(server);
    if (!trainer->round)
        return;
    if (server->is_running)
        tr__server_commit(server, false);
    tr__server_snapshot_without(server, trainer);
    tr__server_round_moves(server, trainer->round);
    tr__server_try_apply(server, trainer->round);
    tr__server_initiator_changed(server);
    tr__server_fewer_move(server);
}

tr_status tr__server_on_goodbye(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload)
{
    if (trainer->pushed_count)
        return tr_fail(TR_EPEER, "%s said goodbye in the middle of step %llu", tr__server_trainer_name(server, trainer),
                       (unsigned long long)trainer->ended + 1);
    if (server->setup && !server->is_running)
        return tr_fail(TR_EPEER, "%s left before all trainers had agreed on the work",
                       tr__server_trainer_name(server, trainer));
    TR_TRY(tr__server_note_last_place(server, trainer, wire, payload));
    const bool stays = wire->kind == TR_WIRE_DRAIN && !server->roster->rank[trainer->rank].is_dead;     /* a word may come late */
    if (tr_membership_is_over(trainer->state) && !stays) {
        server->snapshot.has_last |= wire->leave.has_last;
        tr__server_stayed(server, trainer);
        return TR_OK;
    }
    trainer->over_seq = stays ? wire->seq : 0;
    if (tr_membership_is_over(trainer->state)) {   /* the server that died had it */
        tr__server_move(server, trainer, TR_MEMBER_DRAINING);
        tr__server_initiator_changed(server);
        return TR_OK;
    }
    tr__server_tasks_heard(server, trainer, wire->leave.everywhere);
    leave(server, trainer, stays ? TR_MEMBER_DRAINING : TR_MEMBER_LEFT);
    return TR_OK;
}

void tr__server_stayed(tr_server *server, tr__trainer *trainer)
{
    tr__server_move(server, trainer, TR_MEMBER_LEFT);
    trainer->over_seq = 0;
    tr__server_snapshot_without(server, trainer);
    tr__server_initiator_changed(server);
}

/* What it has ended counts; what it had begun does not. Its epoch is over: should it come back, it is told so. */
void tr__server_trainer_lost(tr_server *server, tr__trainer *trainer)
{
    trainer->epoch++;
    trainer->owes_ack = false;
    tr__server_forget_unended(server, trainer);
    leave(server, trainer, TR_MEMBER_LOST);
}

void tr__server_fail_by(tr_server *server, int peer, const char *how)
{
    char waiting[512];

    tr__server_describe_step(server, waiting, sizeof waiting);
    tr__server_fail(server, tr_fail(TR_EPEER, "%s %s; %s was waiting for %s", tr_roster_name(server->roster, peer), how,
                                    tr_roster_name(server->roster, server->roster->self), waiting));
}

void tr__server_trainer_died(tr_server *server, tr__trainer *trainer, const char *how)
{
    if (tr__server_await_replacement(server, trainer))
        return;
    if (server->is_running && server->policy.survives_trainers)
        tr__server_trainer_lost(server, trainer);
    else
        tr__server_fail_by(server, trainer->rank, how);
}

/* == in words ================================================================================== */

void tr__server_describe_step(const tr_server *server, char *out, size_t size)
{
    const char *before = " ";
    size_t      used = 0;

    char        missing[256];

    if (tr_gather_missing(server->gather, missing, sizeof missing)) {
        snprintf(out, size, "the sums of update %llu of %s", (unsigned long long)server->updates + 1, missing);
        return;
    }
    if (tr__server_describe_board(server, out, size) || tr__server_describe_decisions(server, out, size))
        return;
    if (server->awaits_loans) {
        tr__server_describe_readers(server, out, size);
        return;
    }
    if (server->queued) {
        snprintf(out, size, "its optimizers in update %llu", (unsigned long long)server->updates + 1);
        return;
    }
    if (server->is_running)
        used = (size_t)snprintf(out, size, "the gradients of step %llu of", (unsigned long long)server->updates + 1);
    else
        used = (size_t)snprintf(out, size, "the setup by");
    for (int i = 0; i < server->trainer_count && used < size; i++) {
        const tr__trainer *t = &server->trainer[i];
        const bool is_awaited = server->is_running ? !tr_membership_is_over(t->state) && t->ended < t->round->step : !t->join;
        if (is_awaited) {
            used += (size_t)snprintf(out + used, size - used, "%strainer %d", before, i);
            before = ", ";
        }
    }
}
