/* client_requests.h - requests of a trainer, and the operations that they are part of. */
#pragma once

#include "pserver/core/client/client_state.h"

/* How long a successor of the server would need a request that is done. */
typedef enum tr__kept {
    TR__KEPT_NO_LONGER = 0,
    TR__KEPT_UNTIL_SETTLED,           /* a gradient: until its step is settled */
    TR__KEPT_UNTIL_OVER,              /* SNAPSHOT: until its snapshot is over */
    TR__KEPT_TO_THE_END               /* this trainer's last place, which servers need for checkpoints */
} tr__kept;

/* How requests of one kind behave. A field that is NULL or 0 has no effect. */
struct tr__ask {
    tr__kept   kept;
    bool       is_question;           /* done by its answer, not by an acknowledgement */
    bool       needs_receipts;        /* a question whose sender must hear of acknowledgements while it waits */
    /* A server that has settled this step has the request. NULL: servers settle nothing of it. */
    uint64_t (*settled_by)(const tr_wire *wire);
    /* Another rank takes the server's place, and has settled so many steps of this trainer. */
    void     (*moved)(tr__request *r, uint64_t settled);
    void     (*done)(tr__stream *s, const tr__request *r);
    /* Describe what the trainer waits for. */
    void     (*describe)(char *out, size_t size, const tr_wire *wire, int server);
    /* Where the payload of a message of the answer is received (tr_node.receive_buffer), and what such a message does. The request is not
     * done. */
    void    *(*receive_buffer)(tr_client *client, tr__stream *s, tr__request *r, const tr_wire *wire);
    void     (*take)(tr_client *client, tr__stream *s, tr__request *r, const tr_wire *wire, const uint8_t *payload, bool is_direct);
};

/* == operations == */
void         tr__client_init_ops(tr_client *client);
void         tr__client_free_ops(tr_client *client);

uint64_t     tr__client_op_begin(tr_client *client);
uint32_t    *tr__client_op_at(tr_client *client, uint64_t op);
void         tr__client_op_count_down(tr_client *client, uint64_t op);

/* == requests == */
/* Put a new request at the end of the stream, as a part of operation `op` (0: of no operation yet). `message` has its kind and its own
 * fields; this function fills in the rest of the frame. */
tr__request *tr__client_add(tr_client *client, tr__stream *s, const tr__ask *ask, const tr_wire *message, uint64_t op, const void *payload,
                            uint64_t bytes);
uint64_t     tr__client_step_of(const tr_client *client, const tr__stream *s);
/* Has the server settled the step that is being made? */
bool         tr__client_has_step(const tr_client *client, const tr__stream *s);
/* Is it a gradient? Its bytes count in the window. */
static inline bool tr__client_is_push(const tr__request *r)
{
    return r->ask->kept == TR__KEPT_UNTIL_SETTLED;
}

/* A question is answered from the beginning, because another rank answers it, or because the rank that carried the answer has died. */
void         tr__client_forget_answer(tr__request *r);
/* Would a successor of the server need the request, if it is done? */
bool         tr__client_is_kept(const tr__stream *s, const tr__request *r);
/* Mark the request as done and count its operations down. tr__client_reap frees it later. */
void         tr__client_finish(tr_client *client, tr__stream *s, tr__request *r);
void         tr__client_reap(tr_client *client, tr__stream *s);
/* The first request of the stream that is not done. NULL: there is none. Thousands of done requests may lie before it. */
tr__request *tr__client_open(tr__stream *s);

/* The request of this number that is not done. NULL: there is none. */
tr__request *tr__client_find(tr__stream *s, uint64_t seq);
void         tr__client_free_requests(tr__request *first);

/* == calls that share a message: small pushes, and pulls == */
void         tr__client_gather(tr__list *l, uint32_t index, const void *data, uint64_t op, uint64_t bytes);
/* Add a request that is part of the operations of all items in the list. The caller fills in its payload of `bytes` bytes, at *payload. */
tr__request *tr__client_add_gathered(tr_client *client, tr__stream *s, const tr__ask *ask, const tr_wire *message, const tr__list *l,
                                     uint64_t bytes, uint8_t **payload);
