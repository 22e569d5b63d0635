/* job.h - the inside of a job, for the files of this folder and for the operators. The public part is trireme_dist.h.
 *
 *     job.c           start and end, servers          job_core.c       the core that the communication thread drives
 *     job_setup.c     the setup for the servers       job_store.c      the store of a server
 *     job_view.c      which rank of which job         job_calls.c      operations on their way to the thread
 *     job_train.c     steps of a trainer              job_send.c       gradients that leave
 *     job_pull.c      parameters that arrive late
 *     job_tasks.c     leased tasks                    job_compress.c   compressed gradients
 *     job_finite.c    gradients that are not finite   job_fetched.c    fetched values, for a replay
 *     job_tables.c, job_rows.c, job_geo.c             sparse tables
 *
 * Calls are checked in the caller's thread, so a mistake is reported where it is made. Then they become commands for the communication
 * thread, and its core relies on the checks.
 *
 * What must stay true: only the driver uses `server` and `client` (comm.h). Only the owner uses the rest. */
#ifndef TR_PSERVER_JOB_H
#define TR_PSERVER_JOB_H

#include "framework/map.h"
#include "pserver/core/client.h"
#include "pserver/core/gather.h"
#include "pserver/core/replica.h"
#include "pserver/core/standby.h"
#include "pserver/memory/trainer_vars.h"
#include "pserver/observe/meter.h"
#include "pserver/store/server_program.h"
#include "pserver/table/geo_rows.h"
#include "pserver/table/row_cache.h"
#include "pserver/transport/comm.h"
#include "pserver/util/keyset.h"
#include "pserver/wire/compress.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct tr__job_block {
    char     *param, *grad;
    int       server;
    tr_dtype  dtype;
    int64_t   bytes;
    bool      is_number, may_be_nan;  /* as in tr_job_block */
    bool      is_pushed;              /* in the present step */
    const void *held;                 /* the gradient, if it waits for the step's end: job_finite.h */
    double      held_weight;
    _Atomic uint64_t pull;            /* ticket of the block's last pull; other threads read this field and the next, and `from` */
    _Atomic(void *)  to;              /* where that pull puts the block */
    uint64_t  list;                   /* number of the pull that named this block last */
    _Atomic(const void *) from;       /* where the gradient lies until its step is settled; NULL: in memory of the job */
    void     *stage;                  /* a copy of the gradient, for callers that cannot keep it */
    struct tr__job_coder *coder;      /* job_compress.c; NULL: the gradient travels as it is */
} tr__job_block;

/* Keys in the order of the caller. */
typedef struct tr__keys {
    int64_t *key;
    int64_t  count;
    uint64_t capacity;
} tr__keys;

/* Memory for one direction. Data under way lie there until their ticket is done. */
typedef struct tr__rows_transfer {
    tr_keyset       set;
    uint32_t       *number;           /* for each key: its number among the distinct keys */
    uint32_t       *place;            /* for each distinct key: its place in the order of servers */
    int64_t        *keys;             /* the distinct keys in the order of servers */
    uint8_t        *rows;             /* pulled rows, or the pieces to be pushed */
    uint64_t       *first;            /* for each server: the first of its keys */
    uint64_t        number_capacity, place_capacity, keys_capacity, rows_capacity;
    tr_client_rows  call;
    uint64_t        ticket;
    tr__keys        asked;            /* of a pull: the keys as the caller gave them */
    const uint32_t *at;               /* for each distinct key: the index of its row in `rows` */
    uint32_t       *split;            /* memory of `at`, if some rows come from the cache */
    uint64_t       *missing;          /* like `first`, but only for keys that must be asked for */
    uint64_t        split_capacity;
    uint64_t        step;             /* the step that the rows are for */
    uint64_t        clock;            /* steps of all trainers that are in the pulled rows (mode ssp) */
    bool            is_new;           /* put the rows into the cache when they come */
} tr__rows_transfer;

typedef struct tr__job_table {
    char        *name;
    tr_dtype     dtype;
    int64_t      width, row_bytes;
    bool         is_pushed;           /* in the present step */
    tr__rows_transfer transfer[3];
    tr__rows_transfer *pull, *next, *push; /* three of `transfer`; next: for the next step */
    bool         is_prefetched;       /* `pull` has the keys that the lookups of this step need */
    int64_t      taken;               /* how many of these keys lookups of this step have used */
    bool         next_is_asked;       /* the rows of `next` are here, or on their way */
    tr__keys     following;           /* keys of the step after the present one (or, between steps, after the next one) */
    bool         has_following;
    tr_row_cache *cache;              /* kept rows, or NULL */
    tr_geo_rows  *geo;                /* mode geo: this trainer's own copy; else NULL */
} tr__job_table;

struct tr_job {
    _Atomic tr_role role;             /* a standby may become a trainer while other threads read it */
    tr_job_options options;           /* with the defaults filled in */
    tr_comm       *comm;

    /* trainers, owner's thread */
    bool           is_set_up, stays, has_left, is_stopped;
    int            block_count;
    tr__job_block *block;
    tr_map         block_of;          /* name of a parameter or gradient -> number of its block, plus 1 */
    int            table_count;
    tr__job_table *table;
    int            pushed_tables;
    tr_counter     rows_wanted, rows_ahead, rows_cached;
    tr_policy      policy;            /* the meaning of `mode`; set by tr_job_setup */
    int64_t        cache_staleness;
    int            pushed;            /* blocks pushed in the present step */
    int64_t        step;              /* steps that have ended */
    int64_t        pulled_behind;     /* number of ended steps at the last pull */
    uint64_t       last_ticket;
    uint64_t       lists;             /* number of calls of tr_job_pull */
    _Atomic uint64_t last_pull, last_end;
    _Atomic pthread_t owner;          /* the thread that made the last pull */
    tr_compress    compress;
    bool           rounds;            /* parameters of float32 come back in bfloat16 (rounded.h) */
    double         weight;
    tr_on_nan      on_nan;            /* job_finite.h */
    bool           is_unfit;          /* the present step must not count (TR_ON_NAN_SKIP) */
    tr_counter     skipped;           /* number of steps that did not count */
    _Atomic(tr_trainer_meter *) meter; /* the log's thread reads it, too */
    _Atomic uint32_t stops;           /* tr_job_stops */
    struct tr__board_call *call;      /* job_board.c: a post, and its answer; NULL: there was none */
    tr_trainer_vars  *own;            /* variables that this trainer alone has; they outlive the process: trainer_vars_ops.c */
    bool           has_opened_own, keeps_own;
    int64_t        even_from;         /* from this number of steps on no server lacks a step: tr_job_is_uneven */
    atomic_bool    awaits_replacement;       /* a server waits for a replacement's first step, so it would decline a checkpoint */

    /* servers */
    tr_server_program *program;
    tr_state      *kept;              /* state of an earlier process in this place, until the program takes it */
    int            server_index, trainer_count;
    int64_t        newest;            /* the highest state generation of this server's states on all hosts; -1: there is none */
    tr_update      update;            /* the update that the core has asked for */
    atomic_bool    has_update;
    atomic_bool    is_done;           /* all trainers have left */
    bool           is_forsaken;       /* all trainers have died; valid when is_done is set */
    atomic_uint    bell;
    tr_times       applied;           /* durations of updates */
    int64_t        in_pieces;         /* nanoseconds that the present update has spent on pieces */
    tr_counter     idle;
    _Atomic(const tr_server *) seen_server;      /* `server`, for threads that only read its counters */
    struct tr_frozen *frozen;         /* the state of one moment, for a new replica */
    atomic_bool    wants_frozen, wants_thaw;
    uint64_t       shared;            /* number of gatherings with the other servers */
    uint8_t       *share;             /* the bytes of all servers in the last gathering */

    struct tr__saving *saving;        /* a server's part of checkpoints: job_saving.h */
    struct tr__checkpointer  *checkpointer;         /* on the trainer that makes checkpoints: job_checkpoint.h */
    struct tr__own_part *own_part;    /* a trainer's part of all checkpoints: job_own_part.h */
    struct tr__place  *place;         /* a trainer's place in its data: job_place.h */
    struct tr__fetched *fetched;      /* fetched values of the last steps: job_fetched.h; NULL: no later process would read them */
    char          *mode;              /* trainers */
    char          *checkpoints;       /* the folder for checkpoints, or NULL */
    int64_t        first_step, first_run;     /* trainers: steps and runs before this job */
    atomic_bool    is_replacement;           /* this rank was a standby, and has replaced a dead trainer */
    int64_t        joined_at;         /* steps of this trainer at the setup; -1: no server has a step that another lacks */

    /* used by the driver alone */
    tr_client     *client;
    tr_server     *server;
    tr_standby      *standby;
    tr_replica    *replica;
};

/* Kinds of commands, for a trainer's core and for a server's. */
typedef enum tr__command {
    TR__SETUP, TR__PUSH, TR__PUSH_COMPRESSED, TR__STEP_END, TR__STEP_IDLE, TR__PULL, TR__PULL_ROWS, TR__PUSH_ROWS, TR__READ_ROWS, TR__STAY, TR__GOODBYE, TR__ABORT,
    TR__SNAPSHOT, TR__REST, TR__FLUSH,
    TR__APPLIED, TR__SNAPPED, TR__WRITTEN, TR__FROZEN, TR__TASK, TR__SHARE, TR__POST, TR__EVEN
} tr__command;

/* The data of TR__PULL, one malloc. The command frees it. */
typedef struct tr__pull_call {
    uint32_t count;
    int     *block;
    void   **to;
} tr__pull_call;

/* The data of TR__READ_ROWS. It must stay alive until the ticket is done. */
typedef struct tr__read_call {
    int            server;
    uint32_t       shard, since;
    tr_client_pack pack;
} tr__read_call;

/* The data of TR__SETUP. It must stay alive until the ticket is done. */
typedef struct tr__setup_call {
    tr_client_setup *server;          /* one for each server */
    uint32_t         block_count;
    tr_client_block *block;
    tr_client_value *value;           /* for all servers */
    int              servers;
    bool             survives_trainers, keeps_settled;
    tr_client_pack  *rows;            /* for all servers */
} tr__setup_call;

/* job.c: called by a server while it applies an update. Gather `bytes` bytes from each server. *all: the bytes in the order of the
 * servers, valid until the next call. Waits. */
tr_status tr__job_share(const uint8_t **all, tr_job *job, const void *own, uint32_t bytes);

/* job_view.c */
/* NULL: the job has ended. */
void      tr__job_set_current(tr_job *job);
int64_t   tr__seconds(double seconds);
/* How often the launcher has started this job, from 1. */
uint32_t  tr__job_epoch_of_start(void);

/* job_calls.c */
tr_status tr__job_check_trainer(const tr_job *job, const char *call);
tr_status tr__job_check_ready(const tr_job *job, const char *call);
tr_status tr__job_check_block(const tr_job *job, int block, const char *call);
/* Give the next operation its ticket, count it, and hand the command over. */
tr_status tr__job_call(tr_job *job, const tr_command *command, tr_ticket *ticket);
/* The number of the present step, from 1, counted from the beginning of the training. Where trainers train copies, it is the number of
 * the last step before the exchange. */
int64_t   tr__job_step_now(const tr_job *job);

/* job_setup.c */
tr_status tr__job_check_spec(tr_policy *policy, const tr_job *job, const tr_job_spec *spec);
tr_status tr__job_make_setup(tr__setup_call *out, const tr_job *job, const tr_job_spec *spec);
/* After the handover the packed messages belong to the client. */
void      tr__job_free_setup(tr__setup_call *setup, bool is_handed_over);

/* job_compress.c */
/* How this process compresses gradients: TRIREME_COMPRESS, else the spec. */
const char *tr__job_compress_word(const tr_job_spec *spec);
/* How parameters come back, from TRIREME_COMPRESS_PARAMETERS or the spec. */
const char *tr__job_compress_parameters_word(const tr_job_spec *spec);
/* Bytes of a step's gradients that compression could reduce, whether or not it is on. */
int64_t     tr__job_compressible_bytes(const tr_job *job, const tr_job_spec *spec);
/* Make the state that a compressed gradient needs. NULL in *out: this gradient is not compressed. */
tr_status tr__job_coder_new(struct tr__job_coder **out, const tr_job *job, const tr_job_block *block);
void      tr__job_coder_free(struct tr__job_coder *coder);
/* Compress the block's gradient together with the residual of earlier steps. The result is valid until the ticket of the step's end is
 * done. Waits for the ticket of the step before. */
tr_status tr__job_compress(const tr_client_pieces **out, tr_job *job, tr__job_block *block, const void *data, double weight);

/* job_store.c */
/* The store of this rank's core, a server or a replica. */
tr_store  tr__job_store(tr_job *job, const tr_roster *roster);
/* The name of this server's state that outlives the process. False: no state is kept, because no later process would read it. */
bool      tr__job_state_name(char *out, size_t size, const tr_job *job);
/* Make the update that the core has asked for. Tell the core that the update is made. */
tr_status tr__job_run_update(tr_job *job);
void      tr__job_tell_applied(tr_job *job, tr_status status);

/* Freeze or thaw the state if the core has asked for it. */
tr_status tr__job_serve_frozen(tr_job *job);

/* job_tables.c */
tr_status tr__job_check_tables(const tr_job_spec *spec);
tr_status tr__job_keep_tables(tr_job *job, const tr_job_spec *spec);
void      tr__job_free_tables(tr_job *job);
/* Return the first virtual shard of a server. Its shards end before the first of the next server. */
uint32_t  tr__job_first_shard(int server, int servers);
int       tr__job_server_of_shard(uint32_t shard, int servers);
/* Append the initial rows of server `server`'s tables at *rows. Returns their number, or -1. */
int       tr__job_pack_rows(tr_client_pack *rows, const tr_job_spec *spec, int server, int servers);
/* The name of a table that was not pushed in the present step; NULL: all were. */
const char *tr__job_first_missing_table(const tr_job *job);

/* job_geo.c */
/* For modes in which trainers train copies: open this trainer's copy of a table. If an earlier process has left one, it is as after the
 * job's present step. */
tr_status tr__job_open_own_table(tr_job *job, int table, const tr_job_table *from);
/* The divisor of a trainer's change: the number of trainers where a server adds each change by itself, 1 where it adds their mean. */
int       tr__job_change_share(const tr_job *job);

/* job_rows.c */
/* The copy of a table with the rows of these keys, which this trainer is about to update; NULL in modes without copies. */
tr_status tr__job_own_table(tr_table **out, tr_job *job, int table, int64_t count, const int64_t *keys);
/* Push the changed rows of all tables' copies. */
tr_status tr__job_push_changes(tr_job *job);
/* The step has ended: ask for the rows of the next step, where their keys are known. */
tr_status tr__job_tables_ended(tr_job *job);

/* job_send.c */
/* Send a block's gradient, after tr_job_push has checked it. `is_last`: it is the last one of the step. */
tr_status tr__job_send_block(tr_job *job, int block, const void *data, double weight, bool is_last, tr_ticket *ticket);
/* Send the gradient of a table, which tr_job_push_rows has prepared. */
tr_status tr__job_send_rows(tr_job *job, int table);
/* Does a pull of parameters follow each step's end directly? */
bool      tr__job_pulls_behind_ends(const tr_job *job);

/* job_pull.c */
void      tr__job_pulls_begin(tr_job *job);
void      tr__job_pulls_end(tr_job *job);
/* Wait until the last step is settled and its parameters are here. After that the next gradient may leave. */
tr_status tr__job_settle(tr_job *job);
/* Pull all blocks again, each to the place of its last pull. */
tr_status tr__job_pull_again(tr_job *job);
/* Wait for the last pull of the block. */
tr_status tr__job_await_block(tr_job *job, int block);

/* job_board.c */
void      tr__job_board_free(tr_job *job);

/* job_train.c */
/* Copy a gradient to memory that does not change until its step is settled; *out is the copy. First waits until the last gradient from
 * that memory is settled. */
tr_status tr__job_stage(char **out, tr_job *job, int block, const char *data);

#endif
