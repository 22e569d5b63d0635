/* test_sim.c - whole jobs under a seeded scheduler: what is promised holds for every seed.
 *
 * Ten thousand runs in all. TRIREME_SIM_RUNS changes how many seeds each test takes, TRIREME_SIM_FIRST the first of them; one
 * that fails is named, and fails again. An argument is the pattern of the tests to run. */
#include "tests/support/expect.h"
#include "tests/support/sim_job.h"

#include <stdio.h>

static uint64_t seeds(uint64_t otherwise)
{
    const char *text = getenv("TRIREME_SIM_RUNS");
    return text ? strtoull(text, NULL, 10) : otherwise;
}

static uint64_t first_seed(void)
{
    const char *text = getenv("TRIREME_SIM_FIRST");
    return text ? strtoull(text, NULL, 10) : 1;
}

/* `seed` takes so many values, if not otherwise said. */
#define EACH_SEED(otherwise) uint64_t seed = first_seed(), end = seed + seeds(otherwise); seed < end; seed++

static sim_options options_by(uint64_t seed, const char *const *modes, uint64_t count)
{
    return (sim_options){.seed = seed, .servers = 1 + (int)(seed % 3), .trainers = 1 + (int)(seed / 3 % 4),
                         .mode = modes[seed / 12 % count], .steps = 6};
}

/* What a seed says if a test does not: numbers of servers and trainers, and one of these modes in turn. */
#define options_of(seed_, ...)                              \
    options_by(seed_, (const char *const[]){__VA_ARGS__},   \
               sizeof (const char *const[]){__VA_ARGS__} / sizeof(const char *))

/* -- how a job goes ------------------------------------------------------------------------------------- */

/* Nobody stands still for long: what takes a second here took seconds of words that were lost, or a patience that ran out. */
static void run(sim_job *job, uint64_t seed)
{
    const int64_t most = 20000000000;

    sim_job_end_failed(job);
    if (!sim_job_run(job))
        fail_msg("seed %llu does not end", (unsigned long long)seed);
    if (tr_sim_now(sim_job_sim(job)) > most)
        fail_msg("seed %llu takes %.0f s", (unsigned long long)seed, (double)tr_sim_now(sim_job_sim(job)) / 1e9);
}

/* Is nothing lost by the deaths that were planned? Then all that the job has made is right, its cuts too. */
static bool goes_on(sim_job *job, const sim_options *options)
{
    run(job, options->seed);
    if (!sim_job_is_good(job))
        return false;
    sim_job_check(job);
    if (options->cuts)
        sim_job_check_snapshots(job);
    return true;
}

/* Nobody dies, so nobody fails. */
static void check_run(const sim_options *options)
{
    sim_job    *job = sim_job_new(options);
    const char *text;

    run(job, options->seed);
    for (int i = 0; i < options->servers + options->trainers; i++)
        if (sim_job_status(job, i, &text) != TR_OK)
            fail_msg("seed %llu: rank %d: %s", (unsigned long long)options->seed, i, text);
    sim_job_check(job);
    sim_job_free(job);
}

/* A test whose events do not come is no test; a few seeds may have none. `runs` are those that it makes if not otherwise said. */
static void expect_often(const char *what, uint64_t count, uint64_t runs, uint64_t percent)
{
    const uint64_t made = seeds(runs);

    print_message("%llu %s in %llu runs\n", (unsigned long long)count, what, (unsigned long long)made);
    if (made >= 100 && count * 100 <= made * percent)
        fail_msg("%llu %s in %llu runs: expected more than %llu %%", (unsigned long long)count, what, (unsigned long long)made,
                 (unsigned long long)percent);
}

/* -- jobs in which nobody dies -------------------------------------------------------------------------- */

TEST(parameters_are_bitwise_those_of_one_process_in_any_order)
{
    for (EACH_SEED(1200)) {
        const sim_options options = options_of(seed, "sync");
        check_run(&options);
    }
}

TEST(lost_and_doubled_messages_change_nothing)
{
    for (EACH_SEED(1400)) {
        sim_options options = options_of(seed, "sync", "async", "sync(fewer)", "sync(backups=1)");
        options.loss = 0.05;
        check_run(&options);
    }
}

TEST(every_gradient_counts_once_in_any_mode)
{
    for (EACH_SEED(1400)) {
        const sim_options options = options_of(seed, "async", "ssp(0)", "ssp(2)", "sync(fewer)", "sync(backups=1)",
                                               "sync(backups=2)");
        check_run(&options);
    }
}

/* In modes where updates come in any order what arrives is a whole number by these methods. */
TEST(compressed_gradients_are_those_of_one_process_that_compresses)
{
    static const char *const any[] = {"fp16", "bf16", "int8", "topk(0.01)", "topk(0.1)"};
    static const char *const whole[] = {"fp16", "bf16", "topk(0.01)", "topk(0.1)"};

    for (EACH_SEED(1000)) {
        sim_options options = options_of(seed, "sync", "sync", "sync", "async", "ssp(1)", "sync(fewer)", "sync(backups=1)");
        options.compress = strcmp(options.mode, "sync") ? whole[seed % 4] : any[seed % 5];
        options.loss = seed % 3 ? 0 : 0.05;
        check_run(&options);
    }
}

TEST(jobs_of_sixty_four_ranks)
{
    static const char *const modes[] = {"sync", "async", "ssp(1)"};

    for (uint64_t seed = 1; seed <= 3; seed++) {
        const sim_options options = {.seed = seed, .servers = 16, .trainers = 46, .spares = 2, .mode = modes[seed % 3],
                                     .steps = 3};
        check_run(&options);
    }
}

/* A job that goes on from a cut, on another number of servers. */
static void check_going_on(const sim_options *before, const sim_snapshot *from)
{
    sim_options options = *before;

    options.servers = 1 + (before->servers + (int)(before->seed / 2 % 2)) % 3;
    options.cuts = false;
    options.from = from;
    check_run(&options);
}

/* The newest has all that the living have made, whoever's data ended first. */
static void check_last_cut(sim_job *job, const sim_options *options)
{
    const sim_snapshot *last = sim_job_snapshots(job);

    if (!last)
        fail_msg("seed %llu: there is no cut", (unsigned long long)options->seed);
    for (int i = 0; i < last->trainers; i++)
        if (last->left[i] && !tr_sim_is_dead(sim_job_sim(job), options->servers + i))
            fail_msg("seed %llu: the last cut lacks %d steps of trainer %d", (unsigned long long)options->seed, last->left[i], i);
}

TEST(a_job_goes_on_from_a_cut_at_any_step_on_any_number_of_servers)
{
    enum { RUNS = 300 };
    uint64_t cuts = 0;

    for (EACH_SEED(RUNS)) {
        sim_options options = options_of(seed, "sync", "sync(fewer)", "sync(backups=1)", "async", "ssp(0)", "ssp(2)", "geo(1)");
        options.cuts = true;
        options.loss = seed % 4 ? 0 : 0.03;
        sim_job *job = sim_job_new(&options);
        assert_true(goes_on(job, &options));
        check_last_cut(job, &options);
        for (const sim_snapshot *one = sim_job_snapshots(job); one; one = one->next, cuts++)
            check_going_on(&options, one);
        sim_job_free(job);
    }
    expect_often("cuts", cuts, RUNS, 25);
}

/* == deaths ==================================================================================== */

/* A moment of the next `within` nanoseconds. */
static int64_t moment(sim_job *job, uint64_t within)
{
    return 1 + (int64_t)tr_sim_random(sim_job_sim(job), within);
}

static void kill_one_of(sim_job *job, int first, int count, uint64_t within)
{
    const int64_t after = moment(job, within);
    sim_job_kill(job, first + (int)tr_sim_random(sim_job_sim(job), (uint64_t)count), after);
}

static void kill_a_server(sim_job *job, const sim_options *options)
{
    kill_one_of(job, 0, options->servers, 60000);
}

static void kill_a_trainer(sim_job *job, const sim_options *options, uint64_t within)
{
    kill_one_of(job, options->servers, options->trainers, within);
}

/* The job that has failed begins again, without the memory of server `lost`; -1: with all. */
static sim_job *start_again(sim_job *job, int lost)
{
    sim_job *again = sim_job_again(job, lost);

    sim_job_free(job);
    return again;
}

/* Of those who die at the start, before all had agreed, nothing is left to go on from: then the job has failed. */
TEST(a_spare_takes_the_place_of_a_dead_server_and_nothing_is_lost)
{
    enum { RUNS = 2000 };
    uint64_t went_on = 0;

    for (EACH_SEED(RUNS)) {
        sim_options options = options_of(seed, "sync", "async", "sync(fewer)", "ssp(1)", "sync", "sync(backups=1)");
        options.spares = 1 + (int)(seed % 2);
        options.compress = seed % 5 ? NULL : seed % 2 ? "topk(0.05)" : "fp16";
        sim_job *job = sim_job_new(&options);
        for (int i = 0; i < options.spares; i++)
            kill_a_server(job, &options);
        went_on += goes_on(job, &options);
        sim_job_free(job);
    }
    expect_often("jobs that went on", went_on, RUNS, 25);
}

/* One of these ranks dies when it has said goodbye to some of the others. */
static void kill_leaving(sim_job *job, int first, int count)
{
    const uint64_t size = (uint64_t)sim_job_size(job);
    const int      rank = first + (int)tr_sim_random(sim_job_sim(job), (uint64_t)count);

    sim_job_kill_leaving(job, rank, (int)tr_sim_random(sim_job_sim(job), size), (int)tr_sim_random(sim_job_sim(job), size - 1));
}

/* Who dies so has left for some, and died for others: those that wait see it differently. All work is done. */
TEST(who_dies_between_its_goodbyes_keeps_nobody_waiting)
{
    for (EACH_SEED(1000)) {
        sim_options options = options_of(seed, "sync", "async", "sync(fewer)", "ssp(1)", "geo(1)", "sync(backups=1)");
        const char *text;
        options.spares = (int)(seed / 2 % 4);
        options.heirs = seed / 3 % 3;
        options.replicas = seed % 4 == 0;
        options.cuts = seed % 5 == 0;
        sim_job *job = sim_job_new(&options);
        kill_leaving(job, 0, options.servers);
        kill_leaving(job, options.servers, options.trainers);
        kill_leaving(job, options.servers, options.trainers);
        run(job, seed);
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
    enum { RUNS = 800 };
    uint64_t began_again = 0;

    for (EACH_SEED(RUNS)) {
        sim_options options = options_of(seed, "sync", "async", "sync(fewer)", "ssp(1)", "geo(1)", "sync(backups=1)");
        options.replicas = true;
        options.loss = seed % 4 == 0 ? 0.05 : 0;
        sim_job  *job = sim_job_new(&options);
        const int lost = (int)tr_sim_random(sim_job_sim(job), (uint64_t)options.servers);
        if (seed % 5)
            sim_job_kill(job, lost, moment(job, 120000));
        else                                       /* a replica, which nobody misses */
            sim_job_kill(job, sim_job_size(job) - 1 - lost, moment(job, 60000));
        if (!goes_on(job, &options)) {
            job = start_again(job, lost);
            began_again++;
            if (!goes_on(job, &options))
                fail_msg("seed %llu: the job fails again", (unsigned long long)seed);
        }
        sim_job_free(job);
    }
    expect_often("jobs that began again", began_again, RUNS, 25);
}

TEST(a_dead_trainer_stops_nobody_where_trainers_are_apart)
{
    enum { RUNS = 1400 };
    uint64_t went_on = 0;

    for (EACH_SEED(RUNS)) {
        sim_options options = options_of(seed, "async", "sync(fewer)", "ssp(3)", "sync(backups=1)");
        options.trainers++;
        sim_job *job = sim_job_new(&options);
        kill_a_trainer(job, &options, 60000);
        went_on += goes_on(job, &options);
        sim_job_free(job);
    }
    expect_often("jobs that went on", went_on, RUNS, 25);
}

/* Servers and trainers die, at moments of their own. A trainer and a server within one step may be too much: then the job has
 * failed, but no server has made an update of other steps than the others. */
TEST(servers_agree_on_every_update_whoever_dies)
{
    enum { RUNS = 1000 };
    uint64_t went_on = 0;

    for (EACH_SEED(RUNS)) {
        sim_options options = options_of(seed, "sync(fewer)", "sync(backups=1)", "sync(fewer)", "sync(backups=2)");
        options.trainers += 1 + (int)(seed % 2);
        options.spares = 2;
        sim_job *job = sim_job_new(&options);
        for (int i = 0; i < 1 + (int)(seed % 2); i++)
            kill_a_server(job, &options);
        for (int i = 0; i < 1 + (int)(seed / 2 % 2); i++)
            kill_a_trainer(job, &options, 60000);
        went_on += goes_on(job, &options);
        sim_job_free(job);
    }
    expect_often("jobs that went on", went_on, RUNS, 25);
}

/* Whose memory is lost with its host now that the job has failed; -1: nobody's. Only a server whose replica has all. */
static int draw_lost(sim_job *job, const sim_options *options)
{
    const int server = (int)tr_sim_random(sim_job_sim(job), (uint64_t)options->servers);
    return tr_sim_random(sim_job_sim(job), 2) && sim_job_has_replica(job, server) ? server : -1;
}

/* Ranks of any role die at any moment, and messages are lost and doubled, those of the dead and of who takes their places among
 * them. When that is too much the job is started again, on the hosts that are left, and a server may die before all have agreed again; at
 * last nobody dies any more. Returns the last start, and counts all. */
static sim_job *storm(sim_job *job, const sim_options *options, uint64_t *starts)
{
    enum { DEADLY = 2, TO_AGREE = 8000 };

    for (int start = 1;; start++) {
        ++*starts;
        if (start == DEADLY && options->seed % 3)
            kill_one_of(job, 0, options->servers, TO_AGREE);
        for (int i = 0; start <= DEADLY && i < 1 + (int)(options->seed / 2 % 3); i++)
            kill_one_of(job, 0, sim_job_size(job), options->loss > 0 ? 300000 : 100000);
        run(job, options->seed);
        if (sim_job_is_over(job))
            return job;
        if (start > DEADLY)
            fail_msg("seed %llu: the job fails although nobody dies", (unsigned long long)options->seed);
        job = start_again(job, draw_lost(job, options));
    }
}

TEST(deaths_losses_and_new_starts_together_cost_nothing)
{
    enum { RUNS = 1000 };
    uint64_t starts = 0;

    for (EACH_SEED(RUNS)) {
        sim_options options = options_of(seed, "sync", "async", "sync(fewer)", "ssp(1)", "sync(backups=1)", "geo(1)");
        options.trainers++;
        options.spares = (int)(seed / 72 % 3);
        options.replicas = seed % 5 < 3;
        options.loss = seed % 7 == 0 ? 0 : 0.04;
        sim_job *job = storm(sim_job_new(&options), &options, &starts);
        sim_job_check(job);
        sim_job_free(job);
    }
    expect_often("starts", starts, RUNS, 125);
}

/* Replicas die, and who follows them, and servers: as often as ranks wait on the other host a server has a replica again, and then loses
 * nothing with its own host. */
TEST(replicas_follow_one_another)
{
    enum { RUNS = 600 };
    uint64_t starts = 0, called = 0;

    for (EACH_SEED(RUNS)) {
        sim_options options = options_of(seed, "sync", "async", "sync(fewer)", "ssp(1)", "sync(backups=1)", "geo(1)");
        options.steps = 12;
        options.spares = 2 + (int)(seed / 7 % 4);
        options.spares_there = options.replicas = true;
        options.heirs = seed / 3 % 4 == 0;
        options.tasks = !strcmp(options.mode, "async") && seed % 2 ? 4 : 0;
        options.loss = options.heirs || seed % 3 ? 0 : 0.03;
        options.cuts = seed % 4 == 0 && options.loss == 0;
        sim_job *job = sim_job_new(&options);
        kill_one_of(job, sim_job_size(job) - options.servers, options.servers, 40000);
        job = storm(job, &options, &starts);
        sim_job_check(job);
        if (options.cuts && !options.tasks)            /* a step that a server leaves out is in no sum */
            sim_job_check_snapshots(job);
        called += (uint64_t)sim_job_called(job);
        sim_job_free(job);
    }
    expect_often("new replicas", called, RUNS, 34);
}

/* Where one trainer cuts for all, and has made fewer steps than others: it died, they went on, and the job was started again. */
TEST(a_cut_says_who_has_made_more_steps_than_its_maker)
{
    enum { RUNS = 400 };
    uint64_t apart = 0;

    for (EACH_SEED(RUNS)) {
        sim_options options = options_of(seed, "sync(fewer)");
        options.steps = 12;
        options.trainers++;
        options.cuts = true;
        sim_job *job = sim_job_new(&options);
        sim_job_kill(job, options.servers, moment(job, 60000));
        const int64_t later = 59999 + moment(job, 60000);
        sim_job_kill(job, (int)tr_sim_random(sim_job_sim(job), (uint64_t)options.servers), later);
        run(job, seed);
        if (!sim_job_is_good(job)) {
            job = start_again(job, -1);
            run(job, seed);
            apart++;
        }
        sim_job_check(job);
        sim_job_check_snapshots(job);
        sim_job_free(job);
    }
    expect_often("jobs that began again", apart, RUNS, 25);
}

/* Trainers die, and their heirs, and servers: as often as there are spares. What died before all had agreed is nobody's to
 * inherit, and of a trainer and a server within a step too much may be lost: then the job has failed. */
TEST(a_spare_takes_the_place_of_a_dead_trainer_in_every_mode)
{
    enum { RUNS = 400 };
    uint64_t heirs = 0, went_on = 0;

    for (EACH_SEED(RUNS)) {
        sim_options options = options_of(seed, "sync", "async", "ssp(0)", "sync(fewer)", "sync", "ssp(2)", "geo(1)",
                                         "sync(backups=1)");
        options.heirs = true;
        options.spares = 1 + (int)(seed / 2 % 3);
        options.cuts = seed / 5 % 3 == 0;
        options.loss = seed % 7 || options.spares > 1 ? 0 : 0.03;      /* a word that a server serves may not be lost */
        sim_job *job = sim_job_new(&options);
        kill_a_trainer(job, &options, 90000);
        for (int i = 1; i < options.spares; i++)
            switch (tr_sim_random(sim_job_sim(job), 3)) {
            case 0:
                kill_a_trainer(job, &options, 90000);
                break;
            case 1:
                kill_a_server(job, &options);
                break;
            default:                               /* one that may be an heir by then */
                sim_job_kill(job, options.servers + options.trainers, moment(job, 40000));
            }
        went_on += goes_on(job, &options);
        heirs += (uint64_t)sim_job_heirs(job);
        sim_job_free(job);
    }
    expect_often("heirs", heirs, RUNS, 25);
    expect_often("jobs that went on", went_on, RUNS, 25);
}

/* A trainer dies, and its heir is long in coming, and in making its first step: whoever cuts meanwhile must not wait for it. What the
 * others wait is messages, and servers at work: microseconds. */
TEST(nobody_waits_for_an_heir_that_is_late_because_of_a_cut)
{
    enum { RUNS = 300, LATE = 100000000, MOST = 2000000 };      /* nanoseconds */
    uint64_t heirs = 0, cuts = 0;

    for (EACH_SEED(RUNS)) {
        sim_options options = options_of(seed, "async", "geo(1)", "ssp(1000)");
        options.trainers++;
        options.steps = 30;
        options.heirs = options.cuts = true;
        options.heirs_late = LATE;
        options.spares = 1;
        sim_job *job = sim_job_new(&options);
        kill_a_trainer(job, &options, 150000);
        if (goes_on(job, &options)) {
            cuts += sim_job_snapshots(job) != NULL;
            if (sim_job_longest_wait(job) > MOST)
                fail_msg("seed %llu: a trainer waits for %.3f ms", (unsigned long long)seed, (double)sim_job_longest_wait(job) / 1e6);
        }
        heirs += (uint64_t)sim_job_heirs(job);
        sim_job_free(job);
    }
    expect_often("heirs", heirs, RUNS, 25);
    expect_often("jobs with cuts", cuts, RUNS, 50);
}

/* The same when server 0 dies, too, when the heir has joined and has made no step: who takes its place must learn that. */
static void nobody_waits_for_an_heir_of_which_another_server_0_has_heard_nothing(void **state)
{
    static const char *const modes[] = {"async", "geo(1)", "ssp(1000)"};
    const int64_t            late = 500000, most = 150000;
    uint64_t                 heirs = 0, cuts = 0;

    (void)state;
    for (EACH_SEED(150)) {
        sim_options options = options_of(seed, modes[seed / 12 % 3]);
        options.trainers++;
        options.steps = 150;
        options.heirs = options.cuts = true;
        options.heirs_late = late;
        options.spares = 2;
        sim_job *job = sim_job_new(&options);
        tr_sim  *sim = sim_job_sim(job);
        sim_job_kill(job, options.servers + (int)tr_sim_random(sim, (uint64_t)options.trainers), 1 + (int64_t)tr_sim_random(sim, 60000));
        sim_job_kill(job, 0, late + (int64_t)tr_sim_random(sim, late));
        run(job, seed);
        heirs += (uint64_t)sim_job_heirs(job);
        if (sim_job_is_good(job)) {
            sim_job_check(job);
            sim_job_check_snapshots(job);
            cuts += sim_job_snapshots(job) != NULL;
            if (sim_job_longest_wait(job) > most)
                fail_msg("seed %llu: a trainer waits for %.3f ms", (unsigned long long)seed, (double)sim_job_longest_wait(job) / 1e6);
        }
        sim_job_free(job);
    }
    print_message("%llu heirs, %llu jobs with cuts\n", (unsigned long long)heirs, (unsigned long long)cuts);
    assert_true(seeds(150) < 100 || (heirs > seeds(150) / 4 && cuts > seeds(150) / 2));
}

/* Who makes checkpoints dies while parts are written, which takes long, and the next one makes them, or its heir: nobody waits for a disk. Servers
 * die, too. */
static void nobody_waits_for_a_cut_that_is_being_written(void **state)
{
    static const char *const modes[] = {"async", "geo(1)", "ssp(1000)"};
    const int64_t            disk = 1000000, most = 150000;
    int                      others = 0, cuts = 0;

    (void)state;
    for (EACH_SEED(150)) {
        sim_options options = options_of(seed, modes[seed / 12 % 3]);
        options.trainers++;
        options.steps = 150;
        options.cuts = true;
        options.disk = disk;
        options.spares = (int)(seed / 5 % 4);
        options.heirs = seed / 2 % 2;
        sim_job *job = sim_job_new(&options);
        tr_sim  *sim = sim_job_sim(job);
        sim_job_kill(job, options.servers, 20000 + (int64_t)tr_sim_random(sim, 300000));
        if (options.trainers > 2 && seed % 2)
            sim_job_kill(job, options.servers + 1, 20000 + (int64_t)tr_sim_random(sim, 600000));
        for (int i = 1; i < options.spares; i++)
            sim_job_kill(job, (int)tr_sim_random(sim, (uint64_t)options.servers), 20000 + (int64_t)tr_sim_random(sim, 600000));
        run(job, seed);
        if (sim_job_is_good(job)) {
            sim_job_check(job);
            sim_job_check_snapshots(job);
            for (const sim_snapshot *one = sim_job_snapshots(job); one; one = one->next, cuts++)
                others += one->maker > 0;
            if (sim_job_longest_wait(job) > most)
                fail_msg("seed %llu: a trainer waits for %.3f ms", (unsigned long long)seed, (double)sim_job_longest_wait(job) / 1e6);
        }
        sim_job_free(job);
    }
    print_message("%d cuts, %d of them without trainer 0\n", cuts, others);
    assert_true(seeds(150) < 100 || (cuts > (int)seeds(150) && others > (int)seeds(150) / 4));
}

/* Who makes checkpoints dies, once or again, and nobody takes its place: another one makes them. Servers die, too. */
TEST(whoever_is_left_makes_cuts)
{
    enum { RUNS = 400 };
    uint64_t others = 0, went_on = 0;

    for (EACH_SEED(RUNS)) {
        sim_options options = options_of(seed, "async", "ssp(0)", "sync(fewer)", "ssp(2)", "geo(1)", "sync(backups=1)");
        options.trainers++;
        options.steps = 12;
        options.cuts = true;
        options.spares = (int)(seed / 5 % 3);
        options.loss = seed % 7 ? 0 : 0.03;
        sim_job *job = sim_job_new(&options);
        sim_job_kill(job, options.servers, 19999 + moment(job, 60000));
        if (options.trainers > 2 && seed % 2)
            sim_job_kill(job, options.servers + 1, 19999 + moment(job, 90000));
        for (int i = 0; i < options.spares; i++)
            kill_a_server(job, &options);
        if (goes_on(job, &options)) {
            went_on++;
            check_last_cut(job, &options);
            for (const sim_snapshot *one = sim_job_snapshots(job); one; one = one->next)
                others += one->maker > 0;
            check_going_on(&options, sim_job_snapshots(job));
        }
        sim_job_free(job);
    }
    expect_often("jobs that went on", went_on, RUNS, 50);
    expect_often("cuts without trainer 0", others, RUNS, 100);
}

/* The job goes on from its newest cut, on another number of servers. */
static bool go_on_with_tasks(const sim_job *job, const sim_options *before)
{
    sim_options options = *before;

    options.from = sim_job_snapshots(job);
    if (!options.from || !options.from->tasks)
        return false;
    options.servers = 1 + before->servers % 3;
    options.cuts = options.replicas = options.heirs = false;
    options.spares = 0;
    check_run(&options);
    return true;
}

/* Each batch of a leased task gets into every server's parameters. Ranks of any role die, once or again and again; spares take
 * places of servers, and of trainers; hosts are lost whose servers have a replica; jobs go on from cuts. */
TEST(every_leased_batch_gets_to_every_server_whoever_dies)
{
    enum { RUNS = 400 };
    uint64_t starts = 0, cuts = 0;

    for (EACH_SEED(RUNS)) {
        sim_options options = options_of(seed, "async", "geo(2)", "ssp(1)", "geo(1)", "ssp(0)", "geo(3)");
        options.trainers++;
        options.tasks = 1 + (int)(seed / 7 % SIM_TASKS);
        options.spares = (int)(seed / 8 % 4);
        options.heirs = seed / 2 % 2;
        options.replicas = seed % 5 < 3;
        options.loss = options.heirs || seed % 7 < 3 ? 0 : 0.04;       /* a word that a server serves may not be lost to heirs */
        options.cuts = seed % 3;
        sim_job *job = sim_job_new(&options);
        if (seed % 9 == 0)                             /* nobody dies: each just once */
            run(job, seed);
        else
            job = storm(job, &options, &starts);
        sim_job_check(job);
        cuts += go_on_with_tasks(job, &options);
        sim_job_free(job);
    }
    expect_often("starts", starts, RUNS, 100);
    expect_often("jobs that went on from a cut", cuts, RUNS, 13);
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

        sim_job_kill(job, victim, moment(job, 60000));
        run(job, seed);
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
        cmocka_unit_test(compressed_gradients_are_those_of_one_process_that_compresses),
        cmocka_unit_test(jobs_of_sixty_four_ranks),
        cmocka_unit_test(a_job_goes_on_from_a_cut_at_any_step_on_any_number_of_servers),
        cmocka_unit_test(a_spare_takes_the_place_of_a_dead_server_and_nothing_is_lost),
        cmocka_unit_test(who_dies_between_its_goodbyes_keeps_nobody_waiting),
        cmocka_unit_test(a_replica_has_all_that_was_acknowledged),
        cmocka_unit_test(a_dead_trainer_stops_nobody_where_trainers_are_apart),
        cmocka_unit_test(servers_agree_on_every_update_whoever_dies),
        cmocka_unit_test(deaths_losses_and_new_starts_together_cost_nothing),
        cmocka_unit_test(replicas_follow_one_another),
        cmocka_unit_test(a_cut_says_who_has_made_more_steps_than_its_maker),
        cmocka_unit_test(a_spare_takes_the_place_of_a_dead_trainer_in_every_mode),
        cmocka_unit_test(nobody_waits_for_an_heir_that_is_late_because_of_a_cut),
        cmocka_unit_test(nobody_waits_for_an_heir_of_which_another_server_0_has_heard_nothing),
        cmocka_unit_test(nobody_waits_for_a_cut_that_is_being_written),
        cmocka_unit_test(whoever_is_left_makes_cuts),
        cmocka_unit_test(every_leased_batch_gets_to_every_server_whoever_dies),
        cmocka_unit_test(a_killed_rank_that_nobody_replaces_ends_every_run_and_is_named),
        cmocka_unit_test(disagreement_is_refused_with_a_diff),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
