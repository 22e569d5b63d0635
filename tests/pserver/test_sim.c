/* test_sim.c - whole jobs under a seeded scheduler: what is promised holds for every seed.
 *
 * Ten thousand runs in all. TRIREME_SIM_RUNS changes how many seeds each test takes, TRIREME_SIM_FIRST the first of them; one
 * that fails is named, and fails again. An argument is the pattern of the tests to run. */
#include "tests/support/sim_job.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

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

static sim_options options_of(uint64_t seed, const char *mode)
{
    return (sim_options){.seed = seed, .servers = 1 + (int)(seed % 3), .trainers = 1 + (int)(seed / 3 % 4), .mode = mode, .steps = 6};
}

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

static void parameters_are_bitwise_those_of_one_process_in_any_order(void **state)
{
    (void)state;
    for (EACH_SEED(1200)) {
        const sim_options options = options_of(seed, "sync");
        check_run(&options);
    }
}

static void lost_and_doubled_messages_change_nothing(void **state)
{
    static const char *const modes[] = {"sync", "async", "sync(fewer)", "sync(backups=1)"};

    (void)state;
    for (EACH_SEED(1400)) {
        sim_options options = options_of(seed, modes[seed / 12 % 4]);
        options.loss = 0.05;
        check_run(&options);
    }
}

static void every_gradient_counts_once_in_any_mode(void **state)
{
    static const char *const modes[] = {"async", "ssp(0)", "ssp(2)", "sync(fewer)", "sync(backups=1)", "sync(backups=2)"};

    (void)state;
    for (EACH_SEED(1400)) {
        const sim_options options = options_of(seed, modes[seed / 12 % 6]);
        check_run(&options);
    }
}

/* In modes where updates come in any order what arrives is a whole number by these methods. */
static void compressed_gradients_are_those_of_one_process_that_compresses(void **state)
{
    static const char *const modes[] = {"sync", "sync", "sync", "async", "ssp(1)", "sync(fewer)", "sync(backups=1)"};
    static const char *const any[] = {"fp16", "bf16", "int8", "topk(0.01)", "topk(0.1)"};
    static const char *const whole[] = {"fp16", "bf16", "topk(0.01)", "topk(0.1)"};

    (void)state;
    for (EACH_SEED(1000)) {
        sim_options options = options_of(seed, modes[seed / 12 % 7]);
        options.compress = strcmp(options.mode, "sync") ? whole[seed % 4] : any[seed % 5];
        options.loss = seed % 3 ? 0 : 0.05;
        check_run(&options);
    }
}

static void jobs_of_sixty_four_ranks(void **state)
{
    static const char *const modes[] = {"sync", "async", "ssp(1)"};

    (void)state;
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

static void a_job_goes_on_from_a_cut_at_any_step_on_any_number_of_servers(void **state)
{
    static const char *const modes[] = {"sync", "sync(fewer)", "sync(backups=1)", "async", "ssp(0)", "ssp(2)", "geo(1)"};
    int                      cuts = 0;

    (void)state;
    for (EACH_SEED(300)) {
        sim_options options = options_of(seed, modes[seed / 12 % 7]);
        options.cuts = true;
        options.loss = seed % 4 ? 0 : 0.03;
        sim_job *job = sim_job_new(&options);
        run(job, seed);
        assert_true(sim_job_is_good(job));
        sim_job_check(job);
        sim_job_check_snapshots(job);
        check_last_cut(job, &options);
        for (const sim_snapshot *one = sim_job_snapshots(job); one; one = one->next, cuts++)
            check_going_on(&options, one);
        sim_job_free(job);
    }
    assert_true(cuts > (int)seeds(300) / 4);
}

/* == deaths ==================================================================================== */

static void kill_a_server(sim_job *job, const sim_options *options)
{
    tr_sim *sim = sim_job_sim(job);
    sim_job_kill(job, (int)tr_sim_random(sim, (uint64_t)options->servers), 1 + (int64_t)tr_sim_random(sim, 60000));
}

/* Of those who die at the start, before all had agreed, nothing is left to go on from: then the job has failed. */
static void a_spare_takes_the_place_of_a_dead_server_and_nothing_is_lost(void **state)
{
    static const char *const modes[] = {"sync", "async", "sync(fewer)", "ssp(1)", "sync", "sync(backups=1)"};
    uint64_t                 went_on = 0;

    (void)state;
    for (EACH_SEED(2000)) {
        sim_options options = options_of(seed, modes[seed / 12 % 6]);
        options.spares = 1 + (int)(seed % 2);
        options.compress = seed % 5 ? NULL : seed % 2 ? "topk(0.05)" : "fp16";
        sim_job *job = sim_job_new(&options);
        for (int i = 0; i < options.spares; i++)
            kill_a_server(job, &options);
        run(job, seed);
        if (sim_job_is_good(job)) {
            went_on++;
            sim_job_check(job);
        }
        sim_job_free(job);
    }
    assert_true(seeds(2000) < 100 || went_on > seeds(2000) / 4);
}

/* A host is lost with a server's memory: the job is started again, and goes on from the replica. */
static void a_replica_has_all_that_was_acknowledged(void **state)
{
    static const char *const modes[] = {"sync", "async", "sync(fewer)", "ssp(1)", "geo(1)", "sync(backups=1)"};
    const uint64_t           runs = seeds(800);
    uint64_t                 began_again = 0;

    (void)state;
    for (EACH_SEED(800)) {
        sim_options options = options_of(seed, modes[seed / 12 % 6]);
        options.replicas = true;
        options.loss = seed % 4 == 0 ? 0.05 : 0;
        sim_job  *job = sim_job_new(&options);
        tr_sim   *sim = sim_job_sim(job);
        const int lost = (int)tr_sim_random(sim, (uint64_t)options.servers);
        const int ranks = 2 * options.servers + options.trainers;
        if (seed % 5)
            sim_job_kill(job, lost, 1 + (int64_t)tr_sim_random(sim, 120000));
        else                                       /* a replica, which nobody misses */
            sim_job_kill(job, ranks - 1 - lost, 1 + (int64_t)tr_sim_random(sim, 60000));
        run(job, seed);
        if (!sim_job_is_good(job)) {
            sim_job *again = sim_job_again(job, lost);
            run(again, seed);
            sim_job_free(job);
            job = again;
            began_again++;
        }
        if (!sim_job_is_good(job))
            fail_msg("seed %llu: the job fails again", (unsigned long long)seed);
        sim_job_check(job);
        sim_job_free(job);
    }
    assert_true(runs < 100 || began_again > runs / 4);
}

static void a_dead_trainer_stops_nobody_where_trainers_are_apart(void **state)
{
    static const char *const modes[] = {"async", "sync(fewer)", "ssp(3)", "sync(backups=1)"};
    uint64_t                 went_on = 0;

    (void)state;
    for (EACH_SEED(1400)) {
        sim_options options = options_of(seed, modes[seed / 12 % 4]);
        options.trainers++;
        sim_job *job = sim_job_new(&options);
        tr_sim  *sim = sim_job_sim(job);
        sim_job_kill(job, options.servers + (int)tr_sim_random(sim, (uint64_t)options.trainers),
                     1 + (int64_t)tr_sim_random(sim, 60000));
        run(job, seed);
        if (sim_job_is_good(job)) {
            went_on++;
            sim_job_check(job);
        }
        sim_job_free(job);
    }
    assert_true(seeds(1400) < 100 || went_on > seeds(1400) / 4);
}

/* Servers and trainers die, at moments of their own. A trainer and a server within one step may be too much: then the job has
 * failed, but no server has made an update of other steps than the others. */
static void servers_agree_on_every_update_whoever_dies(void **state)
{
    static const char *const modes[] = {"sync(fewer)", "sync(backups=1)", "sync(fewer)", "sync(backups=2)"};
    uint64_t                 went_on = 0;

    (void)state;
    for (EACH_SEED(1000)) {
        sim_options options = options_of(seed, modes[seed / 12 % 4]);
        options.trainers += 1 + (int)(seed % 2);
        options.spares = 2;
        sim_job *job = sim_job_new(&options);
        tr_sim  *sim = sim_job_sim(job);
        for (int i = 0; i < 1 + (int)(seed % 2); i++)
            kill_a_server(job, &options);
        for (int i = 0; i < 1 + (int)(seed / 2 % 2); i++)
            sim_job_kill(job, options.servers + (int)tr_sim_random(sim, (uint64_t)options.trainers),
                         1 + (int64_t)tr_sim_random(sim, 60000));
        run(job, seed);
        if (sim_job_is_good(job)) {
            went_on++;
            sim_job_check(job);
        }
        sim_job_free(job);
    }
    assert_true(went_on > seeds(1000) / 4);
}

/* Whose memory is lost with its host now that the job has failed; -1: nobody's. Only a server whose replica has all. */
static int draw_lost(sim_job *job, const sim_options *options)
{
    const int server = (int)tr_sim_random(sim_job_sim(job), (uint64_t)options->servers);
    return tr_sim_random(sim_job_sim(job), 2) && sim_job_has_replica(job, server) ? server : -1;
}

/* Ranks of any role die at any moment, and messages are lost and doubled, those of the dead and of who takes their places among
 * them. When that is too much the job is started again, on the hosts that are left; at last nobody dies any more. Returns the
 * last start, and counts all. */
static sim_job *storm(sim_job *job, const sim_options *options, uint64_t *starts)
{
    enum { DEADLY = 2 };

    for (int start = 1;; start++) {
        const int size = sim_job_size(job);
        ++*starts;
        for (int i = 0; start <= DEADLY && i < 1 + (int)(options->seed / 2 % 3); i++)
            sim_job_kill(job, (int)tr_sim_random(sim_job_sim(job), (uint64_t)size),
                         1 + (int64_t)tr_sim_random(sim_job_sim(job), options->loss > 0 ? 300000 : 100000));
        run(job, options->seed);
        if (sim_job_is_good(job) && (!options->tasks || sim_job_has_trainers(job)))
            return job;
        if (start > DEADLY)
            fail_msg("seed %llu: the job fails although nobody dies", (unsigned long long)options->seed);
        sim_job *again = sim_job_again(job, draw_lost(job, options));
        sim_job_free(job);
        job = again;
    }
}

static void deaths_losses_and_new_starts_together_cost_nothing(void **state)
{
    static const char *const modes[] = {"sync", "async", "sync(fewer)", "ssp(1)", "sync(backups=1)", "geo(1)"};
    uint64_t                 starts = 0;

    (void)state;
    for (EACH_SEED(1000)) {
        sim_options options = options_of(seed, modes[seed / 12 % 6]);
        options.trainers++;
        options.spares = (int)(seed / 72 % 3);
        options.replicas = seed % 5 < 3;
        options.loss = seed % 7 == 0 ? 0 : 0.04;
        sim_job *job = storm(sim_job_new(&options), &options, &starts);
        sim_job_check(job);
        sim_job_free(job);
    }
    assert_true(starts > seeds(1000) * 5 / 4);
}

/* Replicas die, and who follows them, and servers: as often as ranks wait on the other host a server has a replica again, and then loses
 * nothing with its own host. */
static void replicas_follow_one_another(void **state)
{
    static const char *const modes[] = {"sync", "async", "sync(fewer)", "ssp(1)", "sync(backups=1)", "geo(1)"};
    uint64_t                 starts = 0, called = 0;

    (void)state;
    for (EACH_SEED(600)) {
        sim_options options = options_of(seed, modes[seed / 12 % 6]);
        options.steps = 12;
        options.spares = 2 + (int)(seed / 7 % 4);
        options.spares_there = options.replicas = true;
        options.heirs = seed / 3 % 4 == 0;
        options.tasks = !strcmp(options.mode, "async") && seed % 2 ? 4 : 0;
        options.loss = options.heirs || seed % 3 ? 0 : 0.03;
        options.cuts = seed % 4 == 0 && options.loss == 0;
        sim_job  *job = sim_job_new(&options);
        tr_sim   *sim = sim_job_sim(job);
        const int first = sim_job_size(job) - options.servers;
        sim_job_kill(job, first + (int)tr_sim_random(sim, (uint64_t)options.servers), 1 + (int64_t)tr_sim_random(sim, 40000));
        job = storm(job, &options, &starts);
        sim_job_check(job);
        if (options.cuts && !options.tasks)            /* a step that a server leaves out is in no sum */
            sim_job_check_snapshots(job);
        called += (uint64_t)sim_job_called(job);
        sim_job_free(job);
    }
    print_message("%llu new replicas in %llu starts\n", (unsigned long long)called, (unsigned long long)starts);
    assert_true(seeds(600) < 100 || called > seeds(600) / 3);
}

/* Where one trainer cuts for all, and has made fewer steps than others: it died, they went on, and the job was started again. */
static void a_cut_says_who_has_made_more_steps_than_its_maker(void **state)
{
    uint64_t apart = 0;

    (void)state;
    for (EACH_SEED(400)) {
        sim_options options = options_of(seed, "sync(fewer)");
        options.steps = 12;
        options.trainers++;
        options.cuts = true;
        sim_job *job = sim_job_new(&options);
        tr_sim  *sim = sim_job_sim(job);
        sim_job_kill(job, options.servers, 1 + (int64_t)tr_sim_random(sim, 60000));
        sim_job_kill(job, (int)tr_sim_random(sim, (uint64_t)options.servers), 60000 + (int64_t)tr_sim_random(sim, 60000));
        run(job, seed);
        if (!sim_job_is_good(job)) {
            sim_job *again = sim_job_again(job, -1);
            sim_job_free(job);
            job = again;
            run(job, seed);
            apart++;
        }
        sim_job_check(job);
        sim_job_check_snapshots(job);
        sim_job_free(job);
    }
    assert_true(seeds(400) < 100 || apart > seeds(400) / 4);
}

static void kill_a_trainer(sim_job *job, const sim_options *options)
{
    tr_sim *sim = sim_job_sim(job);
    sim_job_kill(job, options->servers + (int)tr_sim_random(sim, (uint64_t)options->trainers), 1 + (int64_t)tr_sim_random(sim, 90000));
}

/* Trainers die, and their heirs, and servers: as often as there are spares. What died before all had agreed is nobody's to
 * inherit, and of a trainer and a server within a step too much may be lost: then the job has failed. */
static void a_spare_takes_the_place_of_a_dead_trainer_in_every_mode(void **state)
{
    static const char *const modes[] = {"sync", "async", "ssp(0)", "sync(fewer)", "sync", "ssp(2)", "geo(1)", "sync(backups=1)"};
    uint64_t                 heirs = 0, went_on = 0;

    (void)state;
    for (EACH_SEED(400)) {
        sim_options options = options_of(seed, modes[seed / 12 % 8]);
        options.heirs = true;
        options.spares = 1 + (int)(seed / 2 % 3);
        options.cuts = seed / 5 % 3 == 0;
        options.loss = seed % 7 || options.spares > 1 ? 0 : 0.03;      /* a word that a server serves may not be lost */
        sim_job *job = sim_job_new(&options);
        tr_sim  *sim = sim_job_sim(job);
        kill_a_trainer(job, &options);
        for (int i = 1; i < options.spares; i++)
            switch (tr_sim_random(sim, 3)) {
            case 0:
                kill_a_trainer(job, &options);
                break;
            case 1:
                kill_a_server(job, &options);
                break;
            default:                               /* one that may be an heir by then */
                sim_job_kill(job, options.servers + options.trainers, 1 + (int64_t)tr_sim_random(sim, 40000));
            }
        run(job, seed);
        heirs += (uint64_t)sim_job_heirs(job);
        if (sim_job_is_good(job)) {
            went_on++;
            sim_job_check(job);
            if (options.cuts)
                sim_job_check_snapshots(job);
        }
        sim_job_free(job);
    }
    print_message("%llu heirs, %llu of %llu jobs went on\n", (unsigned long long)heirs, (unsigned long long)went_on,
                  (unsigned long long)seeds(400));
    assert_true(seeds(400) < 100 || (heirs > seeds(400) / 4 && went_on > seeds(400) / 4));
}

/* A trainer dies, and its heir is long in coming, and in making its first step: whoever cuts meanwhile must not wait for it. What the
 * others wait is messages, and servers at work: microseconds. */
static void nobody_waits_for_an_heir_that_is_late_because_of_a_cut(void **state)
{
    static const char *const modes[] = {"async", "geo(1)", "ssp(1000)"};
    const int64_t            late = 100000000, most = 2000000;
    uint64_t                 heirs = 0, cuts = 0;

    (void)state;
    for (EACH_SEED(300)) {
        sim_options options = options_of(seed, modes[seed / 12 % 3]);
        options.trainers++;
        options.steps = 30;
        options.heirs = options.cuts = true;
        options.heirs_late = late;
        options.spares = 1;
        sim_job *job = sim_job_new(&options);
        tr_sim  *sim = sim_job_sim(job);
        sim_job_kill(job, options.servers + (int)tr_sim_random(sim, (uint64_t)options.trainers), 1 + (int64_t)tr_sim_random(sim, 150000));
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
    assert_true(seeds(300) < 100 || (heirs > seeds(300) / 4 && cuts > seeds(300) / 2));
}

/* Who makes checkpoints dies, once or again, and nobody takes its place: another one makes them. Servers die, too. */
static void whoever_is_left_makes_cuts(void **state)
{
    static const char *const modes[] = {"async", "ssp(0)", "sync(fewer)", "ssp(2)", "geo(1)", "sync(backups=1)"};
    int                      others = 0, went_on = 0;

    (void)state;
    for (EACH_SEED(400)) {
        sim_options options = options_of(seed, modes[seed / 12 % 6]);
        options.trainers++;
        options.steps = 12;
        options.cuts = true;
        options.spares = (int)(seed / 5 % 3);
        options.loss = seed % 7 ? 0 : 0.03;
        sim_job *job = sim_job_new(&options);
        tr_sim  *sim = sim_job_sim(job);
        sim_job_kill(job, options.servers, 20000 + (int64_t)tr_sim_random(sim, 60000));
        if (options.trainers > 2 && seed % 2)
            sim_job_kill(job, options.servers + 1, 20000 + (int64_t)tr_sim_random(sim, 90000));
        for (int i = 0; i < options.spares; i++)
            kill_a_server(job, &options);
        run(job, seed);
        if (sim_job_is_good(job)) {
            went_on++;
            sim_job_check(job);
            sim_job_check_snapshots(job);
            check_last_cut(job, &options);
            for (const sim_snapshot *one = sim_job_snapshots(job); one; one = one->next)
                others += one->maker > 0;
            check_going_on(&options, sim_job_snapshots(job));
        }
        sim_job_free(job);
    }
    print_message("%d of %d jobs went on, and made %d cuts without trainer 0\n", went_on, (int)seeds(400), others);
    assert_true(seeds(400) < 100 || (went_on > (int)seeds(400) / 2 && others > (int)seeds(400)));
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
static void every_leased_batch_gets_to_every_server_whoever_dies(void **state)
{
    static const char *const modes[] = {"async", "geo(2)", "ssp(1)", "geo(1)", "ssp(0)", "geo(3)"};
    uint64_t                 starts = 0, cuts = 0;

    (void)state;
    for (EACH_SEED(400)) {
        sim_options options = options_of(seed, modes[seed / 12 % 6]);
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
    assert_true(seeds(400) < 100 || (starts > seeds(400) && cuts > seeds(400) / 8));
}

static void a_killed_rank_that_nobody_replaces_ends_every_run_and_is_named(void **state)
{
    (void)state;
    for (EACH_SEED(1200)) {
        const sim_options options = options_of(seed, "sync");
        sim_job          *job = sim_job_new(&options);
        tr_sim           *sim = sim_job_sim(job);
        const int         size = options.servers + options.trainers, victim = (int)tr_sim_random(sim, (uint64_t)size);
        int               failed = 0, named = 0;
        char              name[96];
        const char       *text;

        sim_job_kill(job, victim, 1 + (int64_t)tr_sim_random(sim, 60000));
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

static void disagreement_is_refused_with_a_diff(void **state)
{
    const sim_options options = {.seed = 5, .servers = 2, .trainers = 2, .mode = "sync", .steps = 6};
    sim_job          *job = sim_job_new(&options);
    const char       *text;

    (void)state;
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
        cmocka_unit_test(a_replica_has_all_that_was_acknowledged),
        cmocka_unit_test(a_dead_trainer_stops_nobody_where_trainers_are_apart),
        cmocka_unit_test(servers_agree_on_every_update_whoever_dies),
        cmocka_unit_test(deaths_losses_and_new_starts_together_cost_nothing),
        cmocka_unit_test(replicas_follow_one_another),
        cmocka_unit_test(a_cut_says_who_has_made_more_steps_than_its_maker),
        cmocka_unit_test(a_spare_takes_the_place_of_a_dead_trainer_in_every_mode),
        cmocka_unit_test(nobody_waits_for_an_heir_that_is_late_because_of_a_cut),
        cmocka_unit_test(whoever_is_left_makes_cuts),
        cmocka_unit_test(every_leased_batch_gets_to_every_server_whoever_dies),
        cmocka_unit_test(a_killed_rank_that_nobody_replaces_ends_every_run_and_is_named),
        cmocka_unit_test(disagreement_is_refused_with_a_diff),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
