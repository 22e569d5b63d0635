/* server_decided.h - the newest decision, as this server knows it (`server->decided`): how it begins, how it is sent, how it is received.
 *
 * A decision contains all earlier ones, so a server keeps the newest one alone (server_decisions.h). */
#ifndef TR_PSERVER_SERVER_DECIDED_H
#define TR_PSERVER_SERVER_DECIDED_H

#include "pserver/core/server_state.h"

void      tr__decided_new(tr_server *server);
void      tr__decided_free(tr_server *server);
/* The server is running. `commit`: what server 0 had committed, whose successor this is; NULL: nothing is decided yet, or it is not known.
 * TR_EFORMAT: a rank in it does not exist. */
tr_status tr__decided_begin(tr_server *server, const tr_commit *commit);
/* Send the newest decision to server number `to`, if there is one. */
void      tr__decided_send(tr_server *server, int to);
/* DECISION: take it, if it is newer. TR_EFORMAT, TR_EPEER: it is no decision about this job. */
tr_status tr__decided_receive(tr_server *server, const uint8_t *payload, uint64_t bytes);

#endif
