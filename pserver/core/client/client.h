/* client.h - the protocol core of a trainer: its requests to all servers, and the tickets for them.
 *
 * Each server has a stream of requests, numbered from 1. A request stays in its stream until it is done: a pull
 * when all its data is here, any other when the server's acknowledgement covers it. If an answer does not come
 * in time (`retry`), the client sends all unanswered requests again. The server carries each request out once.
 *
 * Small pushes and pulls of blocks are gathered; tr_client_flush sends them as one message for each server. Requests for rows of tables
 * wait for it, too, so that those of several tables leave at once. Pulls that go through a carrier are divided into messages by what is
 * pulled, and not by when the driver looks: so those of all trainers of a host are equal, and get one answer.
 * Large blocks are sent in chunks, without a copy. No more than `window` pushed bytes are unacknowledged.
 *
 * Pushes stay in their stream until their step is settled. When a server dies and a standby serves in its place, the client sends
 * the standby the steps that it has not settled, and all requests that were not answered.
 *
 * Operations are numbered 1, 2, ... (tickets) and complete in that order.
 *
 * What must stay true: the caller checks its calls (job_train.c): blocks exist, sizes fit, a block is pushed once a
 * step, nothing is pushed while a pull is under way. Memory handed over lives until the ticket of the step's end is done. */
#pragma once

#include "pserver/core/base/node.h"
#include "pserver/core/base/roster.h"
#include "pserver/trireme_tasks.h"

typedef struct tr_client_options {
    uint64_t chunk_bytes, window_bytes;
    int64_t  retry;                   /* nanoseconds until a request is repeated; 0: never, because the transport is reliable */
    int64_t  patience;                /* nanoseconds that a client waits for the standby of a dead server */
    bool     is_apart;                /* requests go to servers directly, not through a carrier (carrier.h) */
} tr_client_options;

typedef struct tr_client_block {
    int      server;
    uint64_t bytes;
    bool     is_rounded;              /* float32, pulled in bfloat16 */
    bool     is_double;               /* float64 */
} tr_client_block;

/* A first value of a variable. */
typedef struct tr_client_value {
    const void *data;
    uint64_t    bytes;
} tr_client_value;

/* Packed rows of a table (table.h). */
typedef struct tr_client_pack {
    uint32_t table;
    void    *data;                    /* the packed rows, malloc'ed */
    uint64_t bytes;
    bool     has_candidates;          /* the pack has counted keys without a row, instead of rows */
} tr_client_pack;

/* The data that one server gets at the start. `setup` (packed Setup; NULL unless this is trainer 0) and `join` (packed Join) are
 * freed by the client. Values are in the order of the Setup. Rows and values are not sent when the job resumes. */
typedef struct tr_client_setup {
    uint8_t               *setup;
    size_t                 setup_bytes;
    uint8_t               *join;
    size_t                 join_bytes;
    uint32_t               value_count;
    const tr_client_value *values;    /* the first values; the memory must live until the ticket is done */
    uint32_t               row_count;
    const tr_client_pack  *rows;      /* first rows of the tables; the client frees the packs */
} tr_client_setup;

typedef struct tr_client tr_client;

/* The roster must outlive the client. Operation 1 is done when all servers have sent SERVING. */
tr_client *tr_client_new(const tr_roster *roster, const tr_client_options *options);
void       tr_client_free(tr_client *client);
tr_node    tr_client_node(tr_client *client);

/* After operation 1: do all servers have a state of an earlier start of this job? *step: steps of this trainer in that state. */
bool       tr_client_resumes(const tr_client *client, uint64_t *step);

/* A client in the middle of a job, when the roster names this rank as a dead trainer's replacement. The client sends REPLACE_DONE to all
 * ranks, and continues after the last step of the dead trainer that all servers have settled. */
tr_client *tr_client_new_replacement(const tr_roster *roster, const tr_client_options *options);

/* == operations; each returns its ticket == */
/* `setups` has one entry for each server; blocks are copied. `joins`: this trainer joins the job; otherwise tr_client_join_all lets it
 * join, when first rows that lie in files are there. */
uint64_t tr_client_setup_all(tr_client *client, const tr_client_setup *setups, uint32_t block_count, const tr_client_block *blocks,
                             const tr_policy *policy, bool joins);
uint64_t tr_client_join_all(tr_client *client, const tr_client_setup *setups);
uint64_t tr_client_push(tr_client *client, uint32_t block, const void *data, double weight);
/* The pieces of a large block, compressed (compress.h). The struct and the memory that it points to must live until the ticket of the
 * step's end is done. */
typedef struct tr_client_pieces {
    const uint8_t  *payload;          /* of the first piece; piece i begins at i * stride */
    uint64_t        stride;
    const uint64_t *bytes;            /* size of each piece */
} tr_client_pieces;

uint64_t tr_client_push_compressed(tr_client *client, uint32_t block, const tr_client_pieces *pieces, double weight);
/* Before the pushes of the next step: its script has set value number `value` of the Setup of this server. The data are copied. */
uint64_t tr_client_set(tr_client *client, int server, uint32_t value, const void *data, uint64_t bytes);
uint64_t tr_client_step_end(tr_client *client);
/* End a step without a gradient: nothing was pushed. Only in modes where each trainer's contribution is applied alone. */
uint64_t tr_client_step_idle(tr_client *client);
uint64_t tr_client_pull(tr_client *client, uint32_t count, const int *blocks, void *const *data);
/* This trainer has made its last step, and stays for checkpoints (DRAIN). Done when this trainer is to make the last checkpoint, or when
 * the last checkpoint is made. */
uint64_t tr_client_drain(tr_client *client);
/* This trainer leaves the job. After tr_client_drain, the initiator's goodbye also says that the last checkpoint is made or was given
 * up. */
uint64_t tr_client_goodbye(tr_client *client);

/* Rows of a sparse table: different keys, ordered by server. The keys of server s have the indices first[s] .. first[s + 1] - 1. The struct
 * and the memory that it points to must live until the ticket is done. */
typedef struct tr_client_rows {
    uint32_t        table;
    const uint64_t *first;            /* array of servers + 1 indices */
    /* the fields of a pull: */
    const int64_t  *keys;
    uint8_t        *to;               /* where the rows are written, in the order of the keys */
    uint64_t        row_bytes;
    bool            is_rounded;       /* the rows are float32, and are sent as bfloat16 */
    uint64_t       *clock;            /* mode ssp: lowered to the number of steps that the rows have of every trainer; or NULL */
    /* the fields of a push: the pieces of all servers one after the other; a piece is keys, then values (wire.h) */
    const uint8_t  *pieces;
    uint64_t        push_bytes;       /* size of one key and its row */
    double          weight;
} tr_client_rows;

/* How many entries of `bytes` bytes fit into one message. */
uint64_t tr_client_rows_in_piece(const tr_client *client, uint64_t bytes);
uint64_t tr_client_pull_rows(tr_client *client, const tr_client_rows *rows);
/* Say which rows the pull of the next step will want: servers read those that lie on their disks. */
uint64_t tr_client_expect_rows(tr_client *client, const tr_client_rows *rows);
/* Read all rows of a virtual shard from its server into `out`, packed. `since`: only rows that an update after this one has touched. */
/* Set rows of a server's table between two steps. The other trainers wait meanwhile. The call frees rows->data. */
uint64_t tr_client_write_rows(tr_client *client, int server, const tr_client_pack *rows, bool clears, uint64_t clock);
uint64_t tr_client_read_rows(tr_client *client, int server, uint32_t shard, uint32_t since, tr_client_pack *out);
/* A file of rows that a server writes (SAVE_ROWS) or takes into its table (LOAD_ROWS). It lives until the ticket is done. */
typedef struct tr_client_move {
    tr_wire           wire; /* with its kind and its own fields, without the step */
    int               server;
    uint8_t          *packed; /* a RowsFile; malloc'ed, the client frees it */
    size_t            size;
    tr_form_rows_file answer; /* filled in, and why not: malloc'ed */
    char             *text;
} tr_client_move;

uint64_t tr_client_move_rows(tr_client *client, tr_client_move *move);
/* Push a table's gradient of the current step. Servers without keys get an empty piece. */
uint64_t tr_client_push_rows(tr_client *client, const tr_client_rows *rows);

/* After a restart some servers may have steps of this trainer that others lack. Only when so many steps are ended do all servers have the
 * same steps. Before that this trainer begins no snapshot. */
uint64_t tr_client_even_from(const tr_client *client);
/* The next step may take long. If other trainers wait for this trainer's part of a snapshot, the client takes part now. */
void     tr_client_rest(tr_client *client);

/* A message to server 0 about tasks: `wire` has its kind and its own fields. TASKS also ends the steps of an earlier process of this
 * trainer that only some servers have, so tr_client_step may be higher after it. */
typedef struct tr_client_task {
    tr_wire  wire;
    tr_task *answer;                  /* TASK_ASK: the task is written here before the ticket is done */
    bool     is_first;                /* TASKS: of a list of tasks that this trainer begins, not a repetition */
    bool     keeps_pace;              /* TASKS: this trainer's step count begins at the highest of all trainers */
} tr_client_task;

uint64_t tr_client_task_request(tr_client *client, const tr_client_task *task);

/* What a server has made of its part of a checkpoint. */
typedef struct tr_client_restored {
    tr_status status;                 /* TR_OK: it has it. TR_EFORMAT, TR_EIO: the checkpoint is damaged. Else the job cannot go on */
    char     *text;                   /* why not; malloc'ed */
} tr_client_restored;

/* Before the setup: let all servers read their parts of the checkpoint in the folder `path`, which has this number. `restored` has room for
 * all servers; it and `path` live until the ticket is done. */
uint64_t tr_client_restore(tr_client *client, const char *path, uint64_t number, tr_client_restored *restored);

/* A message to server 0's board (board.h). The struct lives until the ticket is done. */
typedef struct tr_client_post {
    uint8_t       *packed;            /* a Post; the client frees it */
    size_t         size;
    tr_wire_until  until;
    uint32_t       of;                /* the trainer whose post is awaited, if `until` is TR_UNTIL_ONE */
    /* the answer, which the client fills in: */
    uint8_t       *answer;            /* `count` checked entries (wire.h), each a trainer, its step and its data; malloc'ed */
    uint64_t       answer_size;
    uint32_t       count;
    bool           is_awaited, is_forgotten, is_lost;
} tr_client_post;

uint64_t tr_client_post_request(tr_client *client, tr_client_post *post);
/* The highest number of a training that a trainer's notice asks to end, by the newest ACK of server 0. 0: none. */
uint32_t tr_client_stops(const tr_client *client);
/* Do all servers name this trainer as the initiator of snapshots? */
bool     tr_client_is_initiator(const tr_client *client);
/* Is the last snapshot of the job made? */
bool     tr_client_is_over(const tr_client *client);
/* Has a message of a server arrived since the last call of this function? If not, tr_client_is_initiator, tr_client_is_over and
 * tr_client_awaits_replacement return the same values as before. */
bool     tr_client_heard_from_server(tr_client *client);
/* The number of updates of server 0, by its newest message. */
uint64_t tr_client_updates(const tr_client *client);
/* Begin a snapshot (server_snapshots.h). Only the initiator calls this, and only when all answers to its snapshot before are here.
 * `payloads` are packed Snapshots, one for each server; the client frees them. There is no ticket: answers come when the parts are
 * written. */
void     tr_client_snapshot(tr_client *client, uint8_t *const *payloads, const size_t *sizes);
/* Do all servers have the same steps of this trainer: has it ended the steps up to tr_client_even_from, and a replacement its first
 * step? */
bool     tr_client_may_begin_snapshot(const tr_client *client);
/* Tell the servers that this replacement continues at the dead trainer's last step, and that all servers have that step. Then a snapshot
 * need not wait for the replacement's first step. */
void     tr_client_send_even(tr_client *client);
/* Has a dead trainer's replacement not come yet, or not made its first step? Then servers decline snapshots. */
bool     tr_client_awaits_replacement(const tr_client *client);
/* The newest snapshot that this trainer knows of (own ones, too), and the last step of this trainer in it. False: there is no snapshot, or
 * that step is not ended yet. The client knows this before it has the parameters for step + 2. */
bool     tr_client_sees_snapshot(uint32_t *number, uint64_t *step, const tr_client *client);
/* The number of the last snapshot that this trainer has begun. */
uint32_t tr_client_own_snapshot(const tr_client *client);
bool     tr_client_snapshot_is_answered(const tr_client *client);
/* A packed SnapshotDone; valid until the next snapshot. */
typedef struct tr_client_answer {
    uint8_t *bytes;
    size_t   size;
} tr_client_answer;
const tr_client_answer *tr_client_snapshot_answer(const tr_client *client, int server);
/* Set the function that packs this trainer's Snapshot after step `step`; it returns malloc'ed bytes. The client calls it when another
 * trainer has begun a snapshot, and when this trainer leaves. Without this function the client sends no place. */
void     tr_client_set_place(tr_client *client, uint8_t *(*pack)(void *self, size_t *size, uint64_t step), void *self);
/* End the whole job, for this reason. */
void     tr_client_abort(tr_client *client, const char *text);
/* Send what was gathered: small pushes and pulls, requests for rows. The trainer has asked for this, or waits. */
void     tr_client_flush(tr_client *client);
/* The same at any moment, when more may be on its way. Pulls that go through a carrier stay until tr_client_flush, or for some ms. */
void     tr_client_flush_midway(tr_client *client);

/* All operations up to this one are done. */
uint64_t tr_client_done(const tr_client *client);
/* The server whose answer came last. Any thread may call this. */
int      tr_client_last_server(const tr_client *client);
/* The number of steps that this trainer has ended. */
uint64_t tr_client_step(const tr_client *client);
