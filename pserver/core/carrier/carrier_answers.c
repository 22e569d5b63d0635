/* carrier_answers.c - one answer of a server goes to all trainers of a group. */
#include "pserver/core/carrier/carrier_state.h"

#include "framework/base/memory.h"
#include "pserver/wire/rounded.h"
#include "storage/util/little_endian.h"

#include <stdlib.h>
#include <string.h>

/* The bytes of all blocks that a PULL asks for; 0: it asks for one that does not exist, and the server refuses it. */
static uint64_t asked_bytes(const tr_carrier *carrier, int server, const tr__load *pull)
{
    uint64_t all = 0;

    for (uint64_t at = 0; at + 4 <= pull->wire.bytes; at += 4) {
        const uint32_t asked = tr_get_u32(pull->payload + at), index = asked & ~TR_ROUNDED_BIT;
        if (index >= carrier->block_count[server])
            return 0;
        all += tr_rounded_bytes(carrier->block[server][index].bytes, asked & TR_ROUNDED_BIT);
    }
    return all;
}

static void forget(tr__shared **at)
{
    tr__shared *shared = *at;

    *at = shared->next;
    free(shared);
}

/* Forget the answers of this server (-1: of any) to what was asked before this step. */
static void forget_before(tr_carrier *carrier, int server, uint64_t step)
{
    for (tr__shared **at = &carrier->shared; *at;) {
        if ((server < 0 || (*at)->server == server) && (*at)->step < step)
            forget(at);
        else
            at = &(*at)->next;
    }
}

void tr__carrier_forget_shared(tr_carrier *carrier, int rank)
{
    forget_before(carrier, rank, UINT64_MAX);
}

bool tr__carrier_share(tr_carrier *carrier, const tr__lane *lane)
{
    const int      count = carrier->end - carrier->first, server = carrier->roster->rank[lane->rank].index;
    const uint64_t left = asked_bytes(carrier, server, lane->queue[0].first);

    if (!left)
        return false;
    const uint64_t step = lane->queue[0].first->wire.pull.step;
    forget_before(carrier, lane->rank, step);      /* all trainers ask again, so all have the answers before this one */
    tr__shared *shared = tr__must_bytes(sizeof *shared + (size_t)count * sizeof *shared->to);
    *shared = (tr__shared){.next = carrier->shared, .server = lane->rank, .step = step, .left = left, .ranks = count};
    for (int i = 0; i < count; i++) {
        const tr_wire *wire = &lane->queue[i].first->wire;
        shared->to[i].rank = (int)wire->sender;
        shared->to[i].incarnation = wire->incarnation;
        shared->to[i].seq = wire->seq;
    }
    carrier->shared = shared;
    return true;
}

tr__shared *tr__carrier_shared(const tr_carrier *carrier, int server, const tr_wire *wire)
{
    const int receiver = wire->receiver ? (int)wire->receiver - 1 : carrier->roster->self;

    if (wire->kind != TR_WIRE_DATA && wire->kind != TR_WIRE_DATA_MANY)
        return NULL;
    for (tr__shared *s = carrier->shared; s; s = s->next)
        if (s->server == server && s->to[0].rank == receiver && s->to[0].seq == wire->seq)
            return s;
    return NULL;
}

/* The bytes of parameters in a message. */
static uint64_t parameter_bytes(const tr_wire *wire, const uint8_t *payload)
{
    tr_wire_entries entries;
    uint32_t        block;
    const uint8_t  *data;
    uint64_t        bytes, all = 0;

    if (wire->kind == TR_WIRE_DATA)
        return wire->bytes;
    if (tr_wire_entries_open(&entries, payload, wire->bytes, wire->data_many.count) != TR_OK)
        return 0;                                  /* the receivers find that out, too */
    while (tr_wire_entries_next(&entries, &block, &data, &bytes))
        all += bytes;
    return all;
}

static void give_to_self(const tr_carrier *carrier, int server, const tr_wire *wire, tr__cargo *cargo)
{
    const tr_node *inner = &carrier->inner;
    void          *to = inner->receive_buffer(inner->self, server, wire);

    if (to)
        memcpy(to, cargo->payload, wire->bytes);
    inner->receive(inner->self, carrier->now, server, wire, to ? to : cargo->payload, to != NULL);
}

void tr__carrier_hand_out(tr_carrier *carrier, tr__shared *shared, const tr_wire *wire, tr__cargo *cargo)
{
    const uint64_t bytes = parameter_bytes(wire, cargo->payload);

    for (int i = 0; i < shared->ranks; i++) {
        tr_wire own = *wire;
        own.incarnation = shared->to[i].incarnation;
        own.seq = shared->to[i].seq;
        own.receiver = (uint32_t)shared->to[i].rank + 1;
        own.carrier = 0;
        if (shared->to[i].rank == carrier->roster->self) {
            give_to_self(carrier, shared->server, &own, cargo);
            continue;
        }
        cargo->loan.readers++;
        tr_outbox_put(&carrier->outbox, &(tr_message){.peer = shared->to[i].rank, .wire = own, .payload = cargo->payload,
                                                      .loan = &cargo->loan});
    }
    shared->left -= bytes < shared->left ? bytes : shared->left;
    for (tr__shared **at = &carrier->shared; !shared->left && *at; at = &(*at)->next)
        if (*at == shared) {
            forget(at);
            return;
        }
}
