/* client_requests.h - requests of a trainer, and the operations that they are part of. */
#ifndef TR_PSERVER_CLIENT_REQUESTS_H
#define TR_PSERVER_CLIENT_REQUESTS_H

#include "pserver/core/client/client_state.h"

/* == operations == */
uint64_t     tr__client_op_begin(tr_client *client);
uint32_t    *tr__client_op_at(tr_client *client, uint64_t op);
void         tr__client_op_count_down(tr_client *client, uint64_t op);

/* == requests == */
/* Put a new request at the end of the stream, as a part of operation `op` (0: of no operation yet). `message` has its kind and its own fields;
 * this function fills in the rest of the frame. */
tr__request *tr__client_add(tr_client *client, tr__stream *s, const tr_wire *message, uint64_t op, const void *payload, uint64_t bytes);
/* Tell this server that a step has ended. `is_idle`: the step has no gradient. */
void         tr__client_send_step_end(tr_client *client, tr__stream *s, uint64_t op, uint64_t step, bool is_idle);
uint64_t     tr__client_step_of(const tr_client *client, const tr__stream *s);
/* Has the server settled the step that is being made? */
bool         tr__client_has_step(const tr_client *client, const tr__stream *s);
bool         tr__client_is_push(const tr__request *r);
bool         tr__client_is_pull(const tr__request *r);
/* Mark the request as done and count its operations down. tr__client_reap frees it later. */
void         tr__client_finish(tr_client *client, tr__stream *s, tr__request *r);
void         tr__client_reap(tr_client *client, tr__stream *s);
/* The first request of the stream that is not done. NULL: there is none. Thousands of done requests may lie before it. */
tr__request *tr__client_open(tr__stream *s);

/* == small pushes and pulls, which share a message == */
void         tr__client_gather(tr__list *l, uint32_t index, const void *data, uint64_t op, uint64_t bytes);
void         tr__client_flush_pushes(tr_client *client, tr__stream *s);
void         tr__client_flush_pulls(tr_client *client, tr__stream *s);

#endif
