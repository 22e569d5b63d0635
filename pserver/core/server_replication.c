/* server_replication.c - what a server sends to its replica, when it waits for the replica, and how it finds a new one (docs/protocol.md,
 * "Replication").
 *
 * The replica gets the state first (server_copy.c). Then it gets the gradients of each update when the server begins to apply them, and both compute the
 * update. An update is committed, and trainers hear of it, when both have it. So nothing that was acknowledged is lost when one of them dies. The
 * gradients are sent from where they lie, and stay there until the update is over.
 *
 * When the replica dies, the server goes on alone and calls a standby of another host (REPLICA_CALL). A standby follows the first server that calls it: it
 * tells all ranks so (REPLICA_DONE) and sends its REPLICA_STATE to that server. While the new replica gets the state, the server does not wait for it: copies of
 * the gradients follow, for one update at a time, because the replica computes one at a time. When the replica has computed all of them, the
 * server tells it that it counts (COPY_LIVE) and waits for it in every update that begins from then on.
 *
 * A replica that is slower than its server must catch up in the end: once it has the state, the server begins one update for every two that the replica has
 * made. */
#include "framework/memory.h"
#include "pserver/core/server_state.h"
#include "pserver/core/server_tasks.h"
#include "pserver/util/crc32c.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Whom a server has called says so soon, or never heard it: nanoseconds. */
static const int64_t CALL_AGAIN = 500000000;

void tr__server_replication_new(tr_server *server)
{
    const int rank = tr_roster_replica_of(server->roster, server->self);

    server->replication.called = -1;
    server->replication.is_useless = tr__must_array((size_t)server->roster->size, sizeof *server->replication.is_useless);
    if (rank < 0)
        return;
    server->replication.stream = tr_replica_stream_new(server->roster->self, rank);
    server->replication.phase = TR__REPLICATION_ASKING;
}

void tr__server_replication_free(tr_server *server)
{
    tr__replication *m = &server->replication;

    if (m->word)
        trireme__pserver__replica__free_unpacked(m->word, NULL);
    tr_replica_stream_free(m->stream);
    for (int i = 0; i < m->gone_count; i++)
        tr_replica_stream_free(m->gone[i]);
    tr_outbox_deinit(&m->behind);
    free(m->gone);
    free(m->is_useless);
}

void tr_server_set_retry(tr_server *server, int64_t retry)
{
    server->retry = retry;
    if (server->replication.stream)
        tr_replica_stream_set_retry(server->replication.stream, retry);
}

bool tr__server_replica_done(const tr_server *server, int rank)
{
    return server->replication.phase != TR__REPLICATION_NONE && tr_replica_stream_peer(server->replication.stream) == rank;
}

/* Who takes this server's place is to know whether it has a replica, and which. What one before had is old. */
static void note(tr_server *server, int rank)
{
    if (!server->is_running)
        return;
    if (rank < 0 && server->store.age)
        server->store.age(server->store.self, true);
    if (server->store.set_replica_rank)
        server->store.set_replica_rank(server->store.self, rank);
}

/* The server goes on alone. What was on its way stays where it is: the transport may look at it yet. */
void tr__server_replication_drop(tr_server *server)
{
    server->replication.phase = TR__REPLICATION_NONE;
    tr__server_copy_end(server);
    note(server, -1);
    tr__server_try_finish(server);
    tr__server_apply_next(server);
}

/* == the stream ================================================================================ */

static bool is_update(const tr_wire *wire)
{
    return wire->kind == TR_WIRE_REPLICA_UPDATE;
}

void tr__server_replication_put(tr_server *server, const tr_wire *wire, const void *payload, void *owned)
{
    tr__replication *m = &server->replication;

    m->last_seq = tr_replica_stream_put(m->stream, wire, payload, owned);
    if (is_update(wire)) {
        m->update_seq = m->last_seq;
        m->update = wire->replica_update.update;
    }
}

/* Behind the state, as long as that is on its way: until then the payload may change. */
static void put(tr_server *server, const tr_wire *wire, const void *payload, void *owned)
{
    tr__replication *m = &server->replication;

    if (m->phase == TR__REPLICATION_LIVE) {
        tr__server_replication_put(server, wire, payload, owned);
        return;
    }
    if (!owned && wire->bytes)
        owned = memcpy(tr__must_bytes(wire->bytes), payload, wire->bytes);
    tr_outbox_put(&m->behind, &(tr_message){.wire = *wire, .payload = owned, .owned = owned});
    m->behind_bytes += wire->bytes;
}

/* The update that a message of the stream belongs to, which is in front of the fields of all of them. */
static uint64_t update_of(const tr_wire *wire)
{
    static_assert(offsetof(tr_form_replica_block, update) == 0 && offsetof(tr_form_replica_rows, update) == 0 &&
                      offsetof(tr_form_replica_update, update) == 0,
                  "an update comes first");
    return wire->replica_update.update;
}

/* The replica takes nothing of the next update before it has made the last one, and nothing that was said when this one was made here;
 * but what servers have gathered it needs to make it. */
static bool may_go(const tr__replication *m, const tr_wire *wire)
{
    return wire->kind == TR_WIRE_REPLICA_SHARES || update_of(wire) < m->update || tr_replica_stream_done(m->stream) >= m->update_seq;
}

static void catch_up(tr_server *server)
{
    tr__replication *m = &server->replication;
    tr_message  message;

    while (m->phase == TR__REPLICATION_CATCHING_UP && m->behind.count && may_go(m, &m->behind.item[m->behind.first].wire)) {
        tr_outbox_take(&m->behind, &message);
        m->behind_bytes -= message.wire.bytes;
        m->caught += is_update(&message.wire);
        tr__server_replication_put(server, &message.wire, message.payload, message.owned);
    }
    /* One that has made no update yet could not go back by one. */
    if (m->phase == TR__REPLICATION_CATCHING_UP && !m->behind.count && tr_replica_stream_done(m->stream) >= m->last_seq &&
        (m->caught || !m->is_late)) {
        m->phase = TR__REPLICATION_LIVE;
        note(server, tr_replica_stream_peer(m->stream));
        const uint32_t age = server->store.age ? server->store.age(server->store.self, false) : 0;
        tr__server_replication_put(server, &(tr_wire){.kind = TR_WIRE_COPY_LIVE, .copy_age = {.age = age}}, NULL, NULL);
        tr__server_apply_next(server);
    }
}

static bool gets_updates(const tr_server *server)
{
    return server->replication.phase >= TR__REPLICATION_COPYING;
}

uint8_t *tr__server_replication_pack(tr_server *server, bool with_update, size_t *size)
{
    const tr_commit          commit = tr__server_commit_of(server, with_update);
    const size_t             trainers = (size_t)server->trainer_count;
    Trireme__Pserver__Update update = TRIREME__PSERVER__UPDATE__INIT;
    protobuf_c_boolean      *takes_part = tr__must_array(trainers, sizeof *takes_part);

    for (size_t i = 0; i < trainers; i++)
        takes_part[i] = with_update && server->takes_part[i];
    update.updates = commit.updates;
    update.decided = commit.decided;
    update.decisions = commit.decisions;
    update.n_settled = update.n_takes_part = trainers;
    update.settled = (uint64_t *)(uintptr_t)commit.settled;
    update.takes_part = takes_part;
    update.trainer = (ProtobufCBinaryData){trainers, (uint8_t *)(uintptr_t)commit.trainer};
    *size = trireme__pserver__update__get_packed_size(&update);
    uint8_t *payload = tr__must_bytes(*size + 1);
    trireme__pserver__update__pack(&update, payload);
    free(takes_part);
    return payload;
}

static void put_update(tr_server *server, bool with_update)
{
    size_t   size;
    uint8_t *payload = tr__server_replication_pack(server, with_update, &size);

    put(server, &(tr_wire){.kind = with_update ? TR_WIRE_REPLICA_UPDATE : TR_WIRE_REPLICA_COMMIT, .bytes = size,
                           .replica_update = {.update = server->updates + with_update}}, payload, payload);
}

/* == updates =================================================================================== */

bool tr__server_replication_is_ready(const tr_server *server)
{
    return tr__server_copy_lets_apply(server);
}

/* A whole array in pieces: a gradient, or the parameters that it was computed with. */
static void put_block(tr_server *server, uint32_t index, const uint8_t *data, bool is_pulled)
{
    const uint64_t bytes = server->block[index].bytes;

    for (uint64_t offset = 0; offset < bytes; offset += server->chunk_bytes) {
        const uint64_t left = bytes - offset;
        put(server, &(tr_wire){.kind = TR_WIRE_REPLICA_PUSH, .bytes = left < server->chunk_bytes ? left : server->chunk_bytes,
                               .replica_block = {.update = server->updates + 1, .offset = offset, .block = index,
                                                 .is_pulled = is_pulled}}, data + offset, NULL);
    }
}

static void put_rows(tr_server *server, uint32_t table, const tr_rows_part *part)
{
    const uint64_t row = sizeof(int64_t) + (uint64_t)server->table[table].width * sizeof(float);

    put(server, &(tr_wire){.kind = TR_WIRE_REPLICA_ROWS, .bytes = (uint64_t)part->count * row,
                           .replica_rows = {.update = server->updates + 1, .weight = part->weight, .table = table,
                                            .trainer = (uint32_t)part->trainer}}, part->keys, NULL);
}

void tr__server_replication_update(tr_server *server, const tr_update *update)
{
    if (!gets_updates(server))
        return;
    for (uint32_t i = 0; i < server->block_count; i++) {
        put_block(server, i, update->grad[i], false);
        if (update->compensation > 0)
            put_block(server, i, update->pulled[i], true);
    }
    for (uint32_t t = 0; t < server->table_count; t++)
        for (int64_t i = 0; i < update->rows[t].count; i++)
            put_rows(server, t, &update->rows[t].part[i]);
    put_update(server, true);
    server->replication.begun++;
    catch_up(server);
}

bool tr__server_replication_has_update(const tr_server *server)
{
    return server->replication.phase != TR__REPLICATION_LIVE || tr_replica_stream_done(server->replication.stream) >= server->replication.update_seq;
}

void tr__server_replication_commit(tr_server *server)
{
    if (gets_updates(server))
        put_update(server, false);
}

void tr__server_replication_share(tr_server *server, const void *all, uint64_t bytes)
{
    if (!gets_updates(server))
        return;
    void *copy = memcpy(tr__must_bytes(bytes + 1), all, bytes);
    put(server, &(tr_wire){.kind = TR_WIRE_REPLICA_SHARES, .bytes = bytes, .replica_update = {.update = server->updates + 1}}, copy, copy);
}

/* Something of server 0 alone. */
static void put_own(tr_server *server, tr_wire_kind kind, uint8_t *payload, size_t size)
{
    if (gets_updates(server))
        put(server, &(tr_wire){.kind = kind, .bytes = size, .replica_update = {.update = server->updates}}, payload, payload);
    else
        free(payload);
}

void tr__server_replication_tasks(tr_server *server, uint8_t *state, size_t size)
{
    put_own(server, TR_WIRE_REPLICA_TASKS, state, size);
}

void tr__server_replication_post(tr_server *server, uint8_t *packed, size_t size)
{
    put_own(server, TR_WIRE_REPLICA_POST, packed, size);
}

/* == messages ================================================================================== */

static void on_ack(tr_server *server, uint64_t seq)
{
    tr__replication *m = &server->replication;

    tr_replica_stream_acked(m->stream, seq);
    catch_up(server);
    tr__server_try_finish(server);
    if (m->phase == TR__REPLICATION_CATCHING_UP)
        tr__server_apply_next(server);
}

static void turn_to(tr_server *server, int rank)
{
    tr__replication *m = &server->replication;

    if (m->stream) {
        m->gone = tr__must_realloc(m->gone, ((size_t)m->gone_count + 1) * sizeof *m->gone);
        m->gone[m->gone_count++] = m->stream;
    }
    if (m->word)
        trireme__pserver__replica__free_unpacked(m->word, NULL);
    m->word = NULL;
    m->stream = tr_replica_stream_new(server->roster->self, rank);
    tr_replica_stream_set_retry(m->stream, server->retry);
    m->last_seq = m->update_seq = m->update = 0;
    m->phase = TR__REPLICATION_ASKING;
}

static void say_call(tr_server *server, int rank)
{
    tr_outbox_put(&server->outbox, &(tr_message){
        .peer = rank, .wire = {.kind = TR_WIRE_REPLICA_CALL, .sender = (uint32_t)server->roster->self,
                               .server = {.server = (uint32_t)server->self}}});
}

/* Could this rank be its replica? It may not have been heard yet that it is. */
static bool may_be_replica(const tr_server *server, int rank)
{
    if (rank < 0 || rank >= server->roster->size || rank == server->roster->self)
        return false;
    const tr_rank *r = &server->roster->rank[rank];
    return r->role == TR_ROLE_STANDBY || (r->role == TR_ROLE_REPLICA && (r->index == server->self || r->index >= server->roster->servers));
}

void tr__server_replication_take_over(tr_server *server)
{
    tr__replication *m = &server->replication;
    const int   rank = server->store.replica_rank ? server->store.replica_rank(server->store.self) : -1;

    m->may_be_late = true;
    if (may_be_replica(server, rank) && !tr__server_replica_done(server, rank)) {
        turn_to(server, rank);
        say_call(server, rank);
    }
    if (m->phase != TR__REPLICATION_NONE && server->roster->rank[tr_replica_stream_peer(m->stream)].is_dead)
        m->phase = TR__REPLICATION_NONE;
}

/* It has been called, and this is its word. */
void tr__server_replication_adopt(tr_server *server, int rank, const tr_wire *wire, const uint8_t *payload)
{
    tr__replication *m = &server->replication;

    if (m->phase != TR__REPLICATION_NONE || !server->is_running || server->roster->rank[rank].is_dead || m->is_useless[rank] ||
        tr_roster_replica_of(server->roster, server->self) != rank)
        return;
    turn_to(server, rank);
    m->is_late = m->may_be_late = true;
    tr__server_replication_receive(server, wire, payload);
}

void tr__server_replication_receive(tr_server *server, const tr_wire *wire, const uint8_t *payload)
{
    tr__replication *m = &server->replication;

    if (wire->kind == TR_WIRE_REPLICA_ACK && m->phase > TR__REPLICATION_ASKING)
        on_ack(server, wire->seq);
    if (wire->kind != TR_WIRE_REPLICA_STATE || m->word)
        return;
    m->word = trireme__pserver__replica__unpack(NULL, wire->bytes, payload);
    tr__server_copy_begin(server);
}

void tr__server_replication_begin(tr_server *server)
{
    if (server->replication.phase == TR__REPLICATION_NONE)
        note(server, -1);
    tr__server_copy_begin(server);
}

bool tr__server_replication_next(tr_server *server, tr_message *out)
{
    tr__server_copy_feed(server);
    catch_up(server);
    return server->replication.phase != TR__REPLICATION_NONE && tr_replica_stream_next(server->replication.stream, out);
}

/* A server that has lost its replica, or has got one that is of no use, looks for another one. */
static int64_t call(tr_server *server, int64_t now)
{
    tr__replication *m = &server->replication;

    if (!server->roster->replicas || !server->is_running || server->status != TR_OK || m->is_hopeless || !server->store.freeze ||
        tr_server_is_done(server))
        return INT64_MAX;
    const int known = tr_roster_replica_of(server->roster, server->self);
    const int rank = known >= 0 && !m->is_useless[known] ? known : tr_roster_standby_for_replica(server->roster, server->self, m->is_useless);
    if (rank < 0)
        return INT64_MAX;
    if (rank != m->called || now >= m->call_at) {
        m->called = rank;
        m->call_at = now + (server->retry ? server->retry : CALL_AGAIN);
        say_call(server, rank);
    }
    return m->call_at;
}

int64_t tr__server_replication_tick(tr_server *server, int64_t now)
{
    tr__replication *m = &server->replication;

    if (m->phase == TR__REPLICATION_NONE)
        return call(server, now);
    if (!server->retry)
        return INT64_MAX;
    if (m->phase != TR__REPLICATION_ASKING || m->word)
        return tr_replica_stream_tick(m->stream, now);
    if (!m->asked_at || now - m->asked_at >= server->retry) {
        if (m->asked_at)
            tr__server_say_serving(server, tr_replica_stream_peer(m->stream));
        m->asked_at = now ? now : 1;
    }
    return m->asked_at + server->retry;
}
