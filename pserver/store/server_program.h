/* server_program.h - a server's blocks as a program of the executor: the store of a real server.
 *
 * The transpiled program's persistable variables live in a scope; the mean gradients are its feeds, so they are
 * read where the server sums them. There is no second implementation of any optimizer.
 *
 * Every variable that an update changes has two buffers: an update reads the one and writes the other, and counts when
 * tr_server_program_commit has exchanged them. So at any instant there is one consistent state, and what was pulled from it is
 * whole until the update after the next.
 *
 * Where the mode says that a gradient which is whole will be applied next (sync), blocks are computed by pieces
 * (server_pieces.h); the rest is the program.
 *
 * What must stay true: commit, pieces and the reading of parameters are who drives' (comm.h); the thread that runs the program
 * writes buffers that nobody reads yet, and while it does there are no pieces. */
#ifndef TR_PSERVER_SERVER_PROGRAM_H
#define TR_PSERVER_SERVER_PROGRAM_H

#include "pserver/core/server.h"
#include "pserver/trireme_checkpoint.h"

typedef struct tr_server_program tr_server_program;

tr_server_program *tr_server_program_new(void);
void               tr_server_program_free(tr_server_program *sp);
/* The functions of a tr_store, but for `apply`. */
/* `state` is new, or (`resume`) one that a program of the same setup has left; it belongs to the program from here on. Tables
 * are kept in segments whose names begin with `name`; NULL: they end with the process. */
tr_status          tr_server_program_setup(tr_server_program *sp, const Trireme__Pserver__Setup *setup, const tr_policy *policy, tr_state *state,
                                           const char *name, bool resume);
void              *tr_server_program_value(tr_server_program *sp, uint32_t index);
uint32_t           tr_server_program_values(const tr_server_program *sp);
uint64_t           tr_server_program_value_bytes(const tr_server_program *sp, uint32_t index);
/* NULL: there are not so many. */
struct tr_table   *tr_server_program_rows_of(const tr_server_program *sp, uint32_t table);
tr_status          tr_server_program_ready(tr_server_program *sp);
void              *tr_server_program_param(tr_server_program *sp, uint32_t index);
/* The same as it was before the last update, while nothing of the next is computed. */
void              *tr_server_program_param_before(tr_server_program *sp, uint32_t index);
tr_status          tr_server_program_rows_before(tr_server_program *sp, uint32_t table, const int64_t *keys, int64_t n, void *out);
/* Not while an update is being computed: tables have one copy. `hints`: for gradients of these keys (rows_merge.h). */
void               tr_server_program_rows(tr_server_program *sp, uint32_t table, const int64_t *keys, int64_t n, void *out,
                                          uint32_t *hints);
tr_status          tr_server_program_read_rows(tr_server_program *sp, uint32_t table, uint32_t shard, bool are_candidates, void **out,
                                               uint64_t *bytes);
tr_status          tr_server_program_write_rows(tr_server_program *sp, uint32_t table, const void *rows, uint64_t bytes,
                                                bool are_candidates);
/* May the update of this block be computed piece by piece? */
bool               tr_server_program_has_pieces(const tr_server_program *sp, uint32_t block);
/* Compute a piece of the next update, whose gradient is whole; see tr_store. */
tr_status          tr_server_program_piece(tr_server_program *sp, uint32_t index, uint64_t offset, uint64_t bytes, const void *grad);
/* Is what an update leaves to tr_server_program_run over within some tens of microseconds? */
bool               tr_server_program_is_quick(const tr_server_program *sp);
/* Compute one update, but for the pieces that were computed; `update` as the store got it. */
tr_status          tr_server_program_run(tr_server_program *sp, const tr_update *update);
void               tr_server_program_commit(tr_server_program *sp, const tr_commit *commit, bool is_update);
void               tr_server_program_go_back(tr_server_program *sp, const tr_commit *commit);
/* See tr_state_set_age. */
uint32_t           tr_server_program_age(const tr_server_program *sp);
void               tr_server_program_set_age(tr_server_program *sp, uint32_t age);
void               tr_server_program_set_replica_rank(tr_server_program *sp, int rank);
/* What table `index` takes, and its name; false: there are not so many. Between updates. */
bool               tr_server_program_table(const tr_server_program *sp, uint32_t index, tr_table_part *out, const char **name);
/* See tr_store.board; `name`: of the server's segments, or NULL. */
void              *tr_server_program_board(tr_server_program *sp, const char *name, uint64_t *bytes, bool anew);
/* See tr_store.tasks. */
void              *tr_server_program_tasks(tr_server_program *sp, const char *name, uint64_t *bytes);
/* The job has ended well: what is kept may go with the program. */
void               tr_server_program_over(tr_server_program *sp);
/* The arrays and tables that a checkpoint holds, as they are now; `out` has room for the setup's. Returns how many. What
 * they point at is the setup's and the program's; descriptions of tables live until the next call. */
int                tr_server_program_states(tr_server_program *sp, tr_checkpoint_item *out);
uint32_t           tr_server_program_state_room(const tr_server_program *sp);

#endif
