/* client_state.h - the base of a trainer's core: its state, and what all of its files ask of it.
 *
 * The files stand above one another, and a file calls only those before it: client_requests.h (requests and operations), client_snapshot.h (checkpoints),
 * client_tasks.h (leased tasks), client_calls.c (what the trainer asks for), client_move.h (servers that die, and replacements), client_board.h (posts
 * for other trainers), client_answers.h (what servers say), client_node.c (life, sending). */
#ifndef TR_PSERVER_CLIENT_STATE_H
#define TR_PSERVER_CLIENT_STATE_H

#include "pserver/core/client.h"
#include "pserver/core/outbox.h"
#include "pserver/wire/rounded.h"
#include "proto/pserver.pb-c.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct tr__request {
    struct tr__request *next;
    tr_wire             wire;
    const uint8_t      *payload;
    uint8_t            *owned;        /* the payload, when it is the client's */
    bool                is_done;
    bool                is_needed_again;     /* it is done, but another server has taken the place, and has not said that it has it */
    bool                is_flying;    /* counts in in_flight */
    int64_t             sent_at;
    uint32_t            parts;        /* pull: messages of the answer that are here; of rows: that are here or placed */
    uint32_t            placed;       /* pull: behind the last message of the answer that was placed, */
    uint32_t            pending;      /* how many of those are not here yet, */
    bool                has_gap;      /* and one before what came last was lost */
    uint64_t            left, size;   /* pull: bytes that are not here, and in all */
    uint8_t            *to;           /* pull of rows: where they go */
    uint64_t           *clock;        /* and how old they are */
    tr_client_pack     *pack;         /* read of rows: what they make */
    tr_task            *answer;       /* of a question for a task */
    tr_client_post     *post;         /* that it sends */
    uint64_t           *op;           /* operations it is part of */
    uint32_t            op_count;
    uint64_t            only_op;      /* the one, when op is NULL */
} tr__request;

/* A small push or a pull that waits for company. */
typedef struct tr__gathered {
    uint32_t    block;
    const void *data;
    uint64_t    op;
} tr__gathered;

typedef struct tr__list {
    tr__gathered *item;
    uint32_t      count, capacity;
    uint64_t      bytes;              /* of the payload it will make */
    uint64_t      wanted;             /* pulls: of the answer */
} tr__list;

typedef struct tr__stream {
    int               rank;
    uint64_t          last_seq;
    tr__request      *first, **end;   /* all that are not done, or that a server in this one's place would miss */
    tr__request      *last;           /* of them; or NULL */
    tr__request      *open;           /* of what lies before it nothing is waited for */
    tr__request      *unsent;         /* the first that was not sent, or is to be sent again */
    uint64_t          in_flight;      /* pushed bytes, sent and not done */
    tr__list          pushes, pulls;
    double            weight;         /* of the gathered pushes */
    bool              is_serving, has_state; /* as the server has said */
    uint64_t          updates, settled; /* in its state; of them, steps of this trainer */
    uint64_t          ended;          /* steps that had come there when it began to serve */
    uint64_t          fastest;        /* steps settled there then, of the trainer that had most */
    bool              is_orphan;      /* the server died, and its place is empty */
    int64_t           orphan_since;
    char             *how;            /* it died, in words */
    int64_t           asked_at;       /* whether it serves */
    bool              asks, must_introduce;    /* a replacement: who it is now */
    uint32_t          snapshot_over;  /* this server gathers no snapshot up to this number any more */
    bool              awaits_replacement;    /* the server does, and would decline a snapshot */
    uint32_t          initiator;          /* trainer that makes checkpoints, as the server has said; or TR_INITIATOR_... */
    uint64_t          updates_now;    /* there, when it said so */
    tr_client_answer  answer;         /* to the last snapshot; no bytes: it has not come */
} tr__stream;

/* A request to server 0 that waits until all steps before it are settled everywhere, or behind such a one. */
typedef struct tr__task {
    tr_client_task task;
    uint8_t       *payload;           /* of a goodbye */
    size_t         bytes;
    uint64_t       op;
} tr__task;

typedef struct tr__client_block {
    int       server;
    uint32_t  local;                  /* number on its server */
    uint64_t  bytes;
    uint8_t  *pull_to;
    bool      is_rounded;             /* pulls bring bfloat16 */
} tr__client_block;

struct tr_client {
    const tr_roster    *roster;
    tr_client_options   options;
    uint32_t            epoch;
    tr_status           status;
    char               *text;
    int64_t             now;
    uint64_t            step;         /* ended */
    bool                has_tasks, is_evened;  /* no server has a step that others have not (even_out) */
    uint64_t            last_lease;   /* that it has got */
    uint64_t            report_at;      /* server 0 wants to know when so many steps are settled everywhere; 0: it does not */
    tr__task           *task;         /* that wait to be sent, in order */
    uint32_t            task_count, task_capacity;
    bool                survives_trainers, keeps_settled, snapshots_all;
    int                 introduced;      /* a replacement: ranks that were told so; -1: no replacement */
    uint64_t            first_step;   /* steps behind it when it was set up */
    int                 stream_count, turn;
    tr__stream         *stream;
    uint32_t            block_count;
    tr__client_block   *block;
    uint32_t          **global;       /* server, number there -> block */
    uint32_t           *local_count;
    uint64_t            op_first, op_count, op_capacity; /* a ring of operations from op_first on */
    uint32_t           *op_left;      /* requests that are not done, and 1 while it is being made */
    tr__request        *standby;
    bool                is_in_collective;   /* it waits for what others post, between two steps */
    uint32_t            snapshot, own_snapshot; /* numbers of the last one that was made, and of the last that this trainer has begun */
    uint32_t            snapshot_known;    /* the newest that any server has heard of */
    uint32_t            seen_snapshot;     /* the newest that this trainer knows the moment of, */
    uint64_t            seen_step;         /* which is this step */
    uint32_t            snapshot_wanted, snapshot_initiator; /* the newest to take part in, and who has begun it */
    uint32_t            stops;        /* the highest number of a training that another trainer asks to end */
    bool                has_news;     /* from a server, since the caller took one */
    bool                is_draining, has_left;       /* its steps are over; and it has said goodbye */
    int64_t             snapshot_asked_at;
    uint8_t *(*pack_place)(void *self, size_t *size, uint64_t step);
    void               *pack_self;
    atomic_int          last_server;  /* whose answer came last; read by other threads, for people */
};

/* == client_state.c == */
void         tr__client_fail(tr_client *client, tr_status status);
/* The stream to this server. NULL: the peer is no server. */
tr__stream  *tr__client_stream_of(tr_client *client, int peer);
bool         tr__client_is_replacement(const tr_client *client);
/* May some servers have a step that is to be made for the others yet? */
bool         tr__client_is_uneven(const tr_client *client);
/* Steps that every server has settled. */
uint64_t     tr__client_everywhere(const tr_client *client);

#endif
