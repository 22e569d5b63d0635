/* test_liveness.c - who is silent for too long is dead; who was away itself looks twice. */
#include "tests/support/expect.h"

#include "pserver/transport/liveness.h"

enum { PERIOD = 10, TIMEOUT = 60 };

TEST(a_rank_with_nothing_to_say_sends_a_beat_each_period)
{
    tr_liveness *l = tr_liveness_new(0, 3, PERIOD, TIMEOUT, 0);

    assert_int_equal(tr_liveness_beat(l, 9), -1);
    tr_liveness_sent(l, 1, 9);
    assert_int_equal(tr_liveness_beat(l, 10), 2);
    assert_int_equal(tr_liveness_beat(l, 10), -1);
    assert_int_equal(tr_liveness_beat(l, 19), 1);
    tr_liveness_free(l);
}

TEST(silence_beyond_the_timeout_is_death_once)
{
    tr_liveness *l = tr_liveness_new(0, 2, PERIOD, TIMEOUT, 0);

    for (int64_t now = 5; now <= 60; now += 5)
        assert_int_equal(tr_liveness_silent(l, now), -1);
    assert_int_equal(tr_liveness_silent(l, 61), 1);
    assert_int_equal(tr_liveness_silent(l, 62), -1);
    assert_int_equal(tr_liveness_of(l, 1), TR_LIFE_DEAD);
    assert_false(tr_liveness_kill(l, 1));
    tr_liveness_free(l);
}

TEST(a_rank_that_is_heard_lives)
{
    tr_liveness *l = tr_liveness_new(0, 2, PERIOD, TIMEOUT, 0);

    for (int64_t now = 5; now <= 500; now += 5) {
        if (now % 50 == 0)
            tr_liveness_heard(l, 1, now);
        assert_int_equal(tr_liveness_silent(l, now), -1);
    }
    tr_liveness_free(l);
}

TEST(a_process_that_was_stopped_gives_the_others_a_period_more)
{
    tr_liveness *l = tr_liveness_new(0, 2, PERIOD, TIMEOUT, 0);

    assert_int_equal(tr_liveness_silent(l, 1000), -1);
    assert_int_equal(tr_liveness_silent(l, 1009), -1);
    assert_int_equal(tr_liveness_silent(l, 1011), 1);
    tr_liveness_free(l);
}

TEST(a_rank_that_left_is_neither_watched_nor_dead)
{
    tr_liveness *l = tr_liveness_new(0, 2, PERIOD, TIMEOUT, 0);

    assert_false(tr_liveness_all_left(l));
    tr_liveness_left(l, 1);
    assert_true(tr_liveness_all_left(l));
    assert_int_equal(tr_liveness_silent(l, 1000), -1);
    assert_int_equal(tr_liveness_beat(l, 1000), 1);        /* it waits for us, and listens */
    assert_int_equal(tr_liveness_beat(l, 1000), -1);
    assert_false(tr_liveness_kill(l, 1));
    assert_int_equal(tr_liveness_of(l, 1), TR_LIFE_LEFT);
    assert_false(tr_liveness_is_gone(l, 1));
    tr_liveness_gone(l, 1);
    assert_true(tr_liveness_is_gone(l, 1));
    assert_int_equal(tr_liveness_of(l, 1), TR_LIFE_LEFT);
    assert_int_equal(tr_liveness_beat(l, 2000), -1);       /* who would listen? */
    tr_liveness_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_with_nothing_to_say_sends_a_beat_each_period),
        cmocka_unit_test(silence_beyond_the_timeout_is_death_once),
        cmocka_unit_test(a_rank_that_is_heard_lives),
        cmocka_unit_test(a_process_that_was_stopped_gives_the_others_a_period_more),
        cmocka_unit_test(a_rank_that_left_is_neither_watched_nor_dead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
