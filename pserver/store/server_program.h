/* server_program.h - a server's blocks as a program of the executor. The core uses it as its store (server_store.h).
 *
 * The persistable variables of the transpiled program live in a scope. The mean gradients are its feeds: the program reads them where the
 * server sums them. No optimizer is implemented a second time.
 *
 * Every variable that an update changes has two buffers (double_buffers.h). An update reads one and writes the other; the commit
 * exchanges them, and then the update counts. So there is one consistent state at any instant, and pulled parameters stay whole until the
 * update after the next.
 *
 * In modes where a complete gradient is certain to be applied next (sync), blocks are computed piece by piece (update_plan.h).
 *
 * What must stay true: the driver (comm.h) commits and reads parameters. The thread that computes pieces or runs the program writes buffers
 * that no one reads yet. No piece is computed while the program runs, and one piece is computed at a time. */
#pragma once

#include "framework/base/weak.h"
#include "pserver/core/server/server.h"
#include "pserver/observe/meter.h"
#include "pserver/store/restored.h"
#include "storage/trireme_checkpoint.h"

/* The variable of the environment with the threads of servers. */
#define TR_SERVER_THREADS "TRIREME_SERVER_THREADS"

typedef struct tr_server_program tr_server_program;

/* `job`: the job in which updates take part; NULL: none. `applied` gets the duration of each update, with that of its pieces. Both are
 * borrowed. */
tr_server_program *tr_server_program_new(tr_weak *job, tr_times *applied);
void               tr_server_program_free(tr_server_program *sp);
/* Does tr_server_program_run take no more than some tens of microseconds? */
bool               tr_server_program_is_quick(const tr_server_program *sp);
/* As tr_store.piece; the piece is computed before this returns. */
tr_status          tr_server_program_piece(tr_server_program *sp, uint32_t index, uint64_t offset, uint64_t bytes, const void *grad);
/* Compute the parts of one update that were not computed as pieces. `update`: the argument of tr_store.apply. */
tr_status          tr_server_program_run(tr_server_program *sp, const tr_update *update);
/* Between updates, on the thread that runs the program: keep the present state until the thaw. The core reads it by tr_store. */
tr_status          tr_server_program_freeze(tr_server_program *sp);
void               tr_server_program_thaw(tr_server_program *sp);
/* As tr_restored_read, with the memory of this part's server. Any thread may call it. */
tr_status          tr_server_program_read(tr_restored **out, const char *path, uint64_t number, const tr_server_part *part);
/* Give the program its part of a checkpoint, which it owns, for a setup that goes on from it; NULL: drop that of before. */
void               tr_server_program_restore(tr_server_program *sp, tr_restored *restored);
/* Read the values that the setup takes from the checkpoint, after the setup and before all values are there. It takes long. */
tr_status          tr_server_program_fill(tr_server_program *sp);
/* The memory that table `index` takes, and its name. False: there is no such table. To be called between updates. */
/* How table `index` is configured, and the shards of it that are here. */
const tr_table_config *tr_server_program_table_config(const tr_server_program *sp, uint32_t index, uint32_t *first_shard,
                                                      uint32_t *shard_count);
bool               tr_server_program_table(const tr_server_program *sp, uint32_t index, tr_table_part *out, tr_table_disk *disk,
                                           const char **name);
/* The job has ended well: tr_server_program_free must also remove the memory that outlives the process. */
void               tr_server_program_over(tr_server_program *sp);
/* List the arrays and tables of a checkpoint as they are now, and return their number. `out` has room for tr_server_program_state_capacity.
 * The entries point into the setup and the program; descriptions of tables live until the next call. */
int                tr_server_program_states(tr_server_program *sp, tr_checkpoint_item *out);
uint32_t           tr_server_program_state_capacity(const tr_server_program *sp);

/* For server_store.c. */
/* As in tr_store. `state` is new, or (`resume`) was left by a program of the same setup. The program owns it from here on. */
tr_status   tr__server_program_setup(tr_server_program *sp, const Trireme__Pserver__Setup *setup, const tr_policy *policy, tr_state *state,
                                     bool resume);
tr_status   tr__server_program_ready(tr_server_program *sp);
/* Exchange the buffers of all variables. */
void        tr__server_program_switch(tr_server_program *sp);
/* A replica may get the whole state a second time: forget the first, and the memory that outlives the process. */
void        tr__server_program_forget(tr_server_program *sp);
