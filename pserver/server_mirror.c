/* server_mirror.c - what a server tells its replica, and when it waits for it.
 *
 * The replica gets what the server has when work begins, or says that it has it; until that is done nothing is applied. Then it
 * gets the gradients of each update as the server begins to apply it, and both compute. An update counts, and
 * trainers hear of it, when both have it: so nothing that was acknowledged is lost with either of them.
 *
 * The payloads are the gradients where they lie: they stay until the update is over. */
#include "pserver/crc32c.h"
#include "pserver/server_state.h"
#include "pserver/server_tasks.h"

#include <stdlib.h>
#include <string.h>

/* What is on its way of a copy at most. */
static const uint64_t WINDOW = (uint64_t)64 << 20;
void tr__server_mirror_new(tr_server *server)
{
    const int rank = tr_roster_replica_of(server->roster, server->self);

    if (rank >= 0)
        server->mirror = (tr__mirror){.stream = tr_mirror_new(server->roster->self, rank), .phase = TR__MIRROR_ASKING};
}

void tr__server_mirror_free(tr_server *server)
{
    if (server->mirror.word)
        trireme__pserver__replica__free_unpacked(server->mirror.word, NULL);
    tr_mirror_free(server->mirror.stream);
}

void tr_server_set_retry(tr_server *server, int64_t retry)
{
    server->retry = retry;
    if (server->mirror.stream)
        tr_mirror_set_retry(server->mirror.stream, retry);
}

bool tr__server_mirror_is(const tr_server *server, int rank)
{
    return server->mirror.phase != TR__MIRROR_NONE && tr_mirror_peer(server->mirror.stream) == rank;
}

/* The server goes on alone. What was on its way stays where it is: the transport may look at it yet. */
void tr__server_mirror_drop(tr_server *server)
{
    server->mirror.phase = TR__MIRROR_NONE;
    tr__server_try_finish(server);
    tr__server_apply_next(server);
}

/* == the state ================================================================================= */

static void put(tr_server *server, const tr_wire *wire, const void *payload, void *owned)
{
    server->mirror.last_seq = tr_mirror_put(server->mirror.stream, wire, payload, owned);
}

/* What counts now, or with the update that is being applied. */
static void put_update(tr_server *server, bool with_update)
{
    const tr_commit          commit = tr__server_commit_of(server, with_update);
    const size_t             trainers = (size_t)server->trainer_count;
    Trireme__Pserver__Update update = TRIREME__PSERVER__UPDATE__INIT;
    protobuf_c_boolean      *takes_part = calloc(trainers, sizeof *takes_part);

    for (size_t i = 0; i < trainers; i++)
        takes_part[i] = with_update && server->takes_part[i];
    update.updates = commit.updates;
    update.decided = commit.decided;
    update.verdicts = commit.verdicts;
    update.n_settled = update.n_takes_part = trainers;
    update.settled = (uint64_t *)(uintptr_t)commit.settled;
    update.takes_part = takes_part;
    update.trainer = (ProtobufCBinaryData){trainers, (uint8_t *)(uintptr_t)commit.trainer};
    const size_t size = trireme__pserver__update__get_packed_size(&update);
    uint8_t     *payload = malloc(size + 1);
    trireme__pserver__update__pack(&update, payload);
    put(server, &(tr_wire){.kind = TR_WIRE_UPDATE, .part = !with_update, .bytes = size}, payload, payload);
    free(takes_part);
}

/* The Setup as it came. */
static uint8_t *pack_setup(const tr_server *server, size_t *size)
{
    *size = trireme__pserver__setup__get_packed_size(server->setup);
    uint8_t *payload = malloc(*size + 1);
    trireme__pserver__setup__pack(server->setup, payload);
    return payload;
}

static bool has_state(const tr_server *server, const Trireme__Pserver__Replica *word, const uint8_t *setup, size_t size)
{
    return word->has_updates && word->setup == tr_crc32c(0, setup, size) &&
           (word->updates == server->updates || word->updates == server->updates + 1);
}

static void begin(tr_server *server)
{
    tr__mirror                      *m = &server->mirror;
    const Trireme__Pserver__Replica *word = m->word;
    size_t                           size;

    if (m->phase != TR__MIRROR_ASKING || !word || !server->is_running)
        return;
    if (word->is_broken) {
        tr__server_mirror_drop(server);
        return;
    }
    uint8_t   *setup = pack_setup(server, &size);
    const bool has = has_state(server, word, setup, size);
    put(server, &(tr_wire){.kind = TR_WIRE_COPY, .part = has, .step = server->updates, .bytes = has ? 0 : size},
        has ? NULL : setup, has ? NULL : setup);
    if (has)
        free(setup);
    m->phase = TR__MIRROR_COPYING;
    if (has) {
        m->value = (uint32_t)server->setup->n_values;
        m->table = server->table_count;
    }
}

/* The next piece of a value. */
static void copy_value(tr_server *server)
{
    tr__mirror    *m = &server->mirror;
    const uint64_t bytes = server->setup->values[m->value]->bytes, left = bytes - m->offset;
    const uint64_t n = left < server->chunk_bytes ? left : server->chunk_bytes;
    const uint8_t *data = server->store.value(server->store.self, m->value);

    if (n)
        put(server, &(tr_wire){.kind = TR_WIRE_VALUE, .block = m->value, .offset = m->offset, .bytes = n}, data + m->offset, NULL);
    m->offset += n;
    if (m->offset == bytes) {
        m->offset = 0;
        m->value++;
    }
}

/* The next virtual shard of a table: its rows, and its keys that have none yet. */
static tr_status copy_shard(tr_server *server)
{
    tr__mirror                    *m = &server->mirror;
    const Trireme__Pserver__Table *t = server->setup->tables[m->table];
    void                          *rows;
    uint64_t                       bytes;

    for (uint32_t part = 0; part < 2 && m->shard < t->shard_count; part++) {
        TR_TRY(server->store.read_rows(server->store.self, m->table, t->first_shard + m->shard, part == 1, &rows, &bytes));
        if (bytes)
            put(server, &(tr_wire){.kind = TR_WIRE_WRITE_ROWS, .block = m->table, .part = part, .bytes = bytes}, rows, rows);
        else
            free(rows);
    }
    if (++m->shard >= t->shard_count) {
        m->shard = 0;
        m->table++;
    }
    return TR_OK;
}

/* Copy while there is room on the way. */
static void feed(tr_server *server)
{
    tr__mirror *m = &server->mirror;

    while (m->phase == TR__MIRROR_COPYING && tr_mirror_bytes(m->stream) < WINDOW) {
        if (m->table < server->table_count) {
            if (copy_shard(server) != TR_OK) {
                tr__server_mirror_drop(server);
                return;
            }
        } else if (m->value < server->setup->n_values) {
            copy_value(server);
        } else {
            m->phase = TR__MIRROR_ENDING;
            tr__server_tasks_mirror(server);
            put_update(server, false);
        }
    }
}

/* == updates =================================================================================== */

/* May an update begin? It has what was there before. */
bool tr__server_mirror_is_ready(const tr_server *server)
{
    return server->mirror.phase == TR__MIRROR_NONE || server->mirror.phase == TR__MIRROR_LIVE;
}

/* A whole array in pieces; `part` 1: parameters that were pulled. */
static void put_block(tr_server *server, uint32_t index, const uint8_t *data, uint32_t part)
{
    const uint64_t bytes = server->block[index].bytes;

    for (uint64_t offset = 0; offset < bytes; offset += server->chunk_bytes) {
        const uint64_t left = bytes - offset;
        put(server, &(tr_wire){.kind = TR_WIRE_PUSH, .block = index, .part = part, .offset = offset, .step = server->updates + 1,
                               .bytes = left < server->chunk_bytes ? left : server->chunk_bytes}, data + offset, NULL);
    }
}

static void put_rows(tr_server *server, uint32_t table, const tr_rows_part *part)
{
    const uint64_t row = sizeof(int64_t) + (uint64_t)server->table[table].width * sizeof(float);

    put(server, &(tr_wire){.kind = TR_WIRE_PUSH_ROWS, .block = table, .part = (uint32_t)part->trainer, .weight = part->weight,
                           .step = server->updates + 1, .bytes = (uint64_t)part->count * row}, part->keys, NULL);
}

void tr__server_mirror_update(tr_server *server, const tr_update *update)
{
    if (server->mirror.phase != TR__MIRROR_LIVE)
        return;
    for (uint32_t i = 0; i < server->block_count; i++) {
        put_block(server, i, update->grad[i], 0);
        if (update->compensation > 0)
            put_block(server, i, update->pulled[i], 1);
    }
    for (uint32_t t = 0; t < server->table_count; t++)
        for (int64_t i = 0; i < update->rows[t].count; i++)
            put_rows(server, t, &update->rows[t].part[i]);
    put_update(server, true);
    server->mirror.update_seq = server->mirror.last_seq;
}

bool tr__server_mirror_has_update(const tr_server *server)
{
    return server->mirror.phase != TR__MIRROR_LIVE || tr_mirror_done(server->mirror.stream) >= server->mirror.update_seq;
}

void tr__server_mirror_commit(tr_server *server)
{
    if (server->mirror.phase == TR__MIRROR_LIVE)
        put_update(server, false);
}

void tr__server_mirror_share(tr_server *server, const void *all, uint64_t bytes)
{
    if (server->mirror.phase != TR__MIRROR_LIVE)
        return;
    void *copy = memcpy(malloc(bytes + 1), all, bytes);
    put(server, &(tr_wire){.kind = TR_WIRE_UPDATE, .part = 2, .bytes = bytes}, copy, copy);
}

void tr__server_mirror_tasks(tr_server *server, uint8_t *state, size_t size)
{
    if (server->mirror.phase == TR__MIRROR_ENDING || server->mirror.phase == TR__MIRROR_LIVE)
        put(server, &(tr_wire){.kind = TR_WIRE_UPDATE, .part = 3, .bytes = size}, state, state);
    else
        free(state);
}

/* == messages ================================================================================== */

static void on_ack(tr_server *server, uint64_t seq)
{
    tr__mirror *m = &server->mirror;

    tr_mirror_acked(m->stream, seq);
    if (m->phase == TR__MIRROR_ENDING && tr_mirror_done(m->stream) >= m->last_seq) {
        m->phase = TR__MIRROR_LIVE;
        tr__server_apply_next(server);
    }
    tr__server_try_finish(server);
}

void tr__server_mirror_receive(tr_server *server, const tr_wire *wire, const uint8_t *payload)
{
    tr__mirror *m = &server->mirror;

    if (wire->kind == TR_WIRE_ACK && m->phase > TR__MIRROR_ASKING)
        on_ack(server, wire->seq);
    if (wire->kind != TR_WIRE_REPLICA || m->word)
        return;
    m->word = trireme__pserver__replica__unpack(NULL, wire->bytes, payload);
    begin(server);
}

void tr__server_mirror_begin(tr_server *server)
{
    begin(server);
}

bool tr__server_mirror_next(tr_server *server, tr_message *out)
{
    feed(server);
    return server->mirror.phase != TR__MIRROR_NONE && tr_mirror_next(server->mirror.stream, out);
}

int64_t tr__server_mirror_tick(tr_server *server, int64_t now)
{
    tr__mirror *m = &server->mirror;

    if (m->phase == TR__MIRROR_NONE || !server->retry)
        return INT64_MAX;
    if (m->phase != TR__MIRROR_ASKING || m->word)
        return tr_mirror_tick(m->stream, now);
    if (!m->asked_at || now - m->asked_at >= server->retry) {
        if (m->asked_at)
            tr__server_say_serving(server, tr_mirror_peer(m->stream));
        m->asked_at = now ? now : 1;
    }
    return m->asked_at + server->retry;
}
