/* replica_state.h - the inside of a replica, shared by replica.c (its life, its words, what comes to it), replica_copy.c (the state that its
 * server has) and replica_update.c (what changes it). */
#ifndef TR_PSERVER_REPLICA_STATE_H
#define TR_PSERVER_REPLICA_STATE_H

#include "pserver/core/board.h"
#include "pserver/core/kept_tasks.h"
#include "pserver/core/outbox.h"
#include "pserver/core/replica.h"
#include "pserver/core/shares.h"

/* The rows that an update brings to a table. */
typedef struct tr__replica_rows {
    tr_rows_part *part;
    uint8_t     **payload;            /* of each part: its memory */
    int           count, capacity;
} tr__replica_rows;

/* What an update says of each trainer. */
typedef struct tr__replica_lists {
    uint64_t *settled;
    uint8_t  *flags;
    bool     *takes_part;
    uint64_t  decided, decisions;
} tr__replica_lists;

struct tr_replica {
    const tr_roster *roster;
    tr_store         store;
    int              server, peer;    /* index; the rank that is this server now */
    tr_status        status;
    char            *text;
    tr_outbox        outbox;

    Trireme__Pserver__Setup *setup;   /* NULL: there is no state yet */
    uint32_t         check;           /* its checksum */
    tr_policy        policy;
    uint8_t        **grad, **pulled;  /* of each block */
    tr__replica_rows *table;
    tr_rows_update  *update;          /* of each table, as the store wants it */

    uint64_t         accepted, update_seq;         /* of its messages; of the update that is being applied */
    bool             owes_ack;
    bool             is_whole;        /* it has a state that was committed, of `updates` */
    bool             was_called;      /* in the middle of the job */
    bool             counts;          /* it has all that its server tells others */
    bool             is_broken;       /* it did not come so far, and will not */
    bool             is_busy;         /* the store is at `updates` + 1 */
    bool             owes_word;       /* what it has, to a new server */
    bool             repeats;         /* that one sends the update anew that the store is at */
    uint64_t         updates;
    tr__replica_lists next, word;      /* of the update that is being applied; of a message */

    tr_kept_tasks    tasks;
    tr_board        *board;           /* NULL: nothing was posted */

    tr_shares        shares;          /* of the update that is being applied */
};

/* == replica.c == */
/* All that it has of a state; the store forgets it when the next one comes. */
void      tr__replica_forget(tr_replica *r);
void      tr__replica_drop_rows(tr__replica_rows *t);
/* One that does not count yet is no loss: its server looks for another one. */
tr_status tr__replica_break_off(tr_replica *r, tr_status status);
/* Say to a new server what is here, if that is owed and known. */
void      tr__replica_try_word(tr_replica *r);

/* == replica_copy.c == */
tr_status tr__replica_on_copy(tr_replica *r, const tr_wire *wire, const uint8_t *payload);
tr_status tr__replica_on_value(tr_replica *r, const tr_wire *wire, const uint8_t *payload);
tr_status tr__replica_on_write_rows(tr_replica *r, const tr_wire *wire, const uint8_t *payload);

/* == replica_update.c == */
/* Is it none, or of another number of trainers? */
bool      tr__replica_is_damaged(const tr_replica *r, const Trireme__Pserver__Update *update);
/* Of one that is not. */
void      tr__replica_take_lists(const tr_replica *r, tr__replica_lists *l, const Trireme__Pserver__Update *update);
/* Where a piece of a gradient, or of what it was computed with, is to lie; NULL: there is no such piece. */
uint8_t  *tr__replica_gradient_place(const tr_replica *r, const tr_wire *wire);
tr_status tr__replica_on_push(tr_replica *r, const tr_wire *wire, const uint8_t *payload);
tr_status tr__replica_on_push_rows(tr_replica *r, const tr_wire *wire, const uint8_t *payload);
tr_status tr__replica_on_update(tr_replica *r, const tr_wire *wire, const uint8_t *payload);
tr_status tr__replica_on_share(tr_replica *r, const tr_wire *wire, const uint8_t *payload);
tr_status tr__replica_on_tasks(tr_replica *r, const tr_wire *wire, const uint8_t *payload);
tr_status tr__replica_on_post(tr_replica *r, const tr_wire *wire, const uint8_t *payload);

#endif
