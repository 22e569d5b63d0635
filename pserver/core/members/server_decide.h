/* server_decide.h - how server 0 decides what makes an update, from the reports of all servers: which steps are in, and which are dropped;
 * and whether a snapshot is taken.
 *
 * No deadlock: server 0 waits for reports about living trainers alone; a trainer that any server has lost is lost for all, or is replaced
 * (server_members.h). */
#pragma once

#include "pserver/core/updates/server_state.h"

/* A server's report about a trainer. */
typedef struct tr__report {
    uint64_t step;                    /* the server has all of this step; 0: of no step yet */
    uint64_t pulled;                  /* the update whose parameters the step was computed with; UINT64_MAX: with none of the server */
} tr__report;

/* Decide about updates; the decision goes into `server->decided`. `report`: server by server, then trainer by trainer. False: no decision
 * is possible now. */
bool tr__decide_update(tr_server *server, const tr__report *report);
/* Decide whether the newest snapshot is taken. `gathered`: the newest snapshot that each server has gathered. False: no decision is
 * possible now. */
bool tr__decide_snapshot(tr_server *server, const uint32_t *gathered);
