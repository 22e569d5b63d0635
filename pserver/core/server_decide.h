/* server_decide.h - how server 0 decides what makes an update, from the reports of all servers: which steps are in, and which are dropped; and
 * whether a snapshot is taken.
 *
 * No deadlock: server 0 waits for reports about living trainers alone; a trainer that any server has lost is lost for all, or is replaced
 * (server_members.h). */
#ifndef TR_PSERVER_SERVER_DECIDE_H
#define TR_PSERVER_SERVER_DECIDE_H

#include "pserver/core/server_state.h"

/* What a server has said of a trainer. */
typedef struct tr__report {
    uint64_t step;                    /* all of it is there; 0: none yet */
    uint64_t pulled;                  /* the update whose parameters the step was computed with */
} tr__report;

/* Decide about updates, in `server->decided`. `report`: of each server, then each trainer. False: there is nothing to decide now. */
bool tr__decide_update(tr_server *server, const tr__report *report);
/* Decide whether the newest snapshot is taken. `gathered`: the newest snapshot that each server has gathered. False: there is nothing to decide now. */
bool tr__decide_snapshot(tr_server *server, const uint32_t *gathered);

#endif
