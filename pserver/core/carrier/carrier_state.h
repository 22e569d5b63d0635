/* carrier_state.h - what the files of a carrier share: carrier.c (its life and its boundary), carrier_lanes.c (requests on their way),
 * carrier_sums.c (requests are put together), carrier_answers.c (answers for a whole group). A file calls only those before it in the order
 * buffers, sums, answers, lanes, boundary. */
#pragma once

#include "pserver/core/base/outbox.h"
#include "pserver/core/carrier/carrier.h"
#include "storage/table/rows_merge.h"

#include <stddef.h>

/* A payload. It is free when nobody reads it. */
typedef struct tr__cargo {
    struct tr__cargo *next;           /* all of them are a ring */
    tr_loan           loan;
    uint64_t          capacity;
    _Alignas(64) uint8_t payload[];
} tr__cargo;

/* A request that waits. Its payload is in `cargo`, or is memory of this rank's own core, or of `owned`. */
typedef struct tr__load {
    struct tr__load *next;
    tr_wire          wire;
    const uint8_t   *payload;
    tr__cargo       *cargo;
    void            *owned;
    int64_t          since;
} tr__load;

/* The requests of a trainer of the group to a server. */
typedef struct tr__queue {
    tr__load *first, *last;
    uint64_t  seq;                    /* number of the last request */
    bool      is_in;                  /* a push has come */
    uint64_t  in_step;                /* the step of the first one */
    uint64_t  ended;                  /* the last step of which the end has come */
} tr__queue;

/* All requests to one server. */
typedef struct tr__lane {
    int       rank;                   /* of the server */
    int64_t   ended_at;               /* when the end of a step came last */
    uint64_t  pushes_apart;           /* up to this step pushes are not put together, because others did not come */
    tr__queue queue[];                /* of each trainer of the group */
} tr__lane;

/* An answer of a server for all trainers of the group. */
typedef struct tr__shared {
    struct tr__shared *next;
    int                server;        /* its rank */
    uint64_t           step;
    uint64_t           left;          /* bytes of parameters that have not come */
    int                ranks;
    struct {
        int      rank;
        uint32_t incarnation;
        uint64_t seq;
    } to[];
} tr__shared;

struct tr_carrier {
    const tr_roster *roster;
    tr_node          inner;
    uint64_t         chunk_bytes;
    int64_t          now;
    int              first, end;      /* the trainers of the group */
    int             *rank;            /* of each of them, as far as this rank knows */
    int              servers;
    tr__lane       **lane;            /* to each server; NULL: nothing has come for it */
    tr__shared      *shared;
    tr__cargo       *cargos;          /* the buffer that was taken last */
    uint32_t         arriving;        /* buffers into which a message is being received */
    tr_outbox        outbox;
    tr_client_block **block;          /* of each server; NULL before the set-up */
    uint32_t         *block_count;
    tr_compress      compress;
    float            *decoded;
    uint32_t          table_count;
    int64_t          *width;          /* of the rows of each table */
    tr_rows_merge     merge;
    tr_rows_part     *part;
    uint64_t          part_capacity;
    uint64_t          chunk_sums, row_sums;
};

/* == carrier.c: buffers == */
/* A buffer with one reader. */
tr__cargo *tr__cargo_new(tr_carrier *carrier, uint64_t bytes);
static inline tr__cargo *tr__cargo_of(void *payload)
{
    return (tr__cargo *)(void *)((uint8_t *)payload - offsetof(tr__cargo, payload));
}

/* == carrier_sums.c == */
/* May this request be put together with those of others? */
bool tr__carrier_joins(const tr_carrier *carrier, const tr_wire *wire);
/* A gradient of rows is pushed in several requests. Have all come that belong to the first one in the queue? */
bool tr__carrier_has_all(const tr__queue *queue);
/* The number of requests that are put together with the first one in the queue, and with it. */
uint32_t tr__carrier_pieces(const tr__queue *queue);
/* Are these requests, one of each trainer of the group, parts of one? Each of them is the first one in its queue. */
bool tr__carrier_match(const tr_carrier *carrier, const tr__lane *lane);
/* The payloads of pushes that are put together, each with one reader. */
typedef struct tr__sum {
    tr__cargo *sum;                   /* of the first one; NULL: they cannot be added up */
    uint64_t   bytes;
    tr__cargo *rest;                  /* of each other one; NULL: it has none */
    uint64_t   rest_bytes;
} tr__sum;
tr__sum tr__carrier_sum(tr_carrier *carrier, const tr__lane *lane);

/* == carrier_answers.c == */
/* These PULLs, one of each trainer, get one answer. False: the server will refuse them. */
bool        tr__carrier_share(tr_carrier *carrier, const tr__lane *lane);
/* The answer that this message is a part of; NULL: it is a part of none. */
tr__shared *tr__carrier_shared(const tr_carrier *carrier, int server, const tr_wire *wire);
/* Hand a part of an answer to all trainers of the group. `cargo` has its payload, with one reader. */
void        tr__carrier_hand_out(tr_carrier *carrier, tr__shared *shared, const tr_wire *wire, tr__cargo *cargo);
/* The server of this rank is dead (-1: any server): its answers will not come. */
void        tr__carrier_forget_shared(tr_carrier *carrier, int rank);

/* == carrier_lanes.c == */
/* A request to the server of that rank. */
void    tr__carrier_take(tr_carrier *carrier, int server, const tr__load *load);
/* A rank is dead, or has left. */
void    tr__carrier_lost(tr_carrier *carrier, int rank);
/* Carry on alone what has waited too long. Returns when to look again. */
int64_t tr__carrier_look(tr_carrier *carrier);
void    tr__carrier_free_lanes(tr_carrier *carrier);
