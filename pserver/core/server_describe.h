/* server_describe.h - what a server waits for, in words, for people. */
#ifndef TR_PSERVER_SERVER_DESCRIBE_H
#define TR_PSERVER_SERVER_DESCRIBE_H

#include "pserver/core/server_state.h"

/* "the gradients of step 17 of trainer 1, trainer 3"; "" for nothing. */
void tr__describe(const tr_server *server, char *out, size_t size);
/* The job fails: this peer is no more, and this server was waiting. */
void tr__describe_failure(tr_server *server, int peer, const char *how);

#endif
