/* simulator.h - runs all ranks of a job in one thread, over their real event loops, in virtual time and under a seed.
 *
 * Each rank has the two threads of a real one: the communication thread and an owner. The owner's program is a function that says what
 * the owner does next. Both threads run in turns (comm_state.h). The simulator chooses the next turn, and gives each rank a machine
 * (machine.h) and a transport (transport.h) of its own. So commands, loans, naps, doorbells, early messages, signs of life, goodbyes and
 * failures are those of a real job. A run is a function of its seed: a run that fails fails again.
 *
 * As under MPI, messages of one pair stay in order. Between ranks of one host a message arrives when it is sent, as in shared memory,
 * and a rank reads it in its next turn. Between hosts a message takes time. A small message is copied when it is sent. A large payload
 * stays in its sender's memory until its reader has said where it goes. So the simulator detects code that changes the memory too early.
 *
 * On demand messages are lost or come twice. Messages of the event loops themselves are not, because no core repeats them. Ranks are
 * killed, or stopped for a while. MPI reports a death, or the end of the process shows it, or silence.
 *
 * With `delay`, `bandwidth` and programs that take time, virtual time is that of a cluster: a step has a duration. */
#pragma once

#include "pserver/transport/comm.h"

/* Times in nanoseconds. */
typedef struct tr_sim_options {
    uint64_t seed;
    int64_t  delay;                   /* a message to another host takes 1 to `delay`; with `is_steady` exactly `delay` */
    bool     is_steady;               /* no random times: a delay is `delay`, a turn takes `turn` */
    int64_t  turn;                    /* the longest time of a loop's turn; 0: turns take no time */
    double   bandwidth;               /* bytes a nanosecond that leave a rank for other hosts, and that arrive at a rank; 0: no limit */
    int      depth;                   /* messages under way between two ranks, at most: then the sender waits; 0: 32 */
    double   drop, duplicate;         /* probabilities */
    int64_t  notice;                  /* MPI reports a death within this time; -1: never */
    int64_t  heartbeat, timeout;      /* period and time-out of signs of life; 0: 500 ms and 3 s */
    /* Called for each message when a rank sends it, and when a core receives it; or NULL. */
    void   (*watch)(void *payload, int64_t now, int rank, bool is_sent, int peer, const tr_wire *wire);
    /* Called when a rank tells the launcher something (launcher.h), or prints on standard error ("says"); or NULL. */
    void   (*hear)(void *payload, int64_t now, int rank, const char *what, int about, const char *text);
    /* Called for each message that a rank sends: should it be lost? NULL: only chance decides. */
    bool   (*lose)(void *payload, int rank, int peer, const tr_wire *wire);
    void    *payload;
} tr_sim_options;

/* The next action of an owner. */
typedef enum tr_sim_plan_kind {
    TR_SIM_WAIT,                      /* wait until operation `until` of the core is done; the owner drives meanwhile */
    TR_SIM_WORK,                      /* compute, or sleep, for `until` nanoseconds */
    TR_SIM_IDLE,                      /* sleep until tr_sim_wake */
    TR_SIM_LEAVE                      /* say goodbye, and end when all ranks have */
} tr_sim_plan_kind;

typedef struct tr_sim_plan {
    tr_sim_plan_kind kind;
    uint64_t         until;
} tr_sim_plan;

typedef struct tr_sim_program {
    tr_comm_core core;
    tr_role      role;
    uint32_t     incarnation;
    bool         can_replace;
    const char  *host;                /* must live as long as the simulator */
    /* Called when the owner's last action is over. Not called when the job has failed for this rank: then the owner leaves. */
    tr_sim_plan (*go_on)(void *self);
} tr_sim_program;

typedef struct tr_sim tr_sim;

tr_sim  *tr_sim_new(int size, const tr_sim_options *options);
void     tr_sim_free(tr_sim *sim);
/* Add all ranks before the first run. `self` of the program and of the core is the core's. */
void     tr_sim_attach(tr_sim *sim, int rank, const tr_sim_program *program);
tr_comm *tr_sim_comm(tr_sim *sim, int rank);
/* Wake an owner that sleeps (TR_SIM_IDLE). */
void     tr_sim_wake(tr_sim *sim, int rank);
/* After this time the rank's owner hands over a command that calls this function in the loop's turn, unless the rank has ended by then. */
void     tr_sim_call(tr_sim *sim, int rank, int64_t after, void (*call)(void *payload), void *payload);
/* Kill the rank at this time. */
void     tr_sim_kill(tr_sim *sim, int rank, int64_t after);
/* Stop the rank at this time, for so long. */
void     tr_sim_stop(tr_sim *sim, int rank, int64_t after, int64_t duration);
/* Called in a turn of the rank: what the turn does for the core takes so long. `is_stuck`: and makes no progress, as in a deadlock. */
void     tr_sim_busy(tr_sim *sim, int rank, int64_t duration, bool is_stuck);
/* Was the rank killed, or did it end itself, perhaps after a failure? */
bool     tr_sim_is_dead(const tr_sim *sim, int rank);
/* Has the rank's process ended in any way? */
bool     tr_sim_has_ended(const tr_sim *sim, int rank);
/* TR_OK, or the status with which the job has failed for this rank. *text is valid until the simulator is freed. */
tr_status tr_sim_status(const tr_sim *sim, int rank, const char **text);
int64_t  tr_sim_now(const tr_sim *sim);
/* Draw a number from the run's own random stream: 0 <= n < limit. */
uint64_t tr_sim_random(tr_sim *sim, uint64_t limit);
/* Run until all processes have ended (returns true), or until the clock shows `until` (false). May be called again. */
bool     tr_sim_run(tr_sim *sim, int64_t until);
