/* server_tasks.h - a server that hands tasks out: messages to and from the core tasks.h. Server 0 does. */
#ifndef TR_PSERVER_SERVER_TASKS_H
#define TR_PSERVER_SERVER_TASKS_H

#include "pserver/server_state.h"

bool      tr__server_is_task(const tr_wire *wire);
tr_status tr__server_on_task(tr_server *server, const tr__trainer *trainer, const tr_wire *wire, int64_t now);
/* A question that came again is answered as it was. */
void      tr__server_task_again(tr_server *server, const tr__trainer *trainer, const tr_wire *wire);
/* A trainer has left: its tasks are others'. */
void      tr__server_tasks_leave(tr_server *server, const tr__trainer *trainer);
void      tr__server_tasks_free(tr_server *server);

#endif
