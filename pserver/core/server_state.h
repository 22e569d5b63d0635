/* server_state.h - the base of a server core: what all of its protocols share.
 *
 * Each protocol has one pair of files, such as server_pulls.h and server_pulls.c. The struct with its state is in the .c file, and the other protocols see it
 * through the functions of the .h file. The protocols stand above one another in the order of the pointers in `struct tr_server`: a file calls
 * only those before it. server_rules.c has the rules between them: which protocol has to look again when something has changed.
 *
 * A message, a death, a time or a report of the store is an *input* (server.c). A protocol's handler changes its own state, queues messages
 * (`outbox`) and effects (effects.h), and notes by tr__server_due which rules are due. Then the rules run, one at a time, until none is due. So no
 * protocol calls another one back in the middle of a change. */
#ifndef TR_PSERVER_SERVER_STATE_H
#define TR_PSERVER_SERVER_STATE_H

#include "pserver/core/effects.h"
#include "pserver/core/gather.h"
#include "pserver/core/outbox.h"
#include "pserver/core/roster.h"
#include "pserver/core/store.h"
#include "pserver/observe/meter.h"
#include "pserver/wire/compress.h"
#include "pserver/wire/membership.h"

typedef struct tr_server tr_server;

/* The rules, in the order in which they run when several are due; server_rules.c has them. */
typedef enum tr__rule {
    TR__RULE_UNPARK,                  /* requests that were parked are taken in */
    TR__RULE_FINISH,                  /* the update in hand is over */
    TR__RULE_SETTLED,                 /* steps were settled: rows are forgotten, tasks may be done */
    TR__RULE_ANSWER,                  /* parameters and rows that were asked for may leave */
    TR__RULE_BOARD,                   /* questions about posts may be answered */
    TR__RULE_SNAPSHOT,                /* a snapshot may be taken */
    TR__RULE_COPY,                    /* the replica may get the state */
    TR__RULE_BEGIN,                   /* the next update may begin */
    TR__RULE_ROUNDS,                  /* rounds may be full */
    TR__RULE_DECIDE,                  /* decisions about updates and snapshots may be made, carried out, or reported */
    TR__RULE_MEMBERS,                 /* the same about members: something has become of a trainer */
    TR__RULE_INITIATOR,               /* another trainer begins snapshots, or trainers that drain may leave */
    TR__RULE_COUNT
} tr__rule;

/* A trainer as all protocols see it. What one protocol alone knows of it is in that protocol's struct, at `index`. */
typedef struct tr__trainer {
    int           index, rank;
    uint32_t      epoch;
    tr_membership state;              /* changed by tr__server_move alone */
    uint64_t      ended;              /* steps whose STEP_END is here */
    uint64_t      settled;            /* of them in an update, or dropped. Invariant: settled <= ended */
} tr__trainer;

typedef struct tr__block {
    tr_dtype dtype;
    uint64_t bytes;
    uint64_t first_chunk, chunks;     /* its chunks among all */
} tr__block;

typedef struct tr__table {
    int64_t  width, row_bytes;
    uint64_t stride;                  /* of a packed row */
} tr__table;

/* What server 0 has decided, as far as this server knows (server_decisions.h). */
typedef struct tr__decided {
    uint64_t   number;                /* of the newest decision */
    uint64_t   update;                /* decided: `updates`, or the next one; 0 where server 0 does not decide about updates */
    uint64_t  *settled;               /* of each trainer, when that update is made; the same */
    uint8_t   *trainer;               /* of each: TR_TRAINER_IN, _OUT, _LOST */
    tr_member *member;                /* of each: the process that is this trainer, or is called to become it */
    tr_decided_snapshot snapshot;
} tr__decided;

/* Where the store wants what all servers gather for the update in hand, and how many bytes each of them has. */
typedef struct tr__share {
    const void *to;
    uint32_t    bytes;
} tr__share;

/* What each protocol keeps to itself. */
typedef struct tr__meters tr__meters;
typedef struct tr__streams tr__streams;
typedef struct tr__rounds tr__rounds;
typedef struct tr__contributions tr__contributions;
typedef struct tr__updates tr__updates;
typedef struct tr__pulls tr__pulls;
typedef struct tr__rows tr__rows;
typedef struct tr__replication tr__replication;
typedef struct tr__tasks tr__tasks;
typedef struct tr__board tr__board;
typedef struct tr__places tr__places;
typedef struct tr__snapshots tr__snapshots;
typedef struct tr__members tr__members;
typedef struct tr__decisions tr__decisions;
typedef struct tr__copying tr__copying;
typedef struct tr__start tr__start;

struct tr_server {
    const tr_roster *roster;
    tr_store         store;
    int              self;            /* index among the servers */
    int64_t          now;             /* the time of the last input */
    int64_t          retry;           /* what was lost is said again after so long; 0: nothing is lost */

    tr_status        status;
    char            *text;            /* of a failure */
    tr_outbox        outbox;
    tr_effects       effects;
    unsigned         due;             /* rules, a bit each */
    bool             is_at_work;      /* the rules are running */
    uint8_t         *pool;            /* free buffers of one chunk; the first word of each links the next */

    /* What trainers have agreed on: there from SETUP on, fixed. */
    Trireme__Pserver__Setup *setup;
    tr_policy        policy;
    tr_compress      compress;
    uint64_t         chunk_bytes, chunk_count;
    uint32_t         block_count, table_count;
    tr__block       *block;
    tr__table       *table;
    bool             is_running;      /* first values are here, and all trainers have agreed */

    int              trainer_count;
    tr__trainer     *trainer;
    uint64_t         updates;         /* applied */
    tr_update        update;          /* in hand */
    tr__share        share;
    tr__decided      decided;
    bool             has_last_snapshot;       /* server_initiator.c */

    tr__meters        *meters;
    tr__streams       *streams;
    tr__rounds        *rounds;
    tr__contributions *contributions;
    tr__updates       *update_queue;
    tr__pulls         *pulls;
    tr__rows          *rows;
    tr__replication   *replication;
    tr__tasks         *tasks;         /* NULL: none are handed out */
    tr__board         *board;         /* NULL: nobody has posted */
    tr_gather         *gather;
    tr__places        *places;
    tr__snapshots     *snapshots;
    tr__members       *members;
    tr__decisions     *decisions;
    tr__copying       *copying;
    tr__start         *start;
};

static inline void tr__server_due(tr_server *server, tr__rule rule)
{
    server->due |= 1u << rule;
}

static inline bool tr__server_is_due(const tr_server *server, tr__rule rule)
{
    return server->due >> rule & 1;
}

/* == failing == */
/* The core fails with tr_error()'s text: every trainer is refused. Returns the status. */
tr_status tr__server_fail(tr_server *server, tr_status status);
/* The job has failed: this trainer is told why. */
void      tr__server_send_failure(tr_server *server, const tr__trainer *trainer);
/* A process that was replaced is told so. */
void      tr__server_refuse(tr_server *server, int rank, uint32_t epoch);

/* == trainers == */
const char  *tr__server_trainer_name(const tr_server *server, const tr__trainer *trainer);
/* The trainer that this rank is now. NULL: it is none. */
tr__trainer *tr__server_trainer_of(tr_server *server, int peer);
/* Move a trainer to another state. Asserts that the move is legal (membership.h). A move to the present state does nothing. */
void         tr__server_move(tr_server *server, tr__trainer *trainer, tr_membership to);
/* Has the trainer neither left nor been lost? */
bool         tr__server_is_present(const tr__trainer *trainer);
/* Is this step of a replacement one that the dead trainer had ended here? */
bool         tr__server_has_ended(const tr__trainer *trainer, uint64_t step);
/* May a replacement ask as of this step, which is the one before its last ended step? */
bool         tr__server_lags(const tr__trainer *trainer, uint64_t step);
/* The trainer that begins snapshots: the first one that makes steps, else the first one that drains. -1: there is none. */
int          tr__server_initiator(const tr_server *server);
/* Is a replacement awaited, or has one made no step yet? Then no snapshot begins. Only server 0 hears whether a replacement has made a step. */
bool         tr__server_awaits_replacement(const tr_server *server);
/* TR_EPEER when the message is not for `step`, or comes before the server is running. */
tr_status    tr__server_check_step(const tr_server *server, const tr__trainer *trainer, const tr_wire *wire, uint64_t step);

/* == decisions, as facts == */
/* Does server 0 decide what makes an update? */
bool tr__server_decides_updates(const tr_server *server);
/* Is an update decided that is not made? */
bool tr__server_is_pending(const tr_server *server);
/* Is this trainer out for good: has it left with all of its steps, or is it lost? */
bool tr__server_is_out(const tr_server *server, int trainer);
/* Has server 0 decided that this trainer is lost? Then it gets no replacement. */
bool tr__server_is_decided_lost(const tr_server *server, int trainer);

/* == memory and messages == */
/* A buffer of at least one chunk; used again when it is freed. */
uint8_t  *tr__server_buffer_new(tr_server *server, uint64_t bytes);
void      tr__server_buffer_free(tr_server *server, uint8_t *buffer);
/* Free the buffers that are not in use. */
void      tr__server_buffers_free(tr_server *server);
/* Queue a message with a packed payload, which is taken over; NULL: it has none. `wire` lacks the sender. */
void      tr__server_send(tr_server *server, int rank, tr_wire wire, uint8_t *payload);

#endif
