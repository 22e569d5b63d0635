/* test_slots.c - what is left of an index and its rows, damaged, is refused. That they are right is tested by test_table.c. */
#include "tests/support/expect.h"

#include "pserver/slots_state.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const tr_slots_config config = {.payload = 8, .shard_count = TR_SHARDS};

static tr_slots *make_of_keys(const char *name, int64_t count)
{
    tr_slots *s = NULL;
    uint32_t  slot;

    EXPECT_OK(tr_slots_create(&s, name, &config));
    for (int64_t key = 0; key < count; key++) {
        EXPECT_OK(tr_slots_new_row(&slot, s));
        tr_slots_publish(s, slot, key);
    }
    return s;
}

/* `which`: of the numbers in a head. */
static void expect_refused(int which, uint64_t number)
{
    char      name[64];
    tr_slots *s, *again = NULL;

    snprintf(name, sizeof name, "trireme-test-%d-slots", (int)getpid());
    s = make_of_keys(name, 100);
    *(uint64_t *[]){&s->head->used, &s->head->free, &s->head->capacity, &s->head->next}[which] = number;
    tr_slots_free(s);
    EXPECT_FAIL(TR_EFORMAT, "more than it has", tr_slots_attach(&again, name, &config));
    tr_slots_remove(name);
}

TEST(a_head_that_speaks_of_more_than_there_is_is_refused)
{
    static const uint64_t wrong[] = {UINT64_MAX, UINT64_MAX / 2, ((uint64_t)1 << 61) + 1000000, ((uint64_t)1 << 40) + 1000000, UINT32_MAX};

    for (int which = 0; which < 4; which++)
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
            expect_refused(which, wrong[i]);
    expect_refused(2, 0);
    expect_refused(3, 0);
}

TEST(what_was_written_is_found_again)
{
    char      name[64];
    tr_slots *s, *again;

    snprintf(name, sizeof name, "trireme-test-%d-slots", (int)getpid());
    s = make_of_keys(name, 5000);
    tr_slots_free(s);
    EXPECT_OK(tr_slots_attach(&again, name, &config));
    EXPECT_OK(tr_slots_check(again));
    assert_int_equal(tr_slots_count(again), 5000);
    tr_slots_free(again);
    tr_slots_remove(name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_head_that_speaks_of_more_than_there_is_is_refused),
        cmocka_unit_test(what_was_written_is_found_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
