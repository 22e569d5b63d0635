/* server_requests.h - messages as they arrive at a server: the sender's epoch is checked, each request is taken once and in order, and is handed to the protocol
 * that it belongs to. */
#ifndef TR_PSERVER_SERVER_REQUESTS_H
#define TR_PSERVER_SERVER_REQUESTS_H

#include "pserver/core/server_state.h"

/* As tr_node.place. */
void *tr__requests_place(tr_server *server, int peer, const tr_wire *wire);
/* As tr_node.receive; what is due runs behind it. */
void  tr__requests_receive(tr_server *server, int peer, const tr_wire *wire, void *payload, bool is_placed);
/* Take in the requests of trainers that were parked and are not any more. */
void  tr__requests_unpark(tr_server *server);
/* All servers have gathered something for the update in hand: the replica, which computes the same update, needs it. `before`: gatherings that were done. */
void  tr__requests_pass_share_on(tr_server *server, uint64_t before);

#endif
