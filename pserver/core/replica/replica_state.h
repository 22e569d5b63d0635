/* replica_state.h - the base of a replica's core. replica_copy.h (the state from the server) and replica_update.h (updates) share it. */
#pragma once

#include "pserver/core/board/board.h"
#include "pserver/core/base/effects.h"
#include "pserver/core/tasks/durable_tasks.h"
#include "pserver/core/base/outbox.h"
#include "pserver/core/base/roster.h"
#include "pserver/core/base/shares.h"
#include "pserver/core/base/store.h"

typedef struct tr_replica tr_replica;

/* The rows that an update brings to a table. */
typedef struct tr__replica_rows {
    tr_rows_part *part;
    uint8_t     **payload;            /* the memory of each part */
    int           count, capacity;
} tr__replica_rows;

/* The state of each trainer after an update, and the newest decision. */
typedef struct tr__replica_lists {
    uint64_t *settled;
    uint8_t  *flags;
    bool     *takes_part;
    uint64_t  decided, decisions;
    uint32_t  newest_snapshot;
} tr__replica_lists;

/* X(STAGE, the stages that may follow): how far the copy of the server is. */
#define TR__REPLICA_STAGES(X)                                                                                       \
    X(COPYING,  M(WHOLE) | M(BROKEN))              /* there is no committed state yet */                           \
    X(WHOLE,    M(COPYING) | M(COUNTING) | M(BROKEN))      /* there is one, of update `updates` */                 \
    X(COUNTING, 0)                                 /* the server waits for this replica in every update */         \
    X(BROKEN,   0)                                 /* the copy failed before the replica counted; it is not tried again */

typedef enum tr__replica_stage {
#define X(STAGE, next) TR__REPLICA_##STAGE,
    TR__REPLICA_STAGES(X)
#undef X
} tr__replica_stage;

struct tr_replica {
    const tr_roster *roster;
    tr_store         store;
    int              server, peer;    /* the index of the server; the rank that is this server now */
    tr_status        status;
    char            *text;
    tr_outbox        outbox;
    tr_effects       effects;
    bool             is_at_work;      /* the store is carrying out effects */

    Trireme__Pserver__Setup *setup;   /* NULL: there is no state yet */
    uint32_t         check;           /* the checksum of the setup */
    tr_policy        policy;
    uint8_t        **grad, **pulled;  /* of each block: its mean gradient; the parameters that the gradient was computed with */
    tr__replica_rows *table;
    tr_rows_update  *update;          /* of each table: its gradients in the store's form */
    tr_set_value    *set;             /* values for the next update; each one's data is a malloc of its whole size */
    uint32_t         set_count;
    tr_update        in_hand;         /* the update that the store computes */
    const tr__replica_lists *committed;    /* the content of the next COMMIT */

    uint64_t         accepted;        /* the number of the server's last message that was taken */
    uint64_t         update_seq;      /* the number of the message that began the update in hand */
    bool             owes_ack;
    tr__replica_stage stage;
    bool             was_called;      /* this rank became a replica in the middle of the job */
    bool             is_busy;         /* the store computes update `updates` + 1 */
    bool             owes_report;     /* a new server must get REPLICA_STATE */
    bool             repeats;         /* the new server sends the update in hand a second time */
    uint64_t         updates;
    tr__replica_lists next, received; /* of the update in hand; of the message that is being handled */

    tr_durable_tasks    tasks;
    tr_board        *board;           /* NULL: no trainer has posted */

    tr_shares        shares;          /* gathered values of the update in hand */
};

/* Nothing happens where the replica is in that stage already. */
void      tr__replica_move(tr_replica *r, tr__replica_stage to);
tr__replica_lists tr__replica_lists_new(size_t trainers);
void      tr__replica_lists_free(tr__replica_lists *l);
/* Is the message NULL, or made for another number of trainers? */
bool      tr__replica_is_damaged(const tr_replica *r, const Trireme__Pserver__Update *update);
/* Copy the lists out of a checked message. */
void      tr__replica_take_lists(const tr_replica *r, tr__replica_lists *l, const Trireme__Pserver__Update *update);
/* Drop the replica's state. The store drops its part when the next state begins. */
void      tr__replica_forget(tr_replica *r);
void      tr__replica_drop_rows(tr__replica_rows *t);
void      tr__replica_drop_sets(tr_replica *r);
/* The replica fails with tr_error()'s text. If the replica does not count yet, the job continues and the server looks for another
 * replica. */
tr_status tr__replica_break_off(tr_replica *r, tr_status status);
/* Send REPLICA_STATE to the server: the state of this process, or the state that an earlier process left. */
void      tr__replica_report(tr_replica *r);
/* Send it if the server must get it and the state is known. */
void      tr__replica_try_report(tr_replica *r);
