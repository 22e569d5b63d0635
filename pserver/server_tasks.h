/* server_tasks.h - a server that hands tasks out: messages to and from the core tasks.h. Server 0 does.
 *
 * A trainer makes its steps task by task and says that a task is done between two of them. So its steps since then belong to the
 * task that it got next. A task counts as done when its steps are settled, not before: what is kept for whoever
 * takes this server's place never says more than the commits do.
 *
 * The state is kept in two places and a number that says which of them counts. */
#ifndef TR_PSERVER_SERVER_TASKS_H
#define TR_PSERVER_SERVER_TASKS_H

#include "pserver/server_state.h"

bool      tr__server_is_task(const tr_wire *wire);
tr_status tr__server_on_task(tr_server *server, const tr__trainer *trainer, const tr_wire *wire, int64_t now);
/* A question that came again is answered as it was. */
void      tr__server_task_again(tr_server *server, const tr__trainer *trainer, const tr_wire *wire);
/* A trainer has left: its tasks are others'. */
void      tr__server_tasks_leave(tr_server *server, const tr__trainer *trainer);
/* Steps were settled, and that is committed: tasks that they ended are done. */
void      tr__server_tasks_settled(tr_server *server);
/* Take over what an earlier process kept. `leases_stand`: its trainers live on. */
tr_status tr__server_tasks_take_over(tr_server *server, const tr_commit *commit, bool leases_stand);
/* The state for a checkpoint, between all steps: nobody has a task. malloc'ed; NULL: there are none. */
void     *tr__server_tasks_pack(const tr_server *server, size_t *size);
void      tr__server_tasks_free(tr_server *server);

#endif
