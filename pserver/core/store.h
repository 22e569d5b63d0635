/* store.h - what a core of a server or a replica has beneath it: where its state lies, and what computes an update.
 *
 * The executor in a real server (job_store.c), a small function in tests. A store has two kinds of functions. *Memory* answers at once and never calls the
 * core. *Work* is carried out by the core's boundary when the core is at rest (effects.h); the store reports that work is done at once or later.
 * A function that a store does not have is NULL where the comment says so. */
#ifndef TR_PSERVER_STORE_H
#define TR_PSERVER_STORE_H

#include "pserver/memory/state.h"
#include "pserver/table/rows_merge.h"
#include "proto/pserver.pb-c.h"
#include "pserver/trireme_dist.h"

/* Gradients to be applied at once. The memory is the core's, and stays until the update is applied. */
typedef struct tr_update {
    uint64_t        number;           /* 1, 2, ... */
    uint8_t *const *grad;             /* of each block: the mean */
    uint8_t *const *pulled;           /* of each block: the parameters that it was computed with, when they are to be */
    double          compensation;     /* compensated for (compensate.h); NULL and 0 otherwise */
    const bool     *takes_part;       /* trainer by trainer */
    const tr_rows_update *rows;       /* of each table: what the trainers that take part sent */
} tr_update;

typedef struct tr_store {
    void *self;

    /* == memory: the beginning ================================================================= */
    /* What was kept of an earlier server's life. False: nothing. `*packed` is its Setup. */
    bool      (*last_commit)(void *self, tr_commit *commit, const void **packed, uint64_t *bytes);
    /* Make room for the blocks and values; parse the program. Sizes were checked. `packed` is the Setup as it came. `resume`: take what was kept,
     * with its values; otherwise forget that. */
    tr_status (*setup)(void *self, const Trireme__Pserver__Setup *setup, const tr_policy *policy, const void *packed, uint64_t bytes,
                       bool resume);
    /* Memory for the first value of `setup->values[index]`. */
    void     *(*value)(void *self, uint32_t index);
    /* All first values are there. */
    tr_status (*ready)(void *self);
    /* Undo the last update. `commit`: what counts behind the one before it; NULL: that is said before anything else is done. */
    void      (*go_back)(void *self, const tr_commit *commit);

    /* == memory: parameters ==================================================================== */
    /* Memory of block `index`'s parameter, after `ready`; another one after an update, perhaps. */
    void     *(*param)(void *self, uint32_t index);
    /* The same, before the last update; while no piece of the next one has come. NULL: no standby can take a dead trainer's place. */
    void     *(*param_before)(void *self, uint32_t index);

    /* == memory: tables; all NULL where there are none ========================================= */
    /* The rows of `n` keys of table `index`, in its type, and hints for gradients of these keys (rows_merge.h). Not while an update is being
     * applied. */
    void      (*rows)(void *self, uint32_t index, const int64_t *keys, int64_t n, void *out, uint32_t *hints);
    /* The same, before the last update. NULL: as `param_before`. */
    tr_status (*rows_before)(void *self, uint32_t index, const int64_t *keys, int64_t n, void *out);
    /* All rows of a virtual shard of table `index`, packed (tr_table_pack); put such rows into it. Not while an update is being applied. */
    tr_status (*read_rows)(void *self, uint32_t index, uint32_t shard, bool are_candidates, void **out, uint64_t *bytes);
    tr_status (*write_rows)(void *self, uint32_t index, const void *rows, uint64_t bytes, bool are_candidates);

    /* == memory: what outlives the process besides ============================================= */
    /* Memory of `bytes` bytes for the state of tasks, zero at first; `*bytes` 0: that which an earlier process had, of its size. NULL, also as the
     * function: there is none. */
    void     *(*tasks)(void *self, uint64_t *bytes);
    /* Memory for the board (durable_board.h). `anew`: `*bytes` zero bytes in the place of what there was. Otherwise, `*bytes` 0: what there is, of its
     * size; else that, grown to `*bytes`, at another address perhaps. NULL, also as the function: there is none. */
    void     *(*board)(void *self, uint64_t *bytes, bool anew);
    /* The state with the highest generation, of one server's states on several hosts, is the newest: the generation of this one; `raise`: above all others. NULL:
     * there are no others. */
    uint32_t  (*generation)(void *self, bool raise);
    /* The rank of the replica that counts, -1: none. The rank that takes this server's place must know it. NULL: there are no replicas. */
    void      (*set_replica_rank)(void *self, int rank);
    int       (*replica_rank)(void *self);
    /* What this replica has is from here on all that its server tells others, and of this generation. NULL: nobody wants to know. */
    void      (*counts)(void *self, uint32_t generation);

    /* == work ================================================================================== */
    /* Bytes of block `index`'s mean gradient that are sure to be in the next update: what follows from them alone may be computed now, to count with
     * that update. Called for all pieces of all blocks before `apply`, or for none. NULL: it is not wanted. */
    tr_status (*piece)(void *self, uint32_t index, uint64_t offset, uint64_t bytes, const void *grad);
    /* Apply these gradients, and then or later report that: tr_server_applied, tr_replica_applied. */
    void      (*apply)(void *self, const tr_update *update);
    /* Let what is settled count; `is_update`: and the update that was applied. Must outlive the process. */
    void      (*commit)(void *self, const tr_commit *commit, bool is_update);
    /* Copy the state as it is now, and then or later report that: tr_server_snapped. Until then nothing is applied. Write the copy where `target`
     * says, and report that: tr_server_written. NULL: this store cannot. */
    void      (*snapshot)(void *self, const Trireme__Pserver__SnapshotTarget *target);
    /* Between updates: keep values and rows as they are now until `thaw`, and then or later report that: tr_server_frozen. Until then nothing is
     * applied. NULL: this store cannot. */
    void      (*freeze)(void *self);
    void      (*thaw)(void *self);
    /* Memory: values and rows as they were frozen. */
    const void *(*frozen_value)(void *self, uint32_t index);
    tr_status (*frozen_rows)(void *self, uint32_t index, uint32_t shard, bool are_candidates, void **out, uint64_t *bytes);
} tr_store;

#endif
