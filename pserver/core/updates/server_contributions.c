/* server_contributions.c - see server_contributions.h. */
#include "pserver/core/updates/server_contributions.h"

#include "framework/base/memory.h"
#include "pserver/core/updates/server_streams.h"

#include <stdlib.h>
#include <string.h>

/* The state of a trainer's next step on this server. */
struct tr__contribution {
    uint8_t      *pushed;             /* one bit for each chunk that it has pushed */
    uint64_t      pushed_count;
    uint64_t      dead_step;          /* the step that `dead_incarnation` is about */
    uint32_t     *dead_incarnation;         /* of each chunk: the incarnation of the dead process that pushed it; 0: none. NULL: no process
                                             * died */
    tr__deferred_list held;           /* pushes whose turn has not come, in order of seq */
};

static tr__contribution *of(const tr_server *server, const tr__trainer *trainer)
{
    return &server->contributions[trainer->index];
}

/* == life ====================================================================================== */

void tr__contributions_new(tr_server *server)
{
    server->contributions = tr__must_array((size_t)server->trainer_count, sizeof *server->contributions);
    for (int i = 0; i < server->trainer_count; i++)
        server->contributions[i].pushed = tr__must_array(server->chunk_count / 8 + 1, 1);
}

void tr__contributions_free(tr_server *server)
{
    tr__contribution *c = server->contributions;

    for (int i = 0; c && i < server->trainer_count; i++) {
        tr__deferred_drop(server, &c[i].held);
        free(c[i].pushed);
        free(c[i].dead_incarnation);
    }
    free(c);
}

/* Is this chunk in the sum already, from an earlier process of this trainer that died? */
static bool has_part(const tr_server *server, const tr__trainer *trainer, const tr_wire *wire, uint64_t chunk)
{
    const tr__contribution *c = of(server, trainer);

    return c->dead_incarnation && tr_wire_step(wire) == c->dead_step && c->dead_incarnation[chunk] &&
           c->dead_incarnation[chunk] != wire->incarnation;
}

/* == parts ===================================================================================== */

/* Calls `each` for every part of a push; stops at the first false, which it returns. */
typedef bool (*part_fn)(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint32_t block, uint64_t offset,
                        const uint8_t *data, uint64_t bytes);

/* Open the entries of a PUSH_MANY; of another push they stay empty. */
static tr_status open_entries(tr_wire_entries *out, const tr_wire *wire, const uint8_t *payload)
{
    *out = (tr_wire_entries){.payload = payload};
    return wire->kind == TR_WIRE_PUSH_MANY ? tr_wire_entries_open(out, payload, wire->bytes, wire->push_many.count) : TR_OK;
}

static bool each_part(tr_server *server, tr__trainer *trainer, const tr_wire *wire, tr_wire_entries entries, part_fn each)
{
    uint32_t       block;
    const uint8_t *data;
    uint64_t       bytes;

    if (wire->kind != TR_WIRE_PUSH_MANY)
        return each(server, trainer, wire, wire->push.block, wire->push.offset, entries.payload, wire->bytes);
    while (tr_wire_entries_next(&entries, &block, &data, &bytes))
        if (!each(server, trainer, wire, block, 0, data, bytes))
            return false;
    return true;
}

static bool begins_piece(const tr_server *server, uint32_t index, uint64_t offset)
{
    return index < server->block_count && (offset == 0 || offset % server->chunk_bytes == 0) && offset < server->block[index].bytes;
}

static bool is_piece(const tr_server *server, uint32_t index, uint64_t offset, uint64_t bytes)
{
    return begins_piece(server, index, offset) && bytes == tr__chunk_bytes(server, &server->block[index], offset);
}

/* May this piece travel compressed, and is it what it says? */
static tr_status check_compressed(const tr_server *server, uint32_t index, uint64_t offset, const uint8_t *data, uint64_t bytes)
{
    const tr__block *block = &server->block[index];

    if (!tr_compress_takes(&server->compress, block->dtype, block->bytes, server->chunk_bytes))
        return tr_fail(TR_EFORMAT, "compressed gradient: '%s' travels as it is", server->setup->blocks[index]->grad);
    return tr_compress_check(&server->compress, data, bytes, (int64_t)tr__chunk_bytes(server, block, offset) / 4);
}

/* Record that this part has arrived. False, with a failure: the trainer must not send it. */
static bool record_part(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint32_t index, uint64_t offset,
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
    tr__contribution *c = of(server, trainer);
    const uint64_t    chunk = tr__chunk_of(server, &server->block[index], offset);
    if (has_part(server, trainer, wire, chunk))
        return true;
    if (c->pushed[chunk / 8] >> chunk % 8 & 1) {
        tr_fail(TR_EPEER, "%s pushed '%s' twice in step %llu", tr__server_trainer_name(server, trainer),
                server->setup->blocks[index]->grad, (unsigned long long)trainer->ended + 1);
        return false;
    }
    c->pushed[chunk / 8] |= (uint8_t)(1 << chunk % 8);
    c->pushed_count++;
    return true;
}

static bool part_may_go(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint32_t index, uint64_t offset,
                        const uint8_t *data, uint64_t bytes)
{
    (void)data;
    (void)bytes;
    return tr__round_is_turn(server, trainer, index, offset) ||
           has_part(server, trainer, wire, tr__chunk_of(server, &server->block[index], offset));
}

static bool part_is_added(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint32_t index, uint64_t offset,
                      const uint8_t *data, uint64_t bytes)
{
    (void)bytes;
    if (!has_part(server, trainer, wire, tr__chunk_of(server, &server->block[index], offset)))
        tr__round_add(server, tr__round_of(server, trainer), index, offset, data, wire->kind == TR_WIRE_PUSH_COMPRESSED, wire->push.weight);
    return true;
}

/* Add a push to its round if its turn has come. */
static bool try_push(tr_server *server, tr__trainer *trainer, const tr_wire *wire, tr_wire_entries entries)
{
    const tr__round *round = tr__round_of(server, trainer);

    if (tr_wire_step(wire) != round->step || round->is_full ||
        !each_part(server, trainer, wire, entries, part_may_go))
        return false;
    each_part(server, trainer, wire, entries, part_is_added);
    return true;
}

/* The number of deferred chunks of a dead process, whose stream does not exist any more. */
static const uint64_t NO_SEQ = UINT64_MAX;

static void set_first_open(tr_server *server, const tr__trainer *trainer)
{
    const tr__deferred *held = of(server, trainer)->held.first;

    while (held && held->wire.seq == NO_SEQ)
        held = held->next;
    tr__stream_open(server, trainer, TR__OPEN_PUSH, held ? held->wire.seq : 0);
}

/* Add the trainer's deferred pushes whose turn has come. Returns whether there was any. */
static bool try_deferred(tr_server *server, tr__trainer *trainer)
{
    tr__deferred_list *list = &of(server, trainer)->held, left = {NULL, NULL};
    bool           went = false;
    tr__deferred      *held;

    if (!list->first)
        return false;
    while ((held = tr__deferred_take(list))) {
        tr_wire_entries entries;
        if (open_entries(&entries, &held->wire, held->payload) == TR_OK && try_push(server, trainer, &held->wire, entries)) {
            tr__server_buffer_free(server, held->payload);
            went = true;
        } else {
            tr__deferred_put(server, &left, &held->wire, held->payload, true);
        }
        free(held);
    }
    *list = left;
    set_first_open(server, trainer);
    if (went)
        tr__stream_owe(server, trainer);
    return went;
}

/* A chunk of trainer `after` was added. So chunks of the next trainer may have their turn, then those of the one after it, and so on. */
static void try_next(tr_server *server, const tr__trainer *after)
{
    const tr__round *round = tr__round_of(server, after);

    for (int i = after->index + 1; i < round->end; i++)
        if (tr__round_takes_part(&server->trainer[i], round) && !try_deferred(server, &server->trainer[i]))
            return;
}

/* Is the round of one trainer, which has ended its step without a gradient? */
static bool is_left_out(const tr_server *server, const tr__round *round)
{
    return server->policy.gathers_per_trainer && tr__server_has_left_out(&server->trainer[round->first], round->step);
}

tr__round_state tr__round_advance(tr_server *server, tr__round *round)
{
    if (round->is_full)                            /* deferred chunks are of the next step */
        return TR__ROUND_WAITS;
    if (round->turns_changed) {
        round->turns_changed = false;
        tr__round_move_all_on(server, round);
        for (int i = round->first; i < round->end; i++)
            try_deferred(server, &server->trainer[i]);
    }
    if (is_left_out(server, round))
        return TR__ROUND_LEFT_OUT;
    return server->is_running && tr__round_is_complete(server, round) ? TR__ROUND_COMPLETE : TR__ROUND_WAITS;
}

/* == requests ================================================================================== */

uint8_t *tr__contributions_receive_buffer(tr_server *server, const tr__trainer *trainer, const tr_wire *wire)
{
    const tr__round    *round = server->contributions ? tr__round_of(server, trainer) : NULL;
    const tr_form_push *push = &wire->push;

    if (!server->is_running || !round || round->is_full || push->step != round->step ||
        !is_piece(server, push->block, push->offset, wire->bytes) ||
        !tr__round_is_turn(server, trainer, push->block, push->offset))
        return NULL;
    const uint64_t chunk = tr__chunk_of(server, &server->block[push->block], push->offset);
    return round->chunk[chunk].count ? NULL : round->sum[push->block] + push->offset;
}

bool tr__contributions_is_buffer(const tr_server *server, const tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload)
{
    if (wire->kind != TR_WIRE_PUSH || wire->push.block >= server->block_count || !trainer || !server->contributions)
        return false;
    const uint8_t *sum = tr__round_of(server, trainer)->sum[wire->push.block];
    return payload >= sum && payload < sum + server->block[wire->push.block].bytes;
}

tr_status tr__contributions_on_push(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint8_t *payload, bool is_owned)
{
    tr_wire_entries entries;

    if (tr__server_has_ended(trainer, tr_wire_step(wire))) {
        tr__server_buffer_free(server, is_owned ? payload : NULL);
        return TR_OK;
    }
    TR_TRY(tr__server_check_step(server, trainer, wire, trainer->ended + 1));
    TR_TRY(open_entries(&entries, wire, payload));
    if (!each_part(server, trainer, wire, entries, record_part))
        return TR_EPEER;                           /* record_part has set the text */
    if (!try_push(server, trainer, wire, entries)) {
        tr__deferred_put(server, &of(server, trainer)->held, wire, payload, is_owned);
        set_first_open(server, trainer);
        return TR_OK;
    }
    if (is_owned)
        tr__server_buffer_free(server, payload);
    try_next(server, trainer);
    return TR_OK;
}

uint64_t tr__contributions_begun(const tr_server *server, const tr__trainer *trainer)
{
    return server->contributions ? of(server, trainer)->pushed_count : 0;
}

const char *tr__contributions_first_missing(const tr_server *server, const tr__trainer *trainer)
{
    const tr__contribution *c = of(server, trainer);

    if (c->pushed_count == server->chunk_count)
        return NULL;
    for (uint32_t i = 0; i < server->block_count; i++)
        for (uint64_t k = 0; k < server->block[i].chunks; k++) {
            const uint64_t chunk = server->block[i].first_chunk + k;
            if (!(c->pushed[chunk / 8] >> chunk % 8 & 1))
                return server->setup->blocks[i]->grad;
        }
    return "?";
}

static void forget_pushed(const tr_server *server, tr__contribution *c)
{
    memset(c->pushed, 0, server->chunk_count / 8 + 1);
    c->pushed_count = 0;
}

/* Record a step without a gradient. Such steps follow one another: they are the steps of a dead process that only some servers have, or
 * those that others made while this trainer waited for them. */
static void leave_out(tr__trainer *trainer)
{
    if (trainer->left_out_to + 1 != trainer->ended)
        trainer->left_out_from = trainer->ended;
    trainer->left_out_to = trainer->ended;
}

void tr__contributions_ended(tr_server *server, tr__trainer *trainer, bool has_gradient)
{
    forget_pushed(server, of(server, trainer));
    if (has_gradient) {
        tr__round_check(server, tr__round_of(server, trainer));
    } else {
        leave_out(trainer);
        tr__round_turns_change(server, tr__round_of(server, trainer));     /* in a common sum, the turn goes on to the next trainer */
    }
}

/* == a trainer that died ======================================================================= */

void tr__contributions_abandon(tr_server *server, const tr__trainer *trainer)
{
    tr__contribution *c = of(server, trainer);

    if (!server->policy.gathers_per_trainer)
        return;                                    /* its chunks are in a common sum, or are deferred for it */
    tr__deferred_drop(server, &c->held);
    set_first_open(server, trainer);
    forget_pushed(server, c);
    if (!tr__round_of(server, trainer)->is_full)
        tr__round_empty(server, tr__round_of(server, trainer));
}

void tr__contributions_keep_for_replacement(tr_server *server, const tr__trainer *trainer)
{
    tr__contribution *c = of(server, trainer);

    if (server->policy.gathers_per_trainer)
        return;
    if (!c->dead_incarnation)
        c->dead_incarnation = tr__must_array(server->chunk_count + 1, sizeof *c->dead_incarnation);
    if (c->dead_step != trainer->ended + 1)
        memset(c->dead_incarnation, 0, server->chunk_count * sizeof *c->dead_incarnation);
    c->dead_step = trainer->ended + 1;
    for (uint64_t chunk = 0; chunk < server->chunk_count; chunk++)
        if (c->pushed[chunk / 8] >> chunk % 8 & 1 && !c->dead_incarnation[chunk])
            c->dead_incarnation[chunk] = trainer->incarnation;
    for (tr__deferred *held = c->held.first; held; held = held->next)
        held->wire.seq = NO_SEQ;
    set_first_open(server, trainer);
}
