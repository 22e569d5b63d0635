/* client_tasks.h - leased tasks, on the side of a trainer (server_tasks.h). */
#ifndef TR_PSERVER_CLIENT_TASKS_H
#define TR_PSERVER_CLIENT_TASKS_H

#include "pserver/core/client_state.h"

/* A message to server 0, when the steps before it are settled everywhere: it takes the payload over. */
void tr__client_task_later(tr_client *client, const tr_client_task *task, uint8_t *payload, size_t bytes, uint64_t op);
/* Send what has waited for a step to be settled, if that step is. */
void tr__client_send_tasks(tr_client *client);

#endif
