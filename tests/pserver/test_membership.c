/* test_membership.c - the states of a trainer on a server, and the moves between them. */
#include "tests/support/expect.h"

#include "pserver/wire/membership.h"

TEST(every_state_can_be_reached_and_has_a_name)
{
    bool reached[TR_MEMBERSHIP_COUNT] = {[TR_MEMBER_ACTIVE] = true};

    for (int round = 0; round < TR_MEMBERSHIP_COUNT; round++)
        for (int from = 0; from < TR_MEMBERSHIP_COUNT; from++)
            for (int to = 0; to < TR_MEMBERSHIP_COUNT; to++)
                reached[to] |= reached[from] && tr_membership_may_move((tr_membership)from, (tr_membership)to);
    for (int s = 0; s < TR_MEMBERSHIP_COUNT; s++) {
        assert_true(reached[s]);
        assert_string_not_equal(tr_membership_name((tr_membership)s), "?");
    }
    assert_string_equal(tr_membership_name(TR_MEMBERSHIP_COUNT), "?");
}

TEST(a_trainer_whose_steps_are_over_makes_no_more_without_a_replacement)
{
    for (int from = 0; from < TR_MEMBERSHIP_COUNT; from++)
        for (int to = 0; to < TR_MEMBERSHIP_COUNT; to++)
            if (tr_membership_is_over((tr_membership)from) && !tr_membership_is_over((tr_membership)to) && to != TR_MEMBER_VACANT)
                assert_false(tr_membership_may_move((tr_membership)from, (tr_membership)to));
    assert_true(tr_membership_is_over(TR_MEMBER_DRAINING) && tr_membership_is_over(TR_MEMBER_LEFT) &&
                tr_membership_is_over(TR_MEMBER_LOST));
    assert_false(tr_membership_is_over(TR_MEMBER_ACTIVE) || tr_membership_is_over(TR_MEMBER_VACANT));
}

TEST(a_lost_trainer_never_comes_back)
{
    for (int to = 0; to < TR_MEMBERSHIP_COUNT; to++)
        assert_false(tr_membership_may_move(TR_MEMBER_LOST, (tr_membership)to));
    assert_false(tr_membership_may_move(TR_MEMBER_VACANT, TR_MEMBER_ACTIVE));      /* it has to join first */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_state_can_be_reached_and_has_a_name),
        cmocka_unit_test(a_trainer_whose_steps_are_over_makes_no_more_without_a_replacement),
        cmocka_unit_test(a_lost_trainer_never_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
