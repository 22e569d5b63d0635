/* client_answers.h - a trainer receives messages of servers: acknowledgements, parameters, rows, refusals. */
#pragma once

#include "pserver/core/client/client_state.h"

/* The functions `place` and `receive` of a client's tr_node. */
void *tr__client_receive_buffer(void *self, int peer, const tr_wire *wire);
void  tr__client_receive(void *self, int64_t now, int peer, const tr_wire *wire, void *payload, bool is_direct);
