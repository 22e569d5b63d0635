/* server_replacements.h - how a standby is called to become a trainer that died (docs/protocol.md, "A trainer's death and replacement").
 *
 * A server that has lost a trainer tells server 0: REPLACE_WANT. Server 0 chooses a standby, remembers which, and sends REPLACE_CALL. The standby sends
 * REPLACE_DONE to every rank before anything else, and then JOIN, as every trainer does at the start. Server 0 treats a REPLACE_WANT as its own
 * loss: a trainer that is dead for one server is replaced for all.
 *
 * Epochs (tr_roster_next_epoch) distinguish a replacement from the trainer that it replaces, and from another standby that was called before and died when
 * only some servers had heard of it. What a death and a replacement mean for the other protocols is in server_deaths.c. */
#ifndef TR_PSERVER_SERVER_REPLACEMENTS_H
#define TR_PSERVER_SERVER_REPLACEMENTS_H

#include "pserver/core/server_state.h"

void         tr__replacements_new(tr_server *server);
void         tr__replacements_free(tr_server *server);
/* Could the trainer get a replacement? */
bool         tr__replacements_are_possible(const tr_server *server, const tr__trainer *trainer);
/* The trainer is vacant: its rank is dead, and a standby is to be called. */
void         tr__replacements_want(tr_server *server, const tr__trainer *trainer);
/* A standby has become this trainer: no other one is to be called. */
void         tr__replacements_have(tr_server *server, const tr__trainer *trainer);
/* Is a standby still to be called for this trainer, or called and not heard? */
bool         tr__replacements_misses(const tr_server *server, const tr__trainer *trainer);
/* Call standbys, or ask server 0 to. A trainer for which no standby is left is returned in *hopeless, and the caller lets it be lost; NULL: there is none.
 * Returns when to look again. */
int64_t      tr__replacements_tick(tr_server *server, int64_t now, tr__trainer **hopeless);

#endif
