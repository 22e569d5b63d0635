/* server_store.h - the store of a real server's or replica's core (tr_store): the functions by which a core uses the program of its server.
 *
 * What must stay true: the driver (comm.h) calls them. The functions of tr_store.worker are the rank's, because they need its main
 * thread. */
#pragma once

#include "pserver/store/server_part.h"
#include "pserver/store/server_program.h"

/* Give the program its part. Returns the store without its worker. */
tr_store  tr_server_store(tr_server_program *sp, const tr_server_part *part);
/* Find the state that an earlier process has left of this server, whether or not it was complete. */
tr_status tr_server_store_attach(tr_server_program *sp, int server);
