/* test_sim_busy.c - a rank whose loop is busy for long gives signs of life, whatever it is busy with. A rank that is stuck or stopped gives
 * none. */
#include "tests/support/sim_seeds.h"

static const int64_t SECOND = 1000000000;
/* A silent rank is dead after 3 s. The cost of a run grows with the time that is simulated, so this is not longer than it must be. */
static const int64_t LONG = 10000000000;

static const char *const modes[] = {"sync", "async", "sync(degraded)", "ssp(1)", "geo(1)", "sync(backups=1)", "average(1)"};
enum { MODES = sizeof modes / sizeof *modes };

/* Whoever first gets a message of this kind works on it for so long. */
typedef struct work {
    sim_job     *job;
    tr_wire_kind kind;
    int64_t      duration;
    bool         is_stuck;
    int          worker;              /* -1: none yet */
} work;

static void hear(void *self, int64_t now, int from, int to, const tr_wire *wire, bool is_lost)
{
    work *w = self;

    (void)now;
    (void)from;
    if (is_lost || wire->kind != w->kind || w->worker >= 0)
        return;
    w->worker = to;
    tr_sim_busy(sim_job_sim(w->job), to, w->duration, w->is_stuck);
}

static sim_options options_with_all(uint64_t seed)
{
    sim_options options = sim_options_by(seed, modes, MODES);

    options.standbys = 2;
    options.replacements = true;
    options.replicas = seed % 2;
    options.snapshots = seed % 3 != 0;
    options.meets = seed % 4 == 0;
    return options;
}

static void check_all_are_well(sim_job *job, uint64_t seed)
{
    const char *text;

    for (int i = 0; i < sim_job_size(job); i++) {
        if (sim_job_status(job, i, &text) != TR_OK)
            fail_msg("seed %llu: rank %d: %s", (unsigned long long)seed, i, text);
        if (tr_sim_is_dead(sim_job_sim(job), i))
            fail_msg("seed %llu: rank %d was declared dead", (unsigned long long)seed, i);
    }
    sim_job_check(job);
}

/* Messages of the event loops themselves need no work. */
TEST(work_on_a_message_of_any_kind_may_take_ten_seconds)
{
    bool was_met[TR_WIRE_KIND_COUNT] = {false};

    for (EACH_SEED(140)) {
        work            w = {.kind = (tr_wire_kind)(1 + seed % (TR_WIRE_KIND_COUNT - 1)), .duration = LONG, .worker = -1};
        const sim_watch watch = {.payload = &w, .message = hear};
        sim_options     options = options_with_all(seed / 7);
        if (tr_wire_is_of_loop(w.kind))
            continue;
        options.seed = seed;
        options.tasks = !options.meets && (*options.mode == 'a' || *options.mode == 'g') && strncmp(options.mode, "average", 7) ? SIM_TASKS
                                                                                                                                : 0;
        options.watch = (struct sim_watch *)(uintptr_t)&watch;
        w.job = sim_job_new(&options);
        if (!tr_sim_run(sim_job_sim(w.job), 400 * SECOND))
            fail_msg("seed %llu does not end", (unsigned long long)seed);
        check_all_are_well(w.job, seed);
        was_met[w.kind] |= w.worker >= 0;
        sim_job_free(w.job);
    }
    int met = 0;
    for (int i = 0; i < TR_WIRE_KIND_COUNT; i++)
        met += was_met[i];
    if (!getenv("TRIREME_SIM_RUNS"))
        assert_true(met >= 25);
}

typedef struct busy {
    tr_sim *sim;
    int     rank;
    int64_t duration;
    bool    is_stuck;
} busy;

static void begin_work(void *payload)
{
    const busy *b = payload;
    tr_sim_busy(b->sim, b->rank, b->duration, b->is_stuck);
}

/* Commands of the owner, and what the end of an update brings, come without a message. Two ranks work at the same time. */
TEST(work_at_any_moment_may_take_ten_seconds)
{
    for (EACH_SEED(20)) {
        sim_options options = options_with_all(seed);
        sim_job    *job = sim_job_new(&options);
        tr_sim     *sim = sim_job_sim(job);
        busy        all[2];
        for (int i = 0; i < 2; i++) {
            all[i] = (busy){sim, (int)tr_sim_random(sim, (uint64_t)sim_job_size(job)), LONG, false};
            tr_sim_call(sim, all[i].rank, sim_moment(job, 100000), begin_work, &all[i]);
        }
        if (!tr_sim_run(sim, 400 * SECOND))
            fail_msg("seed %llu does not end", (unsigned long long)seed);
        check_all_are_well(job, seed);
        sim_job_free(job);
    }
}

/* Without progress there are no signs of life: a standby takes the place. */
TEST(a_rank_whose_threads_wait_for_each_other_is_dead)
{
    enum { RUNS = 24 };
    uint64_t went_on = 0, dead = 0;

    for (EACH_SEED(RUNS)) {
        sim_options options = options_with_all(seed);
        options.trainers++;
        options.steps = 12;
        sim_job *job = sim_job_new(&options);
        tr_sim  *sim = sim_job_sim(job);
        busy     stuck = {sim, (int)tr_sim_random(sim, (uint64_t)(options.servers + options.trainers)), 20 * SECOND, true};
        tr_sim_call(sim, stuck.rank, SIM_STARTED + (int64_t)tr_sim_random(sim, 100000), begin_work, &stuck);
        went_on += tr_sim_run(sim, 60 * SECOND) && sim_job_is_good(job);
        dead += tr_sim_is_dead(sim, stuck.rank);
        sim_job_free(job);
    }
    sim_expect_often("jobs that went on", went_on, RUNS, 50);
    sim_expect_often("ranks that were dead", dead, RUNS, 25);
}

/* It is stopped while it works: then nobody beats for it. */
TEST(a_busy_rank_that_is_stopped_is_dead)
{
    enum { RUNS = 24 };
    uint64_t dead = 0;

    for (EACH_SEED(RUNS)) {
        sim_options options = options_with_all(seed);
        options.trainers++;
        options.steps = 12;
        sim_job *job = sim_job_new(&options);
        tr_sim  *sim = sim_job_sim(job);
        busy     worker = {sim, (int)tr_sim_random(sim, (uint64_t)(options.servers + options.trainers)), 60 * SECOND, false};
        tr_sim_call(sim, worker.rank, SIM_STARTED + (int64_t)tr_sim_random(sim, 60000), begin_work, &worker);
        tr_sim_stop(sim, worker.rank, 10 * SECOND, 8 * SECOND);
        tr_sim_run(sim, 400 * SECOND);
        dead += tr_sim_is_dead(sim, worker.rank);
        sim_job_free(job);
    }
    sim_expect_often("ranks that were dead", dead, RUNS, 25);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_on_a_message_of_any_kind_may_take_ten_seconds),
        cmocka_unit_test(work_at_any_moment_may_take_ten_seconds),
        cmocka_unit_test(a_rank_whose_threads_wait_for_each_other_is_dead),
        cmocka_unit_test(a_busy_rank_that_is_stopped_is_dead),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
