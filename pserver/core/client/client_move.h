/* client_move.h - a trainer's side of failover: a server begins to serve, dies, or is succeeded by a standby. Also the messages by which a
 * replacement introduces itself. */
#pragma once

#include "pserver/core/client/client_state.h"

/* A REPLACE_DONE for rank `to`: this rank has become a trainer. */
tr_message tr__client_replace_done(tr_client *client, int to);
void       tr__client_on_serving(tr_client *client, int peer, const uint8_t *payload, uint64_t bytes);
/* Fail when a dead server has had no successor for too long. Returns the time of the next call. */
int64_t    tr__client_watch_orphans(tr_client *client);
