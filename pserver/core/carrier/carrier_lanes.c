/* carrier_lanes.c - the requests of each trainer of a group to each server wait for their turn, and leave in their order. */
#include "pserver/core/carrier/carrier_state.h"

#include "framework/base/memory.h"

#include <stdlib.h>
#include <string.h>

/* How long a request waits for those of other trainers, in nanoseconds. While these have not ended their step, no server could use a
 * gradient or give parameters. After that a trainer that waits for parameters waits only shortly. */
static const int64_t PULL_PATIENCE = 20000000, PATIENCE = 2000000000;

/* After one waited in vain, pushes are not put together for so many steps. */
static const uint64_t APART = 16;

static int member_count(const tr_carrier *carrier)
{
    return carrier->end - carrier->first;
}

/* == what leaves ================================================================================== */

static tr__load *pop(tr__queue *queue)
{
    tr__load *load = queue->first;

    queue->first = load->next;
    if (!queue->first)
        queue->last = NULL;
    return load;
}

/* A request leaves with its payload. */
static void send(tr_carrier *carrier, int server, const tr__load *load)
{
    tr_outbox_put(&carrier->outbox, &(tr_message){.peer = server, .wire = load->wire, .payload = load->payload, .owned = load->owned,
                                                  .loan = load->cargo ? &load->cargo->loan : NULL});
}

static void carry_on(tr_carrier *carrier, const tr__lane *lane, tr__queue *queue)
{
    tr__load *load = pop(queue);

    send(carrier, lane->rank, load);
    free(load);
}

static void drop(tr__load *load)
{
    if (load->cargo)
        load->cargo->loan.readers--;
    free(load->owned);
    free(load);
}

/* A push leaves with the sum, or without data, because they are in the sum. */
static void send_part(tr_carrier *carrier, int server, const tr_wire *push, const tr__sum *sum, bool is_first)
{
    const uint32_t part = is_first ? TR_PART_FIRST : TR_PART_OTHER;
    tr__cargo     *cargo = is_first ? sum->sum : sum->rest;
    tr_message     message = {.peer = server, .wire = *push, .payload = cargo ? cargo->payload : NULL, .loan = cargo ? &cargo->loan : NULL};

    message.wire.bytes = is_first ? sum->bytes : sum->rest_bytes;
    if (cargo)
        cargo->loan.readers++;
    if (push->kind == TR_WIRE_PUSH_ROWS) {
        message.wire.push_rows.part = part;
    } else if (push->kind == TR_WIRE_PUSH_MANY) {
        message.wire.push_many.part = part;
    } else {
        message.wire.kind = TR_WIRE_PUSH;
        message.wire.push.part = part;
    }
    tr_outbox_put(&carrier->outbox, &message);
}

/* The pushes at the heads leave as one sum. False: they cannot be added up. */
static bool send_sum(tr_carrier *carrier, tr__lane *lane)
{
    const bool    is_rows = lane->queue[0].first->wire.kind == TR_WIRE_PUSH_ROWS;
    const tr__sum sum = tr__carrier_sum(carrier, lane);

    if (!sum.sum)
        return false;
    for (int i = 0; i < member_count(carrier); i++)
        for (uint32_t k = 0, pieces = tr__carrier_pieces(&lane->queue[i]); k < pieces; k++) {
            tr__load *load = pop(&lane->queue[i]);
            send_part(carrier, lane->rank, &load->wire, &sum, !i && !k);
            drop(load);
        }
    sum.sum->loan.readers--;                       /* this function */
    if (sum.rest)
        sum.rest->loan.readers--;
    *(is_rows ? &carrier->row_sums : &carrier->chunk_sums) += 1;
    return true;
}

static bool send_shared_pull(tr_carrier *carrier, tr__lane *lane)
{
    if (!tr__carrier_share(carrier, lane))
        return false;
    for (int i = 0; i < member_count(carrier); i++) {
        lane->queue[i].first->wire.pull.part = i ? TR_PART_OTHER : TR_PART_FIRST;
        carry_on(carrier, lane, &lane->queue[i]);
    }
    return true;
}

static bool join(tr_carrier *carrier, tr__lane *lane)
{
    return tr__carrier_match(carrier, lane) &&
           (lane->queue[0].first->wire.kind == TR_WIRE_PULL ? send_shared_pull(carrier, lane) : send_sum(carrier, lane));
}

/* == whose turn it is ============================================================================= */

/* May this request be put together with others: has every trainer sent a push of an earlier step this way? */
static bool is_wanted(const tr_carrier *carrier, const tr__lane *lane, const tr_wire *wire)
{
    const uint64_t step = tr_wire_step(wire);

    if (!tr__carrier_joins(carrier, wire) || !carrier->block || (tr_wire_is_push(wire->kind) && step <= lane->pushes_apart))
        return false;
    for (int i = 0; i < member_count(carrier); i++)
        if (!lane->queue[i].is_in || lane->queue[i].in_step >= step)
            return false;
    return true;
}

/* Carry on what is not to be put together. Returns whether requests are missing then. */
static bool skip(tr_carrier *carrier, tr__lane *lane)
{
    bool is_any_missing = false;

    for (int i = 0; i < member_count(carrier); i++) {
        tr__queue *queue = &lane->queue[i];
        while (queue->first && !is_wanted(carrier, lane, &queue->first->wire))
            carry_on(carrier, lane, queue);
        is_any_missing |= !queue->first || !tr__carrier_has_all(queue);
    }
    return is_any_missing;
}

/* A request leaves alone that was to be put together with others. If it is a push, so do all others of its step, and of so many steps
 * more. A trainer may have no more than so many pushes under way (client.h), so it could wait for acknowledgements of those that wait here
 * for another trainer's. */
static void give_up(tr_carrier *carrier, tr__lane *lane, tr__queue *queue, uint64_t steps)
{
    const tr_wire *wire = &queue->first->wire;

    if (tr_wire_is_push(wire->kind) && tr_wire_step(wire) + steps > lane->pushes_apart)
        lane->pushes_apart = tr_wire_step(wire) + steps;
    carry_on(carrier, lane, queue);
}

static void run(tr_carrier *carrier, tr__lane *lane)
{
    while (!skip(carrier, lane))
        if (!join(carrier, lane))
            for (int i = 0; i < member_count(carrier); i++)
                give_up(carrier, lane, &lane->queue[i], 0);
}

/* == the lane of a server ========================================================================= */

static void drop_queue(tr__queue *queue)
{
    while (queue->first)
        drop(pop(queue));
    *queue = (tr__queue){0};
}

static void drop_lane(tr_carrier *carrier, int server)
{
    tr__lane *lane = carrier->lane[server];

    carrier->lane[server] = NULL;
    for (int i = 0; lane && i < member_count(carrier); i++)
        drop_queue(&lane->queue[i]);
    free(lane);
}

/* The lane to the server of this rank. NULL: this rank is no server, or not any more. */
static tr__lane *lane_to(tr_carrier *carrier, int rank)
{
    const tr_roster *roster = carrier->roster;
    const int        server = roster->rank[rank].index;

    if (roster->rank[rank].role != TR_ROLE_SERVER || roster->server_rank[server] != rank)
        return NULL;
    if (carrier->lane[server] && carrier->lane[server]->rank != rank)          /* its predecessor's */
        drop_lane(carrier, server);
    if (!carrier->lane[server]) {
        const size_t bytes = sizeof(tr__lane) + (size_t)member_count(carrier) * sizeof(tr__queue);
        carrier->lane[server] = memset(tr__must_bytes(bytes), 0, bytes);
        carrier->lane[server]->rank = rank;
    }
    return carrier->lane[server];
}

/* == what comes =================================================================================== */

/* Nothing is put together until all have sent a push again. */
static void lose_member(tr_carrier *carrier, int member)
{
    for (int s = 0; s < carrier->servers; s++) {
        tr__lane *lane = carrier->lane[s];
        if (!lane)
            continue;
        drop_queue(&lane->queue[member]);
        for (int i = 0; i < member_count(carrier); i++)
            lane->queue[i].is_in = false;
        run(carrier, lane);
    }
}

/* Another process may be a trainer of the group now. */
static void see_replacements(tr_carrier *carrier)
{
    for (int i = 0; i < member_count(carrier); i++) {
        const int rank = carrier->roster->trainer_rank[carrier->first + i];
        if (carrier->rank[i] != rank)
            lose_member(carrier, i);
        carrier->rank[i] = rank;
    }
}

/* The number of a rank in the group; -1: it is in another one, or is a replacement of which this rank has not heard yet. */
static int member_of(const tr_carrier *carrier, int rank)
{
    for (int i = 0; i < member_count(carrier); i++)
        if (carrier->rank[i] == rank)
            return i;
    return -1;
}

static void note(const tr_carrier *carrier, tr__lane *lane, tr__queue *queue, const tr_wire *wire)
{
    if (queue->seq && wire->seq != queue->seq + 1)         /* a request was lost */
        queue->is_in = false;
    queue->seq = wire->seq;
    if (wire->kind == TR_WIRE_DRAIN || wire->kind == TR_WIRE_GOODBYE) {
        queue->is_in = false;
    } else if (!queue->is_in && tr_wire_is_push(wire->kind)) {
        queue->is_in = true;
        queue->in_step = tr_wire_step(wire);
    } else if (wire->kind == TR_WIRE_STEP_END) {
        queue->ended = tr_wire_step(wire);
        lane->ended_at = carrier->now;
    }
}

void tr__carrier_take(tr_carrier *carrier, int server, const tr__load *load)
{
    see_replacements(carrier);
    const int  member = member_of(carrier, (int)load->wire.sender);
    tr__lane  *lane = member < 0 ? NULL : lane_to(carrier, server);
    tr__queue *queue = lane ? &lane->queue[member] : NULL;
    if (!queue || (queue->seq && load->wire.seq <= queue->seq)) {      /* it is repeated, and waits for nothing */
        send(carrier, server, load);
        return;
    }
    note(carrier, lane, queue, &load->wire);
    tr__load *last = tr__must_bytes(sizeof *last);
    *last = *load;
    last->next = NULL;
    last->since = carrier->now;
    if (queue->last)
        queue->last->next = last;
    else
        queue->first = last;
    queue->last = last;
    run(carrier, lane);
}

/* == the end ====================================================================================== */

void tr__carrier_free_lanes(tr_carrier *carrier)
{
    for (int s = 0; s < carrier->servers; s++)
        drop_lane(carrier, s);
}

static void lose_server(tr_carrier *carrier, int rank)
{
    for (int s = 0; s < carrier->servers; s++)
        if (carrier->lane[s] && carrier->lane[s]->rank == rank)
            drop_lane(carrier, s);
    tr__carrier_forget_shared(carrier, rank);
}

void tr__carrier_lost(tr_carrier *carrier, int rank)
{
    see_replacements(carrier);
    const int member = member_of(carrier, rank);
    lose_server(carrier, rank);
    if (member >= 0)
        lose_member(carrier, member);
}

static bool have_all_ended(const tr_carrier *carrier, const tr__lane *lane, uint64_t step)
{
    for (int i = 0; i < member_count(carrier); i++)
        if (lane->queue[i].ended < step)
            return false;
    return true;
}

/* Until when this request waits for those of others. */
static int64_t waits_until(const tr_carrier *carrier, const tr__lane *lane, const tr__load *load)
{
    const bool    is_short = load->wire.kind == TR_WIRE_PULL && have_all_ended(carrier, lane, load->wire.pull.step);
    const int64_t since = is_short && lane->ended_at > load->since ? lane->ended_at : load->since;

    return since + (is_short ? PULL_PATIENCE : PATIENCE);
}

/* Carry on alone what has waited too long in a lane. Returns until when the others wait. */
static int64_t look(tr_carrier *carrier, tr__lane *lane)
{
    int64_t at = INT64_MAX;

    for (int i = 0; i < member_count(carrier); i++) {
        tr__queue *queue = &lane->queue[i];
        while (queue->first && carrier->now >= waits_until(carrier, lane, queue->first)) {
            give_up(carrier, lane, queue, APART);
            run(carrier, lane);
        }
        const int64_t until = queue->first ? waits_until(carrier, lane, queue->first) : INT64_MAX;
        at = until < at ? until : at;
    }
    return at;
}

int64_t tr__carrier_look(tr_carrier *carrier)
{
    int64_t at = INT64_MAX;

    for (int s = 0; s < carrier->servers; s++) {
        const int64_t until = carrier->lane[s] ? look(carrier, carrier->lane[s]) : INT64_MAX;
        at = until < at ? until : at;
    }
    return at;
}
