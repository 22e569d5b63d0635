/* client_answers.h - what servers say to a trainer. */
#ifndef TR_PSERVER_CLIENT_ANSWERS_H
#define TR_PSERVER_CLIENT_ANSWERS_H

#include "pserver/core/client_state.h"

/* As those of tr_node. */
void *tr__client_place(void *self, int peer, const tr_wire *wire);
void  tr__client_receive(void *self, int64_t now, int peer, const tr_wire *wire, void *payload, bool is_placed);

#endif
