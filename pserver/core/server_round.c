/* server_round.c - a round: chunks of gradients arrive and are added to one sum for each block, in the order of the trainers' numbers. */
#include "framework/memory.h"
#include "pserver/core/server_state.h"

#include <stdlib.h>
#include <string.h>

/* == memory ==================================================================================== */

static tr_status init_round(tr_server *server, tr__round *round, int first, int end)
{
    *round = (tr__round){.first = first, .end = end, .step = 1};
    round->chunk = tr__must_array(server->chunk_count + 1, sizeof *round->chunk);
    round->sum = tr__must_array(server->block_count + 1, sizeof *round->sum);
    for (uint32_t i = 0; i < server->block_count; i++) {
        const uint64_t bytes = server->block[i].bytes;
        round->sum[i] = tr__array_alloc(bytes);
        if (!round->sum[i])
            return tr_fail(TR_ENOMEM, "no memory for gradient '%s' of %llu bytes", server->setup->blocks[i]->grad,
                           (unsigned long long)bytes);
    }
    tr__server_round_next(server, round);
    round->step = 1;
    return TR_OK;
}

static void deinit_round(const tr_server *server, tr__round *round)
{
    for (uint32_t i = 0; round->sum && i < server->block_count; i++)
        free(round->sum[i]);
    free(round->sum);
    free(round->chunk);
}

tr_status tr__server_rounds_new(tr_server *server)
{
    const bool is_apart = server->policy.gathers_per_trainer;

    server->round_count = is_apart ? server->trainer_count : 1;
    server->round = tr__must_array((size_t)server->round_count, sizeof *server->round);
    server->queue = tr__must_array((size_t)server->trainer_count + 1, sizeof *server->queue);
    server->takes_part = tr__must_array((size_t)server->trainer_count, sizeof *server->takes_part);
    for (int i = 0; i < server->round_count; i++)
        TR_TRY(init_round(server, &server->round[i], is_apart ? i : 0, is_apart ? i + 1 : server->trainer_count));
    if (server->policy.decides) {
        TR_TRY(init_round(server, &server->merged, 0, server->trainer_count));
        TR_TRY(tr__server_decisions_new(server));
    }
    for (int i = 0; i < server->trainer_count; i++) {
        server->trainer[i].round = &server->round[is_apart ? i : 0];
        server->trainer[i].pushed = tr__must_array(server->chunk_count / 8 + 1, 1);
    }
    return TR_OK;
}

void tr__server_rounds_free(tr_server *server)
{
    for (int i = 0; i < server->round_count; i++)
        deinit_round(server, &server->round[i]);
    deinit_round(server, &server->merged);
    tr__server_decisions_free(server);
    free(server->round);
    free(server->queue);
    free(server->takes_part);
}

/* == whose turn ================================================================================ */

/* A trainer that has left takes part in the steps that it ended. */
bool tr__server_takes_part(const tr__trainer *trainer, const tr__round *round)
{
    return !tr_membership_is_over(trainer->state) || trainer->ended >= round->step;
}

static int index_of(const tr_server *server, const tr__trainer *trainer)
{
    return (int)(trainer - server->trainer);
}

static uint64_t chunk_of(const tr_server *server, const tr__block *block, uint64_t offset)
{
    return block->first_chunk + offset / server->chunk_bytes;
}

static uint64_t chunk_bytes(const tr_server *server, const tr__block *block, uint64_t offset)
{
    const uint64_t left = block->bytes - offset;
    return left < server->chunk_bytes ? left : server->chunk_bytes;
}

/* A part that is whole counts in the next update for certain where there is but one round. */
static void use_piece(tr_server *server, const tr__round *round, uint32_t index, uint64_t offset, uint64_t bytes)
{
    if (!server->store.piece || server->policy.gathers_per_trainer || server->status != TR_OK)
        return;
    const tr_status status = server->store.piece(server->store.self, index, offset, bytes, round->sum[index] + offset);
    if (status != TR_OK)
        tr__server_fail(server, tr_context(status, "while %s computed update %llu",
                                           tr_roster_name(server->roster, server->roster->self),
                                           (unsigned long long)server->updates + 1));
}

/* Pass over those who do not take part; the chunk is whole after the last. */
static void move_on(tr_server *server, tr__round *round, uint32_t index, uint64_t offset)
{
    const tr__block *block = &server->block[index];
    tr_mean         *mean = &round->chunk[chunk_of(server, block, offset)];

    if (mean->is_whole)
        return;
    while (mean->turn < round->end && !tr__server_takes_part(&server->trainer[mean->turn], round))
        mean->turn++;
    if (mean->turn == round->end && mean->parts) {
        const uint64_t bytes = chunk_bytes(server, block, offset);
        tr_mean_finish(mean, block->dtype, round->sum[index] + offset, (int64_t)bytes / tr_dtype_size(block->dtype));
        round->chunks_whole++;
        use_piece(server, round, index, offset, bytes);
    }
}

static void move_all_on(tr_server *server, tr__round *round)
{
    for (uint32_t i = 0; i < server->block_count; i++)
        for (uint64_t offset = 0; offset < server->block[i].bytes; offset += server->chunk_bytes)
            move_on(server, round, i, offset);
}

static void add_part(tr_server *server, tr__round *round, uint32_t index, uint64_t offset, const uint8_t *data,
                     bool is_compressed, double weight)
{
    const tr__block *block = &server->block[index];
    tr_mean         *mean = &round->chunk[chunk_of(server, block, offset)];
    uint8_t         *sum = round->sum[index] + offset;
    const int64_t    count = (int64_t)chunk_bytes(server, block, offset) / tr_dtype_size(block->dtype);

    if (is_compressed) {
        uint8_t *to = mean->count ? (uint8_t *)server->decoded : sum;        /* the first may lie in the sum */
        tr_compress_decode(&server->compress, (float *)(void *)to, data, count);
        data = to;
    }
    tr_mean_add(mean, block->dtype, sum, data, count, weight);
    mean->turn++;
    move_on(server, round, index, offset);
}

static bool is_turn(const tr_server *server, const tr__trainer *trainer, uint32_t index, uint64_t offset)
{
    return trainer->round->chunk[chunk_of(server, &server->block[index], offset)].turn == index_of(server, trainer);
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

    if (wire->kind != TR_WIRE_PUSH_MANY)
        return each(server, trainer, wire, wire->push.block, wire->push.offset, payload, wire->bytes);
    if (tr_wire_entries_open(&entries, payload, wire->bytes, wire->push_many.count) != TR_OK)
        return false;
    while (tr_wire_entries_next(&entries, &block, &data, &bytes))
        if (!each(server, trainer, wire, block, 0, data, bytes))
            return false;
    return true;
}

static bool begins_piece(const tr_server *server, uint32_t index, uint64_t offset)
{
    return index < server->block_count && offset % server->chunk_bytes == 0 && offset < server->block[index].bytes;
}

static bool is_piece(const tr_server *server, uint32_t index, uint64_t offset, uint64_t bytes)
{
    return begins_piece(server, index, offset) && bytes == chunk_bytes(server, &server->block[index], offset);
}

/* May this piece travel compressed, and is it what it says? */
static tr_status check_compressed(const tr_server *server, uint32_t index, uint64_t offset, const uint8_t *data, uint64_t bytes)
{
    const tr__block *block = &server->block[index];

    if (!tr_compress_takes(&server->compress, block->dtype, block->bytes, server->chunk_bytes))
        return tr_fail(TR_EFORMAT, "compressed gradient: '%s' travels as it is", server->setup->blocks[index]->grad);
    return tr_compress_check(&server->compress, data, bytes, (int64_t)chunk_bytes(server, block, offset) / 4);
}

/* Note that this part has come; false, with a failure, when it must not. */
static bool note_part(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint32_t index, uint64_t offset,
                      const uint8_t *data, uint64_t bytes)
{
    const bool is_compressed = wire->kind == TR_WIRE_PUSH_COMPRESSED;

    if (is_compressed ? !begins_piece(server, index, offset) : !is_piece(server, index, offset, bytes)) {
        tr_fail(TR_EFORMAT, "%s pushed %llu bytes at %llu of block %u, which is no piece of one",
                tr__server_trainer_name(server, trainer), (unsigned long long)bytes, (unsigned long long)offset, index);
        return false;
    }
    if (is_compressed && check_compressed(server, index, offset, data, bytes) != TR_OK) {
        tr_context(TR_EFORMAT, "while %s pushed '%s' at %llu", tr__server_trainer_name(server, trainer),
                   server->setup->blocks[index]->grad, (unsigned long long)offset);
        return false;
    }
    const uint64_t chunk = chunk_of(server, &server->block[index], offset);
    if (tr__server_has_part(server, trainer, wire, chunk))
        return true;
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
    (void)data;
    (void)bytes;
    return is_turn(server, trainer, index, offset) ||
           tr__server_has_part(server, trainer, wire, chunk_of(server, &server->block[index], offset));
}

static bool part_goes(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint32_t index, uint64_t offset,
                      const uint8_t *data, uint64_t bytes)
{
    (void)bytes;
    if (!tr__server_has_part(server, trainer, wire, chunk_of(server, &server->block[index], offset)))
        add_part(server, trainer->round, index, offset, data, wire->kind == TR_WIRE_PUSH_COMPRESSED, wire->push.weight);
    return true;
}

/* Sum a push if its turn has come. */
static bool try_push(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload)
{
    if (tr_wire_step(wire) != trainer->round->step || trainer->round->is_full ||
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
    for (int i = index_of(server, after) + 1; i < after->round->end; i++)
        if (tr__server_takes_part(&server->trainer[i], after->round) && !try_held(server, &server->trainer[i]))
            return;
}

void tr__server_round_moves(tr_server *server, tr__round *round)
{
    if (round->is_full)                            /* its chunks are of the step after that */
        return;
    move_all_on(server, round);
    for (int i = round->first; i < round->end; i++)
        try_held(server, &server->trainer[i]);
}

void tr__server_round_next(tr_server *server, tr__round *round)
{
    round->is_full = false;
    round->step++;
    round->chunks_whole = 0;
    memset(round->chunk, 0, server->chunk_count * sizeof *round->chunk);
    for (uint64_t i = 0; i < server->chunk_count; i++)
        round->chunk[i].turn = round->first;
}

/* == requests ================================================================================== */

uint8_t *tr__server_push_place(tr_server *server, const tr__trainer *trainer, const tr_wire *wire)
{
    const tr__round    *round = trainer->round;
    const tr_form_push *push = &wire->push;

    if (!server->is_running || round->is_full || push->step != round->step ||
        !is_piece(server, push->block, push->offset, wire->bytes) ||
        !is_turn(server, trainer, push->block, push->offset))
        return NULL;
    const uint64_t chunk = chunk_of(server, &server->block[push->block], push->offset);
    return round->chunk[chunk].count ? NULL : round->sum[push->block] + push->offset;
}

bool tr__server_is_sum(const tr_server *server, const tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload)
{
    if (wire->kind != TR_WIRE_PUSH || wire->push.block >= server->block_count || !trainer || !trainer->round)
        return false;
    const uint8_t *sum = trainer->round->sum[wire->push.block];
    return payload >= sum && payload < sum + server->block[wire->push.block].bytes;
}

tr_status tr__server_on_push(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint8_t *payload,
                             bool is_owned)
{
    tr_wire_entries entries;

    if (tr__server_has_ended(trainer, wire)) {
        tr__server_buffer_free(server, is_owned ? payload : NULL);
        return TR_OK;
    }
    TR_TRY(tr__server_check_step(server, trainer, wire, trainer->ended + 1));
    if (wire->kind == TR_WIRE_PUSH_MANY)
        TR_TRY(tr_wire_entries_open(&entries, payload, wire->bytes, wire->push_many.count));
    if (!each_part(server, trainer, wire, payload, note_part))
        return TR_EPEER;                           /* note_part said why */
    if (!try_push(server, trainer, wire, payload)) {
        tr__server_hold(server, &trainer->held_end, wire, payload, is_owned);
        return TR_OK;
    }
    if (is_owned)
        tr__server_buffer_free(server, payload);
    try_next(server, trainer);
    tr__server_try_apply(server, trainer->round);
    return TR_OK;
}

const char *tr__server_first_missing(const tr_server *server, const tr__trainer *trainer)
{
    if (trainer->pushed_count == server->chunk_count)
        return NULL;
    for (uint32_t i = 0; i < server->block_count; i++)
        for (uint64_t c = 0; c < server->block[i].chunks; c++) {
            const uint64_t chunk = server->block[i].first_chunk + c;
            if (!(trainer->pushed[chunk / 8] >> chunk % 8 & 1))
                return server->setup->blocks[i]->grad;
        }
    return "?";
}

/* == where it is decided what makes an update ================================================== */

static void merge_chunk(tr_server *server, uint32_t index, uint64_t offset)
{
    const tr__block *block = &server->block[index];
    const uint64_t   at = chunk_of(server, block, offset);
    const int64_t    count = (int64_t)chunk_bytes(server, block, offset) / tr_dtype_size(block->dtype);
    tr_mean          mean = {0};

    for (int i = 0; i < server->trainer_count; i++)
        if (server->takes_part[i])
            tr_mean_add(&mean, block->dtype, server->merged.sum[index] + offset, server->round[i].sum[index] + offset, count,
                        server->round[i].chunk[at].total);
    tr_mean_finish(&mean, block->dtype, server->merged.sum[index] + offset, count);
}

void tr__server_merge(tr_server *server)
{
    for (uint32_t i = 0; i < server->block_count; i++)
        for (uint64_t offset = 0; offset < server->block[i].bytes; offset += server->chunk_bytes)
            merge_chunk(server, i, offset);
    server->merged.is_full = true;
}
