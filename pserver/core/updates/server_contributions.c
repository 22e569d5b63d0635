/* server_contributions.c - see server_contributions.h. */
#include "pserver/core/updates/server_contributions.h"

#include "framework/base/memory.h"
#include "pserver/core/updates/push_parts.h"
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

/* Record that this part has arrived. False, with a failure: the trainer must not send it. */
static bool record_part(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint32_t index, uint64_t offset,
                      const uint8_t *data, uint64_t bytes)
{
    if (tr__push_check(server, trainer, wire, index, offset, data, bytes) != TR_OK)
        return false;
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
    const uint64_t chunk = tr__chunk_of(server, &server->block[index], offset);
    const bool     has = has_part(server, trainer, wire, chunk);

    (void)data;
    (void)bytes;
    switch (tr__push_part(wire)) {
    case TR_PART_FIRST:
        return tr__round_had_turn(server, trainer, index, offset);
    case TR_PART_OTHER:
        return has || (tr__round_is_turn(server, trainer, index, offset) && tr__round_has_group(tr__round_of(server, trainer), chunk));
    default:
        return has || tr__round_is_turn(server, trainer, index, offset);
    }
}

static bool part_is_added(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint32_t index, uint64_t offset,
                      const uint8_t *data, uint64_t bytes)
{
    tr__round *round = tr__round_of(server, trainer);
    const bool has = has_part(server, trainer, wire, tr__chunk_of(server, &server->block[index], offset));

    (void)bytes;
    if (tr__push_part(wire) == TR_PART_FIRST)
        tr__round_add_group(server, round, trainer, index, offset, data, wire->push.weight);
    else if (!has)
        tr__round_add(server, round, index, offset, data, wire->kind == TR_WIRE_PUSH_COMPRESSED, wire->push.weight);
    return true;
}

/* Add a push to its round if its turn has come. */
static bool try_push(tr_server *server, tr__trainer *trainer, const tr_wire *wire, tr_wire_entries entries)
{
    const tr__round *round = tr__round_of(server, trainer);

    if (tr_wire_step(wire) != round->step || round->is_full ||
        !tr__push_each(server, trainer, wire, entries, part_may_go))
        return false;
    tr__push_each(server, trainer, wire, entries, part_is_added);
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
        if (tr__push_open(&entries, &held->wire, held->payload) == TR_OK && try_push(server, trainer, &held->wire, entries)) {
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

/* The sum of the trainer's group is there, perhaps after the turn has passed on to another trainer of the group. */
static void try_group(tr_server *server, const tr__trainer *first)
{
    bool went = true;

    while (went) {
        went = false;
        for (int i = first->index + 1; i < server->roster->group_end[first->index]; i++)
            went |= try_deferred(server, &server->trainer[i]);
    }
    try_next(server, &server->trainer[server->roster->group_end[first->index] - 1]);
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

/* May the trainer's messages come through a carrier? While one is on its way, the same message may come from the trainer itself, or from
 * its replacement, be added, and be followed by other trainers' parts. */
static bool comes_two_ways(const tr_server *server, const tr__trainer *trainer)
{
    const tr_roster *roster = server->roster;
    const bool       is_alone = roster->group_end[trainer->index] - roster->group_first[trainer->index] == 1;

    return !is_alone && !tr_roster_share_host(roster, roster->self, trainer->rank);
}

uint8_t *tr__contributions_receive_buffer(tr_server *server, const tr__trainer *trainer, const tr_wire *wire)
{
    const tr__round    *round = server->contributions ? tr__round_of(server, trainer) : NULL;
    const tr_form_push *push = &wire->push;

    if (!server->is_running || !round || round->is_full || push->step != round->step || comes_two_ways(server, trainer) ||
        !tr__push_is_piece(server, push->block, push->offset, wire->bytes) ||
        !tr__round_is_turn(server, trainer, push->block, push->offset))
        return NULL;
    const uint64_t chunk = tr__chunk_of(server, &server->block[push->block], push->offset);
    return tr__round_is_new(round, chunk) ? round->sum[push->block] + push->offset : NULL;
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
    TR_TRY(tr__push_open(&entries, wire, payload));
    if (!tr__push_each(server, trainer, wire, entries, record_part))
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

/* Record that this part of a process that is dead has arrived, for the process that comes after it. */
static bool part_is_noted(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint32_t index, uint64_t offset,
                          const uint8_t *data, uint64_t bytes)
{
    tr__contribution *c = of(server, trainer);
    const uint64_t    chunk = tr__chunk_of(server, &server->block[index], offset);

    (void)data;
    (void)bytes;
    if (c->pushed[chunk / 8] >> chunk % 8 & 1)
        return true;
    c->pushed[chunk / 8] |= (uint8_t)(1 << chunk % 8);
    c->pushed_count++;
    if (c->dead_incarnation && c->dead_step == tr_wire_step(wire))
        c->dead_incarnation[chunk] = wire->incarnation;
    return true;
}

void tr__contributions_on_late_sum(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint8_t *payload)
{
    tr_wire         late = *wire;
    tr_wire_entries entries;

    late.seq = NO_SEQ;
    if (tr__round_of(server, trainer)->step != tr_wire_step(wire) || !tr__push_is_good(server, trainer, wire, payload)) {
        tr__server_buffer_free(server, payload);
        return;
    }
    if (trainer->ended + 1 == tr_wire_step(wire) && tr__push_open(&entries, wire, payload) == TR_OK)
        tr__push_each(server, trainer, wire, entries, part_is_noted);
    tr__deferred_put(server, &of(server, trainer)->held, &late, payload, true);
    if (try_deferred(server, trainer))
        try_group(server, trainer);
}

void tr__contributions_on_push_again(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload)
{
    tr__deferred *held = of(server, trainer)->held.first;

    while (held && held->wire.seq != wire->seq)
        held = held->next;
    held = held ? held : tr__stream_parked(server, trainer, wire->seq);
    if (!held || !tr__push_is_dense(held->wire.kind) || tr__push_part(&held->wire) != TR_PART_OTHER || tr__push_part(wire) != TR_PART_OWN ||
        !tr__push_is_good(server, trainer, wire, payload))
        return;
    tr__server_buffer_free(server, held->payload);
    held->wire = *wire;
    held->payload = memcpy(tr__server_buffer_new(server, wire->bytes), payload, wire->bytes);
    if (try_deferred(server, trainer))
        try_next(server, trainer);
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

static void forget_chunk(tr__contribution *c, uint64_t chunk)
{
    c->dead_incarnation[chunk] = 0;
    c->pushed[chunk / 8] &= (uint8_t)~(1 << chunk % 8);
    c->pushed_count--;
}

/* Of the chunks that a dead process has pushed, those with data wait on for their turn. The others were to lie in a sum of the group, which
 * may never come. */
static void keep_data(tr_server *server, tr__contribution *c)
{
    tr__deferred_list kept = {NULL, NULL};
    tr__deferred     *held;

    while ((held = tr__deferred_take(&c->held))) {
        held->wire.seq = NO_SEQ;
        if (tr__push_part(&held->wire) == TR_PART_OTHER)
            forget_chunk(c, tr__chunk_of(server, &server->block[held->wire.push.block], held->wire.push.offset));
        else
            tr__deferred_put(server, &kept, &held->wire, held->payload, true);
        free(held);
    }
    c->held = kept;
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
    keep_data(server, c);
    set_first_open(server, trainer);
}
