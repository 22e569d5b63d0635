/* test_sim_time.c - how long a step of a simulated cluster takes, in virtual time, beside what it cannot beat: computing, and bytes that go
 * through a server's network. */
#include "tests/support/sim_seeds.h"

enum { SERVERS = 2, TRAINERS = 4, STEPS = 30 };
enum { MICROSECOND = 1000, MILLISECOND = 1000000 };

/* 1 Gbit/s. */
static const sim_cluster even = {
    .latency = 20 * MICROSECOND, .bandwidth = 0.125, .computing = 2 * MILLISECOND, .straggling = 2 * MILLISECOND};
static const sim_cluster uneven = {
    .latency = 20 * MICROSECOND, .bandwidth = 0.125, .computing = 2 * MILLISECOND, .straggling = 20 * MILLISECOND};

/* Milliseconds. */
static double step_time(const sim_cluster *cluster, const char *mode, const char *compress, int trainer)
{
    const sim_options options = {
        .seed = 3, .servers = SERVERS, .trainers = TRAINERS, .mode = mode, .steps = STEPS, .compress = compress, .cluster = cluster};
    sim_job          *job = sim_job_new(&options);

    sim_run_seed(job, options.seed);
    assert_true(sim_job_is_good(job));
    const double time = (double)sim_job_step_time(job, trainer) / MILLISECOND;
    sim_job_free(job);
    print_message("%-16s %-6s trainer %d: %7.3f ms a step\n", mode, compress ? compress : "", trainer, time);
    return time;
}

/* All gradients of a step go into a server's network, all parameters come out, one after the other. */
static double wire_time(const sim_cluster *cluster)
{
    const double bytes = (double)SIM_TOTAL * sizeof(float) * TRAINERS / SERVERS;
    return 2 * (bytes / cluster->bandwidth + (double)cluster->latency) / MILLISECOND;
}

static double computing(const sim_cluster *cluster) { return (double)cluster->computing / MILLISECOND; }

TEST(a_step_takes_what_computing_and_the_wire_take)
{
    const double floor = computing(&even) + wire_time(&even), time = step_time(&even, "sync", NULL, 0);

    print_message("floor of sync: %.3f ms\n", floor);
    assert_true(time >= 0.99 * floor && time < 1.2 * floor);
}

TEST(compression_takes_its_bytes_off_the_wire)
{
    const double plain = step_time(&even, "sync", NULL, 0), halves = step_time(&even, "sync", "bf16", 0);

    assert_true(plain - halves > 0.2 * wire_time(&even) && halves > computing(&even) + wire_time(&even) / 2);
}

TEST(an_exchange_costs_what_a_step_of_sync_costs)
{
    const double one = step_time(&even, "average(1)", NULL, 0), sync = step_time(&even, "sync", NULL, 0);

    assert_true(one > 0.95 * sync && one < 1.05 * sync);
}

TEST(a_straggler_holds_up_only_trainers_that_wait_for_it)
{
    const double slow = (double)uneven.straggling / MILLISECOND, alone = step_time(&uneven, "async", NULL, 0);

    assert_true(step_time(&uneven, "sync", NULL, 0) >= slow);
    assert_true(alone < slow / 3 && alone >= computing(&uneven));
    assert_true(step_time(&uneven, "sync(backups=1)", NULL, 0) < slow / 3);
    assert_true(step_time(&uneven, "ssp(2)", NULL, 0) > slow * (STEPS - 4) / STEPS);
    assert_true(step_time(&uneven, "async", NULL, TRAINERS - 1) >= slow);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_takes_what_computing_and_the_wire_take),
        cmocka_unit_test(compression_takes_its_bytes_off_the_wire),
        cmocka_unit_test(an_exchange_costs_what_a_step_of_sync_costs),
        cmocka_unit_test(a_straggler_holds_up_only_trainers_that_wait_for_it),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
