/* rank_commands.h - what the owner of a rank tells its core, by tr_comm_post, and the data that a command points to. */
#ifndef TR_PSERVER_RANK_COMMANDS_H
#define TR_PSERVER_RANK_COMMANDS_H

#include "pserver/core/client/client.h"

#include <stdatomic.h>

/* Kinds of commands, for a trainer's core and for a server's. */
typedef enum tr__command {
    TR__SETUP, TR__SET, TR__PUSH, TR__PUSH_COMPRESSED, TR__STEP_END, TR__STEP_IDLE, TR__PULL, TR__PULL_ROWS, TR__PUSH_ROWS, TR__READ_ROWS, TR__WRITE_ROWS,
    TR__STAY, TR__GOODBYE, TR__ABORT, TR__SNAPSHOT, TR__REST, TR__FLUSH,
    TR__APPLIED, TR__SNAPPED, TR__WRITTEN, TR__FROZEN, TR__TASK, TR__SHARE, TR__POST, TR__EVEN
} tr__command;

/* The data of TR__PULL, one malloc. The command frees it. */
typedef struct tr__pull_call {
    uint32_t count;
    int     *block;
    void   **to;
} tr__pull_call;

/* The data of TR__SET. The command frees it, and `bytes`. */
typedef struct tr__set_call {
    int      server;
    uint32_t value;                   /* number in the Setup of the server */
    uint8_t *bytes;
    uint64_t size;
} tr__set_call;

/* The data of TR__READ_ROWS. It must stay alive until the ticket is done. */
typedef struct tr__read_call {
    int            server;
    uint32_t       shard, since;
    tr_client_pack pack;
} tr__read_call;

/* The data of TR__WRITE_ROWS. The command frees it. */
typedef struct tr__write_call {
    int            server;
    bool           clears;
    uint64_t       clock;
    tr_client_pack rows;
} tr__write_call;

/* The data of TR__SNAPSHOT: one message for each server. The command frees it. */
typedef struct tr__snapshot_call {
    int          servers;
    uint8_t    **payload;
    size_t      *size;
    atomic_bool *is_asked;            /* set when the servers have been asked */
} tr__snapshot_call;

/* The data of TR__SETUP. It must stay alive until the ticket is done. */
typedef struct tr__setup_call {
    tr_client_setup *server;          /* one for each server */
    uint32_t         block_count;
    tr_client_block *block;
    tr_client_value *value;           /* the first values of all servers */
    int              servers;
    bool             survives_trainers, keeps_settled, snapshots_all;
    tr_client_pack  *rows;            /* the first rows of all servers */
} tr__setup_call;

#endif
