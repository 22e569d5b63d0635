/* server_requests.h - a server receives messages: it checks the sender's incarnation, takes each request once and in order, and calls the
 * handler of the request's protocol. */
#pragma once

#include "pserver/core/updates/server_state.h"

void  tr__requests_new(tr_server *server);
/* As tr_node.receive_buffer: the memory for a payload. */
void *tr__requests_receive_buffer(tr_server *server, int peer, const tr_wire *wire);
/* As tr_node.receive. The caller runs the rules afterwards. */
void  tr__requests_receive(tr_server *server, int peer, const tr_wire *wire, void *payload, bool is_direct);
/* Handle the waiting requests of trainers that are not parked any more. */
void  tr__requests_unpark(tr_server *server);
/* If a gathering was completed since `before` were done, send its values to the replica, which needs them for the same update. */
void  tr__requests_pass_share_on(tr_server *server, uint64_t before);
