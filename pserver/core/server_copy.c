/* server_copy.c - how a replica gets the state of its server.
 *
 * When work begins it says what it has. If that is the server's state, as after most new starts of a job, it goes on from there; otherwise
 * it gets all. Until that is done nothing is applied.
 *
 * In the middle of the job training does not wait: the store freezes the state of the moment, as for a checkpoint, and it is copied
 * from there. What is applied meanwhile comes behind it (server_replication.c). A table has one such moment, and a
 * checkpoint goes first: then the copy begins anew behind it.
 *
 * What must stay true: between the freezing and the first message behind the copy (the commit of that moment) nothing is applied. */
#include "framework/memory.h"
#include "pserver/core/server_board.h"
#include "pserver/core/server_state.h"
#include "pserver/core/server_tasks.h"
#include "pserver/util/crc32c.h"

#include <stdlib.h>
#include <string.h>

/* What is on its way of a copy at most. */
static const uint64_t WINDOW = (uint64_t)64 << 20;

/* The Setup as it came. */
static uint8_t *pack_setup(const tr_server *server, size_t *size)
{
    *size = trireme__pserver__setup__get_packed_size(server->setup);
    uint8_t *payload = tr__must_bytes(*size + 1);
    trireme__pserver__setup__pack(server->setup, payload);
    return payload;
}

static bool has_state(const tr_server *server, const Trireme__Pserver__Replica *word, const uint8_t *setup, size_t size)
{
    return word->has_updates && word->setup == tr_crc32c(0, setup, size) &&
           (word->updates == server->updates || word->updates == server->updates + 1);
}

static uint32_t age_of(const tr_server *server, bool raise)
{
    return server->store.age ? server->store.age(server->store.self, raise) : 0;
}

static void copy(tr_server *server, bool has, uint8_t *setup, size_t size)
{
    tr__replication *m = &server->replication;

    if (has) {                                     /* it may be an update ahead, which does not count */
        free(setup);
        setup = tr__server_replication_pack(server, false, &size);
    }
    tr__server_replication_put(server, &(tr_wire){.kind = has ? TR_WIRE_COPY_KEEP : TR_WIRE_COPY_STATE, .bytes = size,
                                             .copy = {.update = server->updates, .age = age_of(server, !has)}}, setup, setup);
    m->phase = TR__REPLICATION_COPYING;
    m->value = has ? (uint32_t)server->setup->n_values : 0;
    m->table = has ? server->table_count : 0;
    m->shard = 0;
    m->offset = m->caught = m->begun = m->state_bytes = 0;
    for (size_t i = 0; i < server->setup->n_values; i++)
        m->state_bytes += server->setup->values[i]->bytes;
    tr__server_replicate_tasks(server);
    tr__server_replicate_board(server);
    tr__server_replication_commit(server);
}

/* Freeze the state when that can be. */
static void freeze(tr_server *server)
{
    tr__replication *m = &server->replication;

    if (m->is_freezing || server->is_updating || server->snapshot.phase == TR__SNAPSHOT_TAKING ||
        (server->snapshot.phase == TR__SNAPSHOT_WRITING && server->table_count))
        return;
    m->is_freezing = true;
    server->store.freeze(server->store.self);
}

void tr__server_copy_begin(tr_server *server)
{
    tr__replication                      *m = &server->replication;
    const Trireme__Pserver__Replica *word = m->word;
    size_t                           size;

    if (m->phase != TR__REPLICATION_ASKING || !word || !server->is_running)
        return;
    if (word->is_broken) {
        m->is_useless[tr_replica_stream_peer(m->stream)] = true;
        tr__server_replication_drop(server);
        return;
    }
    uint8_t   *setup = pack_setup(server, &size);
    const bool has = !m->is_late && has_state(server, word, setup, size);
    if (has || !m->may_be_late || !server->store.freeze) {
        copy(server, has, setup, size);
        return;
    }
    free(setup);
    m->is_late = true;
    freeze(server);
    tr__server_apply_next(server);
}

void tr_server_frozen(tr_server *server, tr_status status)
{
    tr__replication *m = &server->replication;
    size_t      size;

    m->is_freezing = false;
    if (status != TR_OK) {
        m->is_hopeless = true;
        if (m->phase == TR__REPLICATION_ASKING && m->is_late)
            tr__server_replication_drop(server);
    } else if (m->phase == TR__REPLICATION_ASKING && m->is_late && m->word) {
        m->is_frozen = true;
        uint8_t *setup = pack_setup(server, &size);
        copy(server, false, setup, size);
    } else {
        server->store.thaw(server->store.self);
    }
    tr__server_snapshot_go_on(server);
    tr__server_apply_next(server);
}

static void thaw(tr_server *server)
{
    if (server->replication.is_frozen)
        server->store.thaw(server->store.self);
    server->replication.is_frozen = false;
}

void tr__server_copy_end(tr_server *server)
{
    tr__replication *m = &server->replication;

    thaw(server);
    tr_outbox_deinit(&m->behind);
    m->behind = (tr_outbox){0};
    m->behind_bytes = 0;
    m->is_late = false;
}

bool tr__server_copy_makes_way(tr_server *server)
{
    tr__replication *m = &server->replication;

    if (m->is_freezing)
        return false;                              /* tr_server_frozen sees to it */
    if (m->is_frozen && server->table_count) {
        tr__server_copy_end(server);
        m->is_late = true;
        m->phase = TR__REPLICATION_ASKING;
    }
    return true;
}

bool tr__server_copy_lets_apply(const tr_server *server)
{
    const tr__replication *m = &server->replication;

    if (m->is_freezing)
        return false;
    if (m->phase == TR__REPLICATION_NONE || m->phase == TR__REPLICATION_LIVE)
        return true;
    if (!m->is_late)
        return false;
    if (m->phase == TR__REPLICATION_COPYING)
        return m->behind_bytes <= m->state_bytes + WINDOW;
    return m->phase == TR__REPLICATION_ASKING || m->caught >= 2 * m->begun;
}

/* The next piece of a value. */
static void copy_value(tr_server *server)
{
    tr__replication    *m = &server->replication;
    const uint64_t bytes = server->setup->values[m->value]->bytes, left = bytes - m->offset;
    const uint64_t n = left < server->chunk_bytes ? left : server->chunk_bytes;
    const uint8_t *data = m->is_frozen ? server->store.frozen_value(server->store.self, m->value)
                                       : server->store.value(server->store.self, m->value);
    void          *owned = m->is_frozen && n ? memcpy(tr__must_bytes(n), data + m->offset, n) : NULL;

    if (n)
        tr__server_replication_put(server, &(tr_wire){.kind = TR_WIRE_VALUE, .bytes = n, .value = {.offset = m->offset, .value = m->value}},
                              owned ? owned : data + m->offset, owned);
    m->offset += n;
    if (m->offset == bytes) {
        m->offset = 0;
        m->value++;
    }
}

/* The next virtual shard of a table: its rows, and its keys that have none yet. */
static tr_status copy_shard(tr_server *server)
{
    tr__replication                    *m = &server->replication;
    const Trireme__Pserver__Table *t = server->setup->tables[m->table];
    void                          *rows;
    uint64_t                       bytes;

    for (uint32_t part = 0; part < 2 && m->shard < t->shard_count; part++) {
        TR_TRY((m->is_frozen ? server->store.frozen_rows : server->store.read_rows)(
            server->store.self, m->table, t->first_shard + m->shard, part == 1, &rows, &bytes));
        if (bytes)
            tr__server_replication_put(server, &(tr_wire){.kind = TR_WIRE_WRITE_ROWS, .bytes = bytes,
                                                     .write_rows = {.table = m->table, .has_candidates = part == 1}}, rows, rows);
        else
            free(rows);
    }
    if (++m->shard >= t->shard_count) {
        m->shard = 0;
        m->table++;
    }
    return TR_OK;
}

void tr__server_copy_feed(tr_server *server)
{
    tr__replication *m = &server->replication;

    if (m->phase == TR__REPLICATION_ASKING && m->is_late)
        tr__server_copy_begin(server);
    while (m->phase == TR__REPLICATION_COPYING && tr_replica_stream_bytes(m->stream) < WINDOW) {
        if (m->table < server->table_count) {
            if (copy_shard(server) != TR_OK) {
                m->is_hopeless = true;
                tr__server_replication_drop(server);
                return;
            }
        } else if (m->value < server->setup->n_values) {
            copy_value(server);
        } else {
            m->phase = TR__REPLICATION_CATCHING_UP;
            m->begun = 0;
            thaw(server);
        }
    }
}

