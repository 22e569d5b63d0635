/* server.c - a server core: its memory, life and end, its failure, and the acknowledgements that it sends unasked. Requests that come in are in
 * server_requests.c. */
#include "framework/memory.h"
#include "pserver/core/server_board.h"
#include "pserver/core/server_state.h"
#include "pserver/core/server_tasks.h"
#include "pserver/observe/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* == memory ================================================================================= */

/* Buffers of one chunk are used again, the last one first: it is in cache. A line before each holds its size. */
enum { LINE = 64 };

uint8_t *tr__server_buffer_new(tr_server *server, uint64_t bytes)
{
    const uint64_t capacity = bytes > server->chunk_bytes ? bytes : server->chunk_bytes;
    uint8_t       *buffer = server->pool;

    if (buffer && capacity == server->chunk_bytes) {
        memcpy(&server->pool, buffer, sizeof server->pool);
        return buffer;
    }
    buffer = tr__must_aligned(LINE + ((capacity + LINE - 1) & ~(uint64_t)(LINE - 1)) + LINE);
    memcpy(buffer, &capacity, sizeof capacity);
    return buffer + LINE;
}

void tr__server_buffer_free(tr_server *server, uint8_t *buffer)
{
    uint64_t capacity;

    if (!buffer)
        return;
    memcpy(&capacity, buffer - LINE, sizeof capacity);
    if (capacity != server->chunk_bytes) {
        free(buffer - LINE);
        return;
    }
    memcpy(buffer, &server->pool, sizeof server->pool);
    server->pool = buffer;
}

/* == life ==================================================================================== */

/* A message between servers that is missing for so long was lost: nanoseconds. */
static const int64_t ASK_AGAIN = 500000000;

tr_server *tr_server_new(const tr_roster *roster, const tr_store *store)
{
    tr_server *server = tr__must_alloc(sizeof *server);

    server->roster = roster;
    server->store = *store;
    server->self = roster->rank[roster->self].index;
    server->trainer_count = roster->trainers;
    server->gather = tr_gather_new(roster, ASK_AGAIN);
    server->trainer = tr__must_array((size_t)roster->trainers, sizeof *server->trainer);
    for (int i = 0; i < roster->trainers; i++) {
        tr__trainer *t = &server->trainer[i];
        t->rank = roster->trainer_rank[i];
        t->epoch = roster->rank[t->rank].epoch;
        t->held_end = &t->held;
        t->rows_end = &t->rows;
        t->parked_end = &t->parked;
        t->missed = t->called = -1;
    }
    server->settled = tr__must_array((size_t)roster->trainers, sizeof *server->settled);
    server->trainer_flags = tr__must_array((size_t)roster->trainers, sizeof *server->trainer_flags);
    server->loan = tr__must_array(2 * (size_t)roster->size, sizeof *server->loan);
    tr__server_replication_new(server);
    for (int i = 0; i < roster->size; i++)
        if (i != roster->self)
            tr__server_say_serving(server, i);
    return server;
}

static void free_trainer(tr_server *server, tr__trainer *trainer)
{
    tr__server_let_go(server, &trainer->held, &trainer->held_end);
    tr__server_let_go(server, &trainer->parked, &trainer->parked_end);
    free(trainer->pushed);
    free(trainer->pushed_by);
    free(trainer->unsettled);
    for (uint32_t i = 0; trainer->copy && i < server->block_count; i++)
        free(trainer->copy[i]);
    free(trainer->copy);
    tr__server_pulls_free(trainer);
    tr__server_row_pulls_free(trainer);
    if (trainer->join)
        trireme__pserver__join__free_unpacked(trainer->join, NULL);
    if (trainer->last_place)
        trireme__pserver__snapshot__free_unpacked(trainer->last_place, NULL);
}

void tr_server_free(tr_server *server)
{
    if (!server)
        return;
    for (int i = 0; i < server->trainer_count; i++)
        free_trainer(server, &server->trainer[i]);
    tr__server_tables_free(server);
    while (server->pool) {
        uint8_t *buffer = server->pool;
        memcpy(&server->pool, buffer, sizeof server->pool);
        free(buffer - LINE);
    }
    tr__server_rounds_free(server);
    tr__server_tasks_free(server);
    tr__server_board_free(server);
    tr__server_snapshot_free(server);
    tr__server_replication_free(server);
    if (server->setup)
        trireme__pserver__setup__free_unpacked(server->setup, NULL);
    tr_outbox_deinit(&server->outbox);
    free(server->loan);
    tr_gather_free(server->gather);
    free(server->trainer);
    free(server->settled);
    free(server->trainer_flags);
    free(server->value_filled);
    free(server->decoded);
    free(server->block);
    free(server->text);
    free(server);
}

/* Server 0 has left, since all was decided: who has taken a dead server's place hears of it no more. Or it has died before anybody could take
 * its place, and there is nothing to decide: trainers have died, or left with all settled. */
static bool nobody_decides(const tr_server *server)
{
    const tr_rank *first = &server->roster->rank[server->roster->server_rank[0]];
    bool           is_all = !tr__server_is_pending(server);

    for (int i = 0; i < server->trainer_count; i++)
        is_all &= server->trainer[i].state == TR_MEMBER_LOST || server->trainer[i].settled == server->trainer[i].ended;
    return (first->has_left && server->self != 0) || (first->is_dead && (is_all || tr_server_is_forsaken(server)));
}

bool tr_server_is_done(const tr_server *server)
{
    for (int i = 0; i < server->trainer_count; i++)
        if (tr__server_is_there(&server->trainer[i]))
            return false;
    return server->queued == 0 && (tr__server_all_decided(server) || nobody_decides(server));
}

bool tr_server_is_forsaken(const tr_server *server)
{
    for (int i = 0; i < server->trainer_count; i++)
        if (server->trainer[i].state != TR_MEMBER_LOST)
            return false;
    return true;
}

uint64_t tr_server_step(const tr_server *server)
{
    return server->updates;
}

void tr_server_stats(const tr_server *server, tr_job_stats *stats)
{
    for (int i = 0; i < TR_STALENESS_BINS; i++)
        stats->staleness[i] = atomic_load_explicit(&server->staleness[i], memory_order_relaxed);
    stats->dropped = atomic_load_explicit(&server->dropped, memory_order_relaxed);
}

const char *tr__server_trainer_name(const tr_server *server, const tr__trainer *trainer)
{
    return tr_roster_name(server->roster, trainer->rank);
}

/* Who has left while a step of it waits will send that again to whoever takes this server's place, and say goodbye again. */
static uint8_t flags_of(const tr_server *server, int index, uint64_t settled)
{
    const tr__trainer *t = &server->trainer[index];
    const bool         is_lost = t->state == TR_MEMBER_LOST;
    const bool         is_gone = is_lost || (tr_membership_is_over(t->state) && settled == t->ended);
    const uint8_t      decided = tr__server_has_decisions(server) ? server->decisions.trainer[index] : 0;

    return (uint8_t)(decided | (is_gone ? TR_TRAINER_GONE : 0) | (is_lost ? TR_TRAINER_LOST : 0));
}

tr_commit tr__server_commit_of(tr_server *server, bool with_update)
{
    const uint64_t updates = server->updates + with_update;

    for (int i = 0; i < server->trainer_count; i++) {
        server->settled[i] = server->trainer[i].settled + (with_update && server->takes_part[i]);
        server->trainer_flags[i] = flags_of(server, i, server->settled[i]);
    }
    return (tr_commit){.updates = updates, .settled = server->settled, .trainer = server->trainer_flags,
                       .decided = tr__server_has_decisions(server) ? server->decisions.update : updates,
                       .decisions = server->decisions.number, .start = tr_roster_start(server->roster)};
}

void tr__server_commit(tr_server *server, bool is_update)
{
    const tr_commit commit = tr__server_commit_of(server, false);

    server->store.commit(server->store.self, &commit, is_update);
    if (!is_update)
        tr__server_replication_commit(server);
}

/* == failing ================================================================================= */

static void send_refusal(tr_server *server, tr_wire_kind kind, int rank, uint32_t epoch, const char *text)
{
    Trireme__Pserver__Refusal refusal = TRIREME__PSERVER__REFUSAL__INIT;
    refusal.text = (char *)(uintptr_t)text;

    const size_t size = trireme__pserver__refusal__get_packed_size(&refusal);
    uint8_t     *payload = tr__must_bytes(size);
    trireme__pserver__refusal__pack(&refusal, payload);
    tr_outbox_put(&server->outbox, &(tr_message){
        .peer = rank, .payload = payload, .owned = payload,
        .wire = {.kind = kind, .epoch = epoch, .sender = (uint32_t)server->roster->self, .bytes = size}});
}

void tr__server_say_failed(tr_server *server, const tr__trainer *trainer)
{
    send_refusal(server, TR_WIRE_REFUSED, trainer->rank, trainer->epoch, server->text);
}

void tr__server_refuse(tr_server *server, int rank, uint32_t epoch)
{
    send_refusal(server, TR_WIRE_REPLACED, rank, epoch, "another process has taken the place of this trainer");
}

tr_status tr__server_fail(tr_server *server, tr_status status)
{
    if (server->status != TR_OK)
        return server->status;
    server->status = status;
    server->text = tr__must_strdup(tr_error());
    for (int i = 0; i < server->trainer_count; i++)
        tr__server_say_failed(server, &server->trainer[i]);
    return status;
}

static void note_failure(tr_server *server, tr_status status)
{
    if (status != TR_OK)
        tr__server_fail(server, status);
}

tr__trainer *tr__server_trainer_of(tr_server *server, int peer)
{
    const tr_rank *rank = &server->roster->rank[peer];
    return rank->role == TR_ROLE_TRAINER ? &server->trainer[rank->index] : NULL;
}

void tr__server_move(const tr_server *server, tr__trainer *trainer, tr_membership to)
{
    if (trainer->state == to)
        return;
    assert(tr_membership_may_move(trainer->state, to));
    tr_trace_membership(server->now, server->roster->self, (int)(trainer - server->trainer), trainer->state, to);
    trainer->state = to;
}

/* Will nobody take the place of a server that is missed, now that this server is dead, or this standby is not there? Who is done misses nobody. */
static bool waits_in_vain(const tr_server *server, int peer)
{
    const tr_roster *roster = server->roster;
    const int        first = roster->server_rank[0];

    if (tr_server_is_done(server))
        return false;
    if (tr__server_has_decisions(server) && roster->rank[first].is_dead)
        return tr_roster_standby_for(roster, first) < 0;
    return roster->rank[peer].role != TR_ROLE_STANDBY && tr_roster_standby_for(roster, peer) < 0;
}

void tr__server_standby_died(tr_server *server)
{
    for (int i = 0; i < server->roster->servers && server->status == TR_OK; i++) {
        const int rank = server->roster->server_rank[i];
        if (server->roster->rank[rank].is_dead && waits_in_vain(server, rank))
            tr__server_fail_by(server, rank, "died");
    }
}

static void lost(void *self, int peer, const char *how)
{
    tr_server   *server = self;
    tr__trainer *trainer = tr__server_trainer_of(server, peer);

    server->loan[2 * peer].is_void = server->loan[2 * peer + 1].is_void = true;
    if (trainer) {
        if (!tr_membership_is_over(trainer->state))
            tr__server_trainer_died(server, trainer, how);
        else if (trainer->state == TR_MEMBER_DRAINING)
            tr__server_stayed(server, trainer);    /* what it has done is here, and it is missed by nobody */
        return;
    }
    if (tr__server_replica_done(server, peer))
        tr__server_replication_drop(server);
    if (server->roster->rank[peer].role == TR_ROLE_REPLICA)
        return;
    if (server->roster->rank[peer].role == TR_ROLE_STANDBY)
        tr__server_standby_died(server);
    if (waits_in_vain(server, peer))               /* else trainers wait for whom takes its place, not we */
        tr__server_fail_by(server, peer, how);
}

/* A process that takes a dead server's place does not know who stays: all that have left do not. A standby that has left is not there. */
static void left(void *self, int peer)
{
    tr_server   *server = self;
    tr__trainer *trainer = tr__server_trainer_of(server, peer);

    if (trainer && trainer->state == TR_MEMBER_DRAINING)
        tr__server_stayed(server, trainer);
    if (server->roster->rank[peer].role == TR_ROLE_STANDBY)
        tr__server_standby_died(server);
}

/* == replies ================================================================================= */

/* The last request up to which all are done. */
static uint64_t done_seq(const tr__trainer *trainer)
{
    uint64_t seq = trainer->accepted;

    if (trainer->held && trainer->held->wire.seq <= seq)
        seq = trainer->held->wire.seq - 1;
    if (trainer->join_seq && trainer->join_seq <= seq)
        seq = trainer->join_seq - 1;
    if (trainer->ended > trainer->settled && trainer->unsettled[0] <= seq)
        seq = trainer->unsettled[0] - 1;
    if (trainer->over_seq && trainer->over_seq <= seq)
        seq = trainer->over_seq - 1;
    if (trainer->parked && trainer->parked->wire.seq <= seq)
        seq = trainer->parked->wire.seq - 1;
    return seq;
}

/* Acknowledgements are made when messages are taken, so that one stands for all that came in between. */
static bool next_ack(tr_server *server, tr_message *out)
{
    for (int i = 0; i < server->trainer_count; i++) {
        tr__trainer *t = &server->trainer[i];
        if (!t->owes_ack)
            continue;
        t->owes_ack = false;
        *out = (tr_message){
            .peer = t->rank,
            .wire = {.kind = TR_WIRE_ACK, .epoch = t->epoch, .sender = (uint32_t)server->roster->self,
                     .seq = done_seq(t),
                     .ack = {.updates = server->updates, .initiator = tr__server_initiator_code(server),
                             .wanted_snapshot = tr__server_snapshot_wanted(server), .newest_snapshot = server->snapshot.number,
                             .stops = tr__server_stops(server), .declines = tr__server_snapshot_must_wait(server)}}};
        out->is_receipt = !out->wire.ack.wanted_snapshot;         /* where a snapshot is wanted it is news */
        return true;
    }
    return false;
}

static bool next(void *self, tr_message *out)
{
    tr_server *server = self;

    return tr_outbox_take(&server->outbox, out) || tr_gather_next(server->gather, out) ||
           (server->status == TR_OK && (next_ack(server, out) || tr__server_replication_next(server, out)));
}

static int64_t tick(void *self, int64_t now)
{
    tr_server *server = self;

    server->now = now;
    if (server->awaits_loans && server->status == TR_OK)
        tr__server_apply_next(server);             /* what was being sent is gone, perhaps */
    const int64_t gather = tr_gather_tick(server->gather, now), snapshot = tr__server_watch_snapshot(server, now);
    const int64_t decisions = tr__server_watch_decisions(server, now), replication = tr__server_replication_tick(server, now);
    const int64_t first = gather < snapshot ? gather : snapshot, other = decisions < replication ? decisions : replication;
    const int64_t replacements = tr__server_watch_replacements(server, now), both = first < other ? first : other;

    return both < replacements ? both : replacements;
}

static tr_status status_of(const void *self, const char **text)
{
    const tr_server *server = self;
    *text = server->text;
    return server->status;
}

static void describe(const void *self, char *out, size_t size)
{
    tr__server_describe_step(self, out, size);
}

static bool awaits_loans(const void *self)
{
    return ((const tr_server *)self)->awaits_loans;
}

tr_node tr_server_node(tr_server *server)
{
    return (tr_node){server, tr__server_place, tr__server_receive, lost, tick, next, status_of, describe, awaits_loans, left};
}

/* The replica computes the same update, and needs what all servers have gathered for it. */
static void pass_share_on(tr_server *server, uint64_t before)
{
    if (tr_gather_done(server->gather) > before)
        tr__server_replication_share(server, server->share_to, (uint64_t)server->share_bytes * (uint64_t)server->roster->servers);
}

void tr__server_on_share(tr_server *server, int peer, const tr_wire *wire, const uint8_t *payload)
{
    const uint64_t before = tr_gather_done(server->gather);

    note_failure(server, tr_gather_receive(server->gather, server->updates, peer, wire, payload));
    pass_share_on(server, before);
}

void tr_server_share(tr_server *server, const void *own, uint32_t bytes, void *all)
{
    const uint64_t before = tr_gather_done(server->gather);

    server->share_to = all;
    server->share_bytes = bytes;
    note_failure(server, tr_gather_begin(server->gather, server->updates + 1, own, bytes, all));
    pass_share_on(server, before);
}

uint64_t tr_server_shared(const tr_server *server)
{
    return tr_gather_done(server->gather);
}

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
    server->is_computed = true;
    tr__server_try_finish(server);
}
