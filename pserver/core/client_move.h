/* client_move.h - servers that serve and that die, as a trainer sees them; and what a replacement says of itself. */
#ifndef TR_PSERVER_CLIENT_MOVE_H
#define TR_PSERVER_CLIENT_MOVE_H

#include "pserver/core/client_state.h"

/* To this rank: I am this trainer now. */
tr_message tr__client_replace_done(tr_client *client, int to);
void       tr__client_on_serving(tr_client *client, int peer, const uint8_t *payload, uint64_t bytes);
/* Fail when nobody takes the place of a dead server. Returns when to be called again. */
int64_t    tr__client_watch_orphans(tr_client *client);

#endif
