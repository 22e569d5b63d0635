/* test_sim_deaths.c - simulated jobs whose ranks die: standbys take the places of servers, replicas follow them, jobs are started again. */
#include "tests/support/sim_seeds.h"

/* Of those who die at the start, before all had agreed, nothing is left to go on from: then the job has failed. */
TEST(a_standby_takes_the_place_of_a_dead_server_and_nothing_is_lost)
{
    enum { RUNS = 600 };
    uint64_t went_on = 0;

    for (EACH_SEED(RUNS)) {
        sim_options options = options_of(seed, "sync", "async", "sync(degraded)", "ssp(1)", "sync", "sync(backups=1)");
        options.standbys = 1 + (int)(seed % 2);
        options.compress = seed % 5 ? NULL : seed % 2 ? "topk(0.05)" : "fp16";
        sim_job *job = sim_job_new(&options);
        for (int i = 0; i < options.standbys; i++)
            sim_kill_a_server(job, &options);
        went_on += sim_goes_on(job, &options);
        sim_job_free(job);
    }
    sim_expect_often("jobs that went on", went_on, RUNS, 25);
}

/* One of these ranks dies when it has said goodbye to some of the others. */
static void kill_leaving(sim_job *job, int first, int count)
{
    const uint64_t size = (uint64_t)sim_job_size(job);
    const int      rank = first + (int)tr_sim_random(sim_job_sim(job), (uint64_t)count);

    sim_job_kill_leaving(job, rank, (int)tr_sim_random(sim_job_sim(job), size), (int)tr_sim_random(sim_job_sim(job), size - 1));
}

/* Who dies so has left for some, and died for others: those that wait see it differently. All work is done. */
TEST(trainer_that_dies_between_its_goodbyes_keeps_nobody_waiting)
{
    for (EACH_SEED(1000)) {
        sim_options options = options_of(seed, "sync", "async", "sync(degraded)", "ssp(1)", "geo(1)", "sync(backups=1)", "average(1)");
        const char *text;
        options.standbys = (int)(seed / 2 % 4);
        options.replacements = seed / 3 % 3;
        options.replicas = seed % 4 == 0;
        options.snapshots = seed % 5 == 0;
        sim_job *job = sim_job_new(&options);
        kill_leaving(job, 0, options.servers);
        kill_leaving(job, options.servers, options.trainers);
        kill_leaving(job, options.servers, options.trainers);
        sim_run_seed(job, seed);
        for (int i = 0; i < sim_job_size(job); i++)
            if (sim_job_status(job, i, &text) != TR_OK)
                fail_msg("seed %llu: rank %d: %s", (unsigned long long)seed, i, text);
        sim_job_check(job);
        sim_job_free(job);
    }
}

/* A host is lost with a server's memory: the job is started again, and goes on from the replica. */
TEST(a_replica_has_all_that_was_acknowledged)
{
    enum { RUNS = 240 };
    uint64_t began_again = 0;

    for (EACH_SEED(RUNS)) {
        sim_options options = options_of(seed, "sync", "async", "sync(degraded)", "ssp(1)", "geo(1)", "sync(backups=1)", "average(1)");
        options.replicas = true;
        options.loss = seed % 4 == 0 ? 0.05 : 0;
        sim_job  *job = sim_job_new(&options);
        const int lost = (int)tr_sim_random(sim_job_sim(job), (uint64_t)options.servers);
        if (seed % 5)
            sim_job_kill(job, lost, sim_moment(job, 120000));
        else                                       /* a replica, which nobody misses */
            sim_job_kill(job, sim_job_size(job) - 1 - lost, sim_moment(job, 60000));
        if (!sim_goes_on(job, &options)) {
            job = sim_start_again(job, lost);
            began_again++;
            if (!sim_goes_on(job, &options))
                fail_msg("seed %llu: the job fails again", (unsigned long long)seed);
        }
        sim_job_free(job);
    }
    sim_expect_often("jobs that began again", began_again, RUNS, 25);
}

TEST(a_dead_trainer_stops_nobody_where_trainers_are_apart)
{
    enum { RUNS = 400 };
    uint64_t went_on = 0;

    for (EACH_SEED(RUNS)) {
        sim_options options = options_of(seed, "async", "sync(degraded)", "ssp(3)", "sync(backups=1)");
        options.trainers++;
        sim_job *job = sim_job_new(&options);
        sim_kill_a_trainer(job, &options, 60000);
        went_on += sim_goes_on(job, &options);
        sim_job_free(job);
    }
    sim_expect_often("jobs that went on", went_on, RUNS, 25);
}

/* Servers and trainers die, at moments of their own. A trainer and a server within one step may be too much: then the job has
 * failed, but no server has made an update of other steps than the others. Returns whether the job goes on. */
static bool goes_on_deciding(uint64_t seed)
{
    sim_options options = options_of(seed, "sync(degraded)", "sync(backups=1)", "sync(degraded)", "sync(backups=2)");

    options.trainers += 1 + (int)(seed % 2);
    options.standbys = 2;
    sim_job *job = sim_job_new(&options);
    for (int i = 0; i < 1 + (int)(seed % 2); i++)
        sim_kill_a_server(job, &options);
    for (int i = 0; i < 1 + (int)(seed / 2 % 2); i++)
        sim_kill_a_trainer(job, &options, 60000);
    const bool goes_on = sim_goes_on(job, &options);
    sim_job_free(job);
    return goes_on;
}

TEST(servers_agree_on_every_update_whoever_dies)
{
    enum { RUNS = 300 };
    uint64_t went_on = 0;

    for (EACH_SEED(RUNS))
        went_on += goes_on_deciding(seed);
    sim_expect_often("jobs that went on", went_on, RUNS, 25);
}

/* In this job all trainers are out when a standby is about to take a dead server's place. */
TEST(a_standby_that_is_done_takes_no_place)
{
    assert_true(goes_on_deciding(94017902));
}

/* Everything at once. Adds the job's starts. */
static void suffer(uint64_t seed, uint64_t *starts)
{
    sim_options options = options_of(seed, "sync", "async", "sync(degraded)", "ssp(1)", "sync(backups=1)", "geo(1)", "average(1)");

    options.trainers++;
    options.standbys = (int)(seed / 72 % 3);
    options.replicas = seed % 5 < 3;
    options.loss = seed % 7 == 0 ? 0 : 0.04;
    sim_job *job = sim_storm(sim_job_new(&options), &options, starts);
    sim_job_check(job);
    sim_job_free(job);
}

TEST(deaths_losses_and_new_starts_together_cost_nothing)
{
    enum { RUNS = 300 };
    uint64_t starts = 0;

    for (EACH_SEED(RUNS))
        suffer(seed, &starts);
    sim_expect_often("starts", starts, RUNS, 125);
}

/* In this job the answer to a goodbye is lost, and the server dies after its own. */
TEST(a_servers_goodbye_answers_a_trainers)
{
    sim_options options = options_of(91001053, "average(1)");
    uint64_t    starts = 0;

    options.trainers++;
    options.loss = 0.04;
    sim_job *job = sim_storm(sim_job_new(&options), &options, &starts);
    sim_job_check(job);
    sim_job_free(job);
}

/* Replicas die, and who follows them, and servers: as often as ranks wait on the other host a server has a replica again, and then loses
 * nothing with its own host. Returns how many ranks became replicas in the middle of the job. */
static uint64_t call_replicas(uint64_t seed)
{
    uint64_t    starts = 0;
    sim_options options = options_of(seed, "sync", "async", "sync(degraded)", "ssp(1)", "sync(backups=1)", "geo(1)", "average(1)");

    options.steps = 12;
    options.standbys = 2 + (int)(seed / 7 % 4);
    options.standbys_there = options.replicas = true;
    options.replacements = seed / 3 % 4 == 0;
    options.tasks = !strcmp(options.mode, "async") && seed % 2 ? 4 : 0;
    options.loss = options.replacements || seed % 3 ? 0 : 0.03;
    options.snapshots = seed % 4 == 0 && options.loss == 0;
    sim_job *job = sim_job_new(&options);
    sim_kill_one_of(job, sim_job_size(job) - options.servers, options.servers, 40000);
    job = sim_storm(job, &options, &starts);
    sim_job_check(job);
    if (options.snapshots && !options.tasks)                /* a step that a server leaves out is in no sum */
        sim_job_check_snapshots(job);
    const uint64_t called = (uint64_t)sim_job_called(job);
    sim_job_free(job);
    return called;
}

TEST(replicas_follow_one_another)
{
    enum { RUNS = 200 };
    uint64_t called = 0;

    for (EACH_SEED(RUNS))
        called += call_replicas(seed);
    sim_expect_often("new replicas", called, RUNS, 34);
}

/* In this job a dead server's successor misses a step of the last update, and a draining trainer makes a snapshot of it. */
TEST(a_snapshot_at_the_end_needs_the_last_update)
{
    call_replicas(99007408);
}

/* In this job the initiator's SNAPSHOT waits on one server, which freezes its state for a new replica. */
TEST(no_update_is_made_without_an_initiator_whose_snapshot_waits)
{
    call_replicas(96014048);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_standby_takes_the_place_of_a_dead_server_and_nothing_is_lost),
        cmocka_unit_test(trainer_that_dies_between_its_goodbyes_keeps_nobody_waiting),
        cmocka_unit_test(a_replica_has_all_that_was_acknowledged),
        cmocka_unit_test(a_dead_trainer_stops_nobody_where_trainers_are_apart),
        cmocka_unit_test(servers_agree_on_every_update_whoever_dies),
        cmocka_unit_test(a_standby_that_is_done_takes_no_place),
        cmocka_unit_test(deaths_losses_and_new_starts_together_cost_nothing),
        cmocka_unit_test(a_servers_goodbye_answers_a_trainers),
        cmocka_unit_test(replicas_follow_one_another),
        cmocka_unit_test(a_snapshot_at_the_end_needs_the_last_update),
        cmocka_unit_test(no_update_is_made_without_an_initiator_whose_snapshot_waits),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
