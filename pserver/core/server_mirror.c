/* server_mirror.c - what a server tells its replica, when it waits for it, and how it finds another one.
 *
 * The replica gets the state (server_copy.c), and then the gradients of each update as the server begins to apply it, and both
 * compute. An update counts, and trainers hear of it, when both have it: so nothing that was acknowledged is lost with either of
 * them. The payloads are the gradients where they lie: they stay until the update is over.
 *
 * When the replica dies the server goes on alone, and calls a rank that waits on another host (MIRROR_CALL). The first who calls it has it:
 * it tells all ranks so (MIRROR_IS), and its word (REPLICA_STATE) makes it this server's. While it gets the state updates go on without
 * it, and copies of their gradients follow. One update of those is on its way at a time, since the replica computes one at a time. When it
 * has made all it is told that it counts (COPY_LIVE), and every update that begins from then on waits for it.
 *
 * It must not fall back for ever: once it has the state, an update begins here for every two that it has made. */
#include "pserver/core/server_state.h"
#include "pserver/core/server_tasks.h"
#include "pserver/util/crc32c.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Whom a server has called says so soon, or never heard it: nanoseconds. */
static const int64_t CALL_AGAIN = 500000000;

void tr__server_mirror_new(tr_server *server)
{
    const int rank = tr_roster_replica_of(server->roster, server->self);

    server->mirror.called = -1;
    server->mirror.is_useless = calloc((size_t)server->roster->size, sizeof *server->mirror.is_useless);
    if (rank < 0)
        return;
    server->mirror.stream = tr_mirror_new(server->roster->self, rank);
    server->mirror.phase = TR__MIRROR_ASKING;
}

void tr__server_mirror_free(tr_server *server)
{
    tr__mirror *m = &server->mirror;

    if (m->word)
        trireme__pserver__replica__free_unpacked(m->word, NULL);
    tr_mirror_free(m->stream);
    for (int i = 0; i < m->gone_count; i++)
        tr_mirror_free(m->gone[i]);
    tr_outbox_deinit(&m->behind);
    free(m->gone);
    free(m->is_useless);
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

/* Who takes this server's place is to know whether it has a replica, and which. What one before had is old. */
static void note(tr_server *server, int rank)
{
    if (!server->is_running)
        return;
    if (rank < 0 && server->store.age)
        server->store.age(server->store.self, true);
    if (server->store.set_mirror)
        server->store.set_mirror(server->store.self, rank);
}

/* The server goes on alone. What was on its way stays where it is: the transport may look at it yet. */
void tr__server_mirror_drop(tr_server *server)
{
    server->mirror.phase = TR__MIRROR_NONE;
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

void tr__server_mirror_put(tr_server *server, const tr_wire *wire, const void *payload, void *owned)
{
    tr__mirror *m = &server->mirror;

    m->last_seq = tr_mirror_put(m->stream, wire, payload, owned);
    if (is_update(wire)) {
        m->update_seq = m->last_seq;
        m->update = wire->replica_update.update;
    }
}

/* Behind the state, as long as that is on its way: until then the payload may change. */
static void put(tr_server *server, const tr_wire *wire, const void *payload, void *owned)
{
    tr__mirror *m = &server->mirror;

    if (m->phase == TR__MIRROR_LIVE) {
        tr__server_mirror_put(server, wire, payload, owned);
        return;
    }
    if (!owned && wire->bytes)
        owned = memcpy(malloc(wire->bytes), payload, wire->bytes);
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
static bool may_go(const tr__mirror *m, const tr_wire *wire)
{
    return wire->kind == TR_WIRE_REPLICA_SHARES || update_of(wire) < m->update || tr_mirror_done(m->stream) >= m->update_seq;
}

static void catch_up(tr_server *server)
{
    tr__mirror *m = &server->mirror;
    tr_message  message;

    while (m->phase == TR__MIRROR_CATCHING_UP && m->behind.count && may_go(m, &m->behind.item[m->behind.first].wire)) {
        tr_outbox_take(&m->behind, &message);
        m->behind_bytes -= message.wire.bytes;
        m->caught += is_update(&message.wire);
        tr__server_mirror_put(server, &message.wire, message.payload, message.owned);
    }
    /* One that has made no update yet could not go back by one. */
    if (m->phase == TR__MIRROR_CATCHING_UP && !m->behind.count && tr_mirror_done(m->stream) >= m->last_seq &&
        (m->caught || !m->is_late)) {
        m->phase = TR__MIRROR_LIVE;
        note(server, tr_mirror_peer(m->stream));
        const uint32_t age = server->store.age ? server->store.age(server->store.self, false) : 0;
        tr__server_mirror_put(server, &(tr_wire){.kind = TR_WIRE_COPY_LIVE, .copy_age = {.age = age}}, NULL, NULL);
        tr__server_apply_next(server);
    }
}

static bool gets_updates(const tr_server *server)
{
    return server->mirror.phase >= TR__MIRROR_COPYING;
}

uint8_t *tr__server_mirror_pack(tr_server *server, bool with_update, size_t *size)
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
    *size = trireme__pserver__update__get_packed_size(&update);
    uint8_t *payload = malloc(*size + 1);
    trireme__pserver__update__pack(&update, payload);
    free(takes_part);
    return payload;
}

static void put_update(tr_server *server, bool with_update)
{
    size_t   size;
    uint8_t *payload = tr__server_mirror_pack(server, with_update, &size);

    put(server, &(tr_wire){.kind = with_update ? TR_WIRE_REPLICA_UPDATE : TR_WIRE_REPLICA_COMMIT, .bytes = size,
                           .replica_update = {.update = server->updates + with_update}}, payload, payload);
}

/* == updates =================================================================================== */

bool tr__server_mirror_is_ready(const tr_server *server)
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

void tr__server_mirror_update(tr_server *server, const tr_update *update)
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
    server->mirror.begun++;
    catch_up(server);
}

bool tr__server_mirror_has_update(const tr_server *server)
{
    return server->mirror.phase != TR__MIRROR_LIVE || tr_mirror_done(server->mirror.stream) >= server->mirror.update_seq;
}

void tr__server_mirror_commit(tr_server *server)
{
    if (gets_updates(server))
        put_update(server, false);
}

void tr__server_mirror_share(tr_server *server, const void *all, uint64_t bytes)
{
    if (!gets_updates(server))
        return;
    void *copy = memcpy(malloc(bytes + 1), all, bytes);
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

void tr__server_mirror_tasks(tr_server *server, uint8_t *state, size_t size)
{
    put_own(server, TR_WIRE_REPLICA_TASKS, state, size);
}

void tr__server_mirror_post(tr_server *server, uint8_t *packed, size_t size)
{
    put_own(server, TR_WIRE_REPLICA_POST, packed, size);
}

/* == messages ================================================================================== */

static void on_ack(tr_server *server, uint64_t seq)
{
    tr__mirror *m = &server->mirror;

    tr_mirror_acked(m->stream, seq);
    catch_up(server);
    tr__server_try_finish(server);
    if (m->phase == TR__MIRROR_CATCHING_UP)
        tr__server_apply_next(server);
}

static void turn_to(tr_server *server, int rank)
{
    tr__mirror *m = &server->mirror;

    if (m->stream) {
        m->gone = realloc(m->gone, ((size_t)m->gone_count + 1) * sizeof *m->gone);
        m->gone[m->gone_count++] = m->stream;
    }
    if (m->word)
        trireme__pserver__replica__free_unpacked(m->word, NULL);
    m->word = NULL;
    m->stream = tr_mirror_new(server->roster->self, rank);
    tr_mirror_set_retry(m->stream, server->retry);
    m->last_seq = m->update_seq = m->update = 0;
    m->phase = TR__MIRROR_ASKING;
}

static void say_call(tr_server *server, int rank)
{
    tr_outbox_put(&server->outbox, &(tr_message){
        .peer = rank, .wire = {.kind = TR_WIRE_MIRROR_CALL, .sender = (uint32_t)server->roster->self,
                               .server = {.server = (uint32_t)server->self}}});
}

/* Could this rank be its replica? It may not have been heard yet that it is. */
static bool may_be_replica(const tr_server *server, int rank)
{
    if (rank < 0 || rank >= server->roster->size || rank == server->roster->self)
        return false;
    const tr_rank *r = &server->roster->rank[rank];
    return r->role == TR_ROLE_SPARE || (r->role == TR_ROLE_REPLICA && (r->index == server->self || r->index >= server->roster->servers));
}

void tr__server_mirror_take_over(tr_server *server)
{
    tr__mirror *m = &server->mirror;
    const int   rank = server->store.mirror ? server->store.mirror(server->store.self) : -1;

    m->may_be_late = true;
    if (may_be_replica(server, rank) && !tr__server_mirror_is(server, rank)) {
        turn_to(server, rank);
        say_call(server, rank);
    }
    if (m->phase != TR__MIRROR_NONE && server->roster->rank[tr_mirror_peer(m->stream)].is_dead)
        m->phase = TR__MIRROR_NONE;
}

/* It has been called, and this is its word. */
void tr__server_mirror_adopt(tr_server *server, int rank, const tr_wire *wire, const uint8_t *payload)
{
    tr__mirror *m = &server->mirror;

    if (m->phase != TR__MIRROR_NONE || !server->is_running || server->roster->rank[rank].is_dead || m->is_useless[rank] ||
        tr_roster_replica_of(server->roster, server->self) != rank)
        return;
    turn_to(server, rank);
    m->is_late = m->may_be_late = true;
    tr__server_mirror_receive(server, wire, payload);
}

void tr__server_mirror_receive(tr_server *server, const tr_wire *wire, const uint8_t *payload)
{
    tr__mirror *m = &server->mirror;

    if (wire->kind == TR_WIRE_REPLICA_ACK && m->phase > TR__MIRROR_ASKING)
        on_ack(server, wire->seq);
    if (wire->kind != TR_WIRE_REPLICA_STATE || m->word)
        return;
    m->word = trireme__pserver__replica__unpack(NULL, wire->bytes, payload);
    tr__server_copy_begin(server);
}

void tr__server_mirror_begin(tr_server *server)
{
    if (server->mirror.phase == TR__MIRROR_NONE)
        note(server, -1);
    tr__server_copy_begin(server);
}

bool tr__server_mirror_next(tr_server *server, tr_message *out)
{
    tr__server_copy_feed(server);
    catch_up(server);
    return server->mirror.phase != TR__MIRROR_NONE && tr_mirror_next(server->mirror.stream, out);
}

/* A server that has lost its replica, or has got one that is of no use, looks for another one. */
static int64_t call(tr_server *server, int64_t now)
{
    tr__mirror *m = &server->mirror;

    if (!server->roster->replicas || !server->is_running || server->status != TR_OK || m->is_hopeless || !server->store.freeze ||
        tr_server_is_done(server))
        return INT64_MAX;
    const int known = tr_roster_replica_of(server->roster, server->self);
    const int rank = known >= 0 && !m->is_useless[known] ? known : tr_roster_mirror_for(server->roster, server->self, m->is_useless);
    if (rank < 0)
        return INT64_MAX;
    if (rank != m->called || now >= m->call_at) {
        m->called = rank;
        m->call_at = now + (server->retry ? server->retry : CALL_AGAIN);
        say_call(server, rank);
    }
    return m->call_at;
}

int64_t tr__server_mirror_tick(tr_server *server, int64_t now)
{
    tr__mirror *m = &server->mirror;

    if (m->phase == TR__MIRROR_NONE)
        return call(server, now);
    if (!server->retry)
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
