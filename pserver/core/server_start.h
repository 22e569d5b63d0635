/* server_start.h - how a job begins on a server: SETUP, first values, JOIN; or how it goes on from what an earlier process has left
 * (docs/protocol.md, "Start" and "Restart"). */
#ifndef TR_PSERVER_SERVER_START_H
#define TR_PSERVER_SERVER_START_H

#include "pserver/core/server_state.h"

void      tr__start_new(tr_server *server);
void      tr__start_free(tr_server *server);
/* SETUP, which trainer 0 alone may say. */
tr_status tr__start_on_setup(tr_server *server, const tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload);
/* Where a piece of a first value goes. NULL, with a failure of the core: there is no such place. */
uint8_t  *tr__start_value_place(tr_server *server, const tr_wire *wire);
/* VALUE: its payload is at its place. */
tr_status tr__start_on_value(tr_server *server, const tr_wire *wire);
/* JOIN. When all trainers have joined, and mean the same work, the server is running. */
tr_status tr__start_on_join(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload);
bool      tr__start_has_joined(const tr_server *server, const tr__trainer *trainer);
/* JOIN of a replacement: it must mean the same work as the other trainers. */
tr_status tr__start_rejoin(tr_server *server, const tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload);

/* This rank has taken the place of a dead server: take what that one has left, and be running. */
tr_status tr__start_take_over(tr_server *server);

#endif
