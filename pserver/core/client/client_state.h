/* client_state.h - the base of a trainer's core: its state, and the questions about it that all of its files share.
 *
 * A protocol has one file. It has the calls that send its requests, how these requests behave (tr__ask in client_requests.h), and what
 * their answers do: client_setup.c (SETUP, VALUE, JOIN), client_steps.c (pushes, SET, STEP_END), client_pulls.c (PULL), client_rows.c (rows
 * of tables), client_leave.c (DRAIN, GOODBYE), client_snapshot.c, client_tasks.c, client_board.c. Above them stand client_move.c (failover
 * and replacement), client_answers.c (receiving) and client_node.c (life and sending). A file calls only those before it.
 *
 * The state of a protocol is a struct of its own, which its file alone uses. */
#pragma once

#include "pserver/core/client/client.h"
#include "pserver/core/base/outbox.h"
#include "pserver/wire/rounded.h"
#include "proto/pserver.pb-c.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct tr__ask tr__ask;       /* client_requests.h */

/* The answer to a pull: of blocks, of rows, or of all rows of a shard. */
typedef struct tr__answer {
    uint32_t        carrier;          /* blocks: the rank through which messages of the answer came, + 1; 0: none did */
    bool            has_gap;          /* blocks: a message of the answer was lost before the newest one */
    uint32_t        parts;            /* blocks: messages that are received; rows: received, or on their way into a receive buffer */
    uint32_t        direct;           /* blocks: number of the last message that goes into its receive buffer, plus 1 */
    uint32_t        pending;          /* blocks: messages that go into their receive buffers and are not received yet */
    uint64_t        left, size;       /* bytes that are missing, and bytes of the whole answer */
    uint8_t        *to;               /* rows: they are written here */
    uint64_t       *clock;            /* rows: tr_client_rows.clock */
    tr_client_pack *pack;             /* all rows of a shard: the result */
} tr__answer;

/* OPEN -> DONE, and with each server that dies DONE -> OWED -> DONE. */
typedef enum tr__request_state {
    TR__OPEN,
    TR__DONE,
    TR__OWED                          /* done by a server that died; its successor has not acknowledged it */
} tr__request_state;

typedef struct tr__request {
    struct tr__request *next;
    const tr__ask      *ask;          /* how requests of this kind behave */
    tr_wire             wire;
    const uint8_t      *payload;
    uint8_t            *owned;        /* the payload, if the client must free it; or NULL */
    tr__request_state   state;
    bool                is_flying;    /* its bytes count in in_flight */
    int64_t             sent_at;
    union {
        tr__answer      answer;       /* pulls */
        tr_task        *task;         /* TASK_ASK: the task is written here; or NULL */
        tr_client_post *post;         /* POST: the caller's struct, which gets the answer */
        tr_client_restored *restored; /* RESTORE: likewise */
        tr_client_move     *move; /* SAVE_ROWS, LOAD_ROWS: likewise */
    };
    uint64_t           *op;           /* of gathered calls: the operations that this request is part of, and behind them its payload */
    uint32_t            op_count;     /* 0: this request is part of `only_op` */
    uint32_t            op_room;      /* size of the memory at `op`; the next request in this struct uses it again */
    uint64_t            only_op;
} tr__request;

/* A small push or a pull that waits until it can share a message with others. */
typedef struct tr__gathered {
    uint32_t    block;
    const void *data;
    uint64_t    op;
} tr__gathered;

typedef struct tr__list {
    tr__gathered *item;
    uint32_t      count, capacity;
    uint64_t      bytes;              /* size of the message's payload */
    uint64_t      wanted;             /* pulls: size of the answer */
} tr__list;

typedef struct tr__stream {
    int               rank;
    uint32_t          carrier;        /* the rank through which requests go, + 1; 0: they go to the server directly */
    uint64_t          last_seq;
    tr__request      *first, **end;   /* requests that are not done, or that a successor of this server would need */
    tr__request      *last;           /* the last request, or NULL */
    tr__request      *open;           /* all requests before this one are done */
    tr__request      *unsent;         /* the first request that is to be sent, perhaps again */
    uint64_t          gathered_from;  /* the first request that waits for tr_client_flush, by its number; 0: there is none */
    uint64_t          in_flight;      /* pushed bytes that are sent and not done */
    tr__list          pushes, pulls;
    double            weight;         /* the weight of the gathered pushes */
    bool              is_serving, has_state; /* SERVING: it has come; the server has a state of an earlier process */
    uint64_t          updates, settled; /* SERVING: updates in the server's state; steps of this trainer that it has settled */
    uint64_t          ended;          /* SERVING: steps of this trainer that the server has complete */
    uint64_t          fastest;        /* SERVING: settled steps of the trainer that has most */
    bool              is_orphan;      /* the server died, and no standby has taken its place yet */
    int64_t           orphan_since;
    char             *how;            /* how the server died, in words */
    int64_t           asked_at;       /* when SERVING_ASK was sent last */
    bool              asks;           /* SERVING_ASK must be sent */
    bool              must_introduce; /* a replacement: REPLACE_DONE must be sent to this server */
    uint32_t          snapshot_over;  /* this server gathers no snapshot up to this number any more */
    bool              awaits_replacement;    /* the server waits for a trainer's replacement, and would decline a snapshot */
    uint32_t          initiator;      /* the trainer that the server names as initiator, or TR_INITIATOR_... */
    uint64_t          updates_now;    /* updates of the server, by its newest message */
    tr_client_answer  answer;         /* the server's answer to the last snapshot; no bytes: it has not come */
} tr__stream;

/* A request to server 0 that waits until all servers have settled the steps before it. */
typedef struct tr__task {
    const tr__ask *ask;
    tr_client_task task;
    uint8_t       *payload;           /* the payload of a DRAIN or GOODBYE */
    size_t         bytes;
    uint64_t       op;
} tr__task;

typedef struct tr__client_block {
    int       server;
    uint32_t  local;                  /* the number of the block on its server */
    uint64_t  bytes;
    uint8_t  *pull_to;
    bool      is_rounded;             /* pulls of this block arrive in bfloat16 */
} tr__client_block;

/* client_requests.c */
typedef struct tr__client_ops {
    uint64_t     first, count, capacity;     /* a ring of operations from `first` on */
    uint32_t    *left;                /* of each operation: requests that are not done, plus 1 while requests are being added */
    tr__request *spare;               /* requests that were reaped, for the next ones */
} tr__client_ops;

/* client_snapshot.c */
typedef struct tr__client_snapshots {
    uint32_t joined;                  /* number of the last snapshot in which this trainer took part */
    uint32_t own;                     /* number of the last snapshot that this trainer has begun */
    uint32_t known;                   /* number of the newest snapshot that any server knows */
    uint32_t before;                  /* `known` at this process's set-up: up to here its predecessor took part, if anyone did */
    uint32_t seen;                    /* number of the newest snapshot whose step is known */
    uint64_t seen_step;               /* the step of `seen` */
    uint32_t wanted, initiator;       /* the newest snapshot in which to take part, and its initiator */
    int64_t  asked_at;
    bool     has_news;                /* a message of a server has come since the last tr_client_heard_from_server */
    uint8_t *(*pack_place)(void *self, size_t *size, uint64_t step);
    void    *pack_self;
} tr__client_snapshots;

/* client_tasks.c */
typedef struct tr__client_tasks {
    bool      has_any;
    uint64_t  last_lease;             /* the number of the newest lease of this trainer */
    uint64_t  report_at;              /* send SETTLED when all servers have settled so many steps; 0: no report is due */
    tr__task *waiting;                /* requests that wait to be sent, in order */
    uint32_t  count, capacity;
} tr__client_tasks;

/* client_board.c */
typedef struct tr__client_board {
    bool     is_waiting;              /* this trainer waits for others' posts, between two steps */
    uint32_t stops;                   /* the highest number of a training that another trainer asks to end */
} tr__client_board;

struct tr_client {
    const tr_roster     *roster;
    tr_client_options    options;
    uint32_t             incarnation;
    tr_status            status;
    char                *text;
    int64_t              now;
    uint64_t             step;        /* steps that this trainer has ended */
    uint64_t             first_step;  /* steps that this trainer had ended before this process */
    bool                 is_evened;   /* all servers have the same steps of this trainer (even_out) */
    tr_policy            policy;      /* before the set-up: of lockstep */
    int                  introduced;  /* a replacement: ranks that have got its first REPLACE_DONE; -1: no replacement */
    bool                 is_draining, has_left;        /* DRAIN was sent; GOODBYE was sent */
    bool                 has_kept_pulls;               /* tr_client_flush_midway has left some */
    int64_t              kept_since;  /* when that was seen; 0: not yet */
    int                  stream_count, turn;
    tr__stream          *stream;
    uint32_t             block_count;
    tr__client_block    *block;
    uint32_t           **global;      /* server, number on that server -> block */
    uint32_t            *local_count;
    tr__client_ops       ops;
    tr__client_snapshots snapshots;
    tr__client_tasks     tasks;
    tr__client_board     board;
    atomic_int           last_server; /* the server whose answer came last; other threads read it for reports */
};

/* == client_state.c == */
void         tr__client_fail(tr_client *client, tr_status status);
/* The stream to this server. NULL: the peer is no server. */
tr__stream  *tr__client_stream_of(tr_client *client, int peer);
bool         tr__client_is_replacement(const tr_client *client);
/* Does the client know the job's blocks and policy (tr_client_setup_all)? */
bool         tr__client_is_set_up(const tr_client *client);
/* May some servers have a step that this trainer must still repeat for the others? */
bool         tr__client_is_uneven(const tr_client *client);
/* Steps that every server has settled. */
uint64_t     tr__client_everywhere(const tr_client *client);
