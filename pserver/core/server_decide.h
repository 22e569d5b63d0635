/* server_decide.h - how server 0 decides what makes an update, from the reports of all servers: which steps are in, which are dropped, which trainers are out.
 *
 * No deadlock: server 0 waits for reports about living trainers alone; of a trainer that any server has lost it waits for nothing. */
#ifndef TR_PSERVER_SERVER_DECIDE_H
#define TR_PSERVER_SERVER_DECIDE_H

#include "pserver/core/server_state.h"

/* What a server has said of a trainer. */
typedef struct tr__report {
    uint64_t step;                    /* all of it is there; 0: none yet */
    uint64_t pulled;                  /* the update whose parameters the step was computed with */
    bool     is_lost, has_left;
} tr__report;

/* What server 0 knows. `report`: of each server, then each trainer; `gathered`: the newest snapshot that each server has gathered. */
typedef struct tr__evidence {
    const tr__report *report;
    const uint32_t   *gathered;
} tr__evidence;

/* Put a new decision into `server->decided`. False: there is nothing new. */
bool tr__decide(tr_server *server, const tr__evidence *evidence);

#endif
