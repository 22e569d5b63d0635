/* rank_commands.h - commands from the owner of a rank to its core, by tr__rank_post.
 *
 * A command is a kind, and its data. The lists below say the type of the data for each kind, and which core it is for: a trainer's client,
 * or a server or replica. The memory behind a pointer must stay alive until the command's ticket is done, unless it is said that the
 * command frees it. */
#pragma once

#include "pserver/core/client/client.h"
#include "pserver/wire/compress.h"
#include "pserver/rank/rank.h"

#include <stdatomic.h>

typedef struct tr__push {
    uint32_t    block;
    const void *data;
    double      weight;
} tr__push;

typedef struct tr__push_compressed {
    uint32_t                block;
    const tr_client_pieces *pieces;
    double                  weight;
} tr__push_compressed;

/* One malloc, which the command frees. */
typedef struct tr__pull_call {
    uint32_t count;
    int     *block;
    void   **to;
} tr__pull_call;

typedef struct tr__set {
    int      server;
    uint32_t value;                   /* number in the Setup of the server */
    uint8_t *bytes;                   /* the command frees them */
    uint64_t size;
} tr__set;

typedef struct tr__read_call {
    int            server;
    uint32_t       shard, since;
    tr_client_pack pack;
} tr__read_call;

/* The command frees it. */
typedef struct tr__write_call {
    int            server;
    bool           clears;
    uint64_t       clock;
    tr_client_pack rows;
} tr__write_call;

/* One message for each server. The command frees it. */
typedef struct tr__snapshot_call {
    int          servers;
    uint8_t    **payload;
    size_t      *size;
    atomic_bool *is_asked;            /* set when the servers have been asked */
} tr__snapshot_call;

typedef struct tr__setup_call {
    tr_client_setup *server;          /* one for each server */
    uint32_t         block_count;
    tr_client_block *block;
    tr_client_value *value;           /* the first values of all servers */
    int              servers;
    const tr_policy *policy;
    const tr_compress *compress;
    uint32_t         table_count;
    int64_t         *width;           /* of the rows of each table */
    tr_client_pack  *rows;            /* the first rows of all servers */
    int              files;           /* further first rows lie in so many files: this trainer joins later */
} tr__setup_call;

/* The command fills in what the servers say. */
typedef struct tr__restore_call {
    const char         *path;
    uint64_t            number;
    tr_client_restored *restored;
} tr__restore_call;

/* An update is made. `why`: the text of an error, which the command frees. */
typedef struct tr__applied {
    tr_status status;
    char     *why;
} tr__applied;

typedef struct tr__share {
    const void *own;
    uint32_t    bytes;
} tr__share;

/* The outcome of writing a part of a checkpoint: the part, or the error. The command frees both. */
typedef struct tr__written {
    uint8_t *part;
    size_t   size;
    char    *error;
} tr__written;

/* Commands with data: the kind, the field of the union, its type. */
#define TR__CLIENT_COMMANDS(X) \
    X(SETUP,           setup,           const tr__setup_call *) \
    X(JOIN,            join,            const tr__setup_call *) \
    X(SET,             set,             tr__set) \
    X(PUSH,            push,            tr__push) \
    X(PUSH_COMPRESSED, push_compressed, tr__push_compressed) \
    X(PULL,            pull,            tr__pull_call *) \
    X(PULL_ROWS,       pull_rows,       tr_client_rows *) \
    X(EXPECT_ROWS,     expect_rows,     tr_client_rows *) \
    X(PUSH_ROWS,       push_rows,       tr_client_rows *) \
    X(READ_ROWS,       read_rows,       tr__read_call *) \
    X(MOVE_ROWS,       move_rows,       tr_client_move *)   /* the client fills it in */ \
    X(WRITE_ROWS,      write_rows,      tr__write_call *) \
    X(ABORT,           abort,           char *)             /* the command frees the text */ \
    X(SNAPSHOT,        snapshot,        tr__snapshot_call *) \
    X(TASK,            task,            tr_client_task *)   /* the command frees it */ \
    X(POST,            post,            tr_client_post *) \
    X(RESTORE,         restore,         tr__restore_call *)

/* Commands without: FLUSH lets commands leave that were gathering. */
#define TR__PLAIN_CLIENT_COMMANDS(X) \
    X(STEP_END) X(STEP_IDLE) X(STAY) X(GOODBYE) X(REST) X(EVEN) X(FLUSH)

#define TR__SERVER_COMMANDS(X) \
    X(APPLIED,         applied,         tr__applied) \
    X(SHARE,           share,           tr__share) \
    X(FROZEN,          frozen,          tr_status) \
    X(WRITTEN,         written,         tr__written)

#define TR__PLAIN_SERVER_COMMANDS(X) X(SNAPPED) X(RESTORED) X(MOVED)

typedef enum tr__command_kind {
#define TR__KIND(kind, ...) TR__##kind,
    TR__CLIENT_COMMANDS(TR__KIND)
    TR__PLAIN_CLIENT_COMMANDS(TR__KIND)
    TR__SERVER_COMMANDS(TR__KIND)
    TR__PLAIN_SERVER_COMMANDS(TR__KIND)
#undef TR__KIND
} tr__command_kind;

typedef struct tr__command {
    tr_command head;                  /* head.kind says which field of the union is set */
    union {
#define TR__FIELD(kind, field, type) type field;
        TR__CLIENT_COMMANDS(TR__FIELD)
        TR__SERVER_COMMANDS(TR__FIELD)
#undef TR__FIELD
    };
} tr__command;

_Static_assert(sizeof(tr__command) <= TR_COMMAND_BYTES, "a command fits into the ring");

static inline tr_status tr__rank_post(tr__rank *rank, const tr__command *command)
{
    return tr_comm_post(rank->comm, &command->head, sizeof *command);
}
