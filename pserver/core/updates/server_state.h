/* server_state.h - the base of a server core: the state that all of its protocols share.
 *
 * Each protocol has one pair of files, such as server_pulls.h and server_pulls.c. The struct with its state is in the .c file, and the
 * other protocols use it through the functions of the .h file. The protocols are layered in the order of the pointers in `struct
 * tr_server`: a file calls only those before it. server_rules.c has the rules between them: which protocol must act when something has
 * changed.
 *
 * A message, a death, a time or a report of the store is an *input* (server.c). A protocol's handler changes its own state, queues messages
 * (`outbox`) and effects (effects.h), and marks by tr__server_due which rules are due. Then the rules run, one at a time, until none is
 * due. So no protocol calls another one back in the middle of a change. */
#pragma once

#include "pserver/core/base/effects.h"
#include "pserver/core/base/gathering.h"
#include "pserver/core/base/outbox.h"
#include "pserver/core/base/roster.h"
#include "pserver/core/base/store.h"
#include "pserver/observe/meter.h"
#include "pserver/wire/compress.h"
#include "pserver/wire/membership.h"

typedef struct tr_server tr_server;

/* The rules, in the order in which they run when several are due; server_rules.c has them. */
typedef enum tr__rule {
    TR__RULE_UNPARK,                  /* parked requests are handled */
    TR__RULE_FINISH,                  /* the update in hand is over */
    TR__RULE_SETTLED,                 /* steps were settled: gradients of rows are dropped, tasks may be done */
    TR__RULE_ANSWER,                  /* pulls of parameters and rows may be answered */
    TR__RULE_BOARD,                   /* questions about posts may be answered */
    TR__RULE_SNAPSHOT,                /* a snapshot may be taken */
    TR__RULE_COPY,                    /* the replica may get the state */
    TR__RULE_BEGIN,                   /* the next update may begin */
    TR__RULE_ROUNDS,                  /* rounds may be full */
    TR__RULE_DECIDE,                  /* decisions about updates and snapshots may be made, carried out, or reported */
    TR__RULE_MEMBERS,                 /* the same for decisions about members, after a trainer died, left or was replaced */
    TR__RULE_INITIATOR,               /* the initiator may have changed, or draining trainers may leave */
    TR__RULE_COUNT
} tr__rule;

/* A trainer as all protocols see it. A protocol's own data about a trainer are in that protocol's struct, at `index`. */
typedef struct tr__trainer {
    int           index, rank;
    uint32_t      incarnation;
    tr_membership state;              /* changed by tr__server_move alone */
    uint64_t      ended;              /* steps whose STEP_END is here */
    uint64_t      settled;            /* steps that are in an update, or were dropped. Invariant: settled <= ended */
    uint64_t      left_out_from, left_out_to;   /* its last range of steps without a gradient; 0: none */
    bool          has_joined;         /* its JOIN is here */
} tr__trainer;

typedef struct tr__block {
    tr_dtype dtype;
    uint64_t bytes;
    bool     is_number;               /* no gradient, but a number that trainers share */
    uint64_t first_chunk, chunks;     /* its chunks, in the numbering of the chunks of all blocks */
    uint32_t value;                   /* of an entry behind the blocks: the number in Setup.values */
} tr__block;

typedef struct tr__table {
    int64_t  width, row_bytes;
    uint64_t stride;                  /* size of a packed row */
} tr__table;

/* The newest decision that this server knows (server_decisions.h). Arrays have an entry for each trainer. */
typedef struct tr__decided {
    uint64_t   number;                /* the number of the newest decision */
    uint64_t   update;                /* the decided update: `updates`, or the next one; 0 where server 0 does not decide about updates */
    uint64_t  *settled;               /* steps that are settled when that update is made; 0 where server 0 does not decide about updates */
    uint8_t   *trainer;               /* the trainer's flag: TR_TRAINER_IN, _OUT or _LOST */
    tr_member *member;                /* the process that is this trainer, or is called to become it */
    tr_decided_snapshot snapshot;
} tr__decided;

/* A gathering for the update in hand: the store's memory for the values of all servers, and the size of one value. */
typedef struct tr__share {
    const void *to;
    uint32_t    bytes;
} tr__share;

/* The private state of each protocol. */
typedef struct tr__streams tr__streams;
typedef struct tr__sets tr__sets;
typedef struct tr__rounds tr__rounds;
typedef struct tr__contribution tr__contribution;
typedef struct tr__updates tr__updates;
typedef struct tr__pulls tr__pulls;
typedef struct tr__row_pulls tr__row_pulls;
typedef struct tr__rows tr__rows;
typedef struct tr__replication tr__replication;
typedef struct tr__tasks tr__tasks;
typedef struct tr__board tr__board;
typedef struct tr__places tr__places;
typedef struct tr__snapshots tr__snapshots;
typedef struct tr__members tr__members;
typedef struct tr__decisions tr__decisions;
typedef struct tr__copying tr__copying;
typedef struct tr__restore tr__restore;
typedef struct tr__row_files tr__row_files;
typedef struct tr__start tr__start;

/* A server's handling of the requests of one kind. Each protocol has a list of handlers, which ends with an empty entry; server_requests.c
 * collects the lists. */
typedef struct tr__handler {
    tr_wire_kind kind;
    /* The request's turn has come. A gradient's payload belongs to the handler if it is a buffer of the pool (`is_owned`). */
    tr_status  (*take)(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint8_t *payload, bool is_owned);
    /* It was taken before and comes again: answer it again. NULL: an acknowledgement is enough. */
    void       (*repeat)(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload);
} tr__handler;

struct tr_server {
    const tr_roster *roster;
    tr_store         store;
    const tr__handler *handler[TR_WIRE_KIND_COUNT];       /* of each kind of request; NULL: it is no request */
    int              self;            /* the index of this server */
    int64_t          now;             /* the time of the last input */
    int64_t          retry;           /* lost messages are repeated after so many nanoseconds; 0: the transport is reliable */

    tr_status        status;
    char            *text;            /* the message of a failure */
    tr_outbox        outbox;
    tr_effects       effects;
    unsigned         due;             /* the rules that are due, one bit each */
    bool             is_at_work;      /* the rules are running */
    uint8_t         *pool;            /* free buffers of one chunk; the first word of each links the next */

    /* The facts that trainers have agreed on; set by SETUP, and never changed after it. */
    Trireme__Pserver__Setup *setup;
    tr_policy        policy;
    tr_compress      compress;
    uint64_t         chunk_bytes, chunk_count;
    uint32_t         block_count, table_count;
    uint32_t         pull_count;      /* blocks, and after them all values of the Setup */
    tr__block       *block;
    tr__table       *table;
    bool             is_running;      /* all first values are here, and all trainers have joined */

    int              trainer_count;
    tr__trainer     *trainer;
    uint64_t         updates;         /* number of applied updates */
    tr_update        update;          /* the update in hand: the store computes it */
    tr__share        share;
    tr__decided      decided;
    uint32_t         newest_snapshot; /* the highest number of a snapshot that this server knows; 0: none (server_snapshots.h) */
    bool             has_last_snapshot;       /* the job's last snapshot is made or was tried (server_initiator.h) */

    tr_peer_meter     *meters;        /* of each trainer */
    tr__streams       *streams;
    tr__sets          *sets;
    tr__rounds        *rounds;
    tr__contribution  *contributions; /* of each trainer; NULL before the setup */
    tr__updates       *update_queue;
    tr__pulls         *pulls;
    tr__row_pulls     *row_pulls;
    tr__rows          *rows;
    tr__replication   *replication;
    tr__tasks         *tasks;         /* NULL: the job has no tasks */
    tr__board         *board;         /* NULL: no trainer has posted */
    tr_gather         *gather;
    tr__places        *places;        /* of each trainer */
    tr__snapshots     *snapshots;
    tr__members       *members;
    tr__decisions     *decisions;
    tr__copying       *copying;
    tr__restore       *restore;
    tr__row_files     *row_files;
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
/* The core fails with tr_error()'s text, and sends REFUSED to every trainer. Returns the status. */
tr_status tr__server_fail(tr_server *server, tr_status status);
/* The core has failed: send this trainer REFUSED with the reason. */
void      tr__server_send_failure(tr_server *server, const tr__trainer *trainer);
/* Send REPLACED to a process whose place another process has. */
void      tr__server_refuse(tr_server *server, int rank, uint32_t incarnation);

/* == trainers == */
const char  *tr__server_trainer_name(const tr_server *server, const tr__trainer *trainer);
/* The trainer that this rank is now. NULL: it is none. */
tr__trainer *tr__server_trainer_of(tr_server *server, int peer);
/* Move a trainer to another state. Asserts that the move is legal (membership.h). A move to the present state does nothing. */
void         tr__server_move(tr_server *server, tr__trainer *trainer, tr_membership to);
/* Has the trainer neither left nor been lost? */
bool         tr__server_is_present(const tr__trainer *trainer);
/* Does a replacement repeat a step that the dead trainer had ended on this server? */
bool         tr__server_has_ended(const tr__trainer *trainer, uint64_t step);
/* Has the trainer ended this step without a gradient? */
bool         tr__server_has_left_out(const tr__trainer *trainer, uint64_t step);
/* May a replacement pull as of this step, which is the one before its last ended step? */
bool         tr__server_lags(const tr__trainer *trainer, uint64_t step);
/* The trainer that begins snapshots: the first one that makes steps, else the first one that drains. -1: there is none. */
int          tr__server_initiator(const tr_server *server);
/* Is a trainer vacant, or has its replacement made no step yet? Then no snapshot begins. */
bool         tr__server_awaits_replacement(const tr_server *server);
/* TR_EPEER when the message is not for `step`, or comes before the server is running. */
tr_status    tr__server_check_step(const tr_server *server, const tr__trainer *trainer, const tr_wire *wire, uint64_t step);

/* == questions about decisions == */
/* Does server 0 decide what makes an update? */
bool tr__server_decides_updates(const tr_server *server);
/* Is an update decided that is not made? */
bool tr__server_is_pending(const tr_server *server);
/* Is this trainer out for good: has it left with all of its steps, or is it lost? */
bool tr__server_is_out(const tr_server *server, int trainer);
/* Has server 0 decided that this trainer is lost? Then it gets no replacement. */
bool tr__server_is_decided_lost(const tr_server *server, int trainer);

/* == memory and messages == */
/* A buffer of at least one chunk. A freed buffer goes back to the pool. */
uint8_t  *tr__server_buffer_new(tr_server *server, uint64_t bytes);
void      tr__server_buffer_free(tr_server *server, uint8_t *buffer);
/* Free the buffers that are not in use. */
void      tr__server_buffers_free(tr_server *server);
/* Queue a message. `payload` is malloc'ed and freed after sending; NULL: none. This fills in the sender of `wire`. */
void      tr__server_send(tr_server *server, int rank, tr_wire wire, uint8_t *payload);
