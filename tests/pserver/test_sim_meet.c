/* test_sim_meet.c - simulated jobs whose trainers take part in collectives: all get the same results, whoever dies. */
#include "tests/support/sim_seeds.h"

TEST(trainers_meet_in_every_mode)
{
    for (EACH_SEED(300)) {
        sim_options options = options_of(seed, "sync", "async", "sync(degraded)", "ssp(1)", "geo(1)", "sync(backups=1)", "average(1)");
        options.meets = true;
        options.snapshots = seed % 3 == 0;
        options.loss = seed % 4 == 0 && !options.snapshots ? 0.05 : 0;
        sim_check_run(&options);
    }
}

/* The others' steps wait for a trainer that waits for the others: it makes steps without a gradient. */
TEST(trainers_of_different_numbers_of_steps_meet_at_the_end)
{
    for (EACH_SEED(600)) {
        sim_options options = options_of(seed, "sync", "async", "sync(degraded)", "ssp(1)", "geo(1)", "sync(backups=1)", "average(1)",
                                         "ssp(3)");
        options.ends_together = true;
        options.trainers += seed % 3 == 0;
        options.steps = 9;
        options.loss = seed % 4 == 0 ? 0.05 : 0;
        sim_check_run(&options);
    }
}

TEST(a_standby_that_serves_knows_what_was_posted)
{
    enum { RUNS = 130 };
    uint64_t went_on = 0;

    for (EACH_SEED(RUNS)) {
        sim_options options = options_of(seed, "sync", "async", "sync(degraded)", "ssp(1)", "geo(1)", "average(1)");
        options.meets = true;
        options.standbys = 1 + (int)(seed % 2);
        options.snapshots = seed % 3 == 0;
        sim_job *job = sim_job_new(&options);
        for (int i = 0; i < options.standbys; i++)
            sim_kill_a_server(job, &options);
        went_on += sim_goes_on(job, &options);
        sim_job_free(job);
    }
    sim_expect_often("jobs that went on", went_on, RUNS, 25);
}

/* A replacement asks for all results from the first one on. */
TEST(a_replacement_gets_what_the_dead_trainer_got)
{
    enum { RUNS = 130 };
    uint64_t replacements = 0;

    for (EACH_SEED(RUNS)) {
        sim_options options = options_of(seed, "sync", "async", "sync(degraded)", "ssp(1)", "geo(1)", "average(1)");
        options.meets = options.replacements = true;
        options.trainers++;
        options.steps = 8;
        options.standbys = 2;
        options.snapshots = seed % 3 == 0;
        sim_job *job = sim_job_new(&options);
        sim_kill_a_trainer(job, &options, 60000);
        sim_goes_on(job, &options);
        replacements += (uint64_t)sim_job_replacements(job);
        sim_job_free(job);
    }
    sim_expect_often("replacements", replacements, RUNS, 25);
}

TEST(a_dead_trainer_that_nobody_follows_keeps_nobody_waiting)
{
    for (EACH_SEED(200)) {
        sim_options options = options_of(seed, "async", "sync(degraded)", "ssp(3)", "sync(backups=1)");
        options.meets = true;
        options.trainers++;
        sim_job *job = sim_job_new(&options);
        sim_kill_a_trainer(job, &options, 60000);
        sim_goes_on(job, &options);
        sim_job_free(job);
    }
}

/* Counts in `starts` how often the job was started. */
static void run_storm(sim_options options, uint64_t *starts)
{
    const uint64_t seed = options.seed;

    options.meets = true;
    options.trainers++;
    options.standbys = (int)(seed / 72 % 3);
    options.replacements = seed % 2;
    options.replicas = seed % 5 < 3;
    options.loss = options.replacements || seed % 7 == 0 ? 0 : 0.04;
    sim_job *job = sim_storm(sim_job_new(&options), &options, starts);
    sim_job_check(job);
    sim_job_free(job);
}

TEST(deaths_losses_and_new_starts_change_no_result)
{
    enum { RUNS = 100 };
    uint64_t starts = 0;

    for (EACH_SEED(RUNS))
        run_storm(options_of(seed, "sync", "async", "sync(degraded)", "ssp(1)", "sync(backups=1)", "geo(1)", "average(1)"), &starts);
    sim_expect_often("starts", starts, RUNS, 110);
}

/* In this job of mode sync(degraded), which was started again, four trainers are a step ahead of the fifth and wait for it in a
 * collective. */
TEST(trainers_that_wait_in_a_collective_hold_up_no_trainer_behind_them)
{
    uint64_t starts = 0;

    run_storm(options_of(7701082, "sync(degraded)"), &starts);
}

/* In this job the last trainer dies while server 0 makes its last update, and the server's replica dies after its goodbye. */
TEST(a_replica_stays_until_its_server_has_left)
{
    uint64_t starts = 0;

    run_storm(options_of(91004477, "sync(backups=1)"), &starts);
}

TEST(all_hear_of_a_stop_in_time)
{
    for (EACH_SEED(400)) {
        sim_options options = options_of(seed, "sync", "sync(degraded)", "ssp(1)", "ssp(3)");
        options.stops = 1 + (int)(seed % 3);
        options.steps = 12;
        options.snapshots = seed % 3 == 0;
        options.loss = seed % 4 == 0 && !options.snapshots ? 0.05 : 0;
        sim_check_run(&options);
    }
}

TEST(a_stop_outlives_server_0_and_its_author)
{
    enum { RUNS = 200 };
    uint64_t went_on = 0, replacements = 0;

    for (EACH_SEED(RUNS)) {
        sim_options options = options_of(seed, "sync", "sync(degraded)", "ssp(1)");
        options.stops = 1 + (int)(seed % 3);
        options.steps = 12;
        options.trainers++;
        options.replacements = seed % 2;
        options.standbys = 2;
        sim_job *job = sim_job_new(&options);
        if (options.replacements)
            sim_kill_a_trainer(job, &options, 60000);
        else
            sim_kill_a_server(job, &options);
        went_on += sim_goes_on(job, &options);
        replacements += (uint64_t)sim_job_replacements(job);
        sim_job_free(job);
    }
    sim_expect_often("jobs that went on", went_on, RUNS, 25);
    sim_expect_often("replacements", replacements, RUNS / 2, 25);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trainers_meet_in_every_mode),
        cmocka_unit_test(trainers_of_different_numbers_of_steps_meet_at_the_end),
        cmocka_unit_test(a_standby_that_serves_knows_what_was_posted),
        cmocka_unit_test(a_replacement_gets_what_the_dead_trainer_got),
        cmocka_unit_test(a_dead_trainer_that_nobody_follows_keeps_nobody_waiting),
        cmocka_unit_test(deaths_losses_and_new_starts_change_no_result),
        cmocka_unit_test(trainers_that_wait_in_a_collective_hold_up_no_trainer_behind_them),
        cmocka_unit_test(a_replica_stays_until_its_server_has_left),
        cmocka_unit_test(all_hear_of_a_stop_in_time),
        cmocka_unit_test(a_stop_outlives_server_0_and_its_author),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
