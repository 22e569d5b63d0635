/* server_state.h - the inside of a server core, shared by server.c (requests), server_setup.c (agreement) and
 * server_sync.c (steps). */
#ifndef TR_PSERVER_SERVER_STATE_H
#define TR_PSERVER_SERVER_STATE_H

#include "pserver/mean.h"
#include "pserver/outbox.h"
#include "pserver/server.h"

/* A request whose time has not come. */
typedef struct tr__held {
    struct tr__held *next;
    tr_wire          wire;
    uint8_t         *payload;         /* a buffer of the pool */
} tr__held;

typedef struct tr__pull {
    struct tr__pull *next;
    uint64_t         seq, step;
    uint32_t         count;
    uint32_t         block[];
} tr__pull;

typedef struct tr__trainer {
    int         rank;
    uint32_t    epoch;
    uint64_t    accepted;             /* requests taken in: 1 .. accepted */
    bool        owes_ack;
    bool        is_gone;              /* said goodbye */
    uint64_t    ended;                /* steps ended */
    uint8_t     *pushed;              /* one bit for each chunk pushed for step ended + 1 */
    uint64_t     pushed_count;
    uint64_t    join_seq;             /* of its Join, while that waits for the others'; 0: none waits */
    Trireme__Pserver__Join *join;
    tr__held   *held, **held_end;     /* pushes, in order of seq */
    tr__pull   *pulls;                /* wait for their step, in order of seq */
} tr__trainer;

typedef struct tr__block {
    tr_dtype dtype;
    uint64_t bytes;
    uint64_t first_chunk, chunks;     /* its chunks among all */
    uint8_t *sum;
} tr__block;

struct tr_server {
    const tr_roster *roster;
    tr_store         store;
    tr_status        status;
    char            *text;            /* of a failure */
    tr_outbox        outbox;
    int              self;            /* index among the servers */

    Trireme__Pserver__Setup *setup;
    uint64_t        *value_filled;    /* bytes here of each first value */
    uint32_t         values_missing;
    bool             is_set_up;       /* first values are here */
    bool             is_running;      /* and all trainers agree */

    uint64_t         chunk_bytes;
    uint32_t         block_count;
    tr__block       *block;
    uint64_t         chunk_count, chunks_whole;
    tr_mean         *chunk;           /* of the step applied + 1 */
    uint64_t         applied;         /* steps */
    bool             is_applying;

    int              trainer_count;
    tr__trainer     *trainer;
    uint8_t         *pool;            /* free buffers of one chunk; the first word of each links the next */
};

/* The core fails with tr_error()'s text: every trainer is refused. Returns the status. */
tr_status tr__server_fail(tr_server *server, tr_status status);
const char *tr__server_trainer_name(const tr_server *server, const tr__trainer *trainer);
uint8_t  *tr__server_buffer_new(tr_server *server, uint64_t bytes);
void      tr__server_buffer_free(tr_server *server, uint8_t *buffer);

/* server_setup.c */
tr_status tr__server_on_setup(tr_server *server, const uint8_t *payload, uint64_t bytes);
/* Where a piece of a first value goes; NULL with a failure when there is no such place. */
uint8_t  *tr__server_value_place(tr_server *server, const tr_wire *wire);
tr_status tr__server_on_value(tr_server *server, const tr_wire *wire);
tr_status tr__server_on_join(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload);

/* server_sync.c */
/* Where a part may be received at once: the sum itself when it is the chunk's first. NULL: nowhere special. */
uint8_t  *tr__server_push_place(tr_server *server, const tr__trainer *trainer, const tr_wire *wire);
/* Takes `payload` over if it is a buffer of the pool (`is_owned`). */
tr_status tr__server_on_push(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint8_t *payload,
                             bool is_owned);
tr_status tr__server_on_step_end(tr_server *server, tr__trainer *trainer, const tr_wire *wire);
tr_status tr__server_on_goodbye(tr_server *server, tr__trainer *trainer, const tr_wire *wire);
tr_status tr__server_on_pull(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload);
/* A pull that was taken in before has come again. */
void      tr__server_pull_again(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload);
/* Apply the step if nothing is missing. */
void      tr__server_try_apply(tr_server *server);
void      tr__server_step_applied(tr_server *server);
/* Trainers whose parts the step applied + 1 lacks, in words. */
void      tr__server_describe_step(const tr_server *server, char *out, size_t size);

#endif
