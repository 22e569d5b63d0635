/* server_program.h - a server's blocks as a program of the executor: the store of a real server.
 *
 * The transpiled program's persistable variables live in a scope; the mean gradients are its feeds, so they are
 * read where the server sums them. There is no second implementation of any optimizer.
 *
 * What must stay true: the communication thread may use the gradients and parameters while no step is being
 * applied, the thread that runs the program while one is. */
#ifndef TR_PSERVER_SERVER_PROGRAM_H
#define TR_PSERVER_SERVER_PROGRAM_H

#include "pserver/server.h"

typedef struct tr_server_program tr_server_program;

tr_server_program *tr_server_program_new(void);
void               tr_server_program_free(tr_server_program *sp);
/* The functions of a tr_store, but for `apply`. */
tr_status          tr_server_program_setup(tr_server_program *sp, const Trireme__Pserver__Setup *setup);
void              *tr_server_program_value(tr_server_program *sp, uint32_t index);
tr_status          tr_server_program_ready(tr_server_program *sp);
void              *tr_server_program_grad(tr_server_program *sp, uint32_t index);
void              *tr_server_program_param(tr_server_program *sp, uint32_t index);
/* One apply step. */
tr_status          tr_server_program_run(tr_server_program *sp);

#endif
