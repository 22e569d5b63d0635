/* carrier.c - see carrier.h: the life of a carrier, and what passes its boundary in each direction. */
#include "pserver/core/carrier/carrier_state.h"

#include "framework/base/memory.h"

#include <stdlib.h>
#include <string.h>

/* == buffers ====================================================================================== */

/* Two sizes of buffers serve nearly all payloads: this one, and a chunk. Sums of rows take some chunks. */
static const uint64_t SMALL = 4096;

static tr__cargo *cargo_make(const tr_carrier *carrier, uint64_t bytes)
{
    const uint64_t chunk = carrier->chunk_bytes, capacity = bytes > SMALL ? (bytes + chunk - 1) / chunk * chunk : SMALL;
    tr__cargo     *cargo = tr__must_aligned(sizeof *cargo + capacity), *last = carrier->cargos;

    cargo->loan = (tr_loan){0};
    cargo->capacity = capacity;
    cargo->next = last ? last->next : cargo;
    if (last)
        last->next = cargo;
    return cargo;
}

tr__cargo *tr__cargo_new(tr_carrier *carrier, uint64_t bytes)
{
    tr__cargo *last = carrier->cargos, *cargo = last;

    /* The buffer after the one that was taken last is the oldest one, and probably free. */
    do {
        cargo = cargo ? cargo->next : NULL;
    } while (cargo != last && (cargo->loan.readers || cargo->capacity < bytes));
    if (!cargo || cargo->loan.readers || cargo->capacity < bytes)
        cargo = cargo_make(carrier, bytes);
    cargo->loan.readers = 1;
    carrier->cargos = cargo;
    return cargo;
}

/* == life ========================================================================================= */

tr_carrier *tr_carrier_new(const tr_roster *roster, tr_node inner, uint64_t chunk_bytes)
{
    tr_carrier *carrier = tr__must_alloc(sizeof *carrier);
    const int   index = roster->rank[roster->self].index;

    carrier->roster = roster;
    carrier->inner = inner;
    carrier->chunk_bytes = chunk_bytes;
    carrier->servers = roster->servers;
    carrier->lane = tr__must_array((size_t)roster->servers, sizeof(tr__lane *));
    carrier->first = roster->group_first[index];
    carrier->end = roster->group_end[index];
    carrier->rank = tr__must_array((size_t)(carrier->end - carrier->first), sizeof *carrier->rank);
    memcpy(carrier->rank, roster->trainer_rank + carrier->first, (size_t)(carrier->end - carrier->first) * sizeof *carrier->rank);
    return carrier;
}

void tr_carrier_free(tr_carrier *carrier)
{
    if (!carrier)
        return;
    tr__carrier_free_lanes(carrier);
    free(carrier->lane);
    tr__carrier_forget_shared(carrier, -1);
    tr_outbox_deinit(&carrier->outbox);
    for (tr__cargo *cargo = carrier->cargos, *next; cargo; cargo = next) {
        next = cargo->next == carrier->cargos ? NULL : cargo->next;
        free(cargo);
    }
    for (int s = 0; carrier->block && s < carrier->servers; s++)
        free(carrier->block[s]);
    free(carrier->rank);
    free(carrier->block);
    free(carrier->block_count);
    free(carrier->decoded);
    free(carrier->width);
    free(carrier->part);
    tr_rows_merge_deinit(&carrier->merge);
    free(carrier);
}

/* The blocks of each server, in their order. */
static void divide_blocks(tr_carrier *carrier, uint32_t block_count, const tr_client_block *blocks)
{
    const size_t servers = (size_t)carrier->roster->servers;

    carrier->block = tr__must_array(servers, sizeof *carrier->block);
    carrier->block_count = tr__must_array(servers, sizeof *carrier->block_count);
    for (uint32_t i = 0; i < block_count; i++)
        carrier->block_count[blocks[i].server]++;
    for (size_t s = 0; s < servers; s++) {
        carrier->block[s] = tr__must_array(carrier->block_count[s] + 1, sizeof **carrier->block);
        carrier->block_count[s] = 0;
    }
    for (uint32_t i = 0; i < block_count; i++)
        carrier->block[blocks[i].server][carrier->block_count[blocks[i].server]++] = blocks[i];
}

void tr_carrier_set_up(tr_carrier *carrier, const tr_carrier_setup *setup)
{
    if (carrier->end - carrier->first < 2)         /* there is nobody to put anything together with */
        return;
    divide_blocks(carrier, setup->block_count, setup->blocks);
    carrier->table_count = setup->table_count;
    carrier->width = tr__must_array(setup->table_count + 1, sizeof *carrier->width);
    if (setup->table_count)
        memcpy(carrier->width, setup->width, setup->table_count * sizeof *carrier->width);
    carrier->compress = *setup->compress;
    if (setup->compress->kind != TR_COMPRESS_NONE)
        carrier->decoded = tr__must_aligned(carrier->chunk_bytes);
}

uint64_t tr_carrier_chunk_sums(const tr_carrier *carrier)
{
    return carrier->chunk_sums;
}

uint64_t tr_carrier_row_sums(const tr_carrier *carrier)
{
    return carrier->row_sums;
}

uint64_t tr_carrier_awaited_answers(const tr_carrier *carrier)
{
    uint64_t count = 0;

    for (const tr__shared *s = carrier->shared; s; s = s->next)
        count++;
    return count;
}

/* == what comes =================================================================================== */

/* Is the message for another rank, to which this rank is to carry it on? */
static bool is_for_other(const tr_carrier *carrier, const tr_wire *wire)
{
    return wire->receiver && (int)wire->receiver - 1 != carrier->roster->self;
}

static void *receive_buffer(void *self, int peer, const tr_wire *wire)
{
    tr_carrier *carrier = self;

    if (is_for_other(carrier, wire) || tr__carrier_shared(carrier, peer, wire)) {
        carrier->arriving++;
        return tr__cargo_new(carrier, wire->bytes)->payload;
    }
    return carrier->inner.receive_buffer(carrier->inner.self, peer, wire);
}

/* The payload of a message, with one reader. NULL: it has none. */
static tr__cargo *stored(tr_carrier *carrier, const tr_wire *wire, void *payload, bool is_direct)
{
    if (is_direct) {
        carrier->arriving--;
        return tr__cargo_of(payload);
    }
    if (!wire->bytes)
        return NULL;
    tr__cargo *cargo = tr__cargo_new(carrier, wire->bytes);
    memcpy(cargo->payload, payload, wire->bytes);
    return cargo;
}

/* A message for another rank: a request of a trainer of the group, or an answer to one. */
static void pass_on(tr_carrier *carrier, const tr_wire *wire, tr__cargo *cargo)
{
    const tr__load load = {.wire = *wire, .payload = cargo ? cargo->payload : NULL, .cargo = cargo};

    tr__carrier_take(carrier, (int)wire->receiver - 1, &load);
}

/* Was the message received into a buffer of this carrier? */
static bool is_cargo(const tr_carrier *carrier, const void *payload)
{
    const tr__cargo *cargo = carrier->arriving ? carrier->cargos : NULL;

    while (cargo && cargo->payload != payload)
        cargo = cargo->next == carrier->cargos ? NULL : cargo->next;
    return cargo;
}

static void receive(void *self, int64_t now, int peer, const tr_wire *wire, void *payload, bool is_direct)
{
    tr_carrier       *carrier = self;
    tr__shared *const shared = tr__carrier_shared(carrier, peer, wire);

    carrier->now = now;
    if (shared) {
        tr__cargo *cargo = stored(carrier, wire, payload, is_direct);
        tr__carrier_hand_out(carrier, shared, wire, cargo);
        cargo->loan.readers--;
    } else if (is_for_other(carrier, wire)) {
        pass_on(carrier, wire, stored(carrier, wire, payload, is_direct));
    } else if (is_direct && is_cargo(carrier, payload)) {
        stored(carrier, wire, payload, true)->loan.readers--;          /* the server has died meanwhile, and what was shared is forgotten */
    } else {
        carrier->inner.receive(carrier->inner.self, now, peer, wire, payload, is_direct);
    }
}

static void lost(void *self, int peer, const char *how)
{
    tr_carrier *carrier = self;

    tr__carrier_lost(carrier, peer);
    carrier->inner.lost(carrier->inner.self, peer, how);
}

static void left(void *self, int peer)
{
    tr_carrier *carrier = self;

    tr__carrier_lost(carrier, peer);
    carrier->inner.left(carrier->inner.self, peer);
}

/* == what leaves ================================================================================== */

/* A request of this rank's own core, for which it is the carrier. Keys of rows may lie at any place in a gradient; where they are added
 * up, they must be aligned. */
static void take_own(tr_carrier *carrier, const tr_message *message)
{
    tr__load load = {.wire = message->wire, .payload = message->payload, .owned = message->owned};

    if (load.wire.kind == TR_WIRE_PUSH_ROWS && (uintptr_t)load.payload % _Alignof(int64_t)) {
        load.cargo = tr__cargo_new(carrier, load.wire.bytes);
        load.payload = memcpy(load.cargo->payload, message->payload, load.wire.bytes);
        load.owned = NULL;
        free(message->owned);
    }
    tr__carrier_take(carrier, (int)message->wire.receiver - 1, &load);
}

static bool next(void *self, tr_message *out)
{
    tr_carrier *carrier = self;

    while (!tr_outbox_take(&carrier->outbox, out)) {
        if (!carrier->inner.next(carrier->inner.self, out))
            return false;
        if (out->peer != carrier->roster->self)
            return true;
        take_own(carrier, out);
    }
    return true;
}

static int64_t tick(void *self, int64_t now)
{
    tr_carrier   *carrier = self;
    const int64_t own = carrier->inner.tick(carrier->inner.self, now);

    carrier->now = now;
    const int64_t at = tr__carrier_look(carrier);
    return at < own ? at : own;
}

static tr_status status_of(const void *self, const char **text)
{
    const tr_carrier *carrier = self;
    return carrier->inner.status(carrier->inner.self, text);
}

static void describe(const void *self, char *out, size_t size)
{
    const tr_carrier *carrier = self;
    carrier->inner.describe(carrier->inner.self, out, size);
}

static bool awaits_receipts(const void *self, bool owner_waits)
{
    const tr_carrier *carrier = self;
    return carrier->inner.awaits_receipts(carrier->inner.self, owner_waits);
}

tr_node tr_carrier_node(tr_carrier *carrier)
{
    return (tr_node){carrier, receive_buffer, receive, lost, tick, next, status_of, describe, .left = left,
                     .awaits_receipts = awaits_receipts};
}
