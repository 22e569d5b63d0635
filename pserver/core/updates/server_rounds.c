/* server_rounds.c - see server_rounds.h. */
#include "pserver/core/updates/server_rounds.h"

#include "framework/base/memory.h"
#include "pserver/core/updates/server_sets.h"

#include <stdlib.h>
#include <string.h>

struct tr__rounds {
    int        count;                 /* the number of rounds: 1, or one for each trainer */
    tr__round *round;
    tr__round  merged;                /* where server 0 decides: the mean of those rounds */
    float     *decoded;               /* buffer for one decompressed chunk */
};

/* == life ====================================================================================== */

/* A full chunk is cleared lazily: its first part overwrites the sum. */
void tr__round_empty(tr_server *server, tr__round *round)
{
    round->is_full = false;
    round->chunks_whole = 0;
    for (uint64_t i = 0; i < server->chunk_count; i++) {
        tr__server_buffer_free(server, round->chunk[i].group_sum);
        round->chunk[i] = (tr__chunk_sum){.turn = round->first};
    }
}

static tr_status init_round(tr_server *server, tr__round *round, int first, int end)
{
    *round = (tr__round){.first = first, .end = end};
    round->chunk = tr__must_array(server->chunk_count + 1, sizeof *round->chunk);
    round->sum = tr__must_array(server->block_count + 1, sizeof *round->sum);
    for (uint32_t i = 0; i < server->block_count; i++) {
        const uint64_t bytes = server->block[i].bytes;
        round->sum[i] = tr__array_alloc(bytes);
        if (!round->sum[i])
            return tr_fail(TR_ENOMEM, "no memory for gradient '%s' of %llu bytes", server->setup->blocks[i]->grad,
                           (unsigned long long)bytes);
    }
    tr__round_empty(server, round);
    round->step = 1;
    return TR_OK;
}

static void deinit_round(tr_server *server, tr__round *round)
{
    for (uint64_t i = 0; round->chunk && i < server->chunk_count; i++)
        tr__server_buffer_free(server, round->chunk[i].group_sum);
    for (uint32_t i = 0; round->sum && i < server->block_count; i++)
        free(round->sum[i]);
    free(round->sum);
    free(round->chunk);
}

tr_status tr__rounds_new(tr_server *server)
{
    tr__rounds *r = server->rounds = tr__must_alloc(sizeof *r);
    const bool  is_apart = server->policy.gathers_per_trainer;

    if (server->compress.kind != TR_COMPRESS_NONE) {
        r->decoded = tr__array_alloc(server->chunk_bytes);
        if (!r->decoded)
            return tr_fail(TR_ENOMEM, "no memory for a piece of %llu bytes", (unsigned long long)server->chunk_bytes);
    }
    r->count = is_apart ? server->trainer_count : 1;
    r->round = tr__must_array((size_t)r->count, sizeof *r->round);
    for (int i = 0; i < r->count; i++)
        TR_TRY(init_round(server, &r->round[i], is_apart ? i : 0, is_apart ? i + 1 : server->trainer_count));
    return server->policy.decides ? init_round(server, &r->merged, 0, server->trainer_count) : TR_OK;
}

void tr__rounds_free(tr_server *server)
{
    tr__rounds *r = server->rounds;

    if (!r)
        return;
    for (int i = 0; i < r->count; i++)
        deinit_round(server, &r->round[i]);
    deinit_round(server, &r->merged);
    free(r->round);
    free(r->decoded);
    free(r);
}

tr__round *tr__round_of(const tr_server *server, const tr__trainer *trainer)
{
    return &server->rounds->round[server->policy.gathers_per_trainer ? trainer->index : 0];
}

/* == what must be looked at ==================================================================== */

void tr__round_check(tr_server *server, tr__round *round)
{
    round->must_be_checked = true;
    tr__server_due(server, TR__RULE_ROUNDS);
}

void tr__round_turns_change(tr_server *server, tr__round *round)
{
    round->turns_changed = true;
    tr__round_check(server, round);
}

void tr__rounds_begin(tr_server *server)
{
    tr__rounds *r = server->rounds;

    for (int i = 0; i < r->count; i++) {
        r->round[i].step = (server->policy.gathers_per_trainer ? server->trainer[i].settled : server->updates) + 1;
        tr__round_turns_change(server, &r->round[i]);
    }
}

tr__round *tr__rounds_next_to_check(tr_server *server)
{
    tr__rounds *r = server->rounds;

    for (int i = 0; r && i < r->count; i++)
        if (r->round[i].must_be_checked) {
            r->round[i].must_be_checked = false;
            return &r->round[i];
        }
    return NULL;
}

void tr__round_next(tr_server *server, tr__round *round)
{
    tr__round_empty(server, round);
    round->step++;
    tr__round_turns_change(server, round);
}

/* == whose turn ================================================================================ */

/* A trainer that has left takes part in the steps that it ended. */
bool tr__round_takes_part(const tr__trainer *trainer, const tr__round *round)
{
    return (!tr_membership_is_over(trainer->state) || trainer->ended >= round->step) && !tr__server_has_left_out(trainer, round->step);
}

/* Most blocks have one chunk, and need no division. */
uint64_t tr__chunk_of(const tr_server *server, const tr__block *block, uint64_t offset)
{
    return block->first_chunk + (offset ? offset / server->chunk_bytes : 0);
}

uint64_t tr__chunk_bytes(const tr_server *server, const tr__block *block, uint64_t offset)
{
    const uint64_t left = block->bytes - offset;
    return left < server->chunk_bytes ? left : server->chunk_bytes;
}

/* Where there is only one round, a complete chunk is certain to be in the next update. So the store may compute that part of the update
 * now, if nothing is to be set before it. */
static void use_piece(tr_server *server, const tr__round *round, uint32_t index, uint64_t offset, uint64_t bytes)
{
    if (!server->store.piece || server->policy.gathers_per_trainer || server->status != TR_OK || tr__sets_has(server, -1, round->step))
        return;
    tr_effect *piece = tr_effects_add(&server->effects, TR_EFFECT_PIECE);
    piece->block = index;
    piece->offset = offset;
    piece->bytes = bytes;
    piece->grad = round->sum[index] + offset;
}

static int64_t chunk_elements(const tr_server *server, const tr__block *block, uint64_t offset)
{
    return (int64_t)tr__chunk_bytes(server, block, offset) / tr_dtype_size(block->dtype);
}

/* The group whose turn it was is over: add its sum to those of the groups before it. */
static void end_group(tr_server *server, const tr__round *round, uint32_t index, uint64_t offset)
{
    const tr__block *block = &server->block[index];
    tr__chunk_sum   *chunk = &round->chunk[tr__chunk_of(server, block, offset)];
    uint8_t         *sum = round->sum[index] + offset;

    tr_mean_join(&chunk->mean, block->dtype, sum, &chunk->group, chunk->group_sum ? chunk->group_sum : sum,
                 chunk_elements(server, block, offset));
    tr__server_buffer_free(server, chunk->group_sum);
    chunk->group_sum = NULL;
    chunk->group = (tr_mean){0};
    chunk->has_group = false;
}

/* Give the turn in a chunk to the next trainer that takes part. After the last trainer the chunk is complete. */
static void move_on(tr_server *server, tr__round *round, uint32_t index, uint64_t offset)
{
    const tr__block *block = &server->block[index];
    tr__chunk_sum   *chunk = &round->chunk[tr__chunk_of(server, block, offset)];

    if (chunk->mean.is_whole)
        return;
    while (chunk->turn < round->end && !tr__round_takes_part(&server->trainer[chunk->turn], round))
        chunk->turn++;
    if (chunk->group.parts && chunk->turn >= chunk->group_to)
        end_group(server, round, index, offset);
    if (chunk->turn == round->end && chunk->mean.parts) {
        const uint64_t bytes = tr__chunk_bytes(server, block, offset);
        tr_mean_finish(&chunk->mean, block->dtype, round->sum[index] + offset, chunk_elements(server, block, offset));
        round->chunks_whole++;
        use_piece(server, round, index, offset, bytes);
        if (round->chunks_whole == server->chunk_count)
            tr__round_check(server, round);
    }
}

void tr__round_move_all_on(tr_server *server, tr__round *round)
{
    for (uint32_t i = 0; i < server->block_count; i++)
        for (uint64_t offset = 0; offset < server->block[i].bytes; offset += server->chunk_bytes)
            move_on(server, round, i, offset);
}

/* Begin the group of the trainer whose turn it is, unless it has begun. Returns the memory for its sum. */
static uint8_t *group_sum(tr_server *server, const tr__round *round, tr__chunk_sum *chunk, uint8_t *sum)
{
    if (!chunk->group.parts && !chunk->has_group) {
        const int end = server->roster->group_end[chunk->turn];
        chunk->group_to = end < round->end ? end : round->end;
        chunk->group_sum = chunk->mean.parts ? tr__server_buffer_new(server, server->chunk_bytes) : NULL;
    }
    return chunk->group_sum ? chunk->group_sum : sum;
}

/* Decompress a part: into the sum, if it is the first one. */
static const uint8_t *decoded(const tr_server *server, const tr_mean *mean, uint8_t *sum, const uint8_t *data, int64_t count)
{
    uint8_t *to = mean->count ? (uint8_t *)server->rounds->decoded : sum;

    tr_compress_decode(&server->compress, (float *)(void *)to, data, count);
    return to;
}

void tr__round_add(tr_server *server, tr__round *round, uint32_t index, uint64_t offset, const uint8_t *data, bool is_compressed,
                   double weight)
{
    const tr__block *block = &server->block[index];
    tr__chunk_sum   *chunk = &round->chunk[tr__chunk_of(server, block, offset)];
    const int64_t    count = chunk_elements(server, block, offset);

    if (chunk->has_group) {                        /* it is in the sum already */
        tr_mean_note(&chunk->group, weight);
    } else {
        uint8_t *sum = group_sum(server, round, chunk, round->sum[index] + offset);
        if (is_compressed)
            data = decoded(server, &chunk->group, sum, data, count);
        tr_mean_add(&chunk->group, block->dtype, sum, data, count, weight);
        if (weight == 0 && block->is_number)
            tr_mean_keep(&chunk->group, block->dtype, sum, data, count);
    }
    chunk->turn++;
    move_on(server, round, index, offset);
}

void tr__round_add_group(tr_server *server, tr__round *round, const tr__trainer *trainer, uint32_t index, uint64_t offset,
                         const uint8_t *data, double weight)
{
    const tr__block *block = &server->block[index];
    tr__chunk_sum   *chunk = &round->chunk[tr__chunk_of(server, block, offset)];

    if (chunk->mean.is_whole || chunk->turn >= server->roster->group_end[trainer->index])
        return;                                    /* the group's parts came one by one */
    uint8_t *sum = group_sum(server, round, chunk, round->sum[index] + offset);
    if (sum != data)
        memcpy(sum, data, tr__chunk_bytes(server, block, offset));
    chunk->has_group = true;
    if (chunk->turn > trainer->index)
        return;
    tr_mean_note(&chunk->group, weight);
    chunk->turn++;
    move_on(server, round, index, offset);
}

static const tr__chunk_sum *chunk_at(const tr_server *server, const tr__trainer *trainer, uint32_t index, uint64_t offset)
{
    return &tr__round_of(server, trainer)->chunk[tr__chunk_of(server, &server->block[index], offset)];
}

bool tr__round_is_turn(const tr_server *server, const tr__trainer *trainer, uint32_t index, uint64_t offset)
{
    return chunk_at(server, trainer, index, offset)->turn == trainer->index;
}

bool tr__round_had_turn(const tr_server *server, const tr__trainer *trainer, uint32_t index, uint64_t offset)
{
    return chunk_at(server, trainer, index, offset)->turn >= trainer->index;
}

bool tr__round_has_group(const tr__round *round, uint64_t chunk)
{
    return round->chunk[chunk].has_group;
}

bool tr__round_is_new(const tr__round *round, uint64_t chunk)
{
    return !round->chunk[chunk].mean.parts && !round->chunk[chunk].group.count;
}

bool tr__round_is_complete(const tr_server *server, const tr__round *round)
{
    bool is_wanted = false;

    if (round->chunks_whole != server->chunk_count)
        return false;
    for (int i = round->first; i < round->end; i++) {
        const tr__trainer *t = &server->trainer[i];
        if (tr__round_takes_part(t, round) && t->ended < round->step)
            return false;
        is_wanted |= t->ended >= round->step;
    }
    return is_wanted;
}

/* == where server 0 decides what makes an update =============================================== */

static void merge_chunk(tr_server *server, const bool *who, uint32_t index, uint64_t offset)
{
    tr__rounds        *r = server->rounds;
    const tr__block   *block = &server->block[index];
    const uint64_t     at = tr__chunk_of(server, block, offset);
    const int64_t      count = (int64_t)tr__chunk_bytes(server, block, offset) / tr_dtype_size(block->dtype);
    tr_mean            mean = {0};

    for (int i = 0; i < server->trainer_count; i++)
        if (who[i]) {
            tr_mean_add(&mean, block->dtype, r->merged.sum[index] + offset, r->round[i].sum[index] + offset, count,
                        r->round[i].chunk[at].mean.total);
            if (r->round[i].chunk[at].mean.is_kept && r->round[i].chunk[at].mean.total == 0)
                tr_mean_keep(&mean, block->dtype, r->merged.sum[index] + offset, r->round[i].sum[index] + offset, count);
        }
    tr_mean_finish(&mean, block->dtype, r->merged.sum[index] + offset, count);
}

tr__round *tr__rounds_merge(tr_server *server, const bool *who)
{
    for (uint32_t i = 0; i < server->block_count; i++)
        for (uint64_t offset = 0; offset < server->block[i].bytes; offset += server->chunk_bytes)
            merge_chunk(server, who, i, offset);
    server->rounds->merged.is_full = true;
    return &server->rounds->merged;
}

bool tr__round_is_merged(const tr_server *server, const tr__round *round)
{
    return round == &server->rounds->merged;
}
