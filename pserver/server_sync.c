/* server_sync.c - a synchronous step: sum in trainer order, apply once, answer. */
#include "pserver/server_state.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* == whose turn ================================================================================ */

/* A trainer that has left takes part in the steps that it ended. */
static bool takes_part(const tr__trainer *trainer, uint64_t step)
{
    return !trainer->is_gone || trainer->ended >= step;
}

static int index_of(const tr_server *server, const tr__trainer *trainer)
{
    return (int)(trainer - server->trainer);
}

static uint64_t chunk_of(const tr_server *server, const tr__block *block, uint64_t offset)
{
    return block->first_chunk + offset / server->chunk_bytes;
}

/* Pass over those who do not take part; the chunk is whole after the last. */
static void move_on(tr_server *server, const tr__block *block, uint64_t chunk)
{
    tr_mean       *mean = &server->chunk[chunk];
    const uint64_t offset = (chunk - block->first_chunk) * server->chunk_bytes;
    const uint64_t bytes = block->bytes - offset < server->chunk_bytes ? block->bytes - offset : server->chunk_bytes;

    if (mean->is_whole)
        return;
    while (mean->turn < server->trainer_count && !takes_part(&server->trainer[mean->turn], server->applied + 1))
        mean->turn++;
    if (mean->turn == server->trainer_count && mean->parts) {
        tr_mean_finish(mean, block->dtype, block->sum + offset, (int64_t)bytes / tr_dtype_size(block->dtype));
        server->chunks_whole++;
    }
}

static void add_part(tr_server *server, uint32_t index, uint64_t offset, const uint8_t *data, uint64_t bytes, double weight)
{
    const tr__block *block = &server->block[index];
    const uint64_t   chunk = chunk_of(server, block, offset);
    tr_mean         *mean = &server->chunk[chunk];

    tr_mean_add(mean, block->dtype, block->sum + offset, data, (int64_t)bytes / tr_dtype_size(block->dtype), weight);
    mean->turn++;
    move_on(server, block, chunk);
}

static bool is_turn(const tr_server *server, const tr__trainer *trainer, uint32_t index, uint64_t offset)
{
    return server->chunk[chunk_of(server, &server->block[index], offset)].turn == index_of(server, trainer);
}

/* == parts ===================================================================================== */

/* Calls `each` for every part of a push; stops at the first false, which it returns. */
typedef bool (*part_fn)(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint32_t block, uint64_t offset,
                        const uint8_t *data, uint64_t bytes);

static bool each_part(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload, part_fn each)
{
    tr_wire_entries entries;
    uint32_t        block;
    const uint8_t  *data;
    uint64_t        bytes;

    if (wire->kind == TR_WIRE_PUSH)
        return each(server, trainer, wire, wire->block, wire->offset, payload, wire->bytes);
    if (tr_wire_entries_open(&entries, payload, wire->bytes, wire->block) != TR_OK)
        return false;
    while (tr_wire_entries_next(&entries, &block, &data, &bytes))
        if (!each(server, trainer, wire, block, 0, data, bytes))
            return false;
    return true;
}

static bool is_piece(const tr_server *server, uint32_t index, uint64_t offset, uint64_t bytes)
{
    if (index >= server->block_count || offset % server->chunk_bytes || offset >= server->block[index].bytes)
        return false;
    const uint64_t left = server->block[index].bytes - offset;
    return bytes == (left < server->chunk_bytes ? left : server->chunk_bytes);
}

/* Note that this part has come; false, with a failure, when it must not. */
static bool note_part(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint32_t index, uint64_t offset,
                      const uint8_t *data, uint64_t bytes)
{
    (void)wire;
    (void)data;
    if (!is_piece(server, index, offset, bytes)) {
        tr_fail(TR_EFORMAT, "%s pushed %llu bytes at %llu of block %u, which is no piece of one",
                tr__server_trainer_name(server, trainer), (unsigned long long)bytes, (unsigned long long)offset, index);
        return false;
    }
    const uint64_t chunk = chunk_of(server, &server->block[index], offset);
    if (trainer->pushed[chunk / 8] >> chunk % 8 & 1) {
        tr_fail(TR_EPEER, "%s pushed '%s' twice in step %llu", tr__server_trainer_name(server, trainer),
                server->setup->blocks[index]->grad, (unsigned long long)trainer->ended + 1);
        return false;
    }
    trainer->pushed[chunk / 8] |= (uint8_t)(1 << chunk % 8);
    trainer->pushed_count++;
    return true;
}

static bool part_may_go(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint32_t index, uint64_t offset,
                        const uint8_t *data, uint64_t bytes)
{
    (void)wire;
    (void)data;
    (void)bytes;
    return is_turn(server, trainer, index, offset);
}

static bool part_goes(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint32_t index, uint64_t offset,
                      const uint8_t *data, uint64_t bytes)
{
    (void)trainer;
    add_part(server, index, offset, data, bytes, wire->weight);
    return true;
}

/* Sum a push if its turn has come. */
static bool try_push(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload)
{
    if (wire->step != server->applied + 1 || server->is_applying ||
        !each_part(server, trainer, wire, payload, part_may_go))
        return false;
    each_part(server, trainer, wire, payload, part_goes);
    return true;
}

static bool try_held(tr_server *server, tr__trainer *trainer)
{
    bool went = false;

    for (tr__held **at = &trainer->held; *at;) {
        tr__held *held = *at;
        if (!try_push(server, trainer, &held->wire, held->payload)) {
            at = &held->next;
            continue;
        }
        *at = held->next;
        if (!*at)
            trainer->held_end = at;
        tr__server_buffer_free(server, held->payload);
        free(held);
        trainer->owes_ack = went = true;
    }
    return went;
}

/* A part of `after` was summed: those that waited for it are of the next trainer, and so on. */
static void try_next(tr_server *server, const tr__trainer *after)
{
    for (int i = index_of(server, after) + 1; i < server->trainer_count; i++)
        if (takes_part(&server->trainer[i], server->applied + 1) && !try_held(server, &server->trainer[i]))
            return;
}

static void try_all(tr_server *server)
{
    for (int i = 0; i < server->trainer_count; i++)
        try_held(server, &server->trainer[i]);
}

uint8_t *tr__server_push_place(tr_server *server, const tr__trainer *trainer, const tr_wire *wire)
{
    if (!server->is_running || server->is_applying || wire->step != server->applied + 1 ||
        !is_piece(server, wire->block, wire->offset, wire->bytes) ||
        !is_turn(server, trainer, wire->block, wire->offset))
        return NULL;
    const tr__block *block = &server->block[wire->block];
    return server->chunk[chunk_of(server, block, wire->offset)].count ? NULL : block->sum + wire->offset;
}

static void hold(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint8_t *payload, bool is_owned)
{
    tr__held *held = malloc(sizeof *held);

    if (!is_owned) {
        uint8_t *copy = tr__server_buffer_new(server, wire->bytes);
        memcpy(copy, payload, wire->bytes);
        payload = copy;
    }
    *held = (tr__held){NULL, *wire, payload};
    *trainer->held_end = held;
    trainer->held_end = &held->next;
}

static tr_status check_step(const tr_server *server, const tr__trainer *trainer, const tr_wire *wire, uint64_t step)
{
    if (!server->is_running)
        return tr_fail(TR_EPEER, "%s sent %s before all trainers had agreed on the work",
                       tr__server_trainer_name(server, trainer), tr_wire_kind_name(wire->kind));
    if (wire->step != step)
        return tr_fail(TR_EPEER, "%s sent %s for step %llu instead of %llu", tr__server_trainer_name(server, trainer),
                       tr_wire_kind_name(wire->kind), (unsigned long long)wire->step, (unsigned long long)step);
    return TR_OK;
}

tr_status tr__server_on_push(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint8_t *payload,
                             bool is_owned)
{
    tr_wire_entries entries;

    TR_TRY(check_step(server, trainer, wire, trainer->ended + 1));
    if (wire->kind == TR_WIRE_PUSH_MANY)
        TR_TRY(tr_wire_entries_open(&entries, payload, wire->bytes, wire->block));
    if (!each_part(server, trainer, wire, payload, note_part))
        return TR_EPEER;                           /* note_part said why */
    if (!try_push(server, trainer, wire, payload)) {
        hold(server, trainer, wire, payload, is_owned);
        return TR_OK;
    }
    if (is_owned)
        tr__server_buffer_free(server, payload);
    try_next(server, trainer);
    tr__server_try_apply(server);
    return TR_OK;
}

/* == steps ===================================================================================== */

static const char *first_missing(const tr_server *server, const tr__trainer *trainer)
{
    for (uint32_t i = 0; i < server->block_count; i++)
        for (uint64_t c = 0; c < server->block[i].chunks; c++) {
            const uint64_t chunk = server->block[i].first_chunk + c;
            if (!(trainer->pushed[chunk / 8] >> chunk % 8 & 1))
                return server->setup->blocks[i]->grad;
        }
    return "?";
}

tr_status tr__server_on_step_end(tr_server *server, tr__trainer *trainer, const tr_wire *wire)
{
    TR_TRY(check_step(server, trainer, wire, trainer->ended + 1));
    if (trainer->pushed_count != server->chunk_count)
        return tr_fail(TR_EPEER, "%s ended step %llu without the gradient '%s'", tr__server_trainer_name(server, trainer),
                       (unsigned long long)wire->step, first_missing(server, trainer));
    trainer->ended++;
    trainer->pushed_count = 0;
    memset(trainer->pushed, 0, server->chunk_count / 8 + 1);
    tr__server_try_apply(server);
    return TR_OK;
}

tr_status tr__server_on_goodbye(tr_server *server, tr__trainer *trainer, const tr_wire *wire)
{
    if (trainer->pushed_count)
        return tr_fail(TR_EPEER, "%s said goodbye in the middle of step %llu", tr__server_trainer_name(server, trainer),
                       (unsigned long long)trainer->ended + 1);
    if (server->setup && !server->is_running)
        return tr_fail(TR_EPEER, "%s left before all trainers had agreed on the work",
                       tr__server_trainer_name(server, trainer));
    (void)wire;
    trainer->is_gone = true;
    if (server->is_applying)                       /* chunks are of the step after that */
        return TR_OK;
    for (uint32_t i = 0; i < server->block_count; i++)
        for (uint64_t c = 0; c < server->block[i].chunks; c++)
            move_on(server, &server->block[i], server->block[i].first_chunk + c);
    try_all(server);
    tr__server_try_apply(server);
    return TR_OK;
}

void tr__server_try_apply(tr_server *server)
{
    const uint64_t step = server->applied + 1;
    bool           is_wanted = false;

    if (!server->is_running || server->is_applying || server->chunks_whole != server->chunk_count)
        return;
    for (int i = 0; i < server->trainer_count; i++) {
        const tr__trainer *t = &server->trainer[i];
        if (takes_part(t, step) && t->ended < step)
            return;
        is_wanted |= t->ended >= step;
    }
    if (!is_wanted)
        return;
    server->is_applying = true;
    server->store.apply(server->store.self, step);
}

/* == answers =================================================================================== */

typedef struct reply {
    tr_server         *server;
    const tr__trainer *trainer;
    uint64_t           seq, step;
    uint32_t           part;
} reply;

static void put_reply(reply *r, tr_wire_kind kind, uint32_t block, uint64_t offset, uint64_t bytes, void *payload, void *owned)
{
    tr_outbox_put(&r->server->outbox, &(tr_message){
        .peer = r->trainer->rank, .payload = payload, .owned = owned,
        .wire = {.kind = kind, .epoch = r->trainer->epoch, .sender = (uint32_t)r->server->roster->self, .seq = r->seq,
                 .step = r->step, .block = block, .part = r->part++, .offset = offset, .bytes = bytes}});
}

static bool is_small(const tr_server *server, uint32_t index)
{
    return tr_wire_is_small(server->block[index].bytes, server->chunk_bytes);
}

static void reply_large(reply *r, uint32_t index)
{
    tr_server       *server = r->server;
    const tr__block *block = &server->block[index];
    uint8_t         *param = server->store.param(server->store.self, index);

    for (uint64_t offset = 0; offset < block->bytes; offset += server->chunk_bytes) {
        const uint64_t left = block->bytes - offset;
        put_reply(r, TR_WIRE_DATA, index, offset, left < server->chunk_bytes ? left : server->chunk_bytes,
                  param + offset, NULL);
    }
}

/* As many of the small blocks from `from` on as one message takes; returns the place after them. */
static uint32_t reply_small(reply *r, const uint32_t *blocks, uint32_t count, uint32_t from)
{
    tr_server *server = r->server;
    uint64_t   size = 0, cursor;
    uint32_t   n = 0, to = from, index = 0;

    for (; to < count; to++) {
        const uint64_t bytes = server->block[blocks[to]].bytes;
        if (!is_small(server, blocks[to]))
            continue;
        if (n && size + tr_wire_entry_size(bytes) > server->chunk_bytes)
            break;
        size += tr_wire_entry_size(bytes);
        n++;
    }
    if (!n)
        return count;
    uint8_t *payload = malloc(size);
    cursor = (uint64_t)n * TR_WIRE_ENTRY;
    for (uint32_t i = from; i < to; i++) {
        const uint64_t bytes = server->block[blocks[i]].bytes;
        if (is_small(server, blocks[i]))
            memcpy(tr_wire_entry_put(payload, index++, &cursor, blocks[i], bytes),
                   server->store.param(server->store.self, blocks[i]), bytes);
    }
    put_reply(r, TR_WIRE_DATA_MANY, n, 0, size, payload, payload);
    return to;
}

static void answer(tr_server *server, const tr__trainer *trainer, uint64_t seq, uint64_t step, const uint32_t *blocks,
                   uint32_t count)
{
    reply r = {server, trainer, seq, step, 0};

    for (uint32_t i = 0; i < count; i++)
        if (!is_small(server, blocks[i]))
            reply_large(&r, blocks[i]);
    for (uint32_t i = 0; i < count;)
        i = reply_small(&r, blocks, count, i);
}

static tr__pull *parse_pull(const tr_server *server, const tr_wire *wire, const uint8_t *payload)
{
    const uint64_t count = wire->bytes / 4;
    tr__pull      *pull = malloc(sizeof *pull + count * sizeof(uint32_t));

    pull->next = NULL;
    pull->seq = wire->seq;
    pull->step = wire->step;
    pull->count = (uint32_t)count;
    for (uint64_t i = 0; i < count; i++) {
        pull->block[i] = tr_wire_get_u32(payload + 4 * i);
        if (pull->block[i] >= server->block_count) {
            free(pull);
            return NULL;
        }
    }
    return pull;
}

tr_status tr__server_on_pull(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload)
{
    TR_TRY(check_step(server, trainer, wire, trainer->ended));
    tr__pull *pull = parse_pull(server, wire, payload);
    if (!pull)
        return tr_fail(TR_EFORMAT, "%s pulls a block that does not exist", tr__server_trainer_name(server, trainer));
    if (server->applied == pull->step) {
        answer(server, trainer, pull->seq, pull->step, pull->block, pull->count);
        free(pull);
    } else {
        tr__pull **end = &trainer->pulls;
        while (*end)
            end = &(*end)->next;
        *end = pull;
    }
    return TR_OK;
}

void tr__server_pull_again(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload)
{
    /* Of an earlier step: the trainer has pushed since, so it has its answer. Of a later one: it waits. */
    if (!server->is_running || server->is_applying || server->applied != wire->step || trainer->ended != wire->step)
        return;
    tr__pull *pull = parse_pull(server, wire, payload);
    if (pull)
        answer(server, trainer, pull->seq, pull->step, pull->block, pull->count);
    free(pull);
}

void tr__server_step_applied(tr_server *server)
{
    assert(server->is_applying);
    server->is_applying = false;
    server->applied++;
    server->chunks_whole = 0;
    memset(server->chunk, 0, server->chunk_count * sizeof *server->chunk);
    for (int i = 0; i < server->trainer_count; i++) {
        tr__trainer *t = &server->trainer[i];
        for (tr__pull **at = &t->pulls; *at;) {
            tr__pull *pull = *at;
            if (pull->step != server->applied) {
                at = &pull->next;
                continue;
            }
            *at = pull->next;
            answer(server, t, pull->seq, pull->step, pull->block, pull->count);
            free(pull);
        }
    }
    for (uint32_t i = 0; i < server->block_count; i++)
        for (uint64_t c = 0; c < server->block[i].chunks; c++)
            move_on(server, &server->block[i], server->block[i].first_chunk + c);
    try_all(server);
    tr__server_try_apply(server);
}

void tr__server_describe_step(const tr_server *server, char *out, size_t size)
{
    const char *before = " ";
    size_t      used = 0;

    if (server->is_applying) {
        snprintf(out, size, "its optimizers in step %llu", (unsigned long long)server->applied + 1);
        return;
    }
    if (server->is_running)
        used = (size_t)snprintf(out, size, "the gradients of step %llu of", (unsigned long long)server->applied + 1);
    else
        used = (size_t)snprintf(out, size, "the setup by");
    for (int i = 0; i < server->trainer_count && used < size; i++) {
        const tr__trainer *t = &server->trainer[i];
        const bool is_awaited = server->is_running ? !t->is_gone && t->ended <= server->applied : !t->join;
        if (is_awaited) {
            used += (size_t)snprintf(out + used, size - used, "%strainer %d", before, i);
            before = ", ";
        }
    }
}
