/* client_protocols.h - what each protocol of a trainer's core offers to the others, in the order in which they stand: a file calls only
 * those before it. */
#pragma once

#include "pserver/core/client/client_requests.h"

/* == client_pulls.c: parameters from servers == */

/* Send the gathered pulls of this server. */
void tr__client_flush_pulls(tr_client *client, tr__stream *s);

/* == client_pushes.c: gradients of a step == */

/* How all requests with a step's gradients behave. */
extern const tr__ask tr__ask_push;

/* Send all gathered gradients. */
void tr__client_flush_pushes(tr_client *client);
/* Send the pulls that tr_client_flush_midway has left for too long. Returns the time of the next call. */
int64_t tr__client_flush_late(tr_client *client);
void tr__client_describe_step(char *out, size_t size, const tr_wire *wire, int server);

/* == client_rows.c: rows of sparse tables == */

/* At the set-up: send a server the first rows of a table. The client frees rows->data. */
void tr__client_write_first_rows(tr_client *client, tr__stream *s, const tr_client_pack *rows, uint64_t op);

/* == client_steps.c: the end of a step == */

/* Tell this server that a step has ended. `is_idle`: the step has no gradient. */
void tr__client_send_step_end(tr_client *client, tr__stream *s, uint64_t op, uint64_t step, bool is_idle);

/* == client_snapshot.c: a trainer's part of snapshots: it begins them, or takes part (server_snapshots.h) == */

/* Follow an ACK's fields about snapshots: the initiator, the wanted snapshot, the newest one. */
void    tr__client_on_ack_of_snapshots(tr_client *client, tr__stream *s, const tr_form_ack *ack);
void    tr__client_on_snapshot_done(tr_client *client, tr__stream *s, const tr_wire *wire, const uint8_t *payload);
/* Repeat a SNAPSHOT whose answer has not come. Returns the time of the next call. */
int64_t tr__client_ask_again_for_answers(tr_client *client);
/* Another rank took the place of a server that died before it wrote its part of this trainer's snapshot: record that there will be no
 * part. */
void    tr__client_give_up_lost_answer(tr_client *client, tr__stream *s);
/* A server knows a snapshot of this number, so the next one gets a higher number. */
void    tr__client_note_snapshot(tr_client *client, uint32_t number);
/* The number of the newest snapshot that any server knows. */
uint32_t tr__client_known_snapshot(const tr_client *client);
/* This process is set up: the snapshots until now are not its own. */
void    tr__client_forget_snapshots(tr_client *client);
void    tr__client_hear_from_server(tr_client *client);
/* This trainer's packed Snapshot, malloc'ed. NULL: it has none. */
uint8_t *tr__client_pack_place(tr_client *client, size_t *size);

/* == client_tasks.c: the trainer's side of leased tasks (server_tasks.h) == */

/* Queue a message to server 0 until all servers have settled the steps before it. The client frees the payload. */
void tr__client_task_later(tr_client *client, const tr__ask *ask, const tr_client_task *task, uint8_t *payload, size_t bytes, uint64_t op);
/* Send the queued messages whose steps all servers have settled. */
void tr__client_send_tasks(tr_client *client);
/* Has this trainer begun to work on tasks? */
bool tr__client_has_tasks(const tr_client *client);
bool tr__client_has_tasks_to_send(const tr_client *client);
void tr__client_free_tasks(tr_client *client);

/* == client_board.c: what a trainer posts for other trainers, and the posts that it gets (server_board.h) == */

/* Follow an ACK's field about posts. A trainer that waits for posts takes part in snapshots meanwhile. */
void tr__client_on_ack_of_posts(tr_client *client, const tr_form_ack *ack);

/* == client_move.c: failover: a server begins to serve, dies, or is succeeded by a standby; a replacement introduces itself == */

/* A REPLACE_DONE for rank `to`: this rank has become a trainer. */
tr_message tr__client_replace_done(tr_client *client, int to);
void       tr__client_on_serving(tr_client *client, int peer, const uint8_t *payload, uint64_t bytes);
/* Fail when a dead server has had no successor for too long. Returns the time of the next call. */
int64_t    tr__client_watch_orphans(tr_client *client);

/* == client_answers.c: messages of servers: acknowledgements, parameters, rows, refusals == */

/* The functions `place` and `receive` of a client's tr_node. */
void *tr__client_receive_buffer(void *self, int peer, const tr_wire *wire);
void  tr__client_receive(void *self, int64_t now, int peer, const tr_wire *wire, void *payload, bool is_direct);
