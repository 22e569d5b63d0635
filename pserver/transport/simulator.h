/* simulator.h - all ranks of a job in one thread, over their real event loops, in virtual time and under a seed.
 *
 * Each rank has the two threads of a real one: the communication thread, and an owner, whose program is a function that says what it
 * does next. Both run in turns (comm_state.h). The simulator chooses whose turn is next, and gives each rank a machine (machine.h) and
 * a transport (transport.h) of its own. So the loops' commands, loans, naps, doorbells, early messages, signs of life, goodbyes and failures are
 * those of a real job. A run is a function of its seed: one that fails fails again.
 *
 * As under MPI, messages of one pair stay in order. Between ranks of one host a message is there when it is sent, as in shared memory, and a rank is
 * as late as its turns are; between hosts it takes its time. A small one is copied when it is sent. The payload of a large one is read where it lies
 * when its reader has said where it goes, so whoever changes it too early is found out. On demand messages are lost or come twice; but
 * not those of the loops themselves, which nothing repeats. Ranks are killed, or stopped for a while. A death is reported by MPI, or seen by the
 * process's end, or by silence.
 *
 * With `delay`, `bandwidth` and plans that take time, virtual time is that of a cluster: a step has a duration. */
#ifndef TR_PSERVER_SIMULATOR_H
#define TR_PSERVER_SIMULATOR_H

#include "pserver/transport/comm.h"

/* Times in nanoseconds. */
typedef struct tr_sim_options {
    uint64_t seed;
    int64_t  delay;                   /* a message to another host takes 1 to so long; with `is_steady` just so long */
    bool     is_steady;               /* nothing is drawn: a delay is `delay`, a turn takes `turn` */
    int64_t  turn;                    /* a turn of a loop takes at most so long; 0: no time */
    double   bandwidth;               /* bytes a nanosecond that leave a rank for other hosts, and that reach it; 0: any number */
    int      depth;                   /* messages under way between two ranks until the sender has to wait; 0: 32 */
    double   drop, duplicate;         /* probabilities */
    int64_t  notice;                  /* MPI reports a death within so long; -1: not at all */
    int64_t  heartbeat, timeout;      /* of signs of life; 0: 500 ms and 3 s */
    /* Called for each message when a rank sends it, and when its core gets it; or NULL. */
    void   (*watch)(void *payload, int64_t now, int rank, bool is_sent, int peer, const tr_wire *wire);
    /* Called for what a rank tells the launcher (launcher.h), or says on standard error ("says"); or NULL. */
    void   (*hear)(void *payload, int64_t now, int rank, const char *what, int about, const char *text);
    /* Called for each message that a rank sends: is it lost? NULL: none is, but by chance. */
    bool   (*lose)(void *payload, int rank, int peer, const tr_wire *wire);
    void    *payload;
} tr_sim_options;

/* What an owner does next. */
typedef enum tr_sim_plan_kind {
    TR_SIM_WAIT,                      /* until operation `until` of the core is done: it drives meanwhile */
    TR_SIM_WORK,                      /* for `until` nanoseconds: it computes, or sleeps */
    TR_SIM_IDLE,                      /* until tr_sim_wake */
    TR_SIM_LEAVE                      /* say goodbye, and end when all have */
} tr_sim_plan_kind;

typedef struct tr_sim_plan {
    tr_sim_plan_kind kind;
    uint64_t         until;
} tr_sim_plan;

typedef struct tr_sim_program {
    tr_comm_core core;
    tr_role      role;
    uint32_t     epoch;
    bool         can_inherit;
    const char  *host;                /* lives as long as the simulator */
    /* The owner is here again; not called when the job has failed for this rank: then it leaves. */
    tr_sim_plan (*go_on)(void *self);
} tr_sim_program;

typedef struct tr_sim tr_sim;

tr_sim  *tr_sim_new(int size, const tr_sim_options *options);
void     tr_sim_free(tr_sim *sim);
/* All ranks, before the first run. `self` of program and core is the core's. */
void     tr_sim_attach(tr_sim *sim, int rank, const tr_sim_program *program);
tr_comm *tr_sim_comm(tr_sim *sim, int rank);
/* An owner that is idle goes on. */
void     tr_sim_wake(tr_sim *sim, int rank);
/* So long from now that rank's owner hands over a command that calls this in the loop's turn; unless the rank has ended by then. */
void     tr_sim_call(tr_sim *sim, int rank, int64_t after, void (*call)(void *payload), void *payload);
/* The rank is killed then. */
void     tr_sim_kill(tr_sim *sim, int rank, int64_t after);
/* The rank is stopped then, for so long. */
void     tr_sim_stop(tr_sim *sim, int rank, int64_t after, int64_t duration);
/* Was it killed, or did it end itself, or behind a failure? */
bool     tr_sim_is_dead(const tr_sim *sim, int rank);
/* Has its process ended, in whatever way? */
bool     tr_sim_has_ended(const tr_sim *sim, int rank);
/* TR_OK, or why the job has failed for this rank; valid until the simulator is freed. */
tr_status tr_sim_status(const tr_sim *sim, int rank, const char **text);
int64_t  tr_sim_now(const tr_sim *sim);
/* A number from the run's own stream, 0 <= n < limit. */
uint64_t tr_sim_random(tr_sim *sim, uint64_t limit);
/* Let time pass until all processes have ended: true; or until the clock says `until`: false. May be called again. */
bool     tr_sim_run(tr_sim *sim, int64_t until);

#endif
