/* test_meter.c - where a trainer's time goes; medians from bins. */
#include "tests/support/expect.h"

#include "pserver/observe/meter.h"

static const int64_t MS = 1000000;

static void expect_near(int64_t got, int64_t want)
{
    assert_true(got >= want - want / 16 - 1000 && got <= want + want / 16 + 1000);
}

TEST(a_median_is_six_percent_off_at_most)
{
    tr_times times = {0};

    assert_int_equal(tr_times_median(&times), 0);
    for (int64_t t = 1; t < 100000 * MS; t = t * 9 / 8 + 1) {
        tr_times one = {0};
        tr_times_add(&one, t);
        expect_near(tr_times_median(&one), t);
    }
    for (int i = 0; i < 101; i++)
        tr_times_add(&times, i < 51 ? 7 * MS : 900 * MS);
    expect_near(tr_times_median(&times), 7 * MS);
    assert_int_equal(tr_counter_get(&times.count), 101);
    assert_int_equal(tr_counter_get(&times.sum), 51 * 7 * MS + 50 * 900 * MS);
    assert_int_equal(tr_counter_get(&times.longest), 900 * MS);
}

TEST(values_beyond_all_bins_are_in_the_first_or_the_last)
{
    tr_times times = {0};

    tr_times_add(&times, -5);
    assert_int_equal(tr_times_median(&times), 500);
    tr_times_add(&times, INT64_MAX / 4);
    tr_times_add(&times, INT64_MAX / 4);
    assert_true(tr_times_median(&times) > 1000 * 1000 * MS);
}

TEST(what_a_script_does_up_to_the_last_test_run_is_for_the_tests)
{
    tr_trainer_meter *m = tr_trainer_meter_new(1);

    tr_trainer_meter_start(m, 100 * MS, 0);
    tr_trainer_meter_other_run(m, 101 * MS);       /* before the first step nothing is counted */
    tr_trainer_meter_begin(m, 101 * MS);
    tr_trainer_meter_end(m, 110 * MS);
    tr_trainer_meter_other_run(m, 113 * MS);       /* 3 ms of reading and testing */
    tr_trainer_meter_wait(m, 114 * MS, 119 * MS, 0);       /* its rows come from servers */
    tr_trainer_meter_other_run(m, 121 * MS);       /* 3 ms more, without the wait */
    tr_trainer_meter_begin(m, 130 * MS);           /* 9 ms for the step's own data */
    tr_trainer_meter_other_run(m, 131 * MS);       /* within a step nothing is counted */
    tr_trainer_meter_end(m, 140 * MS);
    tr_trainer_meter_begin(m, 145 * MS);
    tr_trainer_meter_end(m, 150 * MS);
    assert_int_equal(tr_counter_get(&m->other_runs), 6 * MS);
    assert_int_equal(tr_counter_get(&m->script.sum), 20 * MS);
    tr_trainer_meter_free(m);
}

TEST(a_step_is_waiting_the_scripts_own_and_computing)
{
    tr_trainer_meter *m = tr_trainer_meter_new(2);

    tr_trainer_meter_start(m, 100 * MS, 0);
    tr_trainer_meter_begin(m, 101 * MS);           /* nothing was waited for yet */
    tr_trainer_meter_end(m, 110 * MS);
    tr_trainer_meter_wait(m, 110 * MS, 115 * MS, 0);
    tr_trainer_meter_wait(m, 116 * MS, 118 * MS, 1);       /* after 1 ms of the script's */
    tr_trainer_meter_begin(m, 121 * MS);           /* after 3 ms more */
    tr_trainer_meter_encode(m, 1 * MS);
    tr_trainer_meter_encode(m, 1 * MS);
    tr_trainer_meter_end(m, 130 * MS);
    assert_int_equal(tr_counter_get(&m->step.sum), 30 * MS);
    assert_int_equal(tr_counter_get(&m->wait.sum), 7 * MS);
    assert_int_equal(tr_counter_get(&m->script.sum), 4 * MS);
    assert_int_equal(tr_counter_get(&m->encode.sum), 2 * MS);
    assert_int_equal(tr_counter_get(&m->compute.sum), 17 * MS);
    assert_int_equal(tr_counter_get(&m->wait_by_server[0]), 5 * MS);
    assert_int_equal(tr_counter_get(&m->wait_by_server[1]), 2 * MS);
    assert_int_equal(tr_counter_get(&m->ended), 2);
    tr_trainer_meter_free(m);
}

TEST(computing_behind_a_wait_in_the_middle_of_a_step_is_not_the_scripts)
{
    tr_trainer_meter *m = tr_trainer_meter_new(1);

    tr_trainer_meter_start(m, 100 * MS, 0);
    tr_trainer_meter_begin(m, 100 * MS);
    tr_trainer_meter_wait(m, 102 * MS, 103 * MS, 0);
    tr_trainer_meter_end(m, 110 * MS);             /* its run returns without a wait */
    tr_trainer_meter_begin(m, 112 * MS);
    tr_trainer_meter_wait(m, 113 * MS, 116 * MS, 0);
    tr_trainer_meter_end(m, 120 * MS);
    assert_int_equal(tr_counter_get(&m->wait.sum), 4 * MS);
    assert_int_equal(tr_counter_get(&m->script.sum), 2 * MS);
    assert_int_equal(tr_counter_get(&m->compute.sum), 14 * MS);
    tr_trainer_meter_free(m);
}

TEST(between_exchanges_the_scripts_own_time_is_known_too)
{
    tr_trainer_meter *m = tr_trainer_meter_new(1);

    tr_trainer_meter_start(m, 0, 0);
    tr_trainer_meter_begin(m, 0);
    tr_trainer_meter_pause(m, 4 * MS);
    tr_trainer_meter_begin(m, 5 * MS);
    tr_trainer_meter_end(m, 10 * MS);
    assert_int_equal(tr_counter_get(&m->script.sum), 1 * MS);
    assert_int_equal(tr_counter_get(&m->compute.sum), 9 * MS);
    assert_int_equal(tr_counter_get(&m->begun), 2);
    tr_trainer_meter_free(m);
}

TEST(a_trainer_that_goes_on_counts_the_steps_it_had)
{
    tr_trainer_meter *m = tr_trainer_meter_new(1);

    tr_trainer_meter_wait(m, 1, 2, 0);             /* for the servers, before it begins */
    tr_trainer_meter_start(m, 10 * MS, 40);
    tr_trainer_meter_end(m, 12 * MS);
    assert_int_equal(tr_counter_get(&m->ended), 41);
    assert_int_equal(tr_counter_get(&m->step.sum), 2 * MS);
    assert_int_equal(tr_counter_get(&m->wait.sum), 0);
    tr_trainer_meter_free(m);
}

TEST(waiting_between_steps_leaves_the_script_its_time)
{
    tr_trainer_meter *m = tr_trainer_meter_new(1);

    tr_trainer_meter_start(m, 0, 0);
    tr_trainer_meter_begin(m, 0);
    tr_trainer_meter_end(m, 10 * MS);
    tr_trainer_meter_wait(m, 30 * MS, 35 * MS, 0);     /* a test program of the script wants parameters */
    tr_trainer_meter_begin(m, 40 * MS);
    tr_trainer_meter_end(m, 42 * MS);
    assert_int_equal(tr_counter_get(&m->script.sum), 25 * MS);
    assert_int_equal(tr_counter_get(&m->wait.sum), 5 * MS);
    assert_int_equal(tr_counter_get(&m->compute.sum), 12 * MS);
    tr_trainer_meter_free(m);
}

TEST(a_meter_knows_the_present_activity_of_a_trainer)
{
    tr_trainer_meter *m = tr_trainer_meter_new(1);

    assert_int_equal(tr_counter_get(&m->doing), TR_DOES_START);
    tr_trainer_meter_start(m, 5 * MS, 0);
    assert_int_equal(tr_counter_get(&m->doing), TR_DOES_COMPUTE);
    tr_trainer_meter_end(m, 7 * MS);
    assert_int_equal(tr_counter_get(&m->doing), TR_DOES_SCRIPT);
    assert_int_equal(tr_counter_get(&m->ended_at), 7 * MS);
    tr_trainer_meter_begin(m, 8 * MS);
    const tr_trainer_does before = tr_trainer_meter_waits(m);
    assert_int_equal(tr_counter_get(&m->doing), TR_DOES_WAIT);
    tr_trainer_meter_does(m, before);
    assert_int_equal(tr_counter_get(&m->doing), TR_DOES_COMPUTE);
    tr_trainer_meter_pause(m, 9 * MS);
    assert_int_equal(tr_counter_get(&m->doing), TR_DOES_SCRIPT);
    assert_string_equal(tr_trainer_does_name(TR_DOES_SCRIPT), "script");
    tr_trainer_meter_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiting_between_steps_leaves_the_script_its_time),
        cmocka_unit_test(what_a_script_does_up_to_the_last_test_run_is_for_the_tests),
        cmocka_unit_test(a_meter_knows_the_present_activity_of_a_trainer),
        cmocka_unit_test(a_median_is_six_percent_off_at_most),
        cmocka_unit_test(values_beyond_all_bins_are_in_the_first_or_the_last),
        cmocka_unit_test(a_step_is_waiting_the_scripts_own_and_computing),
        cmocka_unit_test(computing_behind_a_wait_in_the_middle_of_a_step_is_not_the_scripts),
        cmocka_unit_test(between_exchanges_the_scripts_own_time_is_known_too),
        cmocka_unit_test(a_trainer_that_goes_on_counts_the_steps_it_had),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
