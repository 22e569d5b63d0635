/* server_start.h - how a job begins on a server: SETUP, first values, JOIN; or how it continues from the state of an earlier process
 * (docs/protocol.md, "Start" and "Restart"). */
#pragma once

#include "pserver/core/updates/server_state.h"

void      tr__start_new(tr_server *server);
void      tr__start_free(tr_server *server);
/* SETUP, which only trainer 0 may send. */
tr_status tr__start_on_setup(tr_server *server, const tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload);
/* The memory for a piece of a first value. NULL: there is no such value, and the core has failed. */
uint8_t  *tr__start_value_buffer(tr_server *server, const tr_wire *wire);
/* VALUE, whose payload was received into tr__start_value_buffer. */
tr_status tr__start_on_value(tr_server *server, const tr_wire *wire);
/* The store has read the values that the setup takes from a checkpoint, or has failed (the text is tr_error()'s). */
tr_status tr__start_filled(tr_server *server, tr_status status);
/* JOIN. When all trainers have joined with equal facts, the server is running. */
tr_status tr__start_on_join(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload);
/* JOIN of a replacement, whose facts must equal those of the other trainers. */
tr_status tr__start_rejoin(tr_server *server, const tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload);

/* Failover: read the state that the dead server has left, and continue to run. */
tr_status tr__start_take_over(tr_server *server);
