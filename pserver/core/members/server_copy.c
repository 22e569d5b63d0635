/* server_copy.c - see server_copy.h. */
#include "pserver/core/members/server_copy.h"

#include "framework/base/memory.h"
#include "pserver/core/members/server_serving.h"
#include "pserver/core/snapshots/server_board.h"
#include "pserver/core/snapshots/server_replication.h"
#include "pserver/core/snapshots/server_snapshots.h"
#include "pserver/core/snapshots/server_tasks.h"
#include "pserver/core/updates/server_updates.h"
#include "storage/util/crc32c.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* The legal moves: THAWED -> FREEZING -> FROZEN -> THAWED, and FREEZING -> THAWED where the store cannot freeze. */
typedef enum frost {
    THAWED,
    FREEZING,                         /* the store is freezing its state */
    FROZEN,                           /* the copy reads the store's frozen state */
} frost;

struct tr__copying {
    Trireme__Pserver__Replica *report;  /* the replica's REPLICA_STATE; NULL: it has not come yet */
    int64_t   asked_at;               /* when the replica was last asked for its state; 0: never */
    bool      may_be_late;            /* the replica may get the state while updates continue, because the job has run before */
    frost     frost;                  /* of the store's state */
    bool      is_hopeless;            /* this store cannot freeze its state */
    uint32_t  value, table, shard;    /* the next value, from `offset` on; the next table and its shard */
    uint64_t  offset, state_bytes;
    int       called;                 /* the rank that was called to become the replica; -1: none */
    int64_t   call_at;                /* time of the next call */
    bool     *is_useless;             /* rank by rank: this rank has failed as a replica */
};

/* A call that has no answer after so many nanoseconds is repeated. */
static const int64_t CALL_AGAIN = 500000000;
/* The limit of unacknowledged bytes of a state. */
static const uint64_t WINDOW = (uint64_t)64 << 20;

void tr__copy_new(tr_server *server)
{
    tr__copying *c = server->copying = tr__must_alloc(sizeof *c);

    c->called = -1;
    c->is_useless = tr__must_array((size_t)server->roster->size, sizeof *c->is_useless);
}

static void forget_report(tr__copying *c)
{
    if (c->report)
        trireme__pserver__replica__free_unpacked(c->report, NULL);
    c->report = NULL;
}

void tr__copy_free(tr_server *server)
{
    forget_report(server->copying);
    free(server->copying->is_useless);
    free(server->copying);
}

bool tr__copy_is_freezing(const tr_server *server)
{
    return server->copying->frost == FREEZING;
}

/* == the state that is frozen ================================================================== */

static void work(tr_server *server, tr_effect_kind kind)
{
    tr_effects_add(&server->effects, kind);
}

static void thaw(tr_server *server)
{
    if (server->copying->frost != FROZEN)
        return;
    work(server, TR_EFFECT_THAW);
    server->copying->frost = THAWED;
}

/* Freeze the state if nothing prevents it now. */
static void freeze(tr_server *server)
{
    const tr__snapshot_phase phase = tr__snapshots_phase(server);

    if (server->copying->frost == FREEZING || tr__updates_is_updating(server) || phase == TR__SNAPSHOT_TAKING ||
        (phase == TR__SNAPSHOT_WRITING && server->table_count))
        return;
    assert(server->copying->frost == THAWED);
    server->copying->frost = FREEZING;
    work(server, TR_EFFECT_FREEZE);
}

/* == beginning ================================================================================= */

/* Pack the job's Setup for the replica. */
static uint8_t *pack_setup(const tr_server *server, size_t *size)
{
    *size = trireme__pserver__setup__get_packed_size(server->setup);
    uint8_t *payload = tr__must_bytes(*size + 1);
    trireme__pserver__setup__pack(server->setup, payload);
    return payload;
}

static bool has_state(const tr_server *server, const Trireme__Pserver__Replica *report, const uint8_t *setup, size_t size)
{
    return report->has_updates && report->setup == tr_crc32c(0, setup, size) &&
           (report->updates == server->updates || report->updates == server->updates + 1);
}

static uint32_t generation_of(const tr_server *server, bool raise)
{
    return server->store.generation ? server->store.generation(server->store.self, raise) : 0;
}

/* Begin the stream of state: COPY_KEEP if the replica `has` the state, else COPY_STATE. The replica may be an update ahead; it undoes that
 * update. */
static void begin_state(tr_server *server, bool has, uint8_t *setup, size_t size)
{
    tr__copying *c = server->copying;

    if (has) {
        free(setup);
        setup = tr__replication_pack(server, false, &size);
    }
    tr__replication_put(server, &(tr_wire){.kind = has ? TR_WIRE_COPY_KEEP : TR_WIRE_COPY_STATE, .bytes = size,
                                           .copy = {.update = server->updates, .generation = generation_of(server, !has)}}, setup, setup);
    tr__replication_begin_state(server);
    c->value = has ? (uint32_t)server->setup->n_values : 0;
    c->table = has ? server->table_count : 0;
    c->shard = 0;
    c->offset = c->state_bytes = 0;
    for (size_t i = 0; i < server->setup->n_values; i++)
        c->state_bytes += server->setup->values[i]->bytes;
    tr__tasks_replicate(server);
    tr__board_replicate(server);
    tr__replication_send_settled(server);
}

static void drop(tr_server *server)
{
    thaw(server);
    tr__replication_drop(server);
}

void tr__copy_drop_replica(tr_server *server)
{
    drop(server);
}

void tr__copy_advance(tr_server *server)
{
    tr__copying *c = server->copying;
    size_t       size;

    if (tr__replication_phase_of(server) != TR__REPLICATION_ASKING || !c->report || !server->is_running)
        return;
    if (c->report->is_broken) {
        c->is_useless[tr__replication_peer(server)] = true;
        drop(server);
        return;
    }
    uint8_t   *setup = pack_setup(server, &size);
    const bool has = !tr__replication_is_late(server) && has_state(server, c->report, setup, size);
    if (has || !c->may_be_late || !server->store.freeze) {
        begin_state(server, has, setup, size);
        return;
    }
    free(setup);
    tr__replication_set_late(server, true);
    freeze(server);
    tr__server_due(server, TR__RULE_BEGIN);
}

void tr__copy_frozen(tr_server *server, bool is_frozen)
{
    tr__copying *c = server->copying;
    const bool   is_wanted = tr__replication_phase_of(server) == TR__REPLICATION_ASKING && tr__replication_is_late(server);
    size_t       size;

    assert(c->frost == FREEZING);
    c->frost = is_frozen ? FROZEN : THAWED;
    c->is_hopeless |= !is_frozen;
    if (is_wanted && !is_frozen) {
        drop(server);
    } else if (is_wanted && c->report) {
        uint8_t *setup = pack_setup(server, &size);
        begin_state(server, false, setup, size);
    } else {
        thaw(server);
    }
    tr__snapshots_resume(server);
    tr__server_due(server, TR__RULE_BEGIN);
}

bool tr__copy_yields(tr_server *server)
{
    if (server->copying->frost == FREEZING)
        return false;                              /* tr__copy_frozen lets the snapshot continue */
    if (server->copying->frost == FROZEN && server->table_count) {
        thaw(server);
        tr__replication_restart(server);
        tr__server_due(server, TR__RULE_COPY);
    }
    return true;
}

bool tr__copy_lets_begin(const tr_server *server)
{
    return server->copying->frost != FREEZING && tr__replication_lets_begin(server, server->copying->state_bytes);
}

/* == the state, piece by piece ================================================================= */

/* Put the next piece of a value into the stream. */
static void copy_value(tr_server *server)
{
    tr__copying    *c = server->copying;
    const tr_store *store = &server->store;
    const uint64_t  bytes = server->setup->values[c->value]->bytes, left = bytes - c->offset;
    const uint64_t  n = left < server->chunk_bytes ? left : server->chunk_bytes;
    const uint8_t  *data = c->frost == FROZEN ? store->frozen_value(store->self, c->value) : store->value(store->self, c->value);
    void           *owned = c->frost == FROZEN && n ? memcpy(tr__must_bytes(n), data + c->offset, n) : NULL;

    if (n)
        tr__replication_put(server, &(tr_wire){.kind = TR_WIRE_VALUE, .bytes = n, .value = {.offset = c->offset, .value = c->value}},
                            owned ? owned : data + c->offset, owned);
    c->offset += n;
    if (c->offset == bytes) {
        c->offset = 0;
        c->value++;
    }
}

/* Put the next virtual shard of a table into the stream: its rows, and its counted keys without a row. */
static tr_status copy_shard(tr_server *server)
{
    tr__copying                    *c = server->copying;
    const tr_store                 *store = &server->store;
    const Trireme__Pserver__Table  *t = server->setup->tables[c->table];
    void                           *rows;
    uint64_t                        bytes;

    for (uint32_t part = 0; part < 2 && c->shard < t->shard_count; part++) {
        const uint32_t shard = t->first_shard + c->shard;
        TR_TRY(c->frost == FROZEN ? store->frozen_rows(store->self, c->table, shard, part == 1, &rows, &bytes)
                                  : store->read_rows(store->self, c->table, shard, part == 1, 0, &rows, &bytes));
        if (bytes)
            tr__replication_put(server, &(tr_wire){.kind = TR_WIRE_WRITE_ROWS, .bytes = bytes,
                                                   .write_rows = {.table = c->table, .has_candidates = part == 1}}, rows, rows);
        else
            free(rows);
    }
    if (++c->shard >= t->shard_count) {
        c->shard = 0;
        c->table++;
    }
    return TR_OK;
}

void tr__copy_feed(tr_server *server)
{
    tr__copying *c = server->copying;

    while (tr__replication_phase_of(server) == TR__REPLICATION_COPYING && tr__replication_bytes(server) < WINDOW) {
        if (c->table < server->table_count) {
            if (copy_shard(server) != TR_OK) {
                c->is_hopeless = true;
                drop(server);
            }
        } else if (c->value < server->setup->n_values) {
            copy_value(server);
        } else {
            tr__replication_end_state(server);
            thaw(server);
        }
    }
}

/* == finding a replica ========================================================================= */

void tr__copy_begin(tr_server *server)
{
    if (tr__replication_phase_of(server) == TR__REPLICATION_NONE)
        tr__replication_store_rank(server, -1);
    tr__server_due(server, TR__RULE_COPY);
}

static void turn_to(tr_server *server, int rank)
{
    forget_report(server->copying);
    tr__replication_turn_to(server, rank);
}

static void say_call(tr_server *server, int rank)
{
    tr__server_send(server, rank, (tr_wire){.kind = TR_WIRE_REPLICA_CALL, .server = {.server = (uint32_t)server->self}}, NULL);
}

/* Can this rank be the replica? It may be the replica already, while this server does not know that yet. */
static bool may_be_replica(const tr_server *server, int rank)
{
    if (rank < 0 || rank >= server->roster->size || rank == server->roster->self)
        return false;
    const tr_rank *r = &server->roster->rank[rank];
    return r->role == TR_ROLE_STANDBY || (r->role == TR_ROLE_REPLICA && (r->index == server->self || r->index >= server->roster->servers));
}

void tr__copy_take_over(tr_server *server)
{
    const int rank = server->store.replica_rank ? server->store.replica_rank(server->store.self) : -1;

    server->copying->may_be_late = true;
    if (may_be_replica(server, rank) && !tr__replication_is_replica(server, rank)) {
        turn_to(server, rank);
        say_call(server, rank);
    }
    if (tr__replication_phase_of(server) != TR__REPLICATION_NONE && server->roster->rank[tr__replication_peer(server)].is_dead)
        tr__replication_drop(server);
}

/* Accept this rank, which was called and has answered, as the replica? */
static bool may_adopt(const tr_server *server, int rank)
{
    return tr__replication_phase_of(server) == TR__REPLICATION_NONE && server->is_running && !server->roster->rank[rank].is_dead &&
           !server->copying->is_useless[rank] && tr_roster_replica_of(server->roster, server->self) == rank;
}

void tr__copy_on_state(tr_server *server, int rank, const tr_wire *wire, const uint8_t *payload)
{
    tr__copying *c = server->copying;

    if (!tr__replication_is_replica(server, rank)) {
        if (!may_adopt(server, rank))
            return;
        turn_to(server, rank);
        tr__replication_set_late(server, true);
        c->may_be_late = true;
    }
    if (c->report)
        return;
    c->report = trireme__pserver__replica__unpack(NULL, wire->bytes, payload);
    tr__server_due(server, TR__RULE_COPY);
}

/* If the replica has died or failed, call another rank. Returns the time of the next call. */
static int64_t call(tr_server *server, int64_t now)
{
    tr__copying *c = server->copying;

    if (!server->roster->replicas || !server->is_running || server->status != TR_OK || c->is_hopeless || !server->store.freeze)
        return INT64_MAX;
    const int known = tr_roster_replica_of(server->roster, server->self);
    const int rank = known >= 0 && !c->is_useless[known] ? known
                                                         : tr_roster_standby_for_replica(server->roster, server->self, c->is_useless);
    if (rank < 0)
        return INT64_MAX;
    if (rank != c->called || now >= c->call_at) {
        c->called = rank;
        c->call_at = now + (server->retry ? server->retry : CALL_AGAIN);
        say_call(server, rank);
    }
    return c->call_at;
}

/* Ask the replica for its state by SERVING. Returns the time of the next call. */
static int64_t ask(tr_server *server, int64_t now)
{
    tr__copying *c = server->copying;

    if (!server->retry)
        return INT64_MAX;
    if (!c->asked_at || now - c->asked_at >= server->retry) {
        if (c->asked_at)
            tr__serving_send(server, tr__replication_peer(server));
        c->asked_at = now ? now : 1;
    }
    return c->asked_at + server->retry;
}

int64_t tr__copy_tick(tr_server *server, int64_t now, bool is_done)
{
    if (is_done)
        return INT64_MAX;                          /* the replica leaves after this server, and needs no more messages */
    if (tr__replication_phase_of(server) == TR__REPLICATION_NONE)
        return call(server, now);
    if (tr__replication_phase_of(server) == TR__REPLICATION_ASKING && !server->copying->report)
        return ask(server, now);
    return tr__replication_tick(server, now);
}
