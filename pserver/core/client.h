/* client.h - the protocol core of a trainer: its requests to all servers, and the tickets for them.
 *
 * Each server has a stream of requests, numbered from 1. A request stays in its stream until it is done: a pull
 * when all its data is here, any other when the server's acknowledgement covers it. If an answer does not come
 * in time (`retry`), everything unanswered is sent again; the server takes it once.
 *
 * Small pushes and pulls of blocks are gathered and leave by tr_client_flush in one message for each server.
 * Large blocks travel in chunks from where they lie. No more than `window` pushed bytes are unacknowledged.
 *
 * Pushes stay in their stream until their step is settled: acknowledged at its end. When a server dies and a standby says
 * that it serves in its place, what that has not settled is sent to it, and everything that was not answered.
 *
 * Operations are numbered 1, 2, ... (tickets) and done in that order.
 *
 * What must stay true: the caller checks its calls (job_life.c): blocks exist, sizes fit, a block is pushed once a
 * step, nothing is pushed while a pull is under way. Memory handed over lives until the ticket of the step's end is done. */
#ifndef TR_PSERVER_CLIENT_H
#define TR_PSERVER_CLIENT_H

#include "pserver/core/node.h"
#include "pserver/core/roster.h"
#include "pserver/trireme_tasks.h"

typedef struct tr_client_options {
    uint64_t chunk_bytes, window_bytes;
    int64_t  retry;                   /* nanoseconds; 0: never, the transport loses nothing */
    int64_t  patience;                /* nanoseconds that a dead server's place may stay empty, when a standby is there */
} tr_client_options;

typedef struct tr_client_block {
    int      server;
    uint64_t bytes;
    bool     is_rounded;              /* float32, pulled in bfloat16 */
} tr_client_block;

/* What one server is told at the start: packed Setup (NULL unless trainer 0) and Join, which the client takes over and frees,
 * and the first values in the order of the Setup. Of it just the first two are told when the job goes on. */
typedef struct tr_client_value {
    const void *data;
    uint64_t    bytes;
} tr_client_value;

/* Packed rows of a table (table.h). */
typedef struct tr_client_pack {
    uint32_t table;
    void    *data;                    /* malloc'ed */
    uint64_t bytes;
    bool     has_candidates;          /* keys that are counted and have no row yet, instead of rows */
} tr_client_pack;

typedef struct tr_client_setup {
    uint8_t               *setup;
    size_t                 setup_bytes;
    uint8_t               *join;
    size_t                 join_bytes;
    uint32_t               value_count;
    const tr_client_value *values;    /* must live until the ticket is done */
    uint32_t               row_count;
    const tr_client_pack  *rows;      /* what tables begin with; the packs are taken over */
} tr_client_setup;

typedef struct tr_client tr_client;

/* The roster outlives it. Its first operation, number 1, is done when all servers have said that they serve. */
tr_client *tr_client_new(const tr_roster *roster, const tr_client_options *options);
void       tr_client_free(tr_client *client);
tr_node    tr_client_node(tr_client *client);

/* When operation 1 is done: do all servers have what an earlier start of this job has left? Steps of this trainer in it. */
bool       tr_client_resumes(const tr_client *client, uint64_t *step);

/* In the middle of a job, by a roster in which this rank is a dead trainer's replacement: it says so to all, and goes on behind what all
 * servers have settled of that one. */
tr_client *tr_client_new_replacement(const tr_roster *roster, const tr_client_options *options);

/* Before the setup, where servers never go back: what one of them has settled beyond the others stays, and is not sent to it
 * again. */
void       tr_client_keep_settled(tr_client *client);

/* Operations. Each returns its ticket. */
/* `setups` has one entry for each server; blocks are copied. */
uint64_t tr_client_setup_all(tr_client *client, const tr_client_setup *setups, uint32_t block_count,
                             const tr_client_block *blocks);
/* The mode goes on without a trainer that dies: trainers do not wait for each other's steps, but perhaps for their snapshots. */
void     tr_client_survive_trainers(tr_client *client);
/* In this mode all trainers take part in a snapshot, each behind a step of its own. */
void     tr_client_snapshot_with_all(tr_client *client);
uint64_t tr_client_push(tr_client *client, uint32_t block, const void *data, double weight);
/* The pieces of a large block, compressed (compress.h). The struct, and what it points to, lives until the ticket of the step's
 * end is done. */
typedef struct tr_client_pieces {
    const uint8_t  *payload;          /* of the first; each begins `stride` bytes behind the one before */
    uint64_t        stride;
    const uint64_t *bytes;            /* of each */
} tr_client_pieces;

uint64_t tr_client_push_compressed(tr_client *client, uint32_t block, const tr_client_pieces *pieces, double weight);
uint64_t tr_client_step_end(tr_client *client);
/* The same of a step that has no gradient: nothing was pushed. Where trainers keep apart alone. */
uint64_t tr_client_step_idle(tr_client *client);
uint64_t tr_client_pull(tr_client *client, uint32_t count, const int *blocks, void *const *data);
/* Its steps are over, but it stays for checkpoints. Done when this trainer is to make the last one, or that is made. */
uint64_t tr_client_drain(tr_client *client);
/* Behind tr_client_drain, of who made it: it was the last checkpoint, or there is none. */
uint64_t tr_client_goodbye(tr_client *client);

/* Rows of a sparse table: different keys, ordered by server; those of server s are first[s] .. first[s + 1] - 1. The struct,
 * and what it points to, lives until the ticket is done. */
typedef struct tr_client_rows {
    uint32_t        table;
    const uint64_t *first;            /* servers + 1 of them */
    /* pull */
    const int64_t  *keys;
    uint8_t        *to;               /* the rows, in the order of the keys */
    uint64_t        row_bytes;
    bool            is_rounded;       /* they are float32, and travel in bfloat16 */
    uint64_t       *clock;            /* lowered to the steps of all trainers that are in the rows, mode ssp; or NULL */
    /* push: the pieces of all servers one behind the other, each keys and values (see wire.h) */
    const uint8_t  *pieces;
    uint64_t        push_bytes;       /* of a key and its row */
    double          weight;
} tr_client_rows;

/* Rows that one message takes. */
uint64_t tr_client_rows_in_piece(const tr_client *client, uint64_t bytes);
uint64_t tr_client_pull_rows(tr_client *client, const tr_client_rows *rows);
/* All rows of a virtual shard, which that server has, into `out`, packed. */
uint64_t tr_client_read_rows(tr_client *client, int server, uint32_t shard, uint32_t since, tr_client_pack *out);
/* The gradient of the step that is being made; servers without keys get an empty piece. */
uint64_t tr_client_push_rows(tr_client *client, const tr_client_rows *rows);

/* After a new start of the job some servers may have a step of this trainer that others lack. Until so many steps are ended what
 * they have is no state of the whole job, and this trainer does not snapshot. */
uint64_t tr_client_even_from(const tr_client *client);
/* The next step may be long in coming: what others wait for at the end of a step comes now. */
void     tr_client_rest(tr_client *client);

/* A message to server 0 about tasks: kind, block, part, offset and weight of the wire count. With TASKS steps that not all servers have
 * of a process before this one are over: tr_client_step may be more behind it. */
typedef struct tr_client_task {
    tr_wire  wire;
    tr_task *answer;                  /* TASK_ASK: where the task is written before the ticket is done */
    bool     keeps_pace;              /* TASKS: begin behind as many steps as any trainer has made */
} tr_client_task;

uint64_t tr_client_task_request(tr_client *client, const tr_client_task *task);

/* A message to server 0's board (board.h). The struct lives until the ticket is done. */
typedef struct tr_client_post {
    uint8_t       *packed;            /* a Post; taken over */
    size_t         size;
    tr_wire_until  until;
    uint32_t       of;                /* TR_UNTIL_ONE */
    /* answer */
    uint8_t       *answer;            /* `count` checked entries (wire.h), a trainer and its data each; malloc'ed */
    uint64_t       answer_size;
    uint32_t       count;
    bool           is_forgotten, is_lost;
} tr_client_post;

uint64_t tr_client_post_request(tr_client *client, tr_client_post *post);
/* The highest number of a training that a trainer's notice asks to end, as far as server 0 has said; 0: none. */
uint32_t tr_client_stops(const tr_client *client);
/* Is it this trainer that begins snapshots, by what all servers say? Is the last one made? */
bool     tr_client_is_initiator(const tr_client *client);
bool     tr_client_is_over(const tr_client *client);
/* Has a server said something since this was asked last? Else the answers to these and to tr_client_awaits_replacement are what they were. */
bool     tr_client_heard_from_server(tr_client *client);
/* Updates of server 0 when it was heard last. */
uint64_t tr_client_updates(const tr_client *client);
/* Who begins them: snapshot (server_snapshots.h). `payloads` are packed Snapshots, one for each server, which the client takes over. It has all
 * answers to its one before. No ticket: the answers come when they are written. */
void     tr_client_snapshot(tr_client *client, uint8_t *const *payloads, const size_t *sizes);
/* Has it behind it what some servers may have and others not: the steps up to tr_client_even_from, and a replacement its first? */
bool     tr_client_may_begin_snapshot(const tr_client *client);
/* A replacement is where the dead trainer was, and waits there, or snapshots, before its first step. Where no server has a step that others miss, snapshots
 * need not wait for that step. */
void       tr_client_send_even(tr_client *client);
/* Is a dead trainer's replacement to come, or to make its first step? A snapshot would be declined. */
bool     tr_client_awaits_replacement(const tr_client *client);
/* The newest snapshot that this trainer knows of, its own among them, and the last step of this trainer in it. False: there is none, or that step is
 * not ended yet. It is known before the parameters that step + 2 computes with. */
bool     tr_client_sees_snapshot(uint32_t *number, uint64_t *step, const tr_client *client);
/* The number of the last one that this trainer has begun. */
uint32_t tr_client_own_snapshot(const tr_client *client);
bool     tr_client_snapshot_is_answered(const tr_client *client);
/* A packed SnapshotDone; valid until the next snapshot. */
typedef struct tr_client_answer {
    uint8_t *bytes;
    size_t   size;
} tr_client_answer;
const tr_client_answer *tr_client_snapshot_answer(const tr_client *client, int server);
/* What packs this trainer's Snapshot behind step `step`, when another has begun to snapshot, or when it leaves; malloc'ed. Without it none is sent. */
void     tr_client_set_place(tr_client *client, uint8_t *(*pack)(void *self, size_t *size, uint64_t step), void *self);
/* This trainer ends the job, for this reason. */
void     tr_client_abort(tr_client *client, const char *text);
/* Let go what was gathered. A driver does so when it has no more operations at hand. */
void     tr_client_flush(tr_client *client);

/* All operations up to this one are done. */
uint64_t tr_client_done(const tr_client *client);
/* The server that has completed something last. From any thread. */
int      tr_client_last_server(const tr_client *client);
/* Steps ended. */
uint64_t tr_client_step(const tr_client *client);

#endif
