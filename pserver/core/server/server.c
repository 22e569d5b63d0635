/* server.c - the boundary of a server core: its life, its inputs, and the effects that its store carries out.
 *
 * Every input has the same form. The protocol that it concerns changes its state; then the rules run until none is due, and before each
 * rule all effects are carried out. The store may report at once that work is done: that report is an input of its own, and only notes what
 * is due. */
#include "pserver/core/server/server.h"

#include "framework/base/memory.h"
#include "pserver/core/members/server_copy.h"
#include "pserver/core/members/server_deaths.h"
#include "pserver/core/members/server_decided.h"
#include "pserver/core/members/server_decisions.h"
#include "pserver/core/members/server_describe.h"
#include "pserver/core/members/server_members.h"
#include "pserver/core/members/server_serving.h"
#include "pserver/core/members/server_restore.h"
#include "pserver/core/members/server_start.h"
#include "pserver/core/server/server_requests.h"
#include "pserver/core/server/server_rules.h"
#include "pserver/core/snapshots/server_board.h"
#include "pserver/core/snapshots/server_initiator.h"
#include "pserver/core/snapshots/server_places.h"
#include "pserver/core/snapshots/server_replication.h"
#include "pserver/core/snapshots/server_row_files.h"
#include "pserver/core/snapshots/server_snapshots.h"
#include "pserver/core/snapshots/server_tasks.h"
#include "pserver/core/updates/server_contributions.h"
#include "pserver/core/updates/server_meters.h"
#include "pserver/core/updates/server_pulls.h"
#include "pserver/core/updates/server_rounds.h"
#include "pserver/core/updates/server_row_pulls.h"
#include "pserver/core/updates/server_rows.h"
#include "pserver/core/updates/server_sets.h"
#include "pserver/core/updates/server_streams.h"
#include "pserver/core/updates/server_updates.h"

#include <stdlib.h>
#include <string.h>

/* == life ==================================================================================== */

/* A message between servers that has not come after so many nanoseconds is asked for again. */
static const int64_t ASK_AGAIN = 500000000;

static void make_trainers(tr_server *server)
{
    const tr_roster *roster = server->roster;

    server->trainer_count = roster->trainers;
    server->trainer = tr__must_array((size_t)roster->trainers, sizeof *server->trainer);
    for (int i = 0; i < roster->trainers; i++) {
        const int rank = roster->trainer_rank[i];
        server->trainer[i] = (tr__trainer){.index = i, .rank = rank, .incarnation = roster->rank[rank].incarnation};
    }
}

tr_server *tr_server_new(const tr_roster *roster, const tr_store *store)
{
    tr_server *server = tr__must_alloc(sizeof *server);

    server->roster = roster;
    server->store = *store;
    server->self = roster->rank[roster->self].index;
    make_trainers(server);
    tr__requests_new(server);
    server->meters = tr__must_array((size_t)roster->trainers, sizeof *server->meters);
    tr__streams_new(server);
    tr__sets_new(server);
    tr__updates_new(server);
    tr__pulls_new(server);
    tr__replication_new(server);
    server->gather = tr_gather_new(roster, ASK_AGAIN);
    tr__places_new(server);
    tr__snapshots_new(server);
    tr__decided_new(server);
    tr__decisions_new(server);
    tr__members_new(server);
    tr__copy_new(server);
    tr__restore_new(server);
    tr__row_files_new(server);
    tr__start_new(server);
    tr__serving_send_to_all(server);
    return server;
}

void tr_server_free(tr_server *server)
{
    if (!server)
        return;
    tr_outbox_deinit(&server->outbox);             /* its messages count down loans of pulls */
    tr__start_free(server);
    tr__row_files_free(server);
    tr__restore_free(server);
    tr__copy_free(server);
    tr__members_free(server);
    tr__decisions_free(server);
    tr__decided_free(server);
    tr__snapshots_free(server);
    tr__places_free(server);
    tr_gather_free(server->gather);
    tr__board_free(server);
    tr__tasks_free(server);
    tr__replication_free(server);
    tr__rows_free(server);
    tr__row_pulls_free(server);
    tr__pulls_free(server);
    tr__updates_free(server);
    tr__contributions_free(server);
    tr__rounds_free(server);
    tr__sets_free(server);
    tr__streams_free(server);
    tr__server_buffers_free(server);
    if (server->setup)
        trireme__pserver__setup__free_unpacked(server->setup, NULL);
    tr_effects_deinit(&server->effects);
    free(server->meters);
    free(server->trainer);
    free(server->block);
    free(server->table);
    free(server->text);
    free(server);
}

/* Is this server done although no decision says so? Server 0 may have left because everything was decided; then a successor of another
 * server gets no decision any more. Or server 0 is dead without a successor, and no decision is needed: all trainers are lost, or all of
 * their steps are settled. */
static bool nobody_decides(const tr_server *server)
{
    const int      rank = server->roster->server_rank[0];
    const tr_rank *first = &server->roster->rank[rank];
    bool           is_all = !tr__server_is_pending(server);

    for (int i = 0; i < server->trainer_count; i++)
        is_all &= server->trainer[i].state == TR_MEMBER_LOST || server->trainer[i].settled == server->trainer[i].ended;
    return (first->has_left && server->self != 0) || (first->is_dead && is_all && tr_roster_standby_for(server->roster, rank) < 0);
}

/* Has every trainer left or died, and is everything decided and carried out here? Then this server needs no other server. */
static bool is_complete(const tr_server *server)
{
    for (int i = 0; i < server->trainer_count; i++)
        if (tr__server_is_present(&server->trainer[i]))
            return false;
    return !tr__updates_queued(server) && (tr__decisions_are_complete(server) || nobody_decides(server));
}

/* A server that misses the last decision repeats its reports until server 0 answers. So server 0 is the last one to leave. */
bool tr_server_is_done(const tr_server *server)
{
    return is_complete(server) && (server->self != 0 || tr_roster_is_last_server(server->roster, 0));
}

bool tr_server_is_abandoned(const tr_server *server)
{
    for (int i = 0; i < server->trainer_count; i++)
        if (server->trainer[i].state != TR_MEMBER_LOST)
            return false;
    return true;
}

void tr_server_stats(const tr_server *server, tr_job_stats *stats)
{
    tr__updates_stats(server, stats);
}

const tr_peer_meter *tr_server_peer_meter(const tr_server *server, int trainer)
{
    return tr__meters_of(server, trainer);
}

void tr_server_set_retry(tr_server *server, int64_t retry)
{
    server->retry = retry;
    tr__replication_set_retry(server);
}

/* == effects ================================================================================= */

static void compute_piece(tr_server *server, const tr_effect *effect)
{
    const tr_status status = server->store.piece(server->store.worker, effect->block, effect->offset, effect->bytes, effect->grad);

    if (status != TR_OK)
        tr__server_fail(server, tr_context(status, "while %s computed update %llu",
                                           tr_roster_name(server->roster, server->roster->self),
                                           (unsigned long long)server->updates + 1));
}

static void carry_out(tr_server *server, const tr_effect *effect)
{
    const tr_store *store = &server->store;

    if (effect->kind == TR_EFFECT_PIECE && server->status == TR_OK) {
        compute_piece(server, effect);
    } else if (effect->kind == TR_EFFECT_COMMIT) {
        const tr_commit commit = tr__updates_commit_of(server, false);
        store->commit(store->self, &commit, effect->is_update);
    } else if (effect->kind == TR_EFFECT_APPLY) {
        store->apply(store->worker, &server->update);
    } else if (effect->kind == TR_EFFECT_SNAPSHOT) {
        store->snapshot(store->worker, tr__snapshots_target(server));
    } else if (effect->kind == TR_EFFECT_FREEZE) {
        store->freeze(store->worker);
    } else if (effect->kind == TR_EFFECT_THAW) {
        store->thaw(store->worker);
    }
}

/* Run after each input: carry out effects and rules until none is left. */
static void run_until_idle(tr_server *server)
{
    const tr_effect *effect;

    if (server->is_at_work)
        return;                                    /* the store reports from within an effect, so the loop below is running already */
    server->is_at_work = true;
    do {
        while ((effect = tr_effects_take(&server->effects)))
            carry_out(server, effect);
    } while (tr__rules_run(server));
    server->is_at_work = false;
}

/* == inputs: messages, deaths, time =========================================================== */

static void *receive_buffer(void *self, int peer, const tr_wire *wire)
{
    return tr__requests_receive_buffer(self, peer, wire);
}

/* Does this server need a dead server whose place no standby can take? `peer`: the server that died, or a standby that has become
 * unavailable. */
static bool waits_in_vain(const tr_server *server, int peer)
{
    const tr_roster *roster = server->roster;
    const int        first = roster->server_rank[0];

    if (is_complete(server))
        return false;
    if (roster->rank[first].is_dead)
        return tr_roster_standby_for(roster, first) < 0;
    return roster->rank[peer].role != TR_ROLE_STANDBY && tr_roster_standby_for(roster, peer) < 0;
}

/* A standby is not available any more: it is dead, has left, or has become a server or a replica. */
static void on_standby_gone(tr_server *server)
{
    for (int i = 0; i < server->roster->servers && server->status == TR_OK; i++) {
        const int rank = server->roster->server_rank[i];
        if (server->roster->rank[rank].is_dead && waits_in_vain(server, rank))
            tr__describe_failure(server, rank, "died");
    }
}

static void receive(void *self, int64_t now, int peer, const tr_wire *wire, void *payload, bool is_direct)
{
    tr_server *server = self;

    server->now = now;
    tr__requests_receive(server, peer, wire, payload, is_direct);
    if (wire->kind == TR_WIRE_REPLICA_CALL || wire->kind == TR_WIRE_REPLICA_DONE || wire->kind == TR_WIRE_SERVING) {
        tr__server_due(server, TR__RULE_MEMBERS);
        on_standby_gone(server);
    }
    run_until_idle(server);
}

static void trainer_lost(tr_server *server, tr__trainer *trainer, const char *how)
{
    if (trainer->state == TR_MEMBER_VACANT)
        tr__server_due(server, TR__RULE_MEMBERS);   /* the process was a replacement that had been called */
    else if (!tr_membership_is_over(trainer->state))
        tr__deaths_died(server, trainer, how);
    else if (trainer->state == TR_MEMBER_DRAINING)
        tr__deaths_drained(server, trainer);       /* all of its steps are here, so it needs no replacement */
}

static void rank_lost(tr_server *server, int peer, const char *how)
{
    const tr_role role = server->roster->rank[peer].role;

    if (tr__replication_is_replica(server, peer))
        tr__copy_drop_replica(server);
    if (role == TR_ROLE_REPLICA)
        return;
    tr__server_due(server, TR__RULE_MEMBERS);       /* a standby that was called may have died */
    if (role == TR_ROLE_STANDBY)
        on_standby_gone(server);
    if (waits_in_vain(server, peer))               /* otherwise a standby takes the dead server's place */
        tr__describe_failure(server, peer, how);
}

static void lost(void *self, int peer, const char *how)
{
    tr_server   *server = self;
    tr__trainer *trainer = tr__server_trainer_of(server, peer);

    tr__pulls_void_loans(server, peer);
    if (trainer)
        trainer_lost(server, trainer, how);
    else
        rank_lost(server, peer, how);
    run_until_idle(server);
}

/* A peer has sent BYE. A successor of a dead server may believe that this trainer drains; a trainer that has left does not. */
static void left(void *self, int peer)
{
    tr_server   *server = self;
    tr__trainer *trainer = tr__server_trainer_of(server, peer);

    if (trainer && trainer->state == TR_MEMBER_DRAINING)
        tr__deaths_drained(server, trainer);
    if (tr__replication_is_replica(server, peer))
        tr__copy_drop_replica(server);             /* it receives no more messages */
    tr__server_due(server, TR__RULE_MEMBERS);
    if (server->roster->rank[peer].role == TR_ROLE_STANDBY)
        on_standby_gone(server);
    run_until_idle(server);
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t tick(void *self, int64_t now)
{
    tr_server *server = self;
    int64_t    again;

    server->now = now;
    if (tr__pulls_await_loans(server))             /* messages may have been sent, which ends loans */
        tr__server_due(server, TR__RULE_BEGIN);
    again = tr_gather_tick(server->gather, now);
    again = earlier(again, tr__snapshots_tick(server, now));
    again = earlier(again, tr__decisions_tick(server, now));
    again = earlier(again, tr__copy_tick(server, now, is_complete(server)));
    run_until_idle(server);
    return again;
}

/* == inputs: reports of the store ============================================================= */

void tr_server_tell_time(tr_server *server, int64_t now) { server->now = now; }

void tr_server_applied(tr_server *server, tr_status status)
{
    if (server->status != TR_OK)
        return;
    if (status != TR_OK) {
        tr_context(status, "while %s applied update %llu", tr_roster_name(server->roster, server->roster->self),
                   (unsigned long long)server->updates + 1);
        tr__server_fail(server, status);
        return;
    }
    tr__updates_computed(server);
    run_until_idle(server);
}

void tr_server_snapped(tr_server *server, int64_t now)
{
    server->now = now > server->now ? now : server->now;
    tr__snapshots_copied(server);
    run_until_idle(server);
}

void tr_server_written(tr_server *server, const uint8_t *part, size_t size, const char *error)
{
    tr__snapshots_written(server, part, size, error);
    run_until_idle(server);
}

void tr_server_row_file(tr_server *server, tr_status status, const tr_table_file *file, void *rows, uint64_t bytes)
{
    tr__row_files_done(server, status, file, rows, bytes);
    run_until_idle(server);
}

void tr_server_restored(tr_server *server, tr_status status)
{
    if (server->status != TR_OK)
        return;
    if (tr__restore_is_reading(server))
        tr__restore_read(server, status);
    else if ((status = tr__start_filled(server, status)) != TR_OK)
        tr__server_fail(server, status);
    run_until_idle(server);
}

void tr_server_frozen(tr_server *server, tr_status status)
{
    tr__copy_frozen(server, status == TR_OK);
    run_until_idle(server);
}

void tr_server_share(tr_server *server, const void *own, uint32_t bytes, void *all)
{
    const uint64_t before = tr_gather_done(server->gather);

    server->share = (tr__share){all, bytes};
    const tr_status status = tr_gather_begin(server->gather, server->updates + 1, own, bytes, all);
    if (status != TR_OK)
        tr__server_fail(server, status);
    tr__requests_pass_share_on(server, before);
    run_until_idle(server);
}

uint64_t tr_server_shared(const tr_server *server)
{
    return tr_gather_done(server->gather);
}

/* == taking a dead server's place ============================================================= */

/* After failover: trainers may have died while another process, or none, served in this place. */
static void find_deaths(tr_server *server)
{
    for (int i = 0; i < server->trainer_count && server->status == TR_OK; i++) {
        const tr__trainer *t = &server->trainer[i];
        if (server->roster->rank[t->rank].is_dead && !tr_membership_is_over(t->state))
            tr__deaths_died(server, t, "died");
    }
}

tr_status tr_server_take_over(tr_server *server)
{
    const tr_status status = tr__start_take_over(server);

    if (status != TR_OK)
        return tr__server_fail(server, status);
    find_deaths(server);
    on_standby_gone(server);                       /* this process was a standby until now */
    run_until_idle(server);
    return server->status;
}

/* == messages out ============================================================================= */

/* An acknowledgement is built only when the driver takes it. So one acknowledgement covers all requests that came before that. */
static bool next_ack(tr_server *server, tr_message *out)
{
    const tr__trainer *t = tr__streams_next_owed(server);

    if (!t)
        return false;
    *out = (tr_message){.peer = t->rank,
                        .wire = {.kind = TR_WIRE_ACK,
                                 .incarnation = t->incarnation,
                                 .sender = (uint32_t)server->roster->self,
                                 .seq = tr__stream_done(server, t),
                                 .ack = {.updates = server->updates, .initiator = tr__initiator_code(server),
                                         .wanted_snapshot = tr__snapshots_wanted(server), .newest_snapshot = tr__snapshots_number(server),
                                         .snapshot_step = (uint32_t)tr__snapshots_step(server, t), .stops = tr__board_stops(server),
                                         .declines = tr__snapshots_must_wait(server)}}};
    out->is_receipt = !out->wire.ack.wanted_snapshot;      /* one that asks for a snapshot is more than a receipt */
    return true;
}

static bool next_for_replica(tr_server *server, tr_message *out)
{
    if (tr__replication_phase_of(server) == TR__REPLICATION_NONE)
        return false;
    tr__copy_feed(server);
    run_until_idle(server);
    return tr__replication_next(server, out);
}

static bool next(void *self, tr_message *out)
{
    tr_server *server = self;

    return tr_outbox_take(&server->outbox, out) || tr_gather_next(server->gather, out) ||
           (server->status == TR_OK && (next_ack(server, out) || next_for_replica(server, out)));
}

/* == what it says of itself =================================================================== */

static tr_status status_of(const void *self, const char **text)
{
    const tr_server *server = self;
    *text = server->text;
    return server->status;
}

static void describe(const void *self, char *out, size_t size)
{
    tr__describe(self, out, size);
}

static bool awaits_loans(const void *self)
{
    return tr__pulls_await_loans(self);
}

tr_node tr_server_node(tr_server *server)
{
    return (tr_node){.self = server, .receive_buffer = receive_buffer, .receive = receive, .lost = lost, .tick = tick, .next = next,
                     .status = status_of, .describe = describe, .awaits_loans = awaits_loans, .left = left};
}
