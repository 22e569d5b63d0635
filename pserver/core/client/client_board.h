/* client_board.h - the trainer's side of posts: what a trainer posts for other trainers, and the posts that it gets (server_board.h). */
#pragma once

#include "pserver/core/client/client_state.h"

/* Follow an ACK's field about posts. A trainer that waits for posts takes part in snapshots meanwhile. */
void tr__client_on_ack_of_posts(tr_client *client, const tr_form_ack *ack);
