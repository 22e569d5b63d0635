/* comm.h - the communication thread: it owns MPI, drives this rank's core, watches the other ranks.
 *
 * One thread at a time makes MPI calls and calls of the core: the one that holds the `drive` lock (so MPI runs at
 * MPI_THREAD_SERIALIZED, which costs nothing). Mostly that is the communication thread: while the owner (a Python
 * program, or a server's main thread) computes, data moves and heartbeats go on. An owner that waits drives itself, and
 * the thread keeps out of its way: what it waits for comes without a change of thread. A message goes from the wire to its
 * place, and the answer out, in one go.
 *
 * The owner hands commands over in a ring and reads one number, the last operation that is done. Commands that are not
 * urgent are left to gather. With nothing to do a driver polls hot, then naps, ever longer, until its
 * doorbell rings (doorbell.h).
 *
 * When the job fails: this rank's core says what it was waiting for. One rank prints that (the first of the ranks of
 * the other role than the dead one's; the others follow with a growing delay unless they hear of it) and tells
 * all. The owner's calls fail from then on; a process that still lives after `grace` ends by _exit(1).
 *
 * What must stay true: one owner thread posts and waits. MPI_Init and MPI_Finalize are the communication thread's. After a failure MPI is not finalized. */
#ifndef TR_PSERVER_COMM_H
#define TR_PSERVER_COMM_H

#include "pserver/core/node.h"
#include "pserver/core/roster.h"
#include "pserver/observe/traffic.h"
#include "pserver/trireme_dist.h"

/* Times in nanoseconds. */
typedef struct tr_comm_options {
    tr_role     role;
    bool        can_inherit;          /* a standby that may become a trainer */
    uint32_t    epoch;
    int64_t     heartbeat, timeout, start_timeout, grace;
    const char *transport;            /* path of the shared object */
} tr_comm_options;

typedef struct tr_command {
    int      kind;                    /* a meaning for the core's `command` */
    int      block;
    void    *data;
    double   weight;
    bool     is_urgent;               /* leaves at once; others gather until somebody drives: an owner that waits or posts what is urgent, or a
                                       * thread at the end of its nap */
    bool     has_more;                /* more comes right behind it: who would wake on this processor is rung for that */
} tr_command;

/* The core of this rank, made when all ranks are known. All are called by who drives. */
typedef struct tr_comm_core {
    void *self;
    tr_node  (*make)(void *self, const tr_roster *roster);
    void     (*command)(void *self, const tr_command *command);
    /* After some commands, when there are no more at hand. */
    void     (*flush)(void *self);
    /* The last operation that is done: what tr_comm_wait waits for. */
    uint64_t (*done)(void *self);
} tr_comm_core;

typedef struct tr_comm tr_comm;
typedef struct tr_span { int64_t from, to; } tr_span;

/* Start the thread and wait until all ranks are known. */
tr_status        tr_comm_start(tr_comm **out, const tr_comm_options *options, const tr_comm_core *core);
const tr_roster *tr_comm_roster(const tr_comm *comm);
/* Hand a command over; waits only while the ring is full. Fails when the job has failed. */
tr_status        tr_comm_post(tr_comm *comm, const tr_command *command);
/* Wait until `done` reaches this. TR_ETIMEOUT says what for. `waited`: from when to when; NULL is allowed. */
tr_status        tr_comm_wait(tr_span *waited, tr_comm *comm, uint64_t done, int64_t timeout);
/* The same in another thread than the owner's: it looks until others have done it. */
tr_status        tr_comm_stand_by(tr_comm *comm, uint64_t done, int64_t timeout);
/* More is under way than what the owner has waited for: let the thread see to it at once. */
void             tr_comm_carry_on(tr_comm *comm);
uint64_t         tr_comm_done(const tr_comm *comm);
/* TR_OK, or the job's failure (text in tr_error()). */
tr_status        tr_comm_status(tr_comm *comm);
/* Tell the others that this rank is at its end, and before them the launcher if that is well; wait for theirs, stop MPI and the thread, free
 * all. After a failure: see that it is told, leave MPI alone. *must_exit: a rank has died in whose death the job did not end, or MPI does not
 * stop: this process must end by _exit. */
tr_status        tr_comm_leave(tr_comm *comm, bool is_well, int64_t timeout, bool *must_exit);
/* Of who drives: end a rank of this host that is thought dead, so that it is. */
void             tr_comm_kill(tr_comm *comm, int rank);
/* Of who drives: this rank, a standby, is that server from here on. */
void             tr_comm_take_place(tr_comm *comm, int server);
/* Of who drives, and has taken a server's place: the job goes on without those trainers whose deaths it saw as a standby, which cannot know that. */
void             tr_comm_tell_losses(const tr_comm *comm);
/* Of who drives: this rank, a standby, is that trainer from here on. False: a newer one has its place. */
bool             tr_comm_inherit(tr_comm *comm, int trainer, uint32_t epoch);
/* And with its role as a replica (tr_roster_set_replica). */
bool             tr_comm_replica_rank(tr_comm *comm, int server);
/* What all ranks are to end with if the job fails by this one's doing; and what this one is to end with. */
void             tr_comm_set_exit_code(tr_comm *comm, int code);
int              tr_comm_exit_code(const tr_comm *comm);
void             tr_comm_stats(const tr_comm *comm, tr_job_stats *stats);
/* The same by what the messages carry; both live as long as `comm`. */
void             tr_comm_traffic(const tr_comm *comm, const tr_traffic **sent, const tr_traffic **received);

#endif
