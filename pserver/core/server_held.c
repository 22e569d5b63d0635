/* server_held.c - requests whose time has not come: a push that is ahead of its round, and all that a trainer sends while it is parked, which
 * is from when it has taken part until the snapshot is taken (server_snapshot.c). */
#include "framework/memory.h"
#include "pserver/core/server_state.h"

#include <stdlib.h>
#include <string.h>

void tr__server_hold(tr_server *server, tr__held ***end, const tr_wire *wire, uint8_t *payload, bool is_owned)
{
    tr__held *held = tr__must_bytes(sizeof *held);

    if (!is_owned) {
        uint8_t *copy = wire->bytes ? tr__server_buffer_new(server, wire->bytes) : NULL;
        if (copy)
            memcpy(copy, payload, wire->bytes);
        payload = copy;
    }
    *held = (tr__held){NULL, *wire, payload};
    **end = held;
    *end = &held->next;
}

void tr__server_let_go(tr_server *server, tr__held **first, tr__held ***end)
{
    while (*first) {
        tr__held *held = *first;
        *first = held->next;
        tr__server_buffer_free(server, held->payload);
        free(held);
    }
    *end = first;
}

static void take_in(tr_server *server, tr__trainer *trainer, const tr__held *held)
{
    const bool is_wanted = server->status == TR_OK && tr__server_is_there(trainer);
    tr_status  status = TR_OK;

    if (is_wanted)
        status = tr__server_handle(server, trainer, &held->wire, held->payload, true);
    if (status != TR_OK)
        tr__server_fail(server, status);
    if (server->status != TR_OK || !is_wanted || !tr_wire_is_push(held->wire.kind))
        tr__server_buffer_free(server, held->payload);
}

void tr__server_unpark(tr_server *server, tr__trainer *trainer)
{
    tr__held *held = trainer->parked;

    trainer->is_parked = false;
    trainer->parked = NULL;
    trainer->parked_end = &trainer->parked;
    trainer->owes_ack |= tr__server_is_there(trainer);
    while (held) {
        tr__held *next = held->next;
        if (trainer->is_parked)                    /* it has taken part again */
            tr__server_hold(server, &trainer->parked_end, &held->wire, held->payload, true);
        else
            take_in(server, trainer, held);
        free(held);
        held = next;
    }
}

void tr__server_unpark_all(tr_server *server)
{
    for (int i = 0; i < server->trainer_count; i++)
        if (server->trainer[i].is_parked)
            tr__server_unpark(server, &server->trainer[i]);
}
