/* comm.h - the communication thread: it uses MPI, drives this rank's core, and watches the other ranks.
 *
 * One thread at a time makes MPI calls and calls of the core: the driver, which holds the `drive` lock. (So MPI runs at
 * MPI_THREAD_SERIALIZED, which costs nothing.) Mostly the communication thread is the driver: while the owner (a Python program, or a
 * server's main thread) computes, data moves and heartbeats go on. An owner that waits becomes the driver itself, and the thread keeps
 * away. So a message that the owner waits for needs no change of thread: one turn takes it from the wire to its place and sends the
 * answer.
 *
 * The owner puts commands into a ring and reads one number, the last operation that is done. Commands that are not urgent gather. A
 * driver without work first polls without a pause, then takes longer and longer naps, until its doorbell rings (doorbell.h).
 *
 * When the job fails, this rank's core says what it was waiting for. One rank prints that and tells all. It is the first rank of another
 * role than the dead rank's. The others follow with a growing delay, unless they hear of it. The owner's calls fail from then on. A
 * process that still lives after `grace` ends by _exit(1).
 *
 * What must stay true: one owner thread posts and waits. Only the communication thread calls MPI_Init and MPI_Finalize. After a failure
 * MPI is not finalized. */
#pragma once

#include "pserver/core/base/node.h"
#include "pserver/core/base/roster.h"
#include "pserver/observe/traffic.h"
#include "pserver/trireme_dist.h"

/* Times in nanoseconds. */
typedef struct tr_comm_options {
    tr_role     role;
    bool        can_replace;          /* this standby may become a trainer */
    uint32_t    incarnation;
    int64_t     heartbeat, timeout, start_timeout, grace;
    const char *transport;            /* path of the shared object */
} tr_comm_options;

/* The head of a command. A command with data is a struct that begins with its head; the core knows the struct by the kind. */
typedef struct tr_command {
    int      kind;                    /* what it asks of the core */
    bool     is_urgent;               /* send at once. Other commands gather until a turn: of an owner that waits or posts an urgent
                                       * command, or of the thread after its nap */
    bool     has_more;                /* another command follows directly: do not ring ranks that would wake on this processor before it */
} tr_command;

enum { TR_COMMAND_BYTES = 40 };       /* the largest command */

/* The core of this rank, made when all ranks are known. The driver makes all these calls. */
typedef struct tr_comm_core {
    void *self;
    tr_node  (*make)(void *self, const tr_roster *roster);
    void     (*command)(void *self, const tr_command *command);
    /* Called after some commands, when no more are waiting. `owner_waits`: no more will come for now. Otherwise the owner may be in the
     * middle of a series of commands. */
    void     (*flush)(void *self, bool owner_waits);
    /* The last operation that is done: tr_comm_wait waits for it. */
    uint64_t (*done)(void *self);
} tr_comm_core;

typedef struct tr_comm tr_comm;
typedef struct tr_span { int64_t from, to; } tr_span;

/* Start the thread and wait until all ranks are known. */
tr_status        tr_comm_start(tr_comm **out, const tr_comm_options *options, const tr_comm_core *core);
const tr_roster *tr_comm_roster(const tr_comm *comm);
/* Hand over a command of `bytes` bytes, which are copied. Waits only while the ring is full. Fails when the job has failed. */
tr_status        tr_comm_post(tr_comm *comm, const tr_command *command, size_t bytes);
/* Wait until `done` reaches this. TR_ETIMEOUT: the text says what is missing. *waited: begin and end of the wait; may be NULL. */
tr_status        tr_comm_wait(tr_span *waited, tr_comm *comm, uint64_t done, int64_t timeout);
/* The same on another thread than the owner's: it only looks, and never drives. */
tr_status        tr_comm_stand_by(tr_comm *comm, uint64_t done, int64_t timeout);
/* Wake the thread: operations are under way for which the owner does not wait. */
void             tr_comm_carry_on(tr_comm *comm);
uint64_t         tr_comm_done(const tr_comm *comm);
/* TR_OK, or the job's failure (text in tr_error()). */
tr_status        tr_comm_status(tr_comm *comm);
/* Say goodbye to the other ranks (if `is_well` first to the launcher), wait for their goodbyes, stop MPI and the thread, and free all.
 * After a failure: make sure that it is printed, and do not finalize MPI. *must_exit: this process must end by _exit, because the job
 * survived a dead rank, or MPI does not stop. */
tr_status        tr_comm_leave(tr_comm *comm, bool is_well, int64_t timeout, bool *must_exit);
/* Called by the driver: kill a rank of this host that was declared dead (fencing). */
void             tr_comm_kill(tr_comm *comm, int rank);
/* Called by the driver: this rank, a standby, becomes that server. */
void             tr_comm_take_place(tr_comm *comm, int server);
/* Called by the driver: the standby has become a trainer, a server or a replica, and this core is driven from here on. */
void             tr_comm_set_core(tr_comm *comm, tr_node node);
/* Called by the driver of a standby that has become a server. It tells the launcher that the job goes on without the trainers that died
 * before: a standby cannot know that. */
void             tr_comm_tell_losses(const tr_comm *comm);
/* Called by the driver: this rank, a standby, becomes that trainer. False: a newer replacement has the place. */
bool             tr_comm_replace_trainer(tr_comm *comm, int trainer, uint32_t incarnation);
/* The same for its role as a server's replica (tr_roster_set_replica). */
bool             tr_comm_replica_rank(tr_comm *comm, int server);
/* Set the exit code of all ranks for the case that this rank makes the job fail. Get the exit code of this rank. */
void             tr_comm_set_exit_code(tr_comm *comm, int code);
int              tr_comm_exit_code(const tr_comm *comm);
void             tr_comm_stats(const tr_comm *comm, tr_job_stats *stats);
/* Bytes and messages by content; both live as long as `comm`. */
void             tr_comm_traffic(const tr_comm *comm, const tr_traffic **sent, const tr_traffic **received);
