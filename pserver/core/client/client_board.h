/* client_board.h - the trainer's side of posts: what a trainer posts for other trainers, and the posts that it gets (server_board.h). */
#ifndef TR_PSERVER_CLIENT_BOARD_H
#define TR_PSERVER_CLIENT_BOARD_H

#include "pserver/core/client/client_state.h"

void tr__client_on_posted(tr_client *client, tr__stream *s, const tr_wire *wire, const uint8_t *payload);

#endif
