/* server.h - the protocol core of a parameter server: dense blocks, synchronous steps.
 *
 * A trainer's requests carry (epoch, seq). They are taken in the order of seq, each once; a repeated one is
 * answered again, one that comes too early (its predecessor was lost) is dropped, and the client repeats both.
 *
 * Step s: every trainer pushes its part of every block, then ends the step. Each chunk of a block is summed in
 * trainer order (mean.h): a part whose turn has not come waits. When all living trainers have ended s and all
 * chunks are whole, the store applies them; then pulls for s are answered. A part counts as acknowledged when it is
 * summed, so that a fast trainer's window, not this server's memory, holds what is too early.
 *
 * No deadlock: the first trainer's parts never wait, and those of trainer k wait only for trainers below k.
 *
 * What must stay true: between the answer to a pull and the next apply lies the push of the trainer that
 * pulled; that is why parameters are sent from where they lie. */
#ifndef TR_PSERVER_SERVER_H
#define TR_PSERVER_SERVER_H

#include "pserver/node.h"
#include "pserver/roster.h"
#include "proto/pserver.pb-c.h"

/* Where blocks live and how a step is applied: the executor in a real server, a small function in tests. */
typedef struct tr_store {
    void *self;
    /* Make room for the blocks and values; parse the program. Sizes were checked. */
    tr_status (*setup)(void *self, const Trireme__Pserver__Setup *setup);
    /* Memory for the first value of `setup->values[index]`. */
    void     *(*value)(void *self, uint32_t index);
    /* All first values are there. */
    tr_status (*ready)(void *self);
    /* Memory of block `index`'s mean gradient and of its parameter, after `ready`. */
    void     *(*grad)(void *self, uint32_t index);
    void     *(*param)(void *self, uint32_t index);
    /* All gradients of `step` are there: apply them, then or later call tr_server_applied. */
    void      (*apply)(void *self, uint64_t step);
} tr_store;

typedef struct tr_server tr_server;

/* Roster and store outlive it. */
tr_server *tr_server_new(const tr_roster *roster, const tr_store *store);
void       tr_server_free(tr_server *server);
tr_node    tr_server_node(tr_server *server);

/* The step that the store was asked to apply is applied, or has failed (the text is tr_error()'s). */
void       tr_server_applied(tr_server *server, tr_status status);
/* Every trainer has said goodbye. Late repetitions are still answered. */
bool       tr_server_is_done(const tr_server *server);
/* Steps applied so far. */
uint64_t   tr_server_step(const tr_server *server);

#endif
