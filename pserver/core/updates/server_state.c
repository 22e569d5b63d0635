/* server_state.c - the base of a server core: its buffers, its trainers' states, its failure. */
#include "pserver/core/updates/server_state.h"

#include "framework/base/memory.h"
#include "pserver/observe/trace.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* == buffers ================================================================================= */

/* Buffers of one chunk are reused, the last freed one first, because it is in cache. The cache line before a buffer holds its size. */
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

void tr__server_buffers_free(tr_server *server)
{
    while (server->pool) {
        uint8_t *buffer = server->pool;
        memcpy(&server->pool, buffer, sizeof server->pool);
        free(buffer - LINE);
    }
}

/* == messages ================================================================================ */

void tr__server_send(tr_server *server, int rank, tr_wire wire, uint8_t *payload)
{
    wire.sender = (uint32_t)server->roster->self;
    tr_outbox_put(&server->outbox, &(tr_message){.peer = rank, .wire = wire, .payload = payload, .owned = payload});
}

static void send_refusal(tr_server *server, tr_wire_kind kind, int rank, uint32_t incarnation, const char *text)
{
    Trireme__Pserver__Refusal refusal = TRIREME__PSERVER__REFUSAL__INIT;
    refusal.text = (char *)(uintptr_t)text;

    const size_t size = trireme__pserver__refusal__get_packed_size(&refusal);
    uint8_t     *payload = tr__must_bytes(size);
    trireme__pserver__refusal__pack(&refusal, payload);
    tr__server_send(server, rank, (tr_wire){.kind = kind, .incarnation = incarnation, .bytes = size}, payload);
}

/* == failing ================================================================================= */

void tr__server_send_failure(tr_server *server, const tr__trainer *trainer)
{
    send_refusal(server, TR_WIRE_REFUSED, trainer->rank, trainer->incarnation, server->text);
}

void tr__server_refuse(tr_server *server, int rank, uint32_t incarnation)
{
    send_refusal(server, TR_WIRE_REPLACED, rank, incarnation, "another process has taken the place of this trainer");
}

tr_status tr__server_fail(tr_server *server, tr_status status)
{
    if (server->status != TR_OK)
        return server->status;
    server->status = status;
    server->text = tr__must_strdup(tr_error());
    for (int i = 0; i < server->trainer_count; i++)
        tr__server_send_failure(server, &server->trainer[i]);
    return status;
}

/* == trainers ================================================================================ */

const char *tr__server_trainer_name(const tr_server *server, const tr__trainer *trainer)
{
    return tr_roster_name(server->roster, trainer->rank);
}

tr__trainer *tr__server_trainer_of(tr_server *server, int peer)
{
    const tr_rank *rank = &server->roster->rank[peer];
    return rank->role == TR_ROLE_TRAINER ? &server->trainer[rank->index] : NULL;
}

void tr__server_move(tr_server *server, tr__trainer *trainer, tr_membership to)
{
    if (trainer->state == to)
        return;
    assert(tr_membership_may_move(trainer->state, to));
    tr_trace_membership(server->now, server->roster->self, trainer->index, trainer->state, to);
    trainer->state = to;
    tr__server_due(server, TR__RULE_MEMBERS);
}

bool tr__server_is_present(const tr__trainer *trainer)
{
    return trainer->state != TR_MEMBER_LEFT && trainer->state != TR_MEMBER_LOST;
}

bool tr__server_has_ended(const tr__trainer *trainer, uint64_t step)
{
    return tr_roster_is_replacement(trainer->incarnation) && step <= trainer->ended;
}

bool tr__server_has_left_out(const tr__trainer *trainer, uint64_t step)
{
    return trainer->left_out_to && step >= trainer->left_out_from && step <= trainer->left_out_to;
}

bool tr__server_lags(const tr__trainer *trainer, uint64_t step)
{
    return tr_roster_is_replacement(trainer->incarnation) && step + 1 == trainer->ended;
}

int tr__server_initiator(const tr_server *server)
{
    int first = -1;

    for (int i = 0; i < server->trainer_count; i++) {
        if (!tr_membership_is_over(server->trainer[i].state))
            return i;
        if (first < 0 && server->trainer[i].state == TR_MEMBER_DRAINING)
            first = i;
    }
    return first;
}

bool tr__server_awaits_replacement(const tr_server *server)
{
    for (int i = 0; i < server->trainer_count; i++) {
        const tr_membership state = server->trainer[i].state;
        if (state == TR_MEMBER_VACANT || (server->self == 0 && state == TR_MEMBER_RETURNING))
            return true;
    }
    return false;
}

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

/* == decisions, as facts ===================================================================== */

bool tr__server_decides_updates(const tr_server *server)
{
    return server->policy.decides;
}

bool tr__server_is_pending(const tr_server *server)
{
    return server->decided.update > server->updates;
}

bool tr__server_is_out(const tr_server *server, int trainer)
{
    return server->decided.trainer[trainer] & TR_TRAINER_OUT;
}

bool tr__server_is_decided_lost(const tr_server *server, int trainer)
{
    return server->decided.trainer[trainer] & TR_TRAINER_LOST;
}
