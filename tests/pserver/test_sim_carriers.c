/* test_sim_carriers.c - simulated trainers of one host ask a server of another host for the same parameters: how many answers leave it, and
 * what their carrier remembers. */
#include "tests/support/expect.h"
#include "tests/support/sim_job.h"

enum { MILLISECOND = 1000000, SERVERS = 2, TRAINERS = 3 };

typedef struct watched {
    sim_job   *job;
    sim_options options;
    sim_watch  watch;
    uint64_t   bytes;                 /* of answers that have left the servers */
    int        lose;                  /* messages to lose: questions for all trainers, sent to the last server */
} watched;

static void count(void *payload, int64_t now, int from, int to, const tr_wire *wire, bool is_lost)
{
    watched *w = payload;

    (void)now;
    (void)is_lost;
    if (from < SERVERS && to >= SERVERS && (wire->kind == TR_WIRE_DATA || wire->kind == TR_WIRE_DATA_MANY))
        w->bytes += wire->bytes;
}

static bool lose(void *payload, int from, int to, const tr_wire *wire)
{
    watched *w = payload;

    (void)from;
    if (!w->lose || to != SERVERS - 1 || wire->kind != TR_WIRE_PULL || wire->pull.part != TR_PART_FIRST)
        return false;
    w->lose--;
    return true;
}

/* `repeats`: trainers ask again when no answer comes for some microseconds. */
static void begin(watched *w, bool repeats)
{
    *w = (watched){.watch = {w, count, NULL, lose}};
    w->options = (sim_options){.seed = 1, .servers = SERVERS, .trainers = TRAINERS, .steps = 1, .mode = "sync", .is_scripted = true,
                               .is_elsewhere = true, .parameters = 2, .loss = repeats ? 1e-300 : 0, .watch = &w->watch};
    w->job = sim_job_new(&w->options);
    sim_job_pass(w->job, 100 * MILLISECOND);
}

/* Trainer `trainer` does this, and time passes. */
static void make(const watched *w, int trainer, const char *word, int64_t time)
{
    assert_true(sim_job_ask(w->job, trainer, word));
    sim_job_pass(w->job, time);
}

static void make_step(const watched *w)
{
    for (int i = 0; i < TRAINERS; i++)
        make(w, i, "step", 0);
    sim_job_pass(w->job, 100 * MILLISECOND);
}

/* Bytes of answers for a step whose trainers ask for everything at once, the first one excepted: it stops so long within its questions. */
static uint64_t bytes_of_step(watched *w, int64_t pause)
{
    w->bytes = 0;
    for (int i = 0; i < TRAINERS; i++) {
        make(w, i, "push", 0);
        make(w, i, "end", 0);
        make(w, i, "pull-first", i ? 0 : pause);
        make(w, i, "pull-others", 0);
    }
    sim_job_pass(w->job, 100 * MILLISECOND);
    return w->bytes;
}

TEST(trainers_that_ask_at_different_moments_get_one_answer)
{
    watched w;

    begin(&w, false);
    make_step(&w);                                 /* of a first step no questions are put together */
    const uint64_t alone = bytes_of_step(&w, 0);
    for (int64_t pause = 1; pause < 16; pause += 2)
        assert_int_equal(bytes_of_step(&w, pause * MILLISECOND), alone);
    sim_job_free(w.job);
}

TEST(answers_that_do_not_come_are_forgotten_behind_their_step)
{
    enum { STEPS = 6 };
    watched w;

    begin(&w, true);
    make_step(&w);
    for (int i = 0; i < STEPS; i++) {              /* trainer 0 asks again by itself, and gets the answer that its carrier expects */
        w.lose = 1;
        make_step(&w);
        assert_int_equal(w.lose, 0);
        assert_int_equal(sim_job_awaited_answers(w.job), 1);
    }
    sim_job_free(w.job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trainers_that_ask_at_different_moments_get_one_answer),
        cmocka_unit_test(answers_that_do_not_come_are_forgotten_behind_their_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
