/* server_replication.c - see server_replication.h. */
#include "pserver/core/snapshots/server_replication.h"

#include "framework/base/memory.h"
#include "pserver/core/replica/replica_stream.h"
#include "pserver/core/updates/server_updates.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct tr__replication {
    tr__replication_phase phase;
    bool                  is_late;    /* updates continue while the replica gets the state */
    tr_replica_stream    *stream;
    uint64_t              last_seq;   /* the number of the last message in the stream */
    uint64_t              update_seq, update;      /* of the last update in the stream; its number */
    uint64_t              rows_seq;   /* of the last rows in the stream that a trainer has set */
    tr_outbox             after_state;     /* messages that are sent after the state */
    uint64_t              queued_bytes;
    uint64_t              begun, caught;           /* since the state was begun: updates that have begun here; updates in the stream */
    tr_replica_stream   **dead_stream;       /* streams to dead ranks: the transport may still read their payloads */
    int                   dead_stream_count;
};

/* The limit of unacknowledged bytes of a state. */
static const uint64_t WINDOW = (uint64_t)64 << 20;

/* == life ====================================================================================== */

void tr__replication_new(tr_server *server)
{
    const int rank = tr_roster_replica_of(server->roster, server->self);

    server->replication = tr__must_alloc(sizeof *server->replication);
    if (rank < 0)
        return;
    server->replication->stream = tr_replica_stream_new(server->roster->self, rank);
    server->replication->phase = TR__REPLICATION_ASKING;
}

void tr__replication_free(tr_server *server)
{
    tr__replication *r = server->replication;

    tr_replica_stream_free(r->stream);
    for (int i = 0; i < r->dead_stream_count; i++)
        tr_replica_stream_free(r->dead_stream[i]);
    tr_outbox_deinit(&r->after_state);
    free(r->dead_stream);
    free(r);
}

void tr__replication_set_retry(tr_server *server)
{
    if (server->replication->stream)
        tr_replica_stream_set_retry(server->replication->stream, server->retry);
}

tr__replication_phase tr__replication_phase_of(const tr_server *server)
{
    return server->replication->phase;
}

int tr__replication_peer(const tr_server *server)
{
    return tr_replica_stream_peer(server->replication->stream);
}

bool tr__replication_is_replica(const tr_server *server, int rank)
{
    return server->replication->phase != TR__REPLICATION_NONE && tr__replication_peer(server) == rank;
}

/* == attaching and dropping ==================================================================== */

void tr__replication_store_rank(tr_server *server, int rank)
{
    if (!server->is_running)
        return;
    if (rank < 0 && server->store.generation)
        server->store.generation(server->store.self, true);
    if (server->store.set_replica_rank)
        server->store.set_replica_rank(server->store.self, rank);
}

void tr__replication_turn_to(tr_server *server, int rank)
{
    tr__replication *r = server->replication;

    if (r->stream) {
        r->dead_stream = tr__must_realloc(r->dead_stream, ((size_t)r->dead_stream_count + 1) * sizeof *r->dead_stream);
        r->dead_stream[r->dead_stream_count++] = r->stream;
    }
    r->stream = tr_replica_stream_new(server->roster->self, rank);
    tr_replica_stream_set_retry(r->stream, server->retry);
    r->last_seq = r->update_seq = r->rows_seq = r->update = 0;
    r->phase = TR__REPLICATION_ASKING;
}

void tr__replication_set_late(tr_server *server, bool is_late)
{
    server->replication->is_late = is_late;
}

bool tr__replication_is_late(const tr_server *server)
{
    return server->replication->is_late;
}

static void forget_queue(tr__replication *r)
{
    tr_outbox_deinit(&r->after_state);
    r->after_state = (tr_outbox){0};
    r->queued_bytes = 0;
}

void tr__replication_begin_state(tr_server *server)
{
    server->replication->phase = TR__REPLICATION_COPYING;
    server->replication->begun = server->replication->caught = 0;
}

void tr__replication_end_state(tr_server *server)
{
    server->replication->phase = TR__REPLICATION_CATCHING_UP;
    server->replication->begun = 0;
}

void tr__replication_restart(tr_server *server)
{
    forget_queue(server->replication);
    server->replication->phase = TR__REPLICATION_ASKING;
}

/* The stream's payloads are freed only with the server, because the transport may still read them. */
void tr__replication_drop(tr_server *server)
{
    server->replication->phase = TR__REPLICATION_NONE;
    server->replication->is_late = false;
    forget_queue(server->replication);
    tr__replication_store_rank(server, -1);
    tr__server_due(server, TR__RULE_FINISH);
    tr__server_due(server, TR__RULE_BEGIN);
}

/* == the stream ================================================================================ */

static bool is_update(const tr_wire *wire)
{
    return wire->kind == TR_WIRE_REPLICA_UPDATE;
}

void tr__replication_put(tr_server *server, const tr_wire *wire, const void *payload, void *owned)
{
    tr__replication *r = server->replication;

    r->last_seq = tr_replica_stream_put(r->stream, wire, payload, owned);
    if (is_update(wire)) {
        r->update_seq = r->last_seq;
        r->update = wire->replica_update.update;
    }
}

uint64_t tr__replication_bytes(const tr_server *server)
{
    return tr_replica_stream_bytes(server->replication->stream);
}

/* Put a change of the state into the stream. While the state is being sent, the message waits, and its payload is copied because it may
 * change. */
static void put(tr_server *server, const tr_wire *wire, const void *payload, void *owned)
{
    tr__replication *r = server->replication;

    if (r->phase == TR__REPLICATION_LIVE) {
        tr__replication_put(server, wire, payload, owned);
        return;
    }
    if (!owned && wire->bytes)
        owned = memcpy(tr__must_bytes(wire->bytes), payload, wire->bytes);
    tr_outbox_put(&r->after_state, &(tr_message){.wire = *wire, .payload = owned, .owned = owned});
    r->queued_bytes += wire->bytes;
}

/* The update that a message of the stream belongs to. All kinds of these messages begin with this field. */
static uint64_t update_of(const tr_wire *wire)
{
    static_assert(offsetof(tr_form_replica_block, update) == 0 && offsetof(tr_form_replica_set, update) == 0 &&
                      offsetof(tr_form_replica_rows, update) == 0 && offsetof(tr_form_replica_update, update) == 0 &&
                      offsetof(tr_form_write_rows, step) == 0,
                  "an update comes first");
    return wire->replica_update.update;
}

/* May this message go into the stream now? The replica must have made the update before, because it computes one at a time. Gathered values
 * may always go, because the replica needs them to finish an update. */
static bool may_go(const tr__replication *r, const tr_wire *wire)
{
    return wire->kind == TR_WIRE_REPLICA_SHARES || update_of(wire) < r->update || tr_replica_stream_done(r->stream) >= r->update_seq;
}

/* Does the replica have everything, so that it counts from now on? A late replica must also have made an update, because it may have to
 * undo one. */
static bool has_caught_up(const tr__replication *r)
{
    return !r->after_state.count && tr_replica_stream_done(r->stream) >= r->last_seq && (r->caught || !r->is_late);
}

static void go_live(tr_server *server)
{
    server->replication->phase = TR__REPLICATION_LIVE;
    tr__replication_store_rank(server, tr__replication_peer(server));
    const uint32_t generation = server->store.generation ? server->store.generation(server->store.self, false) : 0;
    tr__replication_put(server, &(tr_wire){.kind = TR_WIRE_COPY_LIVE, .copy_generation = {.generation = generation}}, NULL, NULL);
    tr__server_due(server, TR__RULE_BEGIN);
}

static void catch_up(tr_server *server)
{
    tr__replication *r = server->replication;
    tr_message       message;

    if (r->phase != TR__REPLICATION_CATCHING_UP)
        return;
    while (r->after_state.count && may_go(r, &r->after_state.item[r->after_state.first].wire)) {
        tr_outbox_take(&r->after_state, &message);
        r->queued_bytes -= message.wire.bytes;
        r->caught += is_update(&message.wire);
        tr__replication_put(server, &message.wire, message.payload, message.owned);
    }
    if (has_caught_up(r))
        go_live(server);
}

static bool gets_updates(const tr_server *server)
{
    return server->replication->phase >= TR__REPLICATION_COPYING;
}

uint8_t *tr__replication_pack(tr_server *server, bool with_update, size_t *size)
{
    const tr_commit          commit = tr__updates_commit_of(server, with_update);
    const size_t             trainers = (size_t)server->trainer_count;
    Trireme__Pserver__Update update = TRIREME__PSERVER__UPDATE__INIT;
    protobuf_c_boolean      *takes_part = tr__must_array(trainers, sizeof *takes_part);

    for (size_t i = 0; i < trainers; i++)
        takes_part[i] = with_update && tr__updates_takes_part(server)[i];
    update.updates = commit.updates;
    update.decided = commit.decided;
    update.decisions = commit.decisions;
    update.newest_snapshot = commit.newest_snapshot;
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
    uint8_t *payload = tr__replication_pack(server, with_update, &size);

    put(server, &(tr_wire){.kind = with_update ? TR_WIRE_REPLICA_UPDATE : TR_WIRE_REPLICA_COMMIT, .bytes = size,
                           .replica_update = {.update = server->updates + with_update}}, payload, payload);
}

/* == what happens ============================================================================== */

/* Put a whole array into the stream in pieces: a gradient, or the parameters that it was computed with. */
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
                                            .trainer = (uint32_t)part->trainer, .is_sum = part->is_sum}}, part->keys, NULL);
}

static void put_set(tr_server *server, const tr_set_value *set)
{
    const uint64_t size = server->setup->values[set->value]->bytes;

    for (uint64_t offset = 0; offset < size; offset += server->chunk_bytes) {
        const uint64_t bytes = size - offset < server->chunk_bytes ? size - offset : server->chunk_bytes;
        void          *copy = memcpy(tr__must_bytes(bytes), set->data + offset, bytes);
        put(server, &(tr_wire){.kind = TR_WIRE_REPLICA_SET, .bytes = bytes,
                               .replica_set = {.update = server->updates + 1, .offset = offset, .value = set->value}}, copy, copy);
    }
}

void tr__replication_update(tr_server *server, const tr_update *update)
{
    if (!gets_updates(server))
        return;
    for (uint32_t i = 0; i < update->set_count; i++)
        put_set(server, &update->set[i]);
    for (uint32_t i = 0; i < server->block_count; i++) {
        put_block(server, i, update->grad[i], false);
        if (update->compensation > 0)
            put_block(server, i, update->pulled[i], true);
    }
    for (uint32_t t = 0; t < server->table_count; t++)
        for (int64_t i = 0; i < update->rows[t].count; i++)
            put_rows(server, t, &update->rows[t].part[i]);
    put_update(server, true);
    server->replication->begun++;
    catch_up(server);
}

bool tr__replication_has_update(const tr_server *server)
{
    const tr__replication *r = server->replication;

    return r->phase != TR__REPLICATION_LIVE || tr_replica_stream_done(r->stream) >= r->update_seq;
}

bool tr__replication_lets_begin(const tr_server *server, uint64_t state_bytes)
{
    const tr__replication *r = server->replication;

    if (r->phase == TR__REPLICATION_NONE || r->phase == TR__REPLICATION_LIVE)
        return true;
    if (!r->is_late)
        return false;
    if (r->phase == TR__REPLICATION_COPYING)
        return r->queued_bytes <= state_bytes + WINDOW;
    return r->phase == TR__REPLICATION_ASKING || r->caught >= 2 * r->begun;
}

void tr__replication_send_settled(tr_server *server)
{
    if (gets_updates(server))
        put_update(server, false);
}

void tr__replication_commit(tr_server *server)
{
    tr_effects_commit(&server->effects, false);
    tr__replication_send_settled(server);
}

void tr__replication_share(tr_server *server, const void *all, uint64_t bytes)
{
    if (!gets_updates(server))
        return;
    void *copy = memcpy(tr__must_bytes(bytes + 1), all, bytes);
    put(server, &(tr_wire){.kind = TR_WIRE_REPLICA_SHARES, .bytes = bytes, .replica_update = {.update = server->updates + 1}}, copy, copy);
}

/* Put a message about state that only server 0 has: tasks or posts. */
static void put_own(tr_server *server, tr_wire_kind kind, uint8_t *payload, size_t size)
{
    if (gets_updates(server))
        put(server, &(tr_wire){.kind = kind, .bytes = size, .replica_update = {.update = server->updates}}, payload, payload);
    else
        free(payload);
}

bool tr__replication_set_rows(tr_server *server, const tr_form_write_rows *what, const uint8_t *rows, uint64_t bytes)
{
    tr__replication *r = server->replication;
    tr_wire          write = {.kind = TR_WIRE_WRITE_ROWS, .bytes = bytes, .write_rows = *what};

    if (!gets_updates(server))
        return false;
    write.write_rows.step = server->updates;
    void *copy = memcpy(tr__must_bytes(bytes + 1), rows, bytes);
    put(server, &write, copy, copy);
    r->rows_seq = r->last_seq;
    return r->phase == TR__REPLICATION_LIVE;
}

bool tr__replication_has_rows(const tr_server *server)
{
    const tr__replication *r = server->replication;

    return r->phase != TR__REPLICATION_LIVE || tr_replica_stream_done(r->stream) >= r->rows_seq;
}

void tr__replication_tasks(tr_server *server, uint8_t *state, size_t size)
{
    put_own(server, TR_WIRE_REPLICA_TASKS, state, size);
}

void tr__replication_post(tr_server *server, uint8_t *packed, size_t size)
{
    put_own(server, TR_WIRE_REPLICA_POST, packed, size);
}

/* == messages ================================================================================== */

void tr__replication_on_ack(tr_server *server, uint64_t seq)
{
    tr__replication *r = server->replication;

    if (r->phase <= TR__REPLICATION_ASKING)
        return;
    tr_replica_stream_acked(r->stream, seq);
    catch_up(server);
    tr__server_due(server, TR__RULE_FINISH);
    if (r->phase == TR__REPLICATION_CATCHING_UP)
        tr__server_due(server, TR__RULE_BEGIN);
}

bool tr__replication_next(tr_server *server, tr_message *out)
{
    catch_up(server);
    return server->replication->phase != TR__REPLICATION_NONE && tr_replica_stream_next(server->replication->stream, out);
}

int64_t tr__replication_tick(tr_server *server, int64_t now)
{
    if (server->replication->phase == TR__REPLICATION_NONE || !server->retry)
        return INT64_MAX;
    return tr_replica_stream_tick(server->replication->stream, now);
}
