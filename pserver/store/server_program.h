/* server_program.h - a server's blocks as a program of the executor: the store of a real server.
 *
 * The persistable variables of the transpiled program live in a scope. The mean gradients are its feeds: the program reads them where the
 * server sums them. No optimizer is implemented a second time.
 *
 * Every variable that an update changes has two buffers (double_buffers.h). An update reads one and writes the other; tr_server_program_commit
 * exchanges them, and then the update counts. So there is one consistent state at any instant, and pulled parameters stay whole until the
 * update after the next.
 *
 * In modes where a complete gradient is certain to be applied next (sync), blocks are computed piece by piece (update_plan.h).
 *
 * What must stay true: the driver (comm.h) commits, computes pieces and reads parameters. The thread that runs the program writes buffers
 * that no one reads yet. No piece is computed while it runs. */
#ifndef TR_PSERVER_SERVER_PROGRAM_H
#define TR_PSERVER_SERVER_PROGRAM_H

#include "framework/base/weak.h"
#include "pserver/core/server/server.h"
#include "storage/trireme_checkpoint.h"

typedef struct tr_server_program tr_server_program;

/* `job`: the job in which updates take part; NULL: none. Borrowed. */
tr_server_program *tr_server_program_new(tr_weak *job);
void               tr_server_program_free(tr_server_program *sp);
/* The functions of a tr_store, without `apply`. */
/* `state` is new, or (`resume`) was left by a program of the same setup. The program owns it from here on. Tables are kept in segments
 * whose names begin with `name`. NULL: tables end with the process. */
tr_status          tr_server_program_setup(tr_server_program *sp, const Trireme__Pserver__Setup *setup, const tr_policy *policy, tr_state *state,
                                           const char *name, bool resume);
void              *tr_server_program_value(tr_server_program *sp, uint32_t index);
uint32_t           tr_server_program_values(const tr_server_program *sp);
uint64_t           tr_server_program_value_bytes(const tr_server_program *sp, uint32_t index);
/* The sparse table of this index. NULL: the program has fewer tables. */
struct tr_table   *tr_server_program_rows_of(const tr_server_program *sp, uint32_t table);
tr_status          tr_server_program_ready(tr_server_program *sp);
void              *tr_server_program_param(tr_server_program *sp, uint32_t index);
/* The parameter before the last update; valid until a piece of the next update is computed. */
void              *tr_server_program_param_before(tr_server_program *sp, uint32_t index);
tr_status          tr_server_program_rows_before(tr_server_program *sp, uint32_t table, const int64_t *keys, int64_t n, void *out);
/* Read rows of a table. Not to be called while an update is being computed, because a table has one copy. `hints` gets the slots of these keys, which
 * speed up the merging of their gradients (rows_merge.h). */
void               tr_server_program_rows(tr_server_program *sp, uint32_t table, const int64_t *keys, int64_t n, void *out,
                                          uint32_t *hints);
tr_status          tr_server_program_read_rows(tr_server_program *sp, uint32_t table, uint32_t shard, bool are_candidates, void **out,
                                               uint64_t *bytes);
tr_status          tr_server_program_write_rows(tr_server_program *sp, const tr_form_write_rows *what, const void *rows, uint64_t bytes);
/* May the update of this block be computed piece by piece? */
bool               tr_server_program_has_pieces(const tr_server_program *sp, uint32_t block);
/* Compute a piece of the next update, whose gradient is complete; see tr_store. */
tr_status          tr_server_program_piece(tr_server_program *sp, uint32_t index, uint64_t offset, uint64_t bytes, const void *grad);
/* Does tr_server_program_run take no more than some tens of microseconds? */
bool               tr_server_program_is_quick(const tr_server_program *sp);
/* Compute the parts of one update that were not computed as pieces. `update`: the argument of tr_store.apply. */
tr_status          tr_server_program_run(tr_server_program *sp, const tr_update *update);
void               tr_server_program_commit(tr_server_program *sp, const tr_commit *commit, bool is_update);
void               tr_server_program_go_back(tr_server_program *sp, const tr_commit *commit);
/* The state generation of the program's state (tr_state_set_generation). */
uint32_t           tr_server_program_generation(const tr_server_program *sp);
void               tr_server_program_set_generation(tr_server_program *sp, uint32_t generation);
void               tr_server_program_set_replica_rank(tr_server_program *sp, int rank);
/* The memory that table `index` takes, and its name. False: there is no such table. To be called between updates. */
bool               tr_server_program_table(const tr_server_program *sp, uint32_t index, tr_table_part *out, const char **name);
/* Memory for the board, as tr_store.board. `name`: the prefix of the server's segments; NULL: the memory ends with the process. */
void              *tr_server_program_board(tr_server_program *sp, const char *name, uint64_t *bytes, bool anew);
/* Memory for the state of tasks, as tr_store.tasks. */
void              *tr_server_program_tasks(tr_server_program *sp, const char *name, uint64_t *bytes);
/* The job has ended well: tr_server_program_free must also remove the memory that outlives the process. */
void               tr_server_program_over(tr_server_program *sp);
/* List the arrays and tables of a checkpoint as they are now, and return their number. `out` has room for tr_server_program_state_capacity. The
 * entries point into the setup and the program; descriptions of tables live until the next call. */
int                tr_server_program_states(tr_server_program *sp, tr_checkpoint_item *out);
uint32_t           tr_server_program_state_capacity(const tr_server_program *sp);

#endif
