/* test_sim_replacements.c - simulated jobs whose trainers die. Other trainers then make snapshots, and standbys take their places, steps
 * and tasks. */
#include "tests/support/sim_seeds.h"

/* Where one trainer cuts for all, and has made fewer steps than others: it died, they went on, and the job was started again. */
TEST(a_snapshot_says_who_has_made_more_steps_than_its_initiator)
{
    enum { RUNS = 130 };
    uint64_t apart = 0;

    for (EACH_SEED(RUNS)) {
        sim_options options = options_of(seed, "sync(degraded)");
        options.steps = 12;
        options.trainers++;
        options.snapshots = true;
        sim_job *job = sim_job_new(&options);
        sim_job_kill(job, options.servers, sim_moment(job, 60000));
        const int64_t later = 59999 + sim_moment(job, 60000);
        sim_job_kill(job, (int)tr_sim_random(sim_job_sim(job), (uint64_t)options.servers), later);
        sim_run_seed(job, seed);
        if (!sim_job_is_good(job)) {
            job = sim_start_again(job, -1);
            sim_run_seed(job, seed);
            apart++;
        }
        sim_job_check(job);
        sim_job_check_snapshots(job);
        sim_job_free(job);
    }
    sim_expect_often("jobs that began again", apart, RUNS, 25);
}

/* Trainers die, and their replacements, and servers: as often as there are standbys. What died before all had agreed is nobody's to
 * inherit, and of a trainer and a server within a step too much may be lost: then the job has failed. */
static void replace_trainers(uint64_t seed, uint64_t *replacements, uint64_t *went_on)
{
    sim_options options = options_of(seed, "sync", "async", "ssp(0)", "sync(degraded)", "sync", "ssp(2)", "geo(1)", "sync(backups=1)");

    options.replacements = true;
    options.standbys = 1 + (int)(seed / 2 % 3);
    options.snapshots = seed / 5 % 3 == 0;
    options.loss = seed % 7 || options.standbys > 1 ? 0 : 0.03;      /* a word that a server serves may not be lost */
    sim_job *job = sim_job_new(&options);
    sim_kill_a_trainer(job, &options, 90000);
    for (int i = 1; i < options.standbys; i++)
        switch (tr_sim_random(sim_job_sim(job), 3)) {
        case 0:
            sim_kill_a_trainer(job, &options, 90000);
            break;
        case 1:
            sim_kill_a_server(job, &options);
            break;
        default:                               /* one that may be a replacement by then */
            sim_job_kill(job, options.servers + options.trainers, sim_moment(job, 40000));
        }
    *went_on += sim_goes_on(job, &options);
    *replacements += (uint64_t)sim_job_replacements(job);
    sim_job_free(job);
}

TEST(a_standby_takes_the_place_of_a_dead_trainer_in_every_mode)
{
    enum { RUNS = 130 };
    uint64_t replacements = 0, went_on = 0;

    for (EACH_SEED(RUNS))
        replace_trainers(seed, &replacements, &went_on);
    sim_expect_often("replacements", replacements, RUNS, 25);
    sim_expect_often("jobs that went on", went_on, RUNS, 25);
}

/* In this job the only server dies when trainers have heard of a snapshot, and another trainer begins the next one. */
TEST(a_successor_gives_no_number_to_a_second_snapshot)
{
    uint64_t replacements = 0, went_on = 0;

    replace_trainers(98010585, &replacements, &went_on);
    assert_true(went_on);
}

/* Jobs with snapshots in which a replacement comes so many nanoseconds late. */
static sim_options with_late_replacements(uint64_t seed, uint64_t steps, int64_t late, int standbys)
{
    sim_options options = options_of(seed, "async", "geo(1)", "ssp(1000)");

    options.trainers++;
    options.steps = steps;
    options.replacements = options.snapshots = true;
    options.replacements_late = late;
    options.standbys = standbys;
    return options;
}

/* Run the job to its end. Nobody waits longer than `most` nanoseconds. Counts its replacements, and the job if it made snapshots. */
static void end_without_waits(sim_job *job, const sim_options *options, int64_t most, uint64_t *replacements, uint64_t *snapshots)
{
    if (sim_goes_on(job, options)) {
        *snapshots += sim_job_snapshots(job) != NULL;
        sim_check_waits(job, options, most);
    }
    *replacements += (uint64_t)sim_job_replacements(job);
    sim_job_free(job);
}

/* A trainer dies. Its replacement takes long to come, and to make its first step. A trainer that begins a snapshot in this time must not
 * wait for the replacement. The others wait for messages and for servers at work alone: microseconds. */
TEST(a_replacement_that_a_snapshot_delays_holds_up_no_step)
{
    enum { RUNS = 100, LATE = 100000000, MOST = 2000000 };      /* nanoseconds */
    uint64_t replacements = 0, snapshots = 0;

    for (EACH_SEED(RUNS)) {
        sim_options options = with_late_replacements(seed, 30, LATE, 1);
        sim_job    *job = sim_job_new(&options);
        sim_kill_a_trainer(job, &options, 150000);
        end_without_waits(job, &options, MOST, &replacements, &snapshots);
    }
    sim_expect_often("replacements", replacements, RUNS, 25);
    sim_expect_often("jobs with snapshots", snapshots, RUNS, 50);
}

/* Server 0 dies when a replacement has joined and has made no step. The standby in its place must learn that. */
static void lose_server_0_after_a_join(uint64_t seed, uint64_t *replacements, uint64_t *snapshots)
{
    enum { LATE = 500000, MOST = 150000 };             /* nanoseconds */
    sim_options options = with_late_replacements(seed, 150, LATE, 2);
    sim_job    *job = sim_job_new(&options);

    sim_kill_a_trainer(job, &options, 60000);
    sim_job_kill(job, 0, LATE - 1 + sim_moment(job, LATE));
    end_without_waits(job, &options, MOST, replacements, snapshots);
}

TEST(a_replacement_that_a_new_server_0_does_not_know_holds_up_no_step)
{
    enum { RUNS = 60 };
    uint64_t replacements = 0, snapshots = 0;

    for (EACH_SEED(RUNS))
        lose_server_0_after_a_join(seed, &replacements, &snapshots);
    sim_expect_often("replacements", replacements, RUNS, 25);
    sim_expect_often("jobs with snapshots", snapshots, RUNS, 50);
}

/* In this job an acknowledgement of a snapshot reaches the replacement before its set-up. */
TEST(a_replacement_hears_of_no_snapshot_before_it_is_set_up)
{
    uint64_t replacements = 0, snapshots = 0;

    lose_server_0_after_a_join(98004799, &replacements, &snapshots);
    assert_true(replacements > 0);
}

/* The trainer that makes checkpoints dies while parts are written, which takes long. The next trainer makes them, or the replacement. No
 * trainer waits for a disk. Servers die, too. */
static void write_slowly(uint64_t seed, uint64_t *others, uint64_t *snapshots)
{
    enum { DISK = 1000000, MOST = 400000 };
    sim_options options = options_of(seed, "async", "geo(1)", "ssp(1000)");

    options.trainers++;
    options.steps = 150;
    options.snapshots = true;
    options.disk = DISK;
    options.standbys = (int)(seed / 5 % 4);
    options.replacements = seed / 2 % 2;
    sim_job *job = sim_job_new(&options);
    sim_job_kill(job, options.servers, 19999 + sim_moment(job, 300000));
    if (options.trainers > 2 && seed % 2)
        sim_job_kill(job, options.servers + 1, 19999 + sim_moment(job, 600000));
    for (int i = 1; i < options.standbys; i++)
        sim_kill_one_of(job, 0, options.servers, 600000);
    if (sim_goes_on(job, &options)) {
        sim_check_waits(job, &options, MOST);
        for (const sim_snapshot *one = sim_job_snapshots(job); one; one = one->next, ++*snapshots)
            *others += one->initiator > 0;
    }
    sim_job_free(job);
}

TEST(a_snapshot_that_is_being_written_holds_up_no_step)
{
    enum { RUNS = 60 };
    uint64_t others = 0, snapshots = 0;

    for (EACH_SEED(RUNS))
        write_slowly(seed, &others, &snapshots);
    sim_expect_often("snapshots", snapshots, RUNS, 100);
    sim_expect_often("snapshots without trainer 0", others, RUNS, 25);
}

/* In these jobs a trainer dies when its part of a snapshot is made, and its replacement ends before the snapshot is written. */
TEST(a_replacement_leaves_no_part_of_its_predecessors_snapshot)
{
    static const uint64_t seeds[] = {98010315, 98011359, 98013175};
    uint64_t              others = 0, snapshots = 0;

    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++)
        write_slowly(seeds[i], &others, &snapshots);
    assert_true(snapshots);
}

/* The trainer that makes checkpoints dies, once or again, and no standby replaces it. Another trainer makes them. Servers die, too. */
TEST(remaining_trainers_make_snapshots)
{
    enum { RUNS = 130 };
    uint64_t others = 0, went_on = 0;

    for (EACH_SEED(RUNS)) {
        sim_options options = options_of(seed, "async", "ssp(0)", "sync(degraded)", "ssp(2)", "geo(1)", "sync(backups=1)", "average(1)");
        options.trainers++;
        options.steps = 12;
        options.snapshots = true;
        options.standbys = (int)(seed / 5 % 3);
        options.loss = seed % 7 ? 0 : 0.03;
        sim_job *job = sim_job_new(&options);
        sim_job_kill(job, options.servers, 19999 + sim_moment(job, 60000));
        if (options.trainers > 2 && seed % 2)
            sim_job_kill(job, options.servers + 1, 19999 + sim_moment(job, 90000));
        for (int i = 0; i < options.standbys; i++)
            sim_kill_a_server(job, &options);
        if (sim_goes_on(job, &options)) {
            went_on++;
            sim_check_last_snapshot(job, &options);
            for (const sim_snapshot *one = sim_job_snapshots(job); one; one = one->next)
                others += one->initiator > 0;
            sim_check_going_on(&options, sim_job_snapshots(job));
        }
        sim_job_free(job);
    }
    sim_expect_often("jobs that went on", went_on, RUNS, 50);
    sim_expect_often("snapshots without trainer 0", others, RUNS, 100);
}

/* The job goes on from its newest snapshot, on another number of servers. */
static bool go_on_with_tasks(const sim_job *job, const sim_options *before)
{
    sim_options options = *before;

    options.from = sim_job_snapshots(job);
    if (!options.from || !options.from->tasks)
        return false;
    options.servers = 1 + before->servers % 3;
    options.snapshots = options.replicas = options.replacements = false;
    options.standbys = 0;
    sim_check_run(&options);
    return true;
}

/* Each batch of a leased task gets into every server's parameters. Ranks of any role die, once or again and again; standbys take
 * places of servers, and of trainers; hosts are lost whose servers have a replica; jobs go on from snapshots. Returns whether one has. */
static bool work_on_tasks(uint64_t seed, uint64_t *starts)
{
    sim_options options = options_of(seed, "async", "geo(2)", "ssp(1)", "geo(1)", "ssp(0)", "geo(3)");

    options.trainers++;
    options.tasks = 1 + (int)(seed / 7 % SIM_TASKS);
    options.standbys = (int)(seed / 8 % 4);
    options.replacements = seed / 2 % 2;
    options.replicas = seed % 5 < 3;
    options.loss = options.replacements || seed % 7 < 3 ? 0 : 0.04;           /* a word that a server serves may not be lost to
                                                                               * replacements */
    options.snapshots = seed % 3;
    sim_job *job = sim_job_new(&options);
    if (seed % 9 == 0)                                 /* nobody dies: each just once */
        sim_run_seed(job, seed);
    else
        job = sim_storm(job, &options, starts);
    sim_job_check(job);
    const bool goes_on = go_on_with_tasks(job, &options);
    sim_job_free(job);
    return goes_on;
}

TEST(every_leased_batch_gets_to_every_server_whoever_dies)
{
    enum { RUNS = 130 };
    uint64_t starts = 0, snapshots = 0;

    for (EACH_SEED(RUNS))
        snapshots += work_on_tasks(seed, &starts);
    sim_expect_often("starts", starts, RUNS, 100);
    sim_expect_often("jobs that went on from a snapshot", snapshots, RUNS, 13);
}

/* In this job another server leaves out a step of which server 0 has it, and what server 0 has heard of that is lost with its host. */
TEST(a_step_that_was_left_out_is_made_again_when_server_0_has_forgotten_it)
{
    uint64_t starts = 0;

    work_on_tasks(96016420, &starts);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_snapshot_says_who_has_made_more_steps_than_its_initiator),
        cmocka_unit_test(a_standby_takes_the_place_of_a_dead_trainer_in_every_mode),
        cmocka_unit_test(a_successor_gives_no_number_to_a_second_snapshot),
        cmocka_unit_test(a_replacement_that_a_snapshot_delays_holds_up_no_step),
        cmocka_unit_test(a_replacement_that_a_new_server_0_does_not_know_holds_up_no_step),
        cmocka_unit_test(a_replacement_hears_of_no_snapshot_before_it_is_set_up),
        cmocka_unit_test(a_snapshot_that_is_being_written_holds_up_no_step),
        cmocka_unit_test(a_replacement_leaves_no_part_of_its_predecessors_snapshot),
        cmocka_unit_test(remaining_trainers_make_snapshots),
        cmocka_unit_test(every_leased_batch_gets_to_every_server_whoever_dies),
        cmocka_unit_test(a_step_that_was_left_out_is_made_again_when_server_0_has_forgotten_it),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
