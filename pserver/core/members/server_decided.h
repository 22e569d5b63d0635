/* server_decided.h - the newest decision that this server knows (`server->decided`): its first value, sending, and receiving.
 *
 * A decision contains all earlier ones, so a server keeps the newest one alone (server_decisions.h). */
#pragma once

#include "pserver/core/updates/server_state.h"

void      tr__decided_new(tr_server *server);
void      tr__decided_free(tr_server *server);
/* The server is running. `commit`: the commit of the dead server 0 whose successor this is. NULL: nothing is decided yet, or this server
 * does not know the decision. TR_EFORMAT: a rank in the commit does not exist. */
tr_status tr__decided_begin(tr_server *server, const tr_commit *commit);
/* Send the newest decision to server number `to`, if there is one. */
void      tr__decided_send(tr_server *server, int to);
/* DECISION: store it if it is newer than the present one. TR_EFORMAT, TR_EPEER: the message does not fit this job. */
tr_status tr__decided_receive(tr_server *server, const uint8_t *payload, uint64_t bytes);
