/* server.h - the protocol core of a parameter server: dense blocks, in steps.
 *
 * A trainer's requests carry (epoch, seq). They are taken in the order of seq, each once; a repeated one is
 * answered again, one that comes too early (its predecessor was lost) is dropped, and the client repeats both.
 *
 * Step s of a trainer: it pushes its part of every block, then ends the step. What happens then is the mode's (policy.c):
 *   sync            Each chunk of a block is summed in trainer order (mean.h): a part whose turn has not come waits. When
 *                   all living trainers have ended s and all chunks are whole, the store applies them.
 *   sync(backups)   Parts are kept apart. When all but so many have ended a step with the newest parameters, the mean of
 *                   theirs is applied; who ends a step with older ones has it dropped, and pulls newer ones. Server 0 decides
 *                   for all (server_decision.c).
 *   sync(fewer)     The same, with all living trainers.
 *   async, ssp, geo Each trainer's step is applied alone, in the order in which the steps were ended.
 * An ended step is acknowledged when it was applied or dropped ("settled"). A pull is answered when the trainer's own
 * steps are settled, and under ssp when nobody is too far behind. A part counts as acknowledged when it is summed, so
 * that a fast trainer's window, not this server's memory, holds what is too early.
 *
 * No deadlock: the first trainer's parts never wait, and those of trainer k wait only for trainers below k; a step that
 * is complete waits for nothing but the one that is being applied.
 *
 * What must stay true: parameters are sent from where they lie, and a block that was pulled is of one update. In mode sync that
 * follows from the order of things: the update that writes that buffer again has the next gradient of the trainer that pulled.
 * In async, ssp and geo it may not begin while somebody who lives receives from the buffer (server_pull.c). In sync(backups) and
 * sync(fewer) nobody waits: what is computed with parameters that two updates have overtaken is dropped anyway. Several blocks
 * are of one update in the kinds of sync; elsewhere if they were pulled at once. And a trainer pushes nothing of a step before its last one is settled on all servers: pieces of an
 * update are computed before it is complete, into the memory of the update before the last. */
#ifndef TR_PSERVER_SERVER_H
#define TR_PSERVER_SERVER_H

#include "pserver/core/node.h"
#include "pserver/core/roster.h"
#include "pserver/memory/state.h"
#include "pserver/observe/meter.h"
#include "pserver/table/rows_merge.h"
#include "proto/pserver.pb-c.h"

/* Gradients to be applied at once. Memory is the core's, and stays until tr_server_applied. */
typedef struct tr_update {
    uint64_t        number;           /* 1, 2, ... */
    uint8_t *const *grad;             /* of each block: the mean */
    uint8_t *const *pulled;           /* of each block: the parameters it was computed with, when they are to be */
    double          compensation;     /* compensated for (compensate.h); NULL and 0 otherwise */
    const bool     *takes_part;       /* trainer by trainer */
    const tr_rows_update *rows;       /* of each table: what those who take part sent */
} tr_update;

/* Where blocks live and how an update is applied: the executor in a real server, a small function in tests. */
typedef struct tr_store {
    void *self;
    /* What was kept of an earlier server's life; false: nothing. `*packed` is its Setup. */
    bool      (*kept)(void *self, tr_commit *commit, const void **packed, uint64_t *bytes);
    /* Make room for the blocks and values; parse the program. Sizes were checked. `packed` is the Setup as it came.
     * `resume`: take what was kept, with its values; otherwise forget that. */
    tr_status (*setup)(void *self, const Trireme__Pserver__Setup *setup, const tr_policy *policy, const void *packed, uint64_t bytes,
                       bool resume);
    /* Memory for the first value of `setup->values[index]`. */
    void     *(*value)(void *self, uint32_t index);
    /* All first values are there. */
    tr_status (*ready)(void *self);
    /* Memory of block `index`'s parameter, after `ready`; another one after an update, perhaps. */
    void     *(*param)(void *self, uint32_t index);
    /* Apply these gradients, and then or later call tr_server_applied. */
    void      (*apply)(void *self, const tr_update *update);
    /* What is settled now; `is_update`: the update that was applied counts from here on. Must outlive the process. */
    void      (*commit)(void *self, const tr_commit *commit, bool is_update);
    /* Undo the last update. `commit`: what counts behind the one before it; NULL: that is said before anything else is done. */
    void      (*go_back)(void *self, const tr_commit *commit);
    /* The rows of `n` keys of table `index`, in its type, and hints for gradients of these keys (rows_merge.h). Not while an update is
     * being applied. NULL: there are no tables. */
    void      (*rows)(void *self, uint32_t index, const int64_t *keys, int64_t n, void *out, uint32_t *hints);
    /* Copy the state as it is now, and then or later call tr_server_snapped; until then nothing is applied. Write the copy
     * where `target` says, and call tr_server_written. NULL: this store cannot. */
    void      (*snapshot)(void *self, const Trireme__Pserver__SnapshotTarget *target);
    /* All rows of a virtual shard of table `index`, packed (tr_table_pack); put such rows into it. As `rows`. */
    tr_status (*read_rows)(void *self, uint32_t index, uint32_t shard, bool are_candidates, void **out, uint64_t *bytes);
    tr_status (*write_rows)(void *self, uint32_t index, const void *rows, uint64_t bytes, bool are_candidates);
    /* Memory of `bytes` bytes for the state of tasks, zero at first, which outlives the process as the rest does; `*bytes` 0:
     * that which an earlier process had, of its size. NULL, also as the function: there is none. */
    void     *(*tasks)(void *self, uint64_t *bytes);
    /* Memory for the board (kept_board.h), which outlives the process as the rest does. `anew`: `*bytes` zero bytes in the place of what
     * there was. Otherwise, `*bytes` 0: what there is, of its size; else that, grown to `*bytes`, at another address perhaps. NULL, also as
     * the function: there is none. */
    void     *(*board)(void *self, uint64_t *bytes, bool anew);
    /* Bytes of block `index`'s mean gradient that are sure to be in the next update: what follows from them alone may be computed
     * now, to count with that update. Called for all pieces of all blocks before `apply`, or for none. NULL: it is not wanted. */
    tr_status (*piece)(void *self, uint32_t index, uint64_t offset, uint64_t bytes, const void *grad);
    /* As `param` and `rows`, before the last update; while no piece of the next has come. NULL: nobody can take a dead trainer's place. */
    void     *(*param_before)(void *self, uint32_t index);
    tr_status (*rows_before)(void *self, uint32_t index, const int64_t *keys, int64_t n, void *out);
    /* Of the states of one server on several hosts that of the highest age is the newest: the age of this one; `raise`: above all
     * others. NULL: there are no others. */
    uint32_t  (*age)(void *self, bool raise);
    /* The rank of the replica that counts, -1: none. Who takes this server's place must know it. */
    void      (*set_replica_rank)(void *self, int rank);
    int       (*replica_rank)(void *self);
    /* What this replica has is from here on all that its server tells others, and of this age. NULL: nobody wants to know. */
    void      (*counts)(void *self, uint32_t age);
    /* Between updates: keep values and rows as they are now until `thaw`, and then or later call tr_server_frozen; until then
     * nothing is applied. NULL: this store cannot. */
    void      (*freeze)(void *self);
    const void *(*frozen_value)(void *self, uint32_t index);
    tr_status (*frozen_rows)(void *self, uint32_t index, uint32_t shard, bool are_candidates, void **out, uint64_t *bytes);
    void      (*thaw)(void *self);
} tr_store;

typedef struct tr_server tr_server;

/* Roster and store outlive it. It says at once that it serves, and what it has from before. */
tr_server *tr_server_new(const tr_roster *roster, const tr_store *store);
void       tr_server_free(tr_server *server);
tr_node    tr_server_node(tr_server *server);

/* The transport may lose messages: what a replica has not acknowledged after so many nanoseconds is sent to it again. For a
 * new server, before its first message. */
void       tr_server_set_retry(tr_server *server, int64_t retry);

/* Go on in the middle of a job, from what the store has kept: trainers repeat what they were not told is settled. For a new
 * server, before its first message. */
tr_status  tr_server_take_over(tr_server *server);

/* The update that the store was asked to apply is applied, or has failed (the text is tr_error()'s). */
void       tr_server_applied(tr_server *server, tr_status status);
/* The state is copied: training goes on. */
void       tr_server_snapped(tr_server *server, int64_t now);
/* The state is frozen, or (the text is tr_error()'s) cannot be. */
void       tr_server_frozen(tr_server *server, tr_status status);
/* The copy is on the disk: the packed Part, or (NULL) why not. */
void       tr_server_written(tr_server *server, const uint8_t *part, size_t size, const char *error);
/* Every trainer has said goodbye (or has died where that is survived) and all is applied. Late repetitions are still
 * answered. */
bool       tr_server_is_done(const tr_server *server);
/* All have died, and nobody takes a place of theirs: what is here is for the next start of the job. */
bool       tr_server_is_forsaken(const tr_server *server);
/* Updates applied so far: in mode sync, steps. */
uint64_t   tr_server_step(const tr_server *server);
/* While an update is being applied: gather what all servers have of something (gather.h). Fails like a message would. */
void       tr_server_share(tr_server *server, const void *own, uint32_t bytes, void *all);
/* How many times that is done. */
uint64_t   tr_server_shared(const tr_server *server);
/* What time it is, for the times that it keeps; before tr_server_applied. */
void       tr_server_tell_time(tr_server *server, int64_t now);
/* Of trainer `trainer`: any thread may read its counters. */
const tr_peer_meter *tr_server_peer_meter(const tr_server *server, int trainer);
/* Fill in what the server knows of staleness. */
void       tr_server_stats(const tr_server *server, tr_job_stats *stats);

#endif
