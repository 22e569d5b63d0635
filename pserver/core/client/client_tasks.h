/* client_tasks.h - the trainer's side of leased tasks (server_tasks.h). */
#pragma once

#include "pserver/core/client/client_requests.h"

/* Queue a message to server 0 until all servers have settled the steps before it. The client frees the payload. */
void tr__client_task_later(tr_client *client, const tr__ask *ask, const tr_client_task *task, uint8_t *payload, size_t bytes, uint64_t op);
/* Send the queued messages whose steps all servers have settled. */
void tr__client_send_tasks(tr_client *client);
/* Has this trainer begun to work on tasks? */
bool tr__client_has_tasks(const tr_client *client);
bool tr__client_has_tasks_to_send(const tr_client *client);
void tr__client_free_tasks(tr_client *client);
