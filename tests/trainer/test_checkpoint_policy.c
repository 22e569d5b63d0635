/* test_checkpoint_policy.c - when a checkpoint is due: each case is a row, or a few events and the answers to them. */
#include "tests/support/expect.h"

#include "framework/base/memory.h"
#include "trainer/checkpoints/checkpoint_policy.h"

#define SECOND (int64_t)1000000000

/* A trainer that makes checkpoints, from step 0. */
static const tr_checkpoint_start EVERY_5 = {.every_steps = 5, .resumed = -1, .newest = -1, .is_first = true};

static tr_checkpoint_action look(const tr_checkpoint_policy *p, int64_t steps, int64_t now)
{
    return tr_checkpoint_policy_look(p, &(tr_checkpoint_view){.steps = steps, .now = now, .is_possible = true});
}

static int64_t steps_to_look(const tr_checkpoint_policy *p, int64_t steps, int64_t now)
{
    return tr_checkpoint_policy_steps_to_look(p, &(tr_checkpoint_view){.steps = steps, .now = now, .is_possible = true});
}

static void write_one(tr_checkpoint_policy *p, int64_t steps, int64_t now)
{
    tr_checkpoint_policy_begun(p, steps, now);
    assert_false(tr_checkpoint_policy_ended(p, TR_OK, false));
}

TEST(a_training_goes_on_from_the_servers_before_a_checkpoint)
{
    static const struct { bool servers, resume, has_some; tr_checkpoint_origin origin; } rows[] = {
        {false, false, false, TR_ORIGIN_BEGINNING},  {false, false, true, TR_ORIGIN_BEGINNING},
        {false, true,  false, TR_ORIGIN_BEGINNING},  {false, true,  true, TR_ORIGIN_CHECKPOINT},
        {true,  false, false, TR_ORIGIN_SERVERS},    {true,  true,  true, TR_ORIGIN_SERVERS},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(tr_checkpoint_origin_of(rows[i].servers, rows[i].resume, rows[i].has_some), rows[i].origin);
}

TEST(beside_the_servers_state_only_statistics_are_taken)
{
    for (int kind = 0; kind < TR_STATE_KIND_COUNT; kind++) {
        assert_false(tr_checkpoint_origin_takes(TR_ORIGIN_BEGINNING, (tr_state_kind)kind, false));
        assert_true(tr_checkpoint_origin_takes(TR_ORIGIN_CHECKPOINT, (tr_state_kind)kind, true));
        assert_int_equal(tr_checkpoint_origin_takes(TR_ORIGIN_SERVERS, (tr_state_kind)kind, false), kind == TR_STATE_STATISTIC);
        assert_false(tr_checkpoint_origin_takes(TR_ORIGIN_SERVERS, (tr_state_kind)kind, true));
    }
}

TEST(the_newest_checkpoint_is_read_where_it_has_something_that_the_servers_lack)
{
    static const struct { tr_checkpoint_origin origin; int64_t steps; bool has_some, reads; } rows[] = {
        {TR_ORIGIN_BEGINNING,  0, true,  false}, {TR_ORIGIN_CHECKPOINT, 5, true,  true},
        {TR_ORIGIN_SERVERS,    0, true,  false}, {TR_ORIGIN_SERVERS,    5, true,  true},
        {TR_ORIGIN_SERVERS,    5, false, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(tr_checkpoint_origin_reads(rows[i].origin, rows[i].steps, rows[i].has_some), rows[i].reads);
}

TEST(trainer_0_makes_the_checkpoints_of_a_new_job)
{
    for (int has_state = 0; has_state < 2; has_state++) {
        tr_checkpoint_start start = EVERY_5;
        start.servers_have_state = has_state;
        tr_checkpoint_policy *p = tr_checkpoint_policy_new(&start, 0);
        assert_int_equal(tr_checkpoint_policy_becomes_initiator(p, true), has_state);    /* else it is one already */
        tr_checkpoint_policy_free(p);
    }
}

TEST(a_checkpoint_is_reported_where_that_is_asked_for)
{
    const tr_job_checkpoint_report report = {.step = 12, .bytes = 4096, .seconds = 0.0125, .pause = 0.0004};

    unsetenv("TRIREME_CHECKPOINT_REPORT");
    assert_null(tr_checkpoint_report_text(&report));
    setenv("TRIREME_CHECKPOINT_REPORT", "1", 1);
    char *text = tr_checkpoint_report_text(&report);
    assert_string_equal(text, "checkpoint of step 12: 4096 bytes in 0.013 s, trainers waited 0.40 ms");
    free(text);
    setenv("TRIREME_CHECKPOINT_REPORT", "0", 1);
    assert_null(tr_checkpoint_report_text(&report));
    unsetenv("TRIREME_CHECKPOINT_REPORT");
}

/* One row: a policy, and a moment of it. `to_look`: what steps_to_look says. */
TEST(a_checkpoint_is_due_by_steps_or_seconds)
{
    static const struct {
        int64_t every; double seconds; int64_t first, steps_on_servers, steps, now; bool is_due; int64_t to_look;
    } rows[] = {
        {5, 0,   0, 0,  0, 0,             false, 5},
        {5, 0,   0, 0,  4, 99999 * SECOND, false, 1},
        {5, 0,   0, 0,  5, 0,             true,  1},
        {5, 0,   0, 0,  7, 0,             true,  1},       /* it was not possible after step 5 */
        {5, 0,   7, 0,  9, 0,             false, 1},       /* after a start from step 7 */
        {5, 0,   7, 0, 10, 0,             true,  1},
        {5, 0,   0, 7,  8, 0,             false, 2},       /* the servers have 7 steps of an earlier start */
        {5, 0,   0, 7, 10, 0,             true,  1},
        {0, 2.5, 0, 0,  1, 2 * SECOND,    false, 0},
        {0, 2.5, 0, 0,  1, 3 * SECOND,    true,  1},
        {0, 2.5, 0, 0,  0, 3 * SECOND,    false, 0},       /* nothing is new since the beginning */
        {5, 2.5, 0, 0,  1, 3 * SECOND,    true,  1},
        {0, 0,   0, 0,  1, 599 * SECOND,  false, 0},
        {0, 0,   0, 0,  1, 600 * SECOND,  true,  1},       /* neither was given */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tr_checkpoint_policy *p = tr_checkpoint_policy_new(&(tr_checkpoint_start){.every_steps = rows[i].every,
                                                                                  .every_seconds = rows[i].seconds,
                                                                                  .first = rows[i].first,
                                                                                  .steps_on_servers = rows[i].steps_on_servers,
                                                                                  .resumed = -1,
                                                                                  .newest = -1,
                                                                                  .is_first = true},
                                                           0);
        if ((look(p, rows[i].steps, rows[i].now) == TR_CHECKPOINT_BEGIN) != rows[i].is_due)
            fail_msg("row %zu: due: %d", i, !rows[i].is_due);
        if (steps_to_look(p, rows[i].steps, rows[i].now) != rows[i].to_look)
            fail_msg("row %zu: %lld steps to the next look", i, (long long)steps_to_look(p, rows[i].steps, rows[i].now));
        tr_checkpoint_policy_free(p);
    }
}

TEST(a_trainer_goes_on_without_checkpoints_that_cannot_be_made)
{
    static const struct { bool is_initiator; tr_checkpoint_view view; tr_checkpoint_action action; } rows[] = {
        {true,  {.steps = 5, .is_possible = true},                                          TR_CHECKPOINT_BEGIN},
        {true,  {.steps = 5, .is_possible = false},                                         TR_CHECKPOINT_GO_ON},
        {true,  {.steps = 5, .is_possible = true, .is_under_way = true},                    TR_CHECKPOINT_GO_ON},
        {false, {.steps = 5, .is_possible = true},                                          TR_CHECKPOINT_GO_ON},
        {true,  {.steps = 1, .is_possible = true, .is_asked = true},                        TR_CHECKPOINT_STOP},
        {true,  {.steps = 1, .is_possible = true, .is_asked = true, .is_under_way = true},  TR_CHECKPOINT_STOP},
        {true,  {.steps = 1, .is_possible = false, .is_asked = true},                       TR_CHECKPOINT_GO_ON},
        {false, {.steps = 1, .is_possible = true, .is_asked = true},                        TR_CHECKPOINT_GO_ON},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tr_checkpoint_start start = EVERY_5;
        start.is_first = rows[i].is_initiator;
        tr_checkpoint_policy *p = tr_checkpoint_policy_new(&start, 0);
        if (tr_checkpoint_policy_look(p, &rows[i].view) != rows[i].action)
            fail_msg("row %zu: %d", i, (int)tr_checkpoint_policy_look(p, &rows[i].view));
        if (rows[i].view.is_asked)                   /* a loop must not go on for long */
            assert_int_equal(tr_checkpoint_policy_steps_to_look(p, &rows[i].view), rows[i].is_initiator);
        tr_checkpoint_policy_free(p);
    }
}

TEST(the_outcome_is_asked_for_before_the_next_one_begins)
{
    tr_checkpoint_policy *p = tr_checkpoint_policy_new(&EVERY_5, 0);

    tr_checkpoint_policy_begun(p, 5, 0);
    assert_true(tr_checkpoint_policy_is_pending(p));
    assert_false(tr_checkpoint_policy_has_saved(p, 5));
    assert_int_equal(steps_to_look(p, 6, 0), 1);
    assert_int_equal(look(p, 6, 0), TR_CHECKPOINT_REPORT);
    tr_checkpoint_policy_ended(p, TR_OK, false);
    assert_int_equal(look(p, 6, 0), TR_CHECKPOINT_GO_ON);
    assert_int_equal(look(p, 10, 0), TR_CHECKPOINT_BEGIN);
    tr_checkpoint_policy_free(p);
}

TEST(a_full_disk_is_told_once_and_the_next_one_comes_when_it_is_due)
{
    tr_checkpoint_policy *p = tr_checkpoint_policy_new(&EVERY_5, 0);

    tr_checkpoint_policy_begun(p, 5, 0);
    assert_true(tr_checkpoint_policy_ended(p, TR_EIO, false));
    assert_int_equal(tr_checkpoint_policy_status(p), TR_EIO);
    assert_int_equal(look(p, 6, 0), TR_CHECKPOINT_GO_ON);
    tr_checkpoint_policy_begun(p, 10, 0);
    assert_false(tr_checkpoint_policy_ended(p, TR_EIO, false));
    write_one(p, 15, 0);
    assert_int_equal(tr_checkpoint_policy_status(p), TR_OK);
    tr_checkpoint_policy_begun(p, 20, 0);
    assert_true(tr_checkpoint_policy_ended(p, TR_EIO, false));
    tr_checkpoint_policy_free(p);
}

TEST(a_checkpoint_that_a_death_cost_is_begun_anew_after_a_second)
{
    tr_checkpoint_policy *p = tr_checkpoint_policy_new(&EVERY_5, 0);

    tr_checkpoint_policy_begun(p, 5, 0);
    tr_checkpoint_policy_ended(p, TR_EIO, true);
    assert_int_equal(look(p, 6, SECOND / 2), TR_CHECKPOINT_GO_ON);
    assert_int_equal(look(p, 5, SECOND), TR_CHECKPOINT_GO_ON);           /* no step since */
    assert_int_equal(look(p, 6, SECOND), TR_CHECKPOINT_BEGIN);
    assert_int_equal(steps_to_look(p, 6, SECOND), 1);
    write_one(p, 6, SECOND);
    assert_int_equal(look(p, 7, 3 * SECOND), TR_CHECKPOINT_GO_ON);
    tr_checkpoint_policy_free(p);
}

TEST(a_dead_peer_says_nothing_of_the_disk)
{
    tr_checkpoint_policy *p = tr_checkpoint_policy_new(&EVERY_5, 0);

    tr_checkpoint_policy_begun(p, 5, 0);
    assert_false(tr_checkpoint_policy_ended(p, TR_EPEER, false));
    assert_int_equal(tr_checkpoint_policy_status(p), TR_OK);
    assert_false(tr_checkpoint_policy_has_saved(p, 5));
    tr_checkpoint_policy_free(p);
}

/* The last checkpoint of a training: the attempts that are made, given what becomes of them. */
static int attempts(tr_checkpoint_policy *p, int64_t steps, bool has_more, const tr_status *statuses)
{
    tr_checkpoint_action action;
    int                  count = 0;

    while ((action = tr_checkpoint_policy_finish(p, steps, has_more)) != TR_CHECKPOINT_GO_ON)
        if (action == TR_CHECKPOINT_BEGIN) {
            tr_checkpoint_policy_begun(p, steps, 0);
            count++;
        } else {
            tr_checkpoint_policy_ended(p, statuses[count - 1], false);
        }
    return count;
}

TEST(the_last_one_is_tried_twice)
{
    static const struct { int64_t saved, steps; bool can_lag, has_more; tr_status outcome[2]; int attempts; bool is_saved; } rows[] = {
        {5, 7, false, false, {TR_OK},          1, true},
        {5, 5, false, false, {TR_OK},          0, true},         /* the newest has all */
        {5, 5, true,  false, {TR_OK},          1, true},         /* others may have made steps */
        {5, 5, false, true,  {TR_OK},          1, true},         /* the servers have made more updates */
        {5, 7, false, false, {TR_EIO, TR_OK},  2, true},
        {5, 7, false, false, {TR_EIO, TR_EIO}, 2, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tr_checkpoint_start start = EVERY_5;
        start.can_lag = rows[i].can_lag;
        tr_checkpoint_policy *p = tr_checkpoint_policy_new(&start, 0);
        write_one(p, rows[i].saved, 0);
        const int made = attempts(p, rows[i].steps, rows[i].has_more, rows[i].outcome);
        if (made != rows[i].attempts || tr_checkpoint_policy_has_saved(p, rows[i].steps) != rows[i].is_saved)
            fail_msg("row %zu: %d attempts", i, made);
        assert_int_equal(tr_checkpoint_policy_finish(p, rows[i].steps, false) != TR_CHECKPOINT_GO_ON, rows[i].can_lag || !rows[i].is_saved);
        tr_checkpoint_policy_free(p);
    }
}

TEST(the_last_one_waits_for_the_one_that_is_being_written)
{
    tr_checkpoint_policy *p = tr_checkpoint_policy_new(&EVERY_5, 0);

    tr_checkpoint_policy_begun(p, 5, 0);
    assert_int_equal(tr_checkpoint_policy_finish(p, 5, false), TR_CHECKPOINT_REPORT);
    tr_checkpoint_policy_ended(p, TR_OK, false);
    assert_int_equal(tr_checkpoint_policy_finish(p, 5, false), TR_CHECKPOINT_GO_ON);
    tr_checkpoint_policy_free(p);
}

/* -- another trainer made them before ------------------------------------------------------------------- */

TEST(the_next_maker_counts_on_from_the_newest)
{
    tr_checkpoint_start start = EVERY_5;
    start.is_first = false;
    tr_checkpoint_policy *p = tr_checkpoint_policy_new(&start, 0);

    assert_false(tr_checkpoint_policy_becomes_initiator(p, false));
    assert_true(tr_checkpoint_policy_becomes_initiator(p, true));
    assert_false(tr_checkpoint_policy_becomes_initiator(p, true));
    tr_checkpoint_policy_take_over(p, 7, 10, 1.0, 9 * SECOND);           /* the first trainer was three steps further */
    assert_int_equal(tr_checkpoint_policy_label(p, 7), 10);
    assert_true(tr_checkpoint_policy_has_saved(p, 7));
    assert_int_equal(look(p, 8, 9 * SECOND), TR_CHECKPOINT_GO_ON);
    assert_int_equal(look(p, 10, 9 * SECOND), TR_CHECKPOINT_BEGIN);
    assert_int_equal(tr_checkpoint_policy_label(p, 10), 13);
    tr_checkpoint_policy_free(p);
}

TEST(checkpoints_of_before_the_launch_do_not_count)
{
    tr_checkpoint_start start = EVERY_5;
    start.is_first = false;
    start.newest = 99;                                                   /* of a training that this one does not go on from */
    tr_checkpoint_policy *p = tr_checkpoint_policy_new(&start, 0);

    tr_checkpoint_policy_becomes_initiator(p, true);
    tr_checkpoint_policy_take_over(p, 4, 99, -1, SECOND);
    assert_int_equal(tr_checkpoint_policy_label(p, 4), 4);
    assert_false(tr_checkpoint_policy_has_saved(p, 4));
    assert_int_equal(look(p, 5, SECOND), TR_CHECKPOINT_BEGIN);
    tr_checkpoint_policy_free(p);
}

TEST(the_interval_counts_from_the_last_checkpoint_of_any_trainer)
{
    static const struct { bool servers_have_state; double age; int64_t now, due_at; } rows[] = {
        {false, 3.0,  10 * SECOND, 17 * SECOND},
        {false, -1,   10 * SECOND, 10 * SECOND},         /* there is none: from the beginning of this process */
        {false, 99.0, 10 * SECOND, 10 * SECOND},         /* older than the launch */
        {true,  99.0, 10 * SECOND, 10 * SECOND},         /* this process is younger than the launch */
        {true,  3.0,  10 * SECOND, 17 * SECOND},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tr_checkpoint_policy *p = tr_checkpoint_policy_new(&(tr_checkpoint_start){
            .every_seconds = 10, .resumed = -1, .newest = -1, .servers_have_state = rows[i].servers_have_state}, 0);
        tr_checkpoint_policy_becomes_initiator(p, true);
        tr_checkpoint_policy_take_over(p, 1, -1, rows[i].age, rows[i].now);
        if (look(p, 1, rows[i].due_at - 1) == TR_CHECKPOINT_BEGIN && rows[i].due_at > rows[i].now)
            fail_msg("row %zu: too early", i);
        if (look(p, 1, rows[i].due_at) != TR_CHECKPOINT_BEGIN)
            fail_msg("row %zu: too late", i);
        tr_checkpoint_policy_free(p);
    }
}

TEST(a_name_counts_on_from_the_checkpoint_that_the_training_goes_on_from)
{
    tr_checkpoint_start start = EVERY_5;
    start.first = 7;                                                     /* this trainer's steps in it */
    start.resumed = 10;
    tr_checkpoint_policy *p = tr_checkpoint_policy_new(&start, 0);

    assert_int_equal(tr_checkpoint_policy_label(p, 8), 11);
    assert_true(tr_checkpoint_policy_has_saved(p, 7));
    tr_checkpoint_policy_free(p);
}

/* -- the end by a signal ---------------------------------------------------------------------------------- */

static void check_text(tr_checkpoint_policy *p, int64_t steps, const char *expected)
{
    char *text = tr_checkpoint_policy_stop_text(p, "DIR", "SIGTERM", steps);

    assert_string_equal(text, expected);
    tr_free(text);
}

TEST(a_stopped_training_says_where_its_checkpoint_is)
{
    tr_checkpoint_policy *p = tr_checkpoint_policy_new(&EVERY_5, 0);

    check_text(p, 0, "stopped by SIGTERM after step 0; it is in no checkpoint");
    write_one(p, 7, 0);
    check_text(p, 7, "stopped by SIGTERM after step 7; the checkpoint is DIR/step-000000007");
    tr_checkpoint_policy_begun(p, 8, 0);
    tr_checkpoint_policy_ended(p, TR_EIO, false);
    check_text(p, 8, "stopped by SIGTERM after step 8; it is in no checkpoint");
    tr_checkpoint_policy_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_training_goes_on_from_the_servers_before_a_checkpoint),
        cmocka_unit_test(beside_the_servers_state_only_statistics_are_taken),
        cmocka_unit_test(the_newest_checkpoint_is_read_where_it_has_something_that_the_servers_lack),
        cmocka_unit_test(trainer_0_makes_the_checkpoints_of_a_new_job),
        cmocka_unit_test(a_checkpoint_is_reported_where_that_is_asked_for),
        cmocka_unit_test(a_checkpoint_is_due_by_steps_or_seconds),
        cmocka_unit_test(a_trainer_goes_on_without_checkpoints_that_cannot_be_made),
        cmocka_unit_test(the_outcome_is_asked_for_before_the_next_one_begins),
        cmocka_unit_test(a_full_disk_is_told_once_and_the_next_one_comes_when_it_is_due),
        cmocka_unit_test(a_checkpoint_that_a_death_cost_is_begun_anew_after_a_second),
        cmocka_unit_test(a_dead_peer_says_nothing_of_the_disk),
        cmocka_unit_test(the_last_one_is_tried_twice),
        cmocka_unit_test(the_last_one_waits_for_the_one_that_is_being_written),
        cmocka_unit_test(the_next_maker_counts_on_from_the_newest),
        cmocka_unit_test(checkpoints_of_before_the_launch_do_not_count),
        cmocka_unit_test(the_interval_counts_from_the_last_checkpoint_of_any_trainer),
        cmocka_unit_test(a_name_counts_on_from_the_checkpoint_that_the_training_goes_on_from),
        cmocka_unit_test(a_stopped_training_says_where_its_checkpoint_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
