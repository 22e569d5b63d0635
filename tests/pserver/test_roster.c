/* test_roster.c - host groups: which trainers form a group, that a run keeps its groups, and which trainer carries the requests. */
#include "tests/support/expect.h"

#include "pserver/core/base/roster.h"

#include <stdio.h>

enum { SERVER, TRAINERS = 5, SIZE = 1 + TRAINERS };

/* Rank `self` of a server and five trainers, each on a host. */
static tr_roster *new_roster(int self, const char *const host[SIZE])
{
    tr_roster *roster = tr_roster_new(self, SIZE);

    for (int i = 0; i < SIZE; i++)
        tr_roster_put(roster, i, i == SERVER ? TR_ROLE_SERVER : TR_ROLE_TRAINER, 1, 100 + i, host[i], host[i]);
    return roster;
}

static tr_roster *closed(int self, const char *const host[SIZE])
{
    tr_roster *roster = new_roster(self, host);

    EXPECT_OK(tr_roster_close(roster));
    return roster;
}

static void expect_groups(const tr_roster *roster, const char *sizes)
{
    char *groups = tr_roster_groups(roster);

    assert_string_equal(groups, sizes);
    free(groups);
}

static const char *const on_two_hosts[SIZE] = {"s", "a", "a", "a", "b", "b"};

TEST(trainers_in_a_row_on_one_host_are_a_group)
{
    static const struct {
        const char *const host[SIZE];
        const char       *sizes;
    } cases[] = {
        {{"s", "a", "a", "a", "b", "b"}, "3,2"},
        {{"a", "a", "a", "a", "a", "a"}, "5"},
        {{"s", "a", "b", "a", "b", "b"}, "1,1,1,2"},
        {{"s", "", "", "", "", ""}, "1,1,1,1,1"},        /* nobody knows which host that is */
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tr_roster *roster = closed(SERVER, cases[i].host);
        expect_groups(roster, cases[i].sizes);
        tr_roster_free(roster);
    }
}

TEST(a_run_keeps_its_groups_on_other_hosts)
{
    setenv("TRIREME_HOST_GROUPS", "2,3", 1);
    tr_roster *roster = closed(1, on_two_hosts);

    expect_groups(roster, "2,3");
    assert_int_equal(roster->group_first[1], 0);
    assert_int_equal(roster->group_first[4], 2);
    assert_true(tr_roster_is_group_here(roster, 0));
    assert_false(tr_roster_is_group_here(roster, 2));      /* its first trainer is here, the others are not */
    tr_roster_free(roster);
    unsetenv("TRIREME_HOST_GROUPS");
}

TEST(wrong_sizes_of_groups_are_explained)
{
    static const char *const wrong[] = {"4", "3,3", "5,1", "0,5", "-1,6", "3,2,", "3,,2", "3;2", "x", "5 trainers", "99999999999999999999"};

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tr_roster *roster = new_roster(SERVER, on_two_hosts);
        char       text[96];
        setenv("TRIREME_HOST_GROUPS", wrong[i], 1);
        snprintf(text, sizeof text, "TRIREME_HOST_GROUPS='%s' in the environment: sizes of groups that are 5 trainers in all", wrong[i]);
        EXPECT_FAIL(TR_EINVAL, text, tr_roster_close(roster));
        tr_roster_free(roster);
    }
    setenv("TRIREME_HOST_GROUPS", "", 1);
    tr_roster *roster = closed(SERVER, on_two_hosts);      /* it is as if it were not there */
    expect_groups(roster, "3,2");
    tr_roster_free(roster);
    unsetenv("TRIREME_HOST_GROUPS");
}

TEST(a_living_group_on_another_host_has_a_carrier)
{
    tr_roster *first = closed(1, on_two_hosts), *third = closed(3, on_two_hosts), *other = closed(5, on_two_hosts);

    assert_int_equal(tr_roster_carrier(first, 0), 1);
    assert_int_equal(tr_roster_carrier(third, 0), 1);      /* all of them say the same */
    assert_int_equal(tr_roster_carrier(other, 0), 4);
    third->rank[2].is_dead = true;
    assert_int_equal(tr_roster_carrier(third, 0), -1);
    tr_roster_free(first);
    tr_roster_free(third);
    tr_roster_free(other);
}

TEST(some_trainers_need_no_carrier)
{
    static const char *const alone[SIZE] = {"s", "a", "b", "b", "b", "b"}, *const beside[SIZE] = {"a", "a", "a", "a", "b", "b"};
    tr_roster *first = closed(1, alone), *second = closed(1, beside);

    assert_int_equal(tr_roster_carrier(first, 0), -1);
    assert_int_equal(tr_roster_carrier(second, 0), -1);
    tr_roster_free(first);
    tr_roster_free(second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trainers_in_a_row_on_one_host_are_a_group), cmocka_unit_test(a_run_keeps_its_groups_on_other_hosts),
        cmocka_unit_test(wrong_sizes_of_groups_are_explained),       cmocka_unit_test(a_living_group_on_another_host_has_a_carrier),
        cmocka_unit_test(some_trainers_need_no_carrier),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
