/* replica_state.h - the base of a replica's core, which replica_copy.h (the state that its server has) and replica_update.h (what changes it) share. */
#ifndef TR_PSERVER_REPLICA_STATE_H
#define TR_PSERVER_REPLICA_STATE_H

#include "pserver/core/board.h"
#include "pserver/core/effects.h"
#include "pserver/core/durable_tasks.h"
#include "pserver/core/outbox.h"
#include "pserver/core/roster.h"
#include "pserver/core/shares.h"
#include "pserver/core/store.h"

typedef struct tr_replica tr_replica;

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
    tr_effects       effects;
    bool             is_at_work;      /* effects are being carried out */

    Trireme__Pserver__Setup *setup;   /* NULL: there is no state yet */
    uint32_t         check;           /* its checksum */
    tr_policy        policy;
    uint8_t        **grad, **pulled;  /* of each block */
    tr__replica_rows *table;
    tr_rows_update  *update;          /* of each table, as the store wants it */
    tr_update        in_hand;         /* the update that the store is at */
    const tr__replica_lists *committed;    /* what the next COMMIT says */

    uint64_t         accepted, update_seq;         /* of its messages; of the update that is being applied */
    bool             owes_ack;
    bool             is_whole;        /* it has a state that was committed, of `updates` */
    bool             was_called;      /* in the middle of the job */
    bool             counts;          /* it has all that its server tells others */
    bool             is_broken;       /* it did not come so far, and will not */
    bool             is_busy;         /* the store is at `updates` + 1 */
    bool             owes_report;       /* what it has, to a new server */
    bool             repeats;         /* that one sends the update anew that the store is at */
    uint64_t         updates;
    tr__replica_lists next, word;      /* of the update that is being applied; of a message */

    tr_durable_tasks    tasks;
    tr_board        *board;           /* NULL: nothing was posted */

    tr_shares        shares;          /* of the update that is being applied */
};

tr__replica_lists tr__replica_lists_new(size_t trainers);
void      tr__replica_lists_free(tr__replica_lists *l);
/* Is the update none, or of another number of trainers? */
bool      tr__replica_is_damaged(const tr_replica *r, const Trireme__Pserver__Update *update);
/* Of one that is not. */
void      tr__replica_take_lists(const tr_replica *r, tr__replica_lists *l, const Trireme__Pserver__Update *update);
/* Forget all that the replica has of a state. The store forgets it when the next one comes. */
void      tr__replica_forget(tr_replica *r);
void      tr__replica_drop_rows(tr__replica_rows *t);
/* The replica fails with tr_error()'s text. A replica that does not count yet is no loss: its server looks for another one. */
tr_status tr__replica_break_off(tr_replica *r, tr_status status);
/* Say to the server what is here: the state of this process, or of one before it. */
void      tr__replica_report(tr_replica *r);
/* The same, if that is owed and known. */
void      tr__replica_try_report(tr_replica *r);

#endif
