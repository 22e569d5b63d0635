/* sim_job.h - a whole job in the simulator (tests/support/simulator.h): servers, trainers and standbys whose programs
 * are a few lines of C, so that what they compute is known. Their event loops are the real ones.
 *
 * In mode sync a gradient depends on the trainer, the step and the parameters that were pulled, and the update has momentum: one
 * gradient lost, taken twice or summed in another order changes the last bits of all that follows. In the other modes
 * everything is a whole number, so that the parameters say which gradients are in them, in whatever order they came.
 *
 * The memory of a server outlives its rank, as in a real job: two sides, and a commit that says which counts. */
#pragma once

#include "pserver/core/carrier/carrier.h"
#include "pserver/core/client/client.h"
#include "pserver/core/client/standby.h"
#include "pserver/core/replica/replica.h"
#include "pserver/core/server/server.h"
#include "tests/support/simulator.h"

enum { SIM_PARAMS = 4, SIM_TOTAL = 3 + 700 + 4500 + 11000, SIM_CHUNK = 4096, SIM_KEYS = 40, SIM_WIDTH = 3, SIM_SERVERS = 16,
       SIM_PASSES = 2, SIM_TASKS = 9, SIM_TASK_BATCHES = 3, SIM_BATCHES = SIM_PASSES * SIM_TASKS * SIM_TASK_BATCHES };

/* What a snapshot has kept: the state of an update, and where the trainers were. */
typedef struct sim_snapshot {
    struct sim_snapshot *next;
    uint64_t updates;
    int      trainers;
    int      initiator;                   /* trainer that has begun it */
    int     *step, *left;             /* of each trainer: after it, and to come */
    float    param[SIM_TOTAL], momentum[SIM_TOTAL];
    uint8_t *tasks;                   /* the state of leased tasks, or NULL */
    size_t   tasks_size;
    int      count[SIM_SERVERS][SIM_BATCHES];      /* how often each batch of them is in each server */
} sim_snapshot;

/* What a step's time is made of. Times in nanoseconds. */
typedef struct sim_cluster {
    int64_t latency;                  /* of a message to another host */
    double  bandwidth;                /* bytes a nanosecond that leave a host, and that reach it */
    int64_t computing;                /* from the parameters to the gradients */
    int64_t straggling;               /* the same of the last trainer */
} sim_cluster;

typedef struct sim_options {
    uint64_t    seed;
    int         servers, trainers, standbys;
    const char *mode;
    double      loss;                 /* of messages, and of doubling them */
    int         steps;                /* a trainer makes 1 to so many */
    const char *compress;             /* NULL: gradients travel as they are */
    bool        expects;              /* servers hear before each pull of rows which ones come */
    bool        rounds;               /* parameters and rows come back in bfloat16 */
    bool        snapshots;                 /* now and then, and a last one */
    const sim_snapshot *from;         /* a job of other numbers of servers goes on from here; NULL: it begins anew */
    bool        restores;             /* trainers let servers read a checkpoint before the setup; there are two, and the newer one is damaged on the last
                                       * server */
    bool        replicas;             /* of each server, on another host */
    bool        standbys_there;         /* on that one, every other standby */
    bool        replacements;                /* standbys take the places of trainers, too */
    int64_t     disk;                 /* nanoseconds that it takes at most to write a part; 0: 20000 */
    int64_t     replacements_late;           /* nanoseconds from each of these on: a standby is called, it has joined, until it goes on */
    bool        meets;                /* trainers take part in a collective after each step */
    bool        ends_together;        /* trainers, which make different numbers of steps, take part in one collective after their last step */
    int         stops;                /* after this step a trainer asks all to end; the others are to hear of it in time. 0: none does */
    bool        unreported;           /* MPI says of no death: processes are seen to end, or are silent */
    /* Trainers do what sim_job_ask says, and nothing else after their setup. There is one small parameter, or so many as `parameters`
     * says, and a table with `has_rows`. Every delay is the same. With `is_elsewhere` trainers are on another host than servers, and
     * standbys with them; with `is_large` the parameter travels by itself. */
    bool        is_scripted, has_rows, is_elsewhere, is_large;
    int         parameters;
    struct sim_watch *watch;          /* who hears what happens; or NULL */
    const sim_cluster *cluster;       /* each rank has a host of its own, all trainers make `steps` steps, and nothing is drawn; or NULL */
    int         tasks;                /* leased, in each of SIM_PASSES passes; steps are of their batches. 0: none */
} sim_options;

/* Who hears what happens, line by line. A message is heard when its receiver's core gets it, and when it is lost. Without `line` lines are
 * not heard, without `lose` no message is lost. */
typedef struct sim_watch {
    void *payload;
    void (*message)(void *payload, int64_t now, int from, int to, const tr_wire *wire, bool is_lost);
    void (*line)(void *payload, int64_t now, int rank, const char *text);
    /* Is this message to be lost? */
    bool (*lose)(void *payload, int from, int to, const tr_wire *wire);
} sim_watch;

typedef struct sim_job sim_job;

sim_job *sim_job_new(const sim_options *options);
void     sim_job_free(sim_job *job);
tr_sim  *sim_job_sim(sim_job *job);

/* What trainer `who` says that it means; all the same by default. Before sim_job_run. */
void sim_job_set_fact(sim_job *job, int who, const char *fact);
/* The job that has failed, started again where server `lost` and its memory are gone: it takes the states of `old`, which it
 * empties; that of the lost one is its replica's. -1: none is lost. */
sim_job *sim_job_again(sim_job *old, int lost);

/* Would nothing be lost with this server's host: does its replica live, and count? */
bool     sim_job_has_replica(const sim_job *job, int server);

/* Of the ranks of all roles. */
int  sim_job_size(const sim_job *job);
/* How many sums carriers have sent in the place of pushes: of chunks, and of rows. Carriers that have died are not counted. */
void     sim_job_sums(const sim_job *job, uint64_t *chunks, uint64_t *rows);
/* How many answers for all trainers of a host carriers expect. */
uint64_t sim_job_awaited_answers(const sim_job *job);
/* How many trainers were replaced by replacements. */
int sim_job_replacements(const sim_job *job);
/* How often a rank that waited has become a replica that counts, in all starts of the job. */
int sim_job_called(const sim_job *job);
/* Would nobody start it again: no rank has failed, and no death is left that nobody who lives has missed? */
bool sim_job_is_over(const sim_job *job);
/* In a cluster: nanoseconds of virtual time from a trainer's first step to its last one, for each step. */
int64_t sim_job_step_time(const sim_job *job, int trainer);
/* Nanoseconds that a trainer's process which nobody followed waited longest, from when it had ended a step until it could begin the next. */
int64_t sim_job_longest_wait(const sim_job *job);
/* Kill a rank at a time; servers come first, then trainers, standbys, and replicas. */
void sim_job_kill(sim_job *job, int rank, int64_t after);
/* Stop a rank's process at a time, for so long. */
void sim_job_stop(sim_job *job, int rank, int64_t after, int64_t duration);
/* Kill a rank between its goodbyes: so many are heard, by `first` and the ranks after it. */
void sim_job_kill_leaving(sim_job *job, int rank, int first, int goodbyes);
/* What a trainer is to do next: one of sim_script.c's words. False: there is no such word. */
bool sim_job_ask(sim_job *job, int trainer, const char *word);
/* Let time pass. Returns whether all processes have ended. */
bool sim_job_pass(sim_job *job, int64_t nanoseconds);

/* Run until all processes have ended. False: somebody waits for ever; what for is printed. */
bool sim_job_run(sim_job *job);
/* TR_OK, or the failure that a rank knows of, or knew of when it died, with its text. */
tr_status sim_job_status(const sim_job *job, int rank, const char **text);
/* How many ranks have printed why the job has failed. */
int sim_job_speakers(const sim_job *job);
/* Has no rank failed? */
bool sim_job_is_good(const sim_job *job);
/* Fails the test where a trainer's parameters are not bit by bit those of a sequential run (mode sync, nobody dead), or
 * the servers' not the sum of just what was settled (other modes). */
void sim_job_check(const sim_job *job);
/* Fails the test where a batch of leased tasks is not in every server, or twice without a trainer that has died. */
void sim_job_check_tasks(const sim_job *job);
/* All whole snapshots, the newest first; the job's. */
const sim_snapshot *sim_job_snapshots(const sim_job *job);
/* Fails the test where one is not, bit by bit, the state of its update (kinds of sync), or the sum of just the steps that its
 * trainers had made (other modes). */
void sim_job_check_snapshots(const sim_job *job);
