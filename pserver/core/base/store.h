/* store.h - the interface beneath the core of a server or a replica: the memory of its state, and the computation of updates.
 *
 * In a real server the store runs the executor (server_store.h); in tests it is a small function. A store has two kinds of functions.
 * *Memory* functions answer at once and never call the core. *Work* functions are called when no handler of the core is running
 * (effects.h); the store reports at once or later that the work is done; those of `worker` may need another thread. A function may be NULL
 * where its comment says so. */
#pragma once

#include "proto/pserver.pb-c.h"
#include "pserver/state/state.h"
#include "pserver/trireme_dist.h"
#include "pserver/wire/wire.h"
#include "storage/table/rows_merge.h"

/* A value that trainers have set: the bytes of Setup.values[value]. */
typedef struct tr_set_value {
    uint32_t       value;
    const uint8_t *data;
} tr_set_value;

/* An update: the gradients to apply, to what the state is after `set`. The memory belongs to the core, which does not change it until the
 * update is applied. */
typedef struct tr_update {
    uint64_t        number;           /* 1, 2, ... */
    uint8_t *const *grad;             /* of each block: the mean */
    uint8_t *const *pulled;           /* of each block: the parameters that the gradient was computed with; NULL without compensation */
    double          compensation;     /* the factor of delay compensation (compensate.h); 0: none */
    const bool     *takes_part;       /* trainer by trainer */
    const tr_rows_update *rows;       /* of each table: the gradients of the trainers that take part */
    const tr_set_value *set;          /* assigned first */
    uint32_t        set_count;
} tr_update;

typedef struct tr_store {
    void *self;

    /* == memory: the beginning ================================================================= */
    /* The last commit in the state that an earlier process has left. `*packed` is that process's Setup. False: there is no such state. */
    bool      (*last_commit)(void *self, tr_commit *commit, const void **packed, uint64_t *bytes);
    /* Allocate the blocks and values, and parse the program. The caller has checked the sizes. `packed` is the Setup as it was received.
     * `resume`: use the state that was left, with its values; otherwise remove it. */
    tr_status (*setup)(void *self, const Trireme__Pserver__Setup *setup, const tr_policy *policy, const void *packed, uint64_t bytes,
                       bool resume);
    /* Memory for the first value of `setup->values[index]`; after `ready` the present value. Its address may change with each update. */
    void     *(*value)(void *self, uint32_t index);
    /* All first values are there. */
    tr_status (*ready)(void *self);
    /* Undo the last update. `commit`: the commit that is valid after that; NULL: the core commits it before it does anything else. */
    void      (*go_back)(void *self, const tr_commit *commit);

    /* == memory: parameters ==================================================================== */
    /* Memory of block `index`'s parameter, after `ready`. Its address may change with each update. */
    void     *(*param)(void *self, uint32_t index);
    /* The parameter before the last update; valid until a piece of the next one is computed. NULL: no standby can take a dead trainer's
     * place. */
    void     *(*param_before)(void *self, uint32_t index);
    /* The same for `value`. NULL: as for `param_before`. */
    void     *(*value_before)(void *self, uint32_t index);

    /* == memory: tables; all NULL where there are none ========================================= */
    /* The rows of `n` keys of table `index`, in its type, and hints for gradients of these keys (rows_merge.h). Not while an update is
     * being applied. */
    tr_status (*rows)(void *self, uint32_t index, const int64_t *keys, int64_t n, void *out, uint32_t *hints);
    /* Rows of these keys are looked up soon: begin to read those that lie on disk. Not while an update is being applied. NULL: none do. */
    tr_status (*expect_rows)(void *self, uint32_t index, const int64_t *keys, int64_t n);
    /* The rows before the last update. NULL: as for `param_before`. */
    tr_status (*rows_before)(void *self, uint32_t index, const int64_t *keys, int64_t n, void *out);
    /* Rows of a virtual shard of table `index`, packed (tr_table_pack): all, or (`since` is not 0) those that a later update touched; shard
     * TR_SHARDS: a tr_table_part; TR_SHARDS + 1: a tr_table_disk. Put such rows into a table. Not while an update is being applied. */
    tr_status (*read_rows)(void *self, uint32_t index, uint32_t shard, bool are_candidates, uint32_t since, void **out, uint64_t *bytes);
    tr_status (*write_rows)(void *self, const tr_form_write_rows *what, const void *rows, uint64_t bytes);

    /* == memory: other memory that outlives the process ======================================== */
    /* Memory for the state of tasks. `*bytes` above 0: new memory of this size, filled with zeros. `*bytes` 0: the memory that an earlier
     * process used, and its size. NULL, also as the function: there is none. */
    void     *(*tasks)(void *self, uint64_t *bytes);
    /* Memory for the board (durable_board.h). `anew`: `*bytes` zero bytes, which replace the present memory. Otherwise, with `*bytes` 0:
     * the present memory and its size; else the present memory grown to `*bytes`, perhaps at another address. NULL, also as the function:
     * there is none. */
    void     *(*board)(void *self, uint64_t *bytes, bool anew);
    /* The generation of this state. Of one server's states on several hosts the one with the highest generation is the newest. `raise`:
     * increase it first. NULL: there are no replicas. */
    uint32_t  (*generation)(void *self, bool raise);
    /* The rank of the replica that counts, -1: none. It is stored for this server's successor. NULL: there are no replicas. */
    void      (*set_replica_rank)(void *self, int rank);
    int       (*replica_rank)(void *self);
    /* This replica counts from now on, and its state has this generation. NULL: the store ignores that. */
    void      (*counts)(void *self, uint32_t generation);

    /* == work ================================================================================== */
    /* Commit the settled steps; `is_update`: commit the applied update, too. The result must outlive the process. */
    void      (*commit)(void *self, const tr_commit *commit, bool is_update);
    /* Memory: the frozen values and rows. */
    const void *(*frozen_value)(void *self, uint32_t index);
    tr_status (*frozen_rows)(void *self, uint32_t index, uint32_t shard, bool are_candidates, void **out, uint64_t *bytes);

    /* == work for another thread =============================================================== */
    void *worker;
    /* A piece of block `index`'s mean gradient, which is certain to be in the next update. The store may compute that part of the update
     * from now on, and at the latest in `apply`, which also reports a failure that comes later. Called for all pieces of all blocks before
     * `apply`, or for none; for none where the update has `set`. NULL: the store does not compute in pieces. */
    tr_status (*piece)(void *worker, uint32_t index, uint64_t offset, uint64_t bytes, const void *grad);
    /* Apply these gradients, and report it by tr_server_applied or tr_replica_applied, at once or later. */
    void      (*apply)(void *worker, const tr_update *update);
    /* Read this server's part of the checkpoint in the folder `path`, for a setup that goes on from it, and report it by
     * tr_server_restored, at once or later. NULL: this store reads no checkpoints. */
    void      (*restore)(void *worker, const char *path, uint64_t number);
    /* After a setup that goes on from that checkpoint: read the values that it takes from there, and report it by tr_server_restored. */
    void      (*fill)(void *worker);
    /* Write packed rows of table `index` into a file, and free them; or read the rows of this server's shards from a file. One file at a
     * time. Report it by tr_server_row_file, at once or later. Both NULL: this store writes and reads no files. */
    void (*save_rows)(void *worker, uint32_t index, const tr_table_file *file, void *packed, uint64_t bytes);
    void (*load_rows)(void *worker, uint32_t index, const tr_table_file *file);
    /* There will be snapshots: prepare for them. Called after the setup. NULL: the store ignores that. */
    void      (*expect_snapshots)(void *worker);
    /* Copy the state as it is now, and report it by tr_server_snapped, at once or later; no update is applied before that. Then write the
     * copy to `target`, and report it by tr_server_written. NULL: this store has no snapshots. */
    void      (*snapshot)(void *worker, const Trireme__Pserver__SnapshotTarget *target);
    /* Between updates: keep values and rows as they are now until `thaw`, and report it by tr_server_frozen, at once or later; no update is
     * applied before that. NULL: this store cannot freeze. */
    void      (*freeze)(void *worker);
    void      (*thaw)(void *worker);
} tr_store;
