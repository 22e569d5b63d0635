/* test_sim.c - whole jobs under a seeded scheduler: what is promised holds for every seed. Here nobody dies, or all end for it;
 * test_sim_deaths.c and test_sim_replacements.c have the jobs that go on.
 *
 * Ten thousand runs in all: see tests/support/sim_seeds.h. */
#include "tests/support/sim_seeds.h"

#include <stdio.h>

TEST(parameters_are_bitwise_those_of_one_process_in_any_order)
{
    for (EACH_SEED(1200)) {
        const sim_options options = options_of(seed, "sync");
        sim_check_run(&options);
    }
}

TEST(lost_and_doubled_messages_change_nothing)
{
    for (EACH_SEED(400)) {
        sim_options options = options_of(seed, "sync", "async", "sync(degraded)", "sync(backups=1)");
        options.loss = 0.05;
        sim_check_run(&options);
    }
}

TEST(every_gradient_counts_once_in_any_mode)
{
    for (EACH_SEED(400)) {
        const sim_options options = options_of(seed, "async", "ssp(0)", "ssp(2)", "sync(degraded)", "sync(backups=1)",
                                               "sync(backups=2)");
        sim_check_run(&options);
    }
}

/* In these jobs the trainers are on one host without servers, or on two. */
TEST(trainers_of_a_host_send_one_gradient)
{
    enum { RUNS = 400 };
    uint64_t chunks = 0, rows = 0;

    for (EACH_SEED(RUNS)) {
        sim_options options = options_of(5 * seed + 2 + seed % 2, "sync");
        uint64_t    of_chunks, of_rows;
        options.trainers += options.trainers == 1;
        options.loss = seed % 4 ? 0 : 0.03;
        sim_job *job = sim_job_new(&options);
        sim_run_seed(job, options.seed);
        sim_job_check(job);
        sim_job_sums(job, &of_chunks, &of_rows);
        chunks += of_chunks > 0;
        rows += of_rows > 0;
        sim_job_free(job);
    }
    sim_expect_often("jobs with sums of chunks", chunks, RUNS, 30);
    sim_expect_often("jobs with sums of rows", rows, RUNS, 30);
}

/* In modes where updates come in any order what arrives is a whole number by these methods. */
TEST(compressed_gradients_are_those_of_one_process_that_compresses)
{
    static const char *const any[] = {"fp16", "bf16", "int8", "topk(0.01)", "topk(0.1)", "nonzero"};
    static const char *const whole[] = {"fp16", "bf16", "topk(0.01)", "topk(0.1)", "nonzero"};

    for (EACH_SEED(300)) {
        sim_options options = options_of(seed, "sync", "sync", "sync", "async", "ssp(1)", "sync(degraded)", "sync(backups=1)");
        options.compress = strcmp(options.mode, "sync") ? whole[seed % 5] : any[seed % 6];
        options.loss = seed % 3 ? 0 : 0.05;
        sim_check_run(&options);
    }
}

/* In other modes than sync the gradients do not depend on the parameters: there every block that was pulled is one update's, rounded. */
TEST(rounded_parameters_are_those_of_one_process_that_rounds)
{
    for (EACH_SEED(300)) {
        sim_options options = options_of(seed, "sync", "sync", "sync(degraded)", "async", "ssp(1)", "sync(backups=1)");
        options.rounds = true;
        options.compress = seed % 5 ? NULL : "bf16";
        options.loss = seed % 3 ? 0 : 0.05;
        sim_check_run(&options);
    }
}

TEST(jobs_of_sixty_four_ranks)
{
    static const char *const modes[] = {"sync", "async", "ssp(1)"};

    for (uint64_t seed = 1; seed <= 3; seed++) {
        const sim_options options = {.seed = seed, .servers = 16, .trainers = 46, .standbys = 2, .mode = modes[seed % 3],
                                     .steps = 3};
        sim_check_run(&options);
    }
}

/* Returns how many snapshots it has made. */
static uint64_t go_on_from_snapshots(uint64_t seed)
{
    uint64_t    snapshots = 0;
    sim_options options = options_of(seed, "sync", "sync(degraded)", "sync(backups=1)", "async", "ssp(0)", "ssp(2)", "geo(1)",
                                     "average(1)");

    options.snapshots = true;
    options.loss = seed % 4 ? 0 : 0.03;
    sim_job *job = sim_job_new(&options);
    assert_true(sim_goes_on(job, &options));
    sim_check_last_snapshot(job, &options);
    for (const sim_snapshot *one = sim_job_snapshots(job); one; one = one->next, snapshots++)
        sim_check_going_on(&options, one);
    sim_job_free(job);
    return snapshots;
}

TEST(a_job_goes_on_from_a_snapshot_at_any_step_on_any_number_of_servers)
{
    enum { RUNS = 100 };
    uint64_t snapshots = 0;

    for (EACH_SEED(RUNS))
        snapshots += go_on_from_snapshots(seed);
    sim_expect_often("snapshots", snapshots, RUNS, 25);
}

/* In these jobs a trainer asks again for rows, and its first question waits after a snapshot. */
TEST(rows_behind_a_snapshot_are_not_answered_before_it)
{
    static const uint64_t seeds[] = {94011892, 96005440};

    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++)
        assert_true(go_on_from_snapshots(seeds[i]));
}

TEST(a_killed_rank_that_nobody_replaces_ends_every_run_and_is_named)
{
    for (EACH_SEED(1200)) {
        const sim_options options = options_of(seed, "sync");
        sim_job          *job = sim_job_new(&options);
        tr_sim           *sim = sim_job_sim(job);
        const int         size = options.servers + options.trainers, victim = (int)tr_sim_random(sim, (uint64_t)size);
        int               failed = 0, named = 0;
        char              name[96];
        const char       *text;

        sim_job_kill(job, victim, SIM_STARTED + sim_moment(job, 60000));
        sim_run_seed(job, seed);
        snprintf(name, sizeof name, "rank %d (%s %d, host h, pid %d) died; rank ", victim,
                 victim < options.servers ? "server" : "trainer", victim < options.servers ? victim : victim - options.servers,
                 100 + victim);
        for (int i = 0; i < size; i++)
            if (sim_job_status(job, i, &text) != TR_OK) {
                failed++;
                named += strstr(text, name) != NULL;
            }
        if (failed && !named)
            fail_msg("seed %llu: nobody says \"%s\"", (unsigned long long)seed, name);
        sim_job_free(job);
    }
}

TEST(disagreement_is_refused_with_a_diff)
{
    const sim_options options = {.seed = 5, .servers = 2, .trainers = 2, .mode = "sync", .steps = 6};
    sim_job          *job = sim_job_new(&options);
    const char       *text;

    sim_job_set_fact(job, 1, "91");
    assert_true(sim_job_run(job));                 /* servers that refuse live until all have heard it */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sim_job_status(job, options.servers + i, &text), TR_EPEER);
        assert_non_null(strstr(text, "seed: \"90\" here, \"91\" there"));
        assert_non_null(strstr(text, "rank 3 (trainer 1, host h, pid 103)"));
    }
    sim_job_free(job);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_are_bitwise_those_of_one_process_in_any_order),
        cmocka_unit_test(lost_and_doubled_messages_change_nothing),
        cmocka_unit_test(every_gradient_counts_once_in_any_mode),
        cmocka_unit_test(trainers_of_a_host_send_one_gradient),
        cmocka_unit_test(compressed_gradients_are_those_of_one_process_that_compresses),
        cmocka_unit_test(rounded_parameters_are_those_of_one_process_that_rounds),
        cmocka_unit_test(jobs_of_sixty_four_ranks),
        cmocka_unit_test(a_job_goes_on_from_a_snapshot_at_any_step_on_any_number_of_servers),
        cmocka_unit_test(rows_behind_a_snapshot_are_not_answered_before_it),
        cmocka_unit_test(a_killed_rank_that_nobody_replaces_ends_every_run_and_is_named),
        cmocka_unit_test(disagreement_is_refused_with_a_diff),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
