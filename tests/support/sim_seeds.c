/* sim_seeds.c - simulated jobs, seed by seed. */
#include "tests/support/sim_seeds.h"

#include <stdio.h>

uint64_t sim_runs(uint64_t otherwise)
{
    const char *text = getenv("TRIREME_SIM_RUNS");
    return text ? strtoull(text, NULL, 10) : otherwise;
}

uint64_t sim_first_seed(void)
{
    const char *text = getenv("TRIREME_SIM_FIRST");
    return text ? strtoull(text, NULL, 10) : 1;
}

sim_options sim_options_by(uint64_t seed, const char *const *modes, uint64_t count)
{
    return (sim_options){.seed = seed, .servers = 1 + (int)(seed % 3), .trainers = 1 + (int)(seed / 3 % 4),
                         .mode = modes[seed / 12 % count], .steps = 6, .rounds = seed % 7 == 3,
                         .expects = seed % 5 == 2};
}

void sim_run_seed(sim_job *job, uint64_t seed)
{
    const int64_t most = 20000000000;

    if (!sim_job_run(job))
        fail_msg("seed %llu does not end", (unsigned long long)seed);
    if (tr_sim_now(sim_job_sim(job)) > most)
        fail_msg("seed %llu takes %.0f s", (unsigned long long)seed, (double)tr_sim_now(sim_job_sim(job)) / 1e9);
}

bool sim_goes_on(sim_job *job, const sim_options *options)
{
    sim_run_seed(job, options->seed);
    if (!sim_job_is_good(job))
        return false;
    sim_job_check(job);
    if (options->snapshots)
        sim_job_check_snapshots(job);
    return true;
}

void sim_check_run(const sim_options *options)
{
    sim_job    *job = sim_job_new(options);
    const char *text;

    sim_run_seed(job, options->seed);
    for (int i = 0; i < options->servers + options->trainers; i++)
        if (sim_job_status(job, i, &text) != TR_OK)
            fail_msg("seed %llu: rank %d: %s", (unsigned long long)options->seed, i, text);
    sim_job_check(job);
    sim_job_free(job);
}

void sim_check_waits(const sim_job *job, const sim_options *options, int64_t most)
{
    if (sim_job_longest_wait(job) > most)
        fail_msg("seed %llu: a trainer waits for %.3f ms", (unsigned long long)options->seed, (double)sim_job_longest_wait(job) / 1e6);
}

void sim_expect_often(const char *what, uint64_t count, uint64_t runs, uint64_t percent)
{
    const uint64_t made = sim_runs(runs);

    print_message("%llu %s in %llu runs\n", (unsigned long long)count, what, (unsigned long long)made);
    if (made >= 100 && count * 100 <= made * percent)
        fail_msg("%llu %s in %llu runs: expected more than %llu %%", (unsigned long long)count, what, (unsigned long long)made,
                 (unsigned long long)percent);
}

void sim_check_going_on(const sim_options *before, const sim_snapshot *from)
{
    sim_options options = *before;

    options.servers = 1 + (before->servers + (int)(before->seed / 2 % 2)) % 3;
    options.snapshots = false;
    options.from = from;
    options.restores = true;
    sim_check_run(&options);
}

void sim_check_last_snapshot(sim_job *job, const sim_options *options)
{
    const sim_snapshot *last = sim_job_snapshots(job);

    if (!last)
        fail_msg("seed %llu: there is no snapshot", (unsigned long long)options->seed);
    for (int i = 0; i < last->trainers; i++)
        if (last->left[i] && !tr_sim_is_dead(sim_job_sim(job), options->servers + i))
            fail_msg("seed %llu: the last snapshot lacks %d steps of trainer %d", (unsigned long long)options->seed, last->left[i], i);
}

/* At the start ranks find each other, and have no doorbells. One of four dies there. */
int64_t sim_moment(sim_job *job, uint64_t within)
{
    return (tr_sim_random(sim_job_sim(job), 4) ? SIM_STARTED : 1) + (int64_t)tr_sim_random(sim_job_sim(job), within);
}

void sim_kill_one_of(sim_job *job, int first, int count, uint64_t within)
{
    const int64_t after = sim_moment(job, within);
    sim_job_kill(job, first + (int)tr_sim_random(sim_job_sim(job), (uint64_t)count), after);
}

void sim_kill_a_server(sim_job *job, const sim_options *options)
{
    sim_kill_one_of(job, 0, options->servers, 60000);
}

void sim_kill_a_trainer(sim_job *job, const sim_options *options, uint64_t within)
{
    sim_kill_one_of(job, options->servers, options->trainers, within);
}

sim_job *sim_start_again(sim_job *job, int lost)
{
    sim_job *again = sim_job_again(job, lost);

    sim_job_free(job);
    return again;
}

/* Whose memory is lost with its host now that the job has failed; -1: nobody's. Only a server whose replica has all. */
static int draw_lost(sim_job *job, const sim_options *options)
{
    const int server = (int)tr_sim_random(sim_job_sim(job), (uint64_t)options->servers);
    return tr_sim_random(sim_job_sim(job), 2) && sim_job_has_replica(job, server) ? server : -1;
}

sim_job *sim_storm(sim_job *job, const sim_options *options, uint64_t *starts)
{
    enum { DEADLY = 2, TO_AGREE = 8000 };

    for (int start = 1;; start++) {
        ++*starts;
        if (start == DEADLY && options->seed % 3)
            sim_kill_one_of(job, 0, options->servers, TO_AGREE);
        for (int i = 0; start <= DEADLY && i < 1 + (int)(options->seed / 2 % 3); i++)
            sim_kill_one_of(job, 0, sim_job_size(job), options->loss > 0 ? 300000 : 100000);
        sim_run_seed(job, options->seed);
        if (sim_job_is_over(job))
            return job;
        if (start > DEADLY)
            fail_msg("seed %llu: the job fails although nobody dies", (unsigned long long)options->seed);
        job = sim_start_again(job, draw_lost(job, options));
    }
}
