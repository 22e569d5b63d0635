/* test_server_modes.c - one server, two or three trainers, messages by hand: what makes an update in each mode, and what a trainer gets
 * while others make some. */
#include "tests/support/server_rig.h"


TEST(modes_are_read_and_mistakes_in_them_explained)
{
    tr_policy policy;

    EXPECT_OK(tr_policy_parse(&policy, "ssp(3)"));
    assert_true(policy.lead == 3 && !policy.is_lockstep);
    EXPECT_OK(tr_policy_parse(&policy, "sync(backups=2)"));
    assert_true(policy.is_lockstep && policy.backups == 2 && policy.decides && policy.lead == -1);
    EXPECT_OK(tr_policy_parse(&policy, "async(compensation=0.25)"));
    assert_true(policy.caches_rows && policy.compensation == 0.25 && policy.period == 1);
    EXPECT_OK(tr_policy_parse(&policy, "geo(10)"));
    assert_true(policy.trains_copies && policy.period == 10);
    EXPECT_OK(tr_policy_parse(&policy, "average(4)"));
    assert_true(policy.is_lockstep && policy.trains_copies && !policy.snapshots_all && !policy.gathers_per_trainer && policy.period == 4);
    EXPECT_FAIL(TR_EINVAL, "ssp needs a number", tr_policy_parse(&policy, "ssp"));
    EXPECT_FAIL(TR_EINVAL, "possible are sync", tr_policy_parse(&policy, "asynch"));
    EXPECT_FAIL(TR_EINVAL, "sync takes backups=NUMBER", tr_policy_parse(&policy, "sync(2)"));
    EXPECT_FAIL(TR_ERANGE, "a whole number from 1", tr_policy_parse(&policy, "geo(0)"));
    EXPECT_FAIL(TR_ERANGE, "a whole number", tr_policy_parse(&policy, "ssp(1.5)"));
    EXPECT_FAIL(TR_EINVAL, "')' must stand", tr_policy_parse(&policy, "geo(3"));
}

TEST(in_mode_async_each_trainers_step_is_an_update)
{
    rig          r = make_running_as("async");
    tr_job_stats stats;

    pull(&r, TRAINER0, 0);
    pull(&r, TRAINER1, 0);
    push_step(&r, TRAINER1, 1, 3);
    assert_int_equal(applying, 1);
    assert_true(took_part[1] && !took_part[0]);
    assert_true(grad[1][2047] == 3);
    push_step(&r, TRAINER0, 1, 5);                 /* waits until the first is applied */
    pull(&r, TRAINER0, 1);
    assert_true(grad[1][0] == 3);
    assert_int_equal(answers(&r, TRAINER0), 3);    /* of its first pull */
    tr_server_applied(r.server, TR_OK);
    assert_int_equal(applying, 2);
    assert_true(grad[1][0] == 5 && grad[0][3] == 5);
    assert_int_equal(answers(&r, TRAINER0), 0);
    tr_server_applied(r.server, TR_OK);
    assert_int_equal(answers(&r, TRAINER0), 3);
    tr_server_stats(r.server, &stats);
    assert_int_equal(stats.staleness[0], 1);
    assert_int_equal(stats.staleness[1], 1);       /* one update came between */
    unmake(&r);
}

TEST(in_mode_ssp_the_fastest_waits_for_the_slowest)
{
    rig r = make_running_as("ssp(1)");

    for (uint64_t step = 1; step <= 2; step++) {
        push_step(&r, TRAINER0, step, 1);
        tr_server_applied(r.server, TR_OK);
        pull(&r, TRAINER0, step);
        assert_int_equal(answers(&r, TRAINER0), step == 1 ? 3 : 0);
    }
    push_step(&r, TRAINER1, 1, 1);
    assert_int_equal(answers(&r, TRAINER0), 0);
    tr_server_applied(r.server, TR_OK);
    assert_int_equal(answers(&r, TRAINER0), 3);
    unmake(&r);
}

TEST(with_backups_the_late_gradient_is_dropped)
{
    rig          r = make_running_as("sync(backups=1)");
    tr_job_stats stats;

    pull(&r, TRAINER0, 0);
    pull(&r, TRAINER1, 0);
    push_step(&r, TRAINER1, 1, 3);
    assert_int_equal(applying, 1);
    assert_true(grad[1][0] == 3);
    push_large(&r, TRAINER0, 1, 0, 9);
    tr_server_applied(r.server, TR_OK);
    push_large(&r, TRAINER0, 1, 1, 9);
    push_small(&r, TRAINER0, 1, 9);
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_STEP_END, .step_end = {.step = 1}}, NULL);
    assert_int_equal(applying, 1);
    assert_int_equal(take_ack(&r, TRAINER0, NULL), 7);          /* setup, join, pull, three pushes, the end: all settled */
    pull(&r, TRAINER0, 1);
    assert_int_equal(answers(&r, TRAINER0), 3);
    push_step(&r, TRAINER0, 2, 7);                 /* it has the newest parameters now */
    assert_int_equal(applying, 2);
    assert_true(grad[1][0] == 7);
    tr_server_stats(r.server, &stats);
    assert_int_equal(stats.dropped, 1);
    unmake(&r);
}

TEST(with_backups_a_trainer_that_left_counts_as_slow)
{
    rig r = make_running_with_three("sync(backups=1)");

    push_step(&r, TRAINER0, 1, 2);
    assert_int_equal(applying, 0);
    push_step(&r, TRAINER1, 1, 4);
    assert_int_equal(applying, 1);
    assert_true(grad[1][0] == 3);
    tr_server_applied(r.server, TR_OK);
    say(&r, TRAINER2, (tr_wire){.kind = TR_WIRE_GOODBYE}, NULL);
    pull(&r, TRAINER0, 1);
    pull(&r, TRAINER1, 1);
    push_step(&r, TRAINER0, 2, 6);
    assert_int_equal(applying, 1);                 /* two gradients make an update still, and there are two */
    push_step(&r, TRAINER1, 2, 8);
    assert_int_equal(applying, 2);
    assert_true(grad[1][0] == 7);
    tr_server_applied(r.server, TR_OK);
    lose(&r, TRAINER1);
    pull(&r, TRAINER0, 2);
    push_step(&r, TRAINER0, 3, 9);                 /* who is alone goes on alone */
    assert_int_equal(applying, 3);
    assert_true(grad[1][0] == 9);
    unmake(&r);
}

TEST(a_compensated_gradient_comes_with_what_it_was_computed_with)
{
    rig r = make_running_as("async(compensation=0.5)");

    push_step(&r, TRAINER0, 1, 1);
    assert_true(compensation == 0.5);
    unmake(&r);
}

TEST(in_asynchronous_modes_a_death_interrupts_nobody)
{
    static const char *const modes[] = {"async", "ssp(0)", "geo(4)", "sync(backups=1)"};

    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        rig         r = make_running_as(modes[i]);
        const char *text;
        push_large(&r, TRAINER1, 1, 0, 9);
        push_step(&r, TRAINER0, 1, 2);
        tr_server_applied(r.server, TR_OK);
        pull(&r, TRAINER0, 1);
        lose(&r, TRAINER1);
        assert_int_equal(status_of(&r, &text), TR_OK);
        assert_int_equal(answers(&r, TRAINER0), 3);
        push_step(&r, TRAINER0, 2, 4);
        assert_int_equal(applying, 2);
        assert_true(grad[1][0] == 4);
        tr_server_applied(r.server, TR_OK);
        push_large(&r, TRAINER1, 1, 1, 9);         /* it was only thought dead: its incarnation is over */
        assert_int_equal(status_of(&r, &text), TR_OK);
        say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_GOODBYE, .leave = {.step = 2}}, NULL);
        assert_true(tr_server_is_done(r.server));
        unmake(&r);
    }
}

/* -- parameters on their way, while others make updates ------------------------------------------------ */

/* A store with two buffers, whose update `n` makes every value n. */
static float    buffer[2][2][2048];
static uint64_t side;

static void *now_of(void *self, uint32_t index)
{
    (void)self;
    return buffer[side][index];
}

static void fill_next(void *self, const tr_update *update)
{
    (void)self;
    applying = update->number;
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2048; k++)
            buffer[1 - side][i][k] = (float)update->number;
}

static void switch_buffers(void *self, const tr_commit *commit, bool is_update)
{
    (void)self;
    (void)commit;
    side ^= is_update;
}

static rig make_with_buffers(const char *mode)
{
    tr_store store = plain_store();

    memset(buffer, 0, sizeof buffer);
    side = 0;
    store.param = now_of;
    store.apply = fill_next;
    store.commit = switch_buffers;
    rig r = make_of(1, 2, &store);
    say_setup(&r, mode, TR_FP32);
    say_join(&r, TRAINER0);
    say_join(&r, TRAINER1);
    return r;
}

/* Messages of the answers that the server has ready: they lie in `line`, and are not sent. */
static void fetch(rig *r, tr_outbox *line)
{
    tr_message m;

    while (r->node.next(r->node.self, &m))
        if (m.wire.kind == TR_WIRE_DATA || m.wire.kind == TR_WIRE_DATA_MANY)
            tr_outbox_put(line, &m);
        else
            tr_message_over(&m);
}

/* The next is sent: a piece of block 1, all of whose values are `value`. */
static void expect_piece(tr_outbox *line, float value)
{
    tr_message m;

    while (tr_outbox_take(line, &m) && m.wire.kind != TR_WIRE_DATA)
        tr_message_over(&m);
    assert_int_equal(m.wire.kind, TR_WIRE_DATA);
    for (uint64_t i = 0; i < m.wire.bytes / sizeof(float); i++)
        assert_true(((const float *)m.payload)[i] == value);
    tr_message_over(&m);
}

static void step_of_other(rig *r, uint64_t step)
{
    push_step(r, TRAINER1, step, 1);
    if (applying == step)
        tr_server_applied(r->server, TR_OK);
}

/* What trainer 0 has pulled is not sent, and the second update would write it. */
static void make_wait(rig *r, tr_outbox *line)
{
    pull(r, TRAINER0, 0);
    fetch(r, line);
    for (uint64_t step = 1; step <= 2; step++)
        step_of_other(r, step);
    assert_int_equal(applying, 1);
}

static const char *const overtaking[] = {"async", "ssp(3)", "geo(2)"};

TEST(an_update_waits_for_a_slow_receiver_of_the_buffer_that_it_writes)
{
    for (size_t i = 0; i < sizeof overtaking / sizeof *overtaking; i++) {
        rig       r = make_with_buffers(overtaking[i]);
        tr_outbox line = {0};
        char      waiting[256];
        pull(&r, TRAINER0, 0);
        fetch(&r, &line);
        step_of_other(&r, 1);
        expect_piece(&line, 0);
        step_of_other(&r, 2);                      /* it would write what the other piece shows */
        assert_int_equal(applying, 1);
        assert_true(r.node.awaits_loans(r.node.self));
        r.node.describe(r.node.self, waiting, sizeof waiting);
        assert_non_null(strstr(waiting, "trainer 0"));
        expect_piece(&line, 0);
        r.node.tick(r.node.self, 0);
        assert_int_equal(applying, 2);
        assert_false(r.node.awaits_loans(r.node.self));
        tr_outbox_deinit(&line);
        unmake(&r);
    }
}

TEST(an_unsent_block_is_copied_when_an_update_waits_for_it)
{
    rig       r = make_with_buffers("async");
    tr_outbox line = {0};

    make_wait(&r, &line);
    tr_outbox_give_back(&line);
    r.node.tick(r.node.self, 0);
    assert_int_equal(applying, 2);
    tr_server_applied(r.server, TR_OK);
    expect_piece(&line, 0);
    expect_piece(&line, 0);
    pull(&r, TRAINER1, 2);
    fetch(&r, &line);
    expect_piece(&line, 2);
    tr_outbox_deinit(&line);
    unmake(&r);
}

TEST(an_update_does_not_wait_for_a_dead_receiver)
{
    rig       r = make_with_buffers("async");
    tr_outbox line = {0};

    make_wait(&r, &line);
    r.node.lost(r.node.self, TRAINER0, "was silent for 3.0 s");
    r.node.tick(r.node.self, 0);
    assert_int_equal(applying, 2);
    tr_outbox_deinit(&line);
    unmake(&r);
}

/* Ours is server 1. The standby is on no known host, so it cannot take server 0's place. */
TEST(a_server_does_not_wait_for_decisions_without_a_living_server_0)
{
    static const tr_role ROLE[] = {TR_ROLE_SERVER, TR_ROLE_TRAINER, TR_ROLE_TRAINER, TR_ROLE_SERVER, TR_ROLE_STANDBY};
    const tr_store       store = plain_store();
    rig                  r = {.roster = tr_roster_new(3, 5)};

    for (int i = 0; i < 5; i++)
        tr_roster_put(r.roster, i, ROLE[i], 1, 100 + i, "h", "");
    EXPECT_OK(tr_roster_close(r.roster));
    serve_anew(&r, &store);
    say_setup(&r, "sync(backups=1)", TR_FP32);
    say_join(&r, TRAINER0);
    say_join(&r, TRAINER1);
    lose(&r, TRAINER0);
    lose(&r, TRAINER1);
    assert_false(tr_server_is_done(r.server));     /* server 0 is to decide what becomes of them */
    lose(&r, SERVER);
    EXPECT_REFUSED(&r, "rank 0 (server 0, host h, pid 100) died");
    unmake(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modes_are_read_and_mistakes_in_them_explained),
        cmocka_unit_test(in_mode_async_each_trainers_step_is_an_update),
        cmocka_unit_test(in_mode_ssp_the_fastest_waits_for_the_slowest),
        cmocka_unit_test(with_backups_the_late_gradient_is_dropped),
        cmocka_unit_test(with_backups_a_trainer_that_left_counts_as_slow),
        cmocka_unit_test(a_compensated_gradient_comes_with_what_it_was_computed_with),
        cmocka_unit_test(in_asynchronous_modes_a_death_interrupts_nobody),
        cmocka_unit_test(an_update_waits_for_a_slow_receiver_of_the_buffer_that_it_writes),
        cmocka_unit_test(an_unsent_block_is_copied_when_an_update_waits_for_it),
        cmocka_unit_test(an_update_does_not_wait_for_a_dead_receiver),
        cmocka_unit_test(a_server_does_not_wait_for_decisions_without_a_living_server_0),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
