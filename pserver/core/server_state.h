/* server_state.h - the inside of a server core, shared by server.c (life, failing), server_requests.c (what comes), server_held.c (what
 * waits), server_setup.c (agreement), server_round.c (gathering gradients), server_step.c (what is applied when), server_decision.c and
 * server_decide.c (what servers must agree on), server_pull.c (answers), server_rows.c (sparse tables), server_meter.c (times),
 * server_snapshot.c and server_initiator.c (checkpoints), server_replacement.c (trainers that die and are replaced), server_replication.c and server_copy.c (a
 * replica). */
#ifndef TR_PSERVER_SERVER_STATE_H
#define TR_PSERVER_SERVER_STATE_H

#include "pserver/core/gather.h"
#include "pserver/core/mean.h"
#include "pserver/core/replica_stream.h"
#include "pserver/core/outbox.h"
#include "pserver/core/server.h"
#include "pserver/observe/meter.h"
#include "pserver/wire/compress.h"
#include "pserver/wire/membership.h"

#include <stdatomic.h>

/* A request whose time has not come. */
typedef struct tr__held {
    struct tr__held *next;
    tr_wire          wire;
    uint8_t         *payload;         /* a buffer of the pool */
} tr__held;

typedef struct tr__pull {
    struct tr__pull *next;
    uint64_t         seq, step, own;  /* own: steps that the trainer itself has behind it */
    uint32_t         count;
    uint32_t         block[];
} tr__pull;

/* A piece of a table's gradient, until its step is settled. */
typedef struct tr__rows {
    struct tr__rows *next;
    uint64_t         step;
    uint32_t         table;
    double           weight;
    int64_t          count;
    uint8_t         *payload;         /* keys, then values; a buffer of the pool, or NULL */
    bool             has_hints;       /* they were pulled, and looked up then (rows_merge.h) */
    uint32_t         hint[];
} tr__rows;

typedef struct tr__row_pull {
    struct tr__row_pull *next;
    uint64_t             seq, step, own;
    uint32_t             table, since;
    int64_t              count;       /* -1: key[0] is a virtual shard, all of which is wanted */
    bool                 has_hints;   /* when it is answered */
    uint32_t            *hint;        /* of the keys, behind them in memory */
    uint64_t             before;      /* keys of the same pull, in the messages before this one */
    int64_t              key[];
} tr__row_pull;

/* The pull of a table that was answered last, of one message or several, with hints for the push of its keys. */
typedef struct tr__pulled {
    tr__row_pull *first, **end;
    uint64_t      count;              /* keys, of all messages */
    tr__row_pull *at;                 /* the message whose keys are pushed next, from `pushed` on */
    int64_t       pushed;
} tr__pulled;

typedef struct tr__table {
    int64_t  width, row_bytes;
    uint64_t stride;                  /* of a packed row */
} tr__table;

/* An update in the making: the gradients of trainers first .. end - 1, all of them or one. */
typedef struct tr__round {
    int       first, end;
    uint64_t  step;                   /* of these trainers: 1, 2, ... */
    uint8_t **sum;                    /* of each block */
    tr_mean  *chunk;                  /* of each chunk of all blocks */
    uint64_t  chunks_whole;
    bool      is_full;                /* it waits to be applied, or is being applied: nothing is added */
} tr__round;

/* Where a trainer is in the snapshot that is being taken or written. */
typedef struct tr__snapshot_place {
    bool                    had_left; /* all its steps are in the snapshot */
    bool                    is_apart; /* it is `apart`, and not where the initiator is, which has made the cut alone */
    Trireme__Pserver__Place apart;
} tr__snapshot_place;

/* A state that all servers and trainers agree on; see server_snapshot.c. */
typedef struct tr__snapshot {
    enum { TR__SNAPSHOT_NONE, TR__SNAPSHOT_GATHERING, TR__SNAPSHOT_TAKING, TR__SNAPSHOT_WRITING } phase;
    uint32_t                number;   /* of the newest: 1, 2, ... */
    int                     initiator;    /* trainer that begins it, or has begun it */
    uint32_t                initiator_epoch;
    int64_t                 begun;    /* when the first trainer took part */
    uint64_t                pause;
    Trireme__Pserver__Snapshot **snapshot;      /* of each trainer that has taken part */
    tr__snapshot_place          *place;    /* of each trainer */
    void                   *tasks;    /* their state at the moment, or NULL */
    size_t                  tasks_size;
    uint8_t                *answer;   /* the last SnapshotDone */
    size_t                  answer_size;
    uint32_t                answered; /* is of this cut */
    bool                    has_last; /* the job's last checkpoint is made, or was tried */
} tr__snapshot;

/* What a server has said of a trainer. */
typedef struct tr__report {
    uint64_t step;                    /* all of it is there; 0: none yet */
    uint64_t pulled;                  /* the update whose parameters it was computed with */
    bool     is_lost, has_left;
} tr__report;

/* What server 0 has decided, and on server 0 what it decides from; see server_decision.c. */
typedef struct tr__decisions {
    uint64_t    number;               /* of the newest */
    uint64_t    update;               /* decided: `updates`, or the next */
    uint64_t   *settled;              /* of each trainer, when all is carried out */
    uint8_t    *trainer;              /* of each, TR_TRAINER_IN, _OUT, _LOST */
    uint32_t    snapshot;                  /* the newest that is decided */
    uint64_t    snapshot_update;           /* is the state of this update; UINT64_MAX: is given up */
    tr__report *report;               /* server 0: of each server and trainer; others: what they have said */
    uint32_t   *gathered;             /* server 0: the newest snapshot that each server has gathered; others: have said so in [0] */
    int        *rank;                 /* who each server was when it was last heard */
    int64_t     ask_at, ask_after;    /* say again then what was not answered; INT64_MAX: nothing */
    int64_t     asked_at;             /* who serves in the place of a dead server */
    bool        is_busy, is_again;    /* tr__server_decision_moves is at work, and has to begin anew */
} tr__decisions;

/* What this server's replica has; see server_replication.c, and server_copy.c for how it gets it. */
typedef struct tr__replication {
    enum { TR__REPLICATION_NONE, TR__REPLICATION_ASKING, TR__REPLICATION_COPYING, TR__REPLICATION_CATCHING_UP, TR__REPLICATION_LIVE } phase;
    tr_replica_stream                  *stream;
    Trireme__Pserver__Replica  *word; /* what it said it has; NULL: nothing yet */
    int64_t                     asked_at;
    bool                        is_late;      /* it gets the state while updates go on */
    bool                        may_be_late;  /* and not before all else: the job has run before */
    bool                        is_freezing;  /* the store is at it: nothing is applied */
    bool                        is_frozen;    /* the pieces are those of the moment when the copy began */
    bool                        is_hopeless;  /* that cannot be done here */
    uint32_t                    value, table, shard;           /* to be copied next; of the value from `offset` on */
    uint64_t                    offset;
    uint64_t                    last_seq, update_seq, update;  /* of its messages; of the last update in them, and its number */
    tr_outbox                   behind;       /* what is to come behind the state */
    uint64_t                    behind_bytes, state_bytes;
    uint64_t                    caught, begun;                 /* updates that it has made, and that have begun here, since it has the state */
    int                         called;       /* who is to be the replica; -1: nobody */
    int64_t                     call_at;      /* again */
    bool                       *is_useless;   /* rank by rank: it could not */
    tr_replica_stream                 **gone;         /* streams to the dead: the transport may look at their payloads yet */
    int                         gone_count;
} tr__replication;

typedef struct tr__trainer {
    int         rank;
    uint32_t    epoch;
    uint64_t    accepted;             /* requests taken in: 1 .. accepted */
    bool        owes_ack;
    tr_membership state;              /* changed by tr__server_move alone */
    uint64_t    over_seq;             /* of its request that waits for that; 0: none waits */
    int         missed, called;       /* rank: whose replacement is wanted; server 0: who was called; -1: nobody */
    uint32_t    called_epoch;         /* server 0: of the last who was called, whatever has become of it */
    tr__round  *round;                /* what its gradients go into */
    uint64_t    ended;                /* steps ended */
    uint64_t    settled;              /* of them applied or dropped */
    uint64_t   *unsettled;            /* requests that ended the steps settled + 1 .. ended */
    uint64_t    unsettled_capacity;
    uint64_t    pulled, pulled_step;  /* updates in the oldest parameters and rows that it got for its step; that step */
    uint8_t   **copy;                 /* of those, block by block, where delay is compensated; else NULL */
    uint8_t    *pushed;               /* one bit for each chunk pushed for step ended + 1 */
    uint64_t    pushed_count;
    uint32_t   *pushed_by;            /* of each chunk pushed by one who died: its epoch; 0: by nobody. NULL: nobody died */
    uint64_t    pushed_step;          /* for this step */
    uint64_t    applied_in;           /* the update that has its newest settled step; 0: dropped, or not known */
    uint64_t    left_out_from, left_out;           /* steps, from one to the other, that have no gradient; 0: none */
    uint64_t    even;                 /* steps that every server had settled when it joined */
    uint64_t    join_seq;             /* of its Join, while that waits for the others'; 0: none waits */
    Trireme__Pserver__Join *join;
    tr__held   *held, **held_end;     /* pushes, in order of seq */
    tr__pull   *pulls;                /* wait for their step, in order of seq */
    tr__rows   *rows, **rows_end;     /* of steps that are not settled, in order */
    uint64_t   *row_pieces;           /* of each table, for step ended + 1: that came */
    bool       *has_rows;             /* of each table: all came */
    tr__row_pull *row_pulls;          /* wait for their step, or for an update to end */
    tr__pulled *row_pulled;           /* of each table */
    Trireme__Pserver__Snapshot *last_place;  /* where it was when it said goodbye, or NULL */
    bool        is_parked;            /* has taken part: what it sends waits until all have */
    tr__held   *parked, **parked_end; /* requests of any kind, in order of seq */
    tr_peer_meter meter;
} tr__trainer;

typedef struct tr__block {
    tr_dtype dtype;
    uint64_t bytes;
    uint64_t first_chunk, chunks;     /* its chunks among all */
} tr__block;

struct tr_server {
    const tr_roster *roster;
    tr_store         store;
    tr_status        status;
    char            *text;            /* of a failure */
    tr_outbox        outbox;
    tr_loan         *loan;            /* of each rank two: what its answers show of either buffer (server_pull.c) */
    bool             awaits_loans;    /* the first of the queue would write over what is being sent */
    int              self;            /* index among the servers */
    int64_t          now;             /* when the last message came */
    int64_t          retry;           /* what was lost is said again after so long; 0: nothing is lost */
    tr_gather       *gather;          /* with the other servers */

    Trireme__Pserver__Setup *setup;
    uint64_t        *value_filled;    /* bytes here of each first value */
    uint32_t         values_missing;
    bool             is_set_up;       /* first values are here */
    bool             is_running;      /* and all trainers agree */

    uint64_t         chunk_bytes;
    uint32_t         block_count;
    tr__block       *block;
    uint64_t         chunk_count;
    uint32_t         table_count;
    tr__table       *table;
    tr_rows_update  *rows;            /* of each table: for the update that is being applied */
    tr_rows_part   **row_part;
    uint64_t        *row_part_capacity;
    bool             is_computed;     /* the store is done with it, and the replica perhaps not */
    bool             is_updating;     /* the store is at the first of the queue: its tables must not be read */

    tr_policy        policy;
    tr_compress      compress;
    float           *decoded;         /* room for a piece of a gradient that came compressed */
    int              round_count;     /* 1, or one for each trainer */
    tr__round       *round;
    tr__round        merged;          /* where it is decided what makes an update: the mean of those rounds */
    tr__round      **queue;           /* full rounds, in the order in which they became so; the first is being applied */
    int              queued;
    uint64_t         updates;         /* applied */
    uint64_t        *settled;         /* room for a commit */
    uint8_t         *trainer_flags;
    bool            *takes_part;      /* in the update that is being applied, by trainer */
    atomic_llong     staleness[TR_STALENESS_BINS], dropped;     /* read by other threads, for people */

    tr__decisions     decisions;

    struct tr__server_tasks *tasks;   /* server_tasks.c; NULL: none are handed out */
    struct tr__server_board *board;   /* server_board.c; NULL: nobody has posted */

    tr__snapshot          snapshot;
    int64_t          replacements_ask_at, replacements_ask_after;
    tr__replication         replication;
    const void      *share_to;        /* where the store wants what all servers gather */
    uint32_t         share_bytes;     /* of each */
    int              trainer_count;
    tr__trainer     *trainer;
    uint8_t         *pool;            /* free buffers of one chunk; the first word of each links the next */
};

/* The core fails with tr_error()'s text: every trainer is refused. Returns the status. */
tr_status tr__server_fail(tr_server *server, tr_status status);
/* A process that was replaced is told so. */
void      tr__server_refuse(tr_server *server, int rank, uint32_t epoch);
const char *tr__server_trainer_name(const tr_server *server, const tr__trainer *trainer);
uint8_t  *tr__server_buffer_new(tr_server *server, uint64_t bytes);
void      tr__server_buffer_free(tr_server *server, uint8_t *buffer);
tr__trainer *tr__server_trainer_of(tr_server *server, int peer);
/* Move a trainer to another state. Asserts that the move is legal (membership.h); to the state that it has is no move. */
void      tr__server_move(const tr_server *server, tr__trainer *trainer, tr_membership to);
/* The job has failed: this trainer is told why. */
void      tr__server_say_failed(tr_server *server, const tr__trainer *trainer);
/* A rank that waited is dead, or a replica, and takes no place any more. */
void      tr__server_standby_died(tr_server *server);
/* What another server has for all. */
void      tr__server_on_share(tr_server *server, int peer, const tr_wire *wire, const uint8_t *payload);

/* What is settled counts from here on, and the update that was applied with it if there is one. */
void      tr__server_commit(tr_server *server, bool is_update);
/* What that is, or (`with_update`) will be when the update in hand is applied. Its arrays live until the next. */
tr_commit tr__server_commit_of(tr_server *server, bool with_update);

/* server_held.c */
/* At the end of a list. Takes the payload over if it is owned, else copies it. */
void      tr__server_hold(tr_server *server, tr__held ***end, const tr_wire *wire, uint8_t *payload, bool is_owned);
/* Forget all of a list. */
void      tr__server_let_go(tr_server *server, tr__held **first, tr__held ***end);
/* Take in what a trainer has sent while it was parked. */
void      tr__server_unpark(tr_server *server, tr__trainer *trainer);
void      tr__server_unpark_all(tr_server *server);

/* server_requests.c */
void     *tr__server_place(void *server, int peer, const tr_wire *wire);
void      tr__server_receive(void *server, int64_t now, int peer, const tr_wire *wire, void *payload, bool is_placed);
/* A request, in its turn. A push takes `payload` over if it is a buffer of the pool (`is_owned`). */
tr_status tr__server_handle(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint8_t *payload, bool is_owned);

/* server_setup.c */
/* Tell a rank that this server serves, and from what on. */
void      tr__server_say_serving(tr_server *server, int rank);
tr_status tr__server_on_setup(tr_server *server, const tr_wire *wire, const uint8_t *payload);
/* Where a piece of a first value goes; NULL with a failure when there is no such place. */
uint8_t  *tr__server_value_place(tr_server *server, const tr_wire *wire);
tr_status tr__server_on_value(tr_server *server, const tr_wire *wire);
tr_status tr__server_on_join(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload);
/* TR_EPEER with a diff when `one` has a fact that is another for `other`. */
tr_status tr__server_compare_join(const tr_server *server, const tr__trainer *one, const tr__trainer *other);

/* server_replacement.c */
/* A trainer died. False: there is no standby that could take its place. */
bool      tr__server_await_replacement(tr_server *server, tr__trainer *trainer);
/* A trainer died: free what it waited for, and what came of the step that it has not ended. */
void      tr__server_forget_unended(tr_server *server, tr__trainer *trainer);
void      tr__server_on_replacement(tr_server *server, int peer, const tr_wire *wire);
tr_status tr__server_on_replacement_join(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload);
/* Would a snapshot wait for a replacement? Trainer 0 begins none then. */
bool      tr__server_awaits_replacement(const tr_server *server);
/* The replacement has made a step, or will make none: a snapshot need not wait for it. */
void      tr__server_replacement_is_there(tr_server *server, tr__trainer *trainer);
/* Look whether somebody comes. Returns when to look again. */
int64_t   tr__server_watch_replacements(tr_server *server, int64_t now);
/* Is this part of a push here already, from one who died? */
bool      tr__server_has_part(const tr_server *server, const tr__trainer *trainer, const tr_wire *wire, uint64_t chunk);
/* Is the step of this push ended, by one who died? */
bool      tr__server_has_ended(const tr__trainer *trainer, const tr_wire *wire);
/* The same of the end of a step, which is then this message's to be acknowledged. */
bool      tr__server_ended_again(tr__trainer *trainer, const tr_wire *wire);
/* May it ask for what is before its last ended step? */
bool      tr__server_lags(const tr__trainer *trainer, uint64_t step);
/* Are the parameters as of `step` those before the last update? */
bool      tr__server_wants_before(const tr_server *server, const tr__trainer *trainer, uint64_t step);

/* server_round.c */
/* After the setup's blocks are known: room for what will be gathered. */
tr_status tr__server_rounds_new(tr_server *server);
void      tr__server_rounds_free(tr_server *server);
/* Where a part may be received at once: the sum itself when it is the chunk's first. NULL: nowhere special. */
uint8_t  *tr__server_push_place(tr_server *server, const tr__trainer *trainer, const tr_wire *wire);
/* Does this memory belong to a sum? */
bool      tr__server_is_sum(const tr_server *server, const tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload);
/* Takes `payload` over if it is a buffer of the pool (`is_owned`). */
tr_status tr__server_on_push(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint8_t *payload,
                             bool is_owned);
/* Does this trainer's gradient belong to the step that the round is at? */
bool      tr__server_takes_part(const tr__trainer *trainer, const tr__round *round);
/* The name of a gradient that the trainer has not pushed for its step; NULL: it has pushed all. */
const char *tr__server_first_missing(const tr_server *server, const tr__trainer *trainer);
/* Somebody has left, or the round has come to its next step: what waited may go. */
void      tr__server_round_moves(tr_server *server, tr__round *round);
/* Empty it for its next step. */
void      tr__server_round_next(tr_server *server, tr__round *round);
/* Make `merged` the mean of the full rounds of those who take part. */
void      tr__server_merge(tr_server *server);

/* server_step.c */
tr_status tr__server_check_step(const tr_server *server, const tr__trainer *trainer, const tr_wire *wire, uint64_t step);
tr_status tr__server_on_step_end(tr_server *server, tr__trainer *trainer, const tr_wire *wire);
tr_status tr__server_on_goodbye(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload);
/* Who has stayed behind its last step is there no more. */
void      tr__server_stayed(tr_server *server, tr__trainer *trainer);
/* A trainer died, and the mode survives it. */
void      tr__server_trainer_lost(tr_server *server, tr__trainer *trainer);
/* A replacement is called, or it is lost, or the job fails, as the mode says. */
void      tr__server_trainer_died(tr_server *server, tr__trainer *trainer, const char *how);
/* The job fails: this peer is no more, and we were waiting. */
void      tr__server_fail_by(tr_server *server, int peer, const char *how);
/* Apply what the round holds if nothing is missing. */
void      tr__server_try_apply(tr_server *server, tr__round *round);
void      tr__server_update_applied(tr_server *server);
/* The trainer's oldest step is applied or dropped: it is told so. */
void      tr__server_settle(tr_server *server, tr__trainer *trainer);
/* Its step will not be applied: it may go on with the next. */
void      tr__server_drop(tr_server *server, tr__trainer *trainer);
/* Apply the mean of the full rounds of those who take part. */
void      tr__server_apply_merged(tr_server *server);
/* Fewer trainers are waited for than before. */
void      tr__server_fewer_move(tr_server *server);
/* Go on with the queue, which stood still. */
void      tr__server_apply_next(tr_server *server);
/* Trainers that the server waits for, in words. */
void      tr__server_describe_step(const tr_server *server, char *out, size_t size);

/* server_meter.c */
/* The trainer has ended a step. */
void      tr__server_meter_ended(const tr_server *server, tr__trainer *trainer);
/* An update of those who take part begins. */
void      tr__server_meter_begins(tr_server *server);
/* It is applied, or dropped. */
void      tr__server_meter_settled(const tr_server *server, tr__trainer *trainer);
/* Its question for parameters waits; those that waited are answered. */
void      tr__server_meter_holds(const tr_server *server, tr__trainer *trainer);
void      tr__server_meter_answered(const tr_server *server, tr__trainer *trainer);

/* server_decision.c */
bool      tr__server_has_decisions(const tr_server *server);
tr_status tr__server_decisions_new(tr_server *server);
void      tr__server_decisions_free(tr_server *server);
/* All agree, or a state was taken over: begin with what is settled. `commit`: what server 0 had decided; NULL: nothing. */
void      tr__server_decisions_begin(tr_server *server, const tr_commit *commit);
/* Something has changed: decide, carry out, report. */
void      tr__server_decision_moves(tr_server *server);
/* READY, DECISION or SERVING of a server. */
tr_status tr__server_on_peer(tr_server *server, int peer, const tr_wire *wire, const uint8_t *payload);
/* Say again what was not answered. Returns when to look again. */
int64_t   tr__server_watch_decisions(tr_server *server, int64_t now);
/* Every trainer is out, and all that was decided is carried out. */
bool      tr__server_all_decided(const tr_server *server);
/* What others have not said, in words; false: nothing. */
bool      tr__server_describe_decisions(const tr_server *server, char *out, size_t size);

/* server_decide.c */
/* Of server 0: something new is decided. */
bool      tr__server_decide(tr_server *server);
/* Is an update decided that is not made? */
bool      tr__server_is_pending(const tr_server *server);
/* Is this trainer out for good? */
bool      tr__server_is_out(const tr_server *server, int trainer);
/* Of server 0: what another one has of a trainer. */
const tr__report *tr__server_said_by(const tr_server *server, int from, int trainer);

/* server_rows.c */
tr_status tr__server_tables_new(tr_server *server);
void      tr__server_tables_free(tr_server *server);
void      tr__server_row_pulls_free(tr__trainer *trainer);
/* Takes `payload` over if it is a buffer of the pool (`is_owned`). */
tr_status tr__server_on_push_rows(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint8_t *payload,
                                  bool is_owned);
tr_status tr__server_on_pull_rows(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload);
tr_status tr__server_on_write_rows(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload);
void      tr__server_pull_rows_again(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload);
/* The name of a table whose gradient the trainer has not pushed for its step; NULL: it has pushed all. */
const char *tr__server_first_missing_rows(const tr_server *server, const tr__trainer *trainer);
/* The trainer has ended a step. */
void      tr__server_rows_ended(tr_server *server, tr__trainer *trainer);
/* Forget those of a step that is not ended. */
void      tr__server_rows_unended(tr_server *server, tr__trainer *trainer);
/* What those who take part in an update have sent for the step that it settles. */
const tr_rows_update *tr__server_rows_update(tr_server *server);
/* The trainer's steps are settled up to `settled`: their rows are not needed any more. */
void      tr__server_rows_settled(tr_server *server, tr__trainer *trainer);
void      tr__server_answer_rows(tr_server *server);

/* server_pull.c */
/* May the trainer have parameters as of its step? */
bool      tr__server_may_answer(const tr_server *server, const tr__trainer *trainer, uint64_t step, uint64_t own);
/* Steps of all trainers that are in what is here, also of those that a snapshot holds up; UINT64_MAX: none is there. */
uint64_t  tr__server_clock(const tr_server *server);
tr_status tr__server_on_pull(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload);
/* A pull that was taken in before has come again. */
void      tr__server_pull_again(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload);
/* Answer the pulls whose time has come. */
void      tr__server_answer_all(tr_server *server);
void      tr__server_pulls_free(tr__trainer *trainer);
/* Is anything on its way to somebody who lives that the next update would write over? It is asked back. */
bool      tr__server_is_read(tr_server *server);
/* Who that is, in words. */
void      tr__server_describe_readers(const tr_server *server, char *out, size_t size);
/* The trainer gets parameters or rows as they are now. */
void      tr__server_note_pulled(const tr_server *server, tr__trainer *trainer, uint64_t step);

/* The update in hand is over when the store and the replica have it. */
void      tr__server_try_finish(tr_server *server);

/* server_replication.c */
/* Find this server's replica in the roster, if it has one. */
void      tr__server_replication_new(tr_server *server);
void      tr__server_replication_free(tr_server *server);
/* Is that rank the replica? */
bool      tr__server_replica_done(const tr_server *server, int rank);
/* The replica died. */
void      tr__server_replication_drop(tr_server *server);
void      tr__server_replication_receive(tr_server *server, const tr_wire *wire, const uint8_t *payload);
/* This rank has taken the place of a server that had perhaps another one. */
void      tr__server_replication_take_over(tr_server *server);
/* The server has its state: the replica is to get it. */
void      tr__server_replication_begin(tr_server *server);
bool      tr__server_replication_is_ready(const tr_server *server);
/* The store begins with this update. */
void      tr__server_replication_update(tr_server *server, const tr_update *update);
/* Has the replica committed it? */
bool      tr__server_replication_has_update(const tr_server *server);
/* What is settled has changed without an update. */
void      tr__server_replication_commit(tr_server *server);
/* The state of leased tasks, malloc'ed, which is taken over. */
void      tr__server_replication_tasks(tr_server *server, uint8_t *state, size_t size);
/* A packed post, malloc'ed, which is taken over. */
void      tr__server_replication_post(tr_server *server, uint8_t *packed, size_t size);
/* What all servers have gathered for the update in hand. */
void      tr__server_replication_share(tr_server *server, const void *all, uint64_t bytes);
bool      tr__server_replication_next(tr_server *server, tr_message *out);
int64_t   tr__server_replication_tick(tr_server *server, int64_t now);
/* A packed Update, malloc'ed: what counts now, or with the update that is being applied. */
uint8_t  *tr__server_replication_pack(tr_server *server, bool with_update, size_t *size);
/* What server_copy.c puts into the stream. Takes `owned` over. */
void      tr__server_replication_put(tr_server *server, const tr_wire *wire, const void *payload, void *owned);
/* A rank says that it is this server's replica, or was called to be. */
void      tr__server_replication_adopt(tr_server *server, int rank, const tr_wire *wire, const uint8_t *payload);

/* server_copy.c */
/* It has said what it has: let it have all, as soon as that can be. */
void      tr__server_copy_begin(tr_server *server);
/* Put more of the state into the stream, while there is room. */
void      tr__server_copy_feed(tr_server *server);
/* May an update begin, as far as the copy is concerned? */
bool      tr__server_copy_lets_apply(const tr_server *server);
/* A snapshot is about to be taken. False: not now. A copy of tables that is under way begins anew behind the snapshot. */
bool      tr__server_copy_makes_way(tr_server *server);
/* The replica is dropped. */
void      tr__server_copy_end(tr_server *server);

/* server_initiator.c */
/* The trainer that makes checkpoints: the first of those that make steps, else of those that stay; -1: nobody. */
int       tr__server_initiator(const tr_server *server);
/* What trainers are told of that in acknowledgements. */
uint32_t  tr__server_initiator_code(const tr_server *server);
/* Somebody has left, or stays: who waits for the end may go on, perhaps. */
void      tr__server_initiator_changed(tr_server *server);
/* May this trainer say anything yet? */
bool      tr__server_is_there(const tr__trainer *trainer);

/* server_snapshot.c */
tr_status tr__server_on_snapshot(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload);
/* Take the snapshot if nobody is waited for. */
void      tr__server_try_snapshot(tr_server *server);
/* Snapshots that came while the state was frozen for a replica are taken now. */
void      tr__server_snapshot_go_on(tr_server *server);
/* Remember where a trainer is that leaves. */
tr_status tr__server_note_last_place(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload);
/* A trainer is gone: it is not waited for, and a snapshot that it has begun is over. */
void      tr__server_snapshot_without(tr_server *server, const tr__trainer *trainer);
/* Give up a snapshot for which somebody keeps the others waiting. Returns when to look again. */
int64_t   tr__server_watch_snapshot(tr_server *server, int64_t now);
/* Neither gone nor waiting for a snapshot: it will do another step by itself. */
bool      tr__server_is_moving(const tr__trainer *trainer);
/* Is no snapshot to be begun now? */
bool      tr__server_snapshot_must_wait(const tr_server *server);
/* All that move are sent an acknowledgement: it says what they are to know of snapshots. */
void      tr__server_tell_all(tr_server *server);
/* The number that trainers are to snapshot for; 0: none, or who makes checkpoints cuts alone. */
uint32_t  tr__server_snapshot_wanted(const tr_server *server);
/* Have all trainers taken part that must? */
bool      tr__server_snapshot_is_gathered(const tr_server *server);
/* Does server 0 say of which update a snapshot is? */
bool      tr__server_snapshot_is_decided(const tr_server *server);
/* Let everybody go on without the snapshots up to this number. */
void      tr__server_snapshot_give_up(tr_server *server, uint32_t number);
void      tr__server_snapshot_free(tr_server *server);

#endif
