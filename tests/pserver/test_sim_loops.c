/* test_sim_loops.c - simulated jobs whose event loops have a hard time: processes that are stopped, deaths of which MPI says nothing,
 * deaths before all ranks know each other, and how a job fails. */
#include "tests/support/sim_seeds.h"

enum { MICROSECOND = 1000, MILLISECOND = 1000000 };

static const char *const modes[] = {"sync", "async", "sync(degraded)", "ssp(1)", "geo(1)", "sync(backups=1)", "average(1)"};
enum { MODES = sizeof modes / sizeof *modes };

static void stop_one(sim_job *job, int64_t most)
{
    const int64_t after = sim_moment(job, 100 * MICROSECOND), duration = 1 + (int64_t)tr_sim_random(sim_job_sim(job), (uint64_t)most);
    sim_job_stop(job, (int)tr_sim_random(sim_job_sim(job), (uint64_t)sim_job_size(job)), after, duration);
}

TEST(a_rank_that_is_stopped_for_a_while_changes_nothing)
{
    for (EACH_SEED(300)) {
        sim_options options = sim_options_by(seed, modes, MODES);
        const char *text;
        options.standbys = options.replacements = seed % 2;
        options.replicas = seed % 5 == 0;
        options.snapshots = seed % 3 == 0;
        sim_job *job = sim_job_new(&options);
        for (int i = 0; i < 3; i++)
            stop_one(job, seed % 4 ? 200 * MICROSECOND : 2000 * (int64_t)MILLISECOND);
        sim_run_seed(job, seed);
        for (int i = 0; i < sim_job_size(job); i++)
            if (sim_job_status(job, i, &text) != TR_OK)
                fail_msg("seed %llu: rank %d: %s", (unsigned long long)seed, i, text);
        sim_job_check(job);
        sim_job_free(job);
    }
}

/* It is dead to the others then, and a standby has its place. When it wakes it ends, and changes nothing. */
TEST(stopped_rank_is_declared_dead_after_the_limit)
{
    enum { RUNS = 300 };
    uint64_t went_on = 0, ended = 0;

    for (EACH_SEED(RUNS)) {
        sim_options options = sim_options_by(seed, modes, MODES);
        options.standbys = 2;
        options.replacements = true;
        options.trainers++;
        options.steps = 12;
        sim_job      *job = sim_job_new(&options);
        const int     rank = (int)tr_sim_random(sim_job_sim(job), (uint64_t)(options.servers + options.trainers));
        const int64_t after = SIM_STARTED + (int64_t)tr_sim_random(sim_job_sim(job), 100 * MICROSECOND);
        sim_job_stop(job, rank, after, (3200 + (int64_t)tr_sim_random(sim_job_sim(job), 3000)) * MILLISECOND);
        went_on += sim_goes_on(job, &options);
        ended += tr_sim_is_dead(sim_job_sim(job), rank);
        sim_job_free(job);
    }
    sim_expect_often("jobs that went on", went_on, RUNS, 50);
    sim_expect_often("ranks that were dead", ended, RUNS, 25);
}

/* Its process is seen to end, on the same host; on another one it is silent. */
TEST(deaths_of_which_mpi_says_nothing_are_seen)
{
    enum { RUNS = 300 };
    uint64_t went_on = 0, replacements = 0;

    for (EACH_SEED(RUNS)) {
        sim_options options = sim_options_by(seed, modes, MODES);
        options.standbys = 2;
        options.replacements = options.unreported = true;
        options.replicas = seed % 3 == 0;
        options.steps = 12;
        options.trainers++;
        sim_job *job = sim_job_new(&options);
        sim_kill_one_of(job, 0, options.servers + options.trainers, 100 * MICROSECOND);
        sim_kill_one_of(job, 0, sim_job_size(job), 100 * MICROSECOND);
        went_on += sim_goes_on(job, &options);
        replacements += (uint64_t)sim_job_replacements(job);
        sim_job_free(job);
    }
    sim_expect_often("jobs that went on", went_on, RUNS, 25);
    sim_expect_often("replacements", replacements, RUNS, 25);
}

/* Whether ranks know each other or not: all that live end, with one text, and one of them prints it. Returns whether the job has failed. */
static bool fails_once(uint64_t seed)
{
    sim_options options = options_of(seed, "sync");
    const char *text;
    int         told = 0;

    options.unreported = seed % 3 == 0;
    options.standbys = seed % 4 == 0;
    sim_job  *job = sim_job_new(&options);
    const int victim = (int)tr_sim_random(sim_job_sim(job), (uint64_t)(options.servers + options.trainers));
    sim_job_kill(job, victim, 1 + (int64_t)tr_sim_random(sim_job_sim(job), (uint64_t)(seed % 2 ? 3 : 150) * MICROSECOND));
    sim_run_seed(job, seed);
    for (int i = 0; i < sim_job_size(job); i++) {
        const bool is_well = sim_job_status(job, i, &text) == TR_OK;
        told += i != victim && !is_well;
        if (i != victim && !is_well && !strstr(text, "rank"))
            fail_msg("seed %llu: rank %d fails without a name: %s", (unsigned long long)seed, i, text);
    }
    if (sim_job_speakers(job) != (told > 0))
        fail_msg("seed %llu: %d ranks know of the failure, and %d have printed it", (unsigned long long)seed, told, sim_job_speakers(job));
    sim_job_free(job);
    return told > 0;
}

TEST(a_job_that_fails_says_so_once)
{
    enum { RUNS = 400 };
    uint64_t failed = 0;

    for (EACH_SEED(RUNS))
        failed += fails_once(seed);
    sim_expect_often("jobs that failed", failed, RUNS, 40);
}

/* In these jobs a server dies when only some ranks know the roles. */
TEST(ranks_that_know_the_roles_and_ranks_that_do_not_print_once)
{
    static const uint64_t seeds[] = {94010027, 94013647, 96004247};

    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++)
        assert_true(fails_once(seeds[i]));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_is_stopped_for_a_while_changes_nothing),
        cmocka_unit_test(stopped_rank_is_declared_dead_after_the_limit),
        cmocka_unit_test(deaths_of_which_mpi_says_nothing_are_seen),
        cmocka_unit_test(a_job_that_fails_says_so_once),
        cmocka_unit_test(ranks_that_know_the_roles_and_ranks_that_do_not_print_once),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
