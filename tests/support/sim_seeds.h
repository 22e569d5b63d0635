/* sim_seeds.h - what is promised of simulated jobs holds for every seed.
 *
 * TRIREME_SIM_RUNS changes how many seeds each test takes, TRIREME_SIM_FIRST the first of them; one that fails is named, and fails again. With
 * TRIREME_SIM_TRACE every message is printed. An argument of the programs is the pattern of the tests to run. Each function here fails the test where what it says is not so. */
#pragma once

#include "tests/support/expect.h"
#include "tests/support/sim_job.h"

/* How many seeds a test takes, if not otherwise said, and the first of them. */
uint64_t    sim_runs(uint64_t otherwise);
uint64_t    sim_first_seed(void);
#define EACH_SEED(otherwise) uint64_t seed = sim_first_seed(), end = seed + sim_runs(otherwise); seed < end; seed++

/* What a seed says if a test does not: numbers of servers and trainers, and one of these modes in turn. */
sim_options sim_options_by(uint64_t seed, const char *const *modes, uint64_t count);
#define options_of(seed_, ...)                                  \
    sim_options_by(seed_, (const char *const[]){__VA_ARGS__},   \
                   sizeof (const char *const[]){__VA_ARGS__} / sizeof(const char *))

/* -- how a job goes ------------------------------------------------------------------------------------- */

/* It ends, and nobody stands still for long: what takes a second here took seconds of words that were lost, or a patience that ran out. */
void        sim_run_seed(sim_job *job, uint64_t seed);
/* Is nothing lost by the deaths that were planned? Then all that the job has made is right, its snapshots too. */
bool        sim_goes_on(sim_job *job, const sim_options *options);
/* Nobody dies, so nobody fails. */
void        sim_check_run(const sim_options *options);
/* A job that goes on from a snapshot, on another number of servers. */
void        sim_check_going_on(const sim_options *before, const sim_snapshot *from);
/* The newest snapshot has all that the living have made, whoever's data ended first. */
void        sim_check_last_snapshot(sim_job *job, const sim_options *options);
/* No trainer's process that nobody followed waited longer, in nanoseconds. */
void        sim_check_waits(const sim_job *job, const sim_options *options, int64_t most);
/* A test whose events do not come is no test; a few seeds may have none. `runs` are those that it makes if not otherwise said. */
void        sim_expect_often(const char *what, uint64_t count, uint64_t runs, uint64_t percent);

/* -- deaths --------------------------------------------------------------------------------------------- */

/* By then all ranks know each other. */
enum { SIM_STARTED = 60000 };
/* A moment of the next `within` nanoseconds, or mostly of so many after the start. */
int64_t     sim_moment(sim_job *job, uint64_t within);
/* One of `count` ranks from `first` on, within so many nanoseconds. */
void        sim_kill_one_of(sim_job *job, int first, int count, uint64_t within);
void        sim_kill_a_server(sim_job *job, const sim_options *options);
void        sim_kill_a_trainer(sim_job *job, const sim_options *options, uint64_t within);
/* The job that has failed begins again, without the memory of server `lost`; -1: with all. */
sim_job    *sim_start_again(sim_job *job, int lost);
/* Ranks of any role die at any moment, and messages are lost and doubled, those of the dead and of who takes their places among
 * them. When that is too much the job is started again, on the hosts that are left, and a server may die before all have agreed again; at
 * last nobody dies any more. Returns the last start, and counts all. */
sim_job    *sim_storm(sim_job *job, const sim_options *options, uint64_t *starts);
