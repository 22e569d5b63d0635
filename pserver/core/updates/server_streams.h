/* server_streams.h - the stream of requests of each trainer: numbers, acknowledgements, and requests that are parked.
 *
 * Requests of one trainer are numbered, and are taken in order, each once. A request may be *open* after it is taken: a JOIN until all have
 * joined, a push until its turn has come, a STEP_END until the step is settled, a DRAIN until the trainer may leave, a WRITE_ROWS until the
 * replica has the rows, anything that is parked. An acknowledgement says that all requests before the first open one are done. Each
 * protocol keeps the first open request of its kind here.
 *
 * A trainer that takes part in a snapshot of all trainers is *parked*: what it sends waits here until the snapshot is taken. */
#pragma once

#include "pserver/core/updates/server_state.h"

typedef enum tr__open {
    TR__OPEN_JOIN,
    TR__OPEN_PUSH,
    TR__OPEN_STEP,
    TR__OPEN_DRAIN,
    TR__OPEN_ROWS,
    TR__OPEN_PARKED,
    TR__OPEN_COUNT
} tr__open;

/* A request that was taken and waits for its turn. */
typedef struct tr__deferred {
    struct tr__deferred *next;
    tr_wire          wire;
    uint8_t         *payload;         /* a buffer of the pool, or NULL */
} tr__deferred;

/* Deferred requests, in the order of their numbers. */
typedef struct tr__deferred_list {
    tr__deferred *first, *last;
} tr__deferred_list;

/* Append a request. A payload that is a buffer of the pool (`is_owned`) then belongs to the list; any other one is copied. */
void      tr__deferred_put(tr_server *server, tr__deferred_list *list, const tr_wire *wire, uint8_t *payload, bool is_owned);
/* Remove the first request. The caller frees it and its payload. NULL: there is none. */
tr__deferred *tr__deferred_take(tr__deferred_list *list);
/* Free all requests of the list. */
void      tr__deferred_drop(tr_server *server, tr__deferred_list *list);

void      tr__streams_new(tr_server *server);
void      tr__streams_free(tr_server *server);
/* A replacement begins a new stream: its numbers begin at 1, and nothing is open. */
void      tr__stream_restart(tr_server *server, const tr__trainer *trainer);

/* The number of the last request that was taken. */
uint64_t  tr__stream_taken(const tr_server *server, const tr__trainer *trainer);
void      tr__stream_take(tr_server *server, const tr__trainer *trainer, uint64_t seq);
/* The first open request of this kind is number `seq`; 0: none is open. */
void      tr__stream_open(tr_server *server, const tr__trainer *trainer, tr__open kind, uint64_t seq);
bool      tr__stream_is_open(const tr_server *server, const tr__trainer *trainer, tr__open kind);
/* The number of the last request of which it and all requests before it are done. */
uint64_t  tr__stream_done(const tr_server *server, const tr__trainer *trainer);

/* The trainer is to get an acknowledgement. */
void      tr__stream_owe(tr_server *server, const tr__trainer *trainer);
void      tr__stream_owe_nothing(tr_server *server, const tr__trainer *trainer);
/* Every trainer that makes steps, or drains, is to get an acknowledgement. */
void      tr__streams_owe_all(tr_server *server);
/* Take a trainer that is to get an acknowledgement; the caller sends it. NULL: there is none. */
const tr__trainer *tr__streams_next_owed(tr_server *server);

bool      tr__stream_is_parked(const tr_server *server, const tr__trainer *trainer);
void      tr__stream_park(tr_server *server, const tr__trainer *trainer);
/* Does the trainer make steps, and is it not parked? Then its next step does not depend on other trainers. */
bool      tr__stream_is_moving(const tr_server *server, const tr__trainer *trainer);
/* Defer a request of a parked trainer. */
void      tr__stream_defer(tr_server *server, const tr__trainer *trainer, const tr_wire *wire, uint8_t *payload, bool is_owned);
/* The first deferred request of a parked trainer, and the one of this number. NULL: there is none. */
tr__deferred *tr__stream_first_parked(const tr_server *server, const tr__trainer *trainer);
tr__deferred *tr__stream_parked(const tr_server *server, const tr__trainer *trainer, uint64_t seq);
/* Unpark the trainer; TR__RULE_UNPARK then handles its deferred requests. */
void      tr__stream_unpark(tr_server *server, const tr__trainer *trainer);
void      tr__streams_unpark_all(tr_server *server);
/* Remove and return the deferred requests of a trainer that is not parked. While it is parked the list is empty. */
tr__deferred_list tr__stream_take_parked(tr_server *server, const tr__trainer *trainer);
/* The trainer is dead: drop its deferred requests, and unpark it. */
void      tr__stream_forget_parked(tr_server *server, const tr__trainer *trainer);
