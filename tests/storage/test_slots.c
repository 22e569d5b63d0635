/* test_slots.c - what is left of an index and its rows, damaged, is refused. That they are right is tested by test_table.c. */
#include "tests/support/expect.h"
#include "tests/support/table_check.h"

#include "storage/slots/slots_state.h"

#include <stdio.h>
#include <stdlib.h>
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
    EXPECT_FAIL(TR_EFORMAT, number ? "more than it has" : "its index is damaged", tr_slots_attach(&again, name, &config));
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

/* -- what a head does not say: entries, free rows ---------------------------------------------------------- */

/* Slots of `count` keys, with one number changed, as the next process finds them; NULL: it has refused them. */
static tr_slots *find_damaged(const char *name, int64_t count, void (*damage)(tr_slots *s))
{
    tr_slots *s = make_of_keys(name, count);

    damage(s);
    tr_slots_free(s);
    s = NULL;
    tr_slots_attach(&s, name, &config);
    return s;
}

static void add_keys(tr_slots *s, int64_t first, int count)
{
    uint32_t slot;

    for (int i = 0; i < count && tr_slots_new_row(&slot, s) == TR_OK; i++)
        tr_slots_publish(s, slot, first + i);
}

static const char *name_here(void)
{
    static char name[64];
    snprintf(name, sizeof name, "trireme-test-%d-slots", (int)getpid());
    return name;
}

static void lead_nowhere(tr_slots *s)
{
    for (uint64_t i = 0; i < s->head->capacity; i++)
        if (s->entry[i])
            s->entry[i] = (s->entry[i] & ~(uint64_t)UINT32_MAX) | 0x7fffffff;
}

TEST(an_entry_that_leads_nowhere_finds_nothing)
{
    tr_slots *s = find_damaged(name_here(), 100, lead_nowhere);
    uint32_t *list = NULL, slots[100];
    uint64_t  capacity = 0, count, all = 0;
    int64_t   keys[100];

    assert_non_null(s);
    for (int i = 0; i < 100; i++)
        keys[i] = i;
    tr_slots_find(s, slots, keys, 100);
    for (int i = 0; i < 100; i++)
        assert_int_equal(slots[i], TR_SLOT_NONE);
    for (uint32_t shard = 0; shard < TR_SHARDS; shard++, all += count)
        EXPECT_OK(tr_slots_of_shard(&list, &capacity, &count, s, shard));
    assert_int_equal(all, 0);
    free(list);
    tr_slots_free(s);
    tr_slots_remove(name_here());
}

static void fill_to_the_end(tr_slots *s)
{
    memset(s->entry, 0xff, tr_segment_bytes(s->index));
}

static void put_boundary_outside(tr_slots *s)
{
    s->head->boundary = UINT64_MAX;
}

static void promise_many_in_few_places(tr_slots *s)
{
    EXPECT_OK(tr_segment_grow(s->rows, (uint64_t)1 << 20));
    s->head->used = 20000;
}

static void say_that_more_live(tr_slots *s)
{
    s->head->is_moving = 1;
    s->head->free = (uint64_t)50 << 32 | 7;
}

TEST(an_index_that_cannot_be_is_refused)
{
    void (*const damages[])(tr_slots *) = {fill_to_the_end, put_boundary_outside, promise_many_in_few_places, say_that_more_live};

    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        assert_null(find_damaged(name_here(), 100, damages[i]));
        tr_slots_remove(name_here());
    }
}

/* All entries are of the highest hash: they find no room after their home when the index grows. */
static void pile_up(tr_slots *s)
{
    for (uint64_t i = 0; i < s->head->capacity + 4000; i++)
        s->entry[i] = (uint64_t)UINT32_MAX << 32 | 1;
}

TEST(entries_that_pile_up_do_not_run_over_the_end)
{
    tr_slots *s = find_damaged(name_here(), 810, pile_up);

    assert_non_null(s);
    add_keys(s, 10000, 4000);
    tr_slots_free(s);
    tr_slots_remove(name_here());
}

static void free_lists_outside(tr_slots *s)
{
    for (uint32_t slot = 10; slot < 20; slot++)
        tr_slots_delete(s, slot);
    tr_slots_row(s->row, s->stride, 15)->key = 0x7fffffff;
}

static void free_lists_in_a_circle(tr_slots *s)
{
    for (uint32_t slot = 10; slot < 20; slot++)
        tr_slots_delete(s, slot);
    tr_slots_row(s->row, s->stride, 15)->key = 19 + 1;
}

TEST(a_damaged_list_of_free_rows_is_forgotten)
{
    void (*const damages[])(tr_slots *) = {free_lists_outside, free_lists_in_a_circle};

    for (size_t i = 0; i < 2; i++) {
        tr_slots *s = find_damaged(name_here(), 100, damages[i]);
        assert_non_null(s);
        add_keys(s, 10000, 50);
        for (int64_t key = 10000; key < 10050; key++) {        /* none has taken another's row */
            uint32_t slot;
            tr_slots_find(s, &slot, &key, 1);
            assert_true(slot != TR_SLOT_NONE && slot < tr_slots_used(s));
        }
        for (int64_t key = 20; key < 100; key++) {
            uint32_t slot;
            tr_slots_find(s, &slot, &key, 1);
            assert_int_equal(slot, key);
        }
        tr_slots_free(s);
        tr_slots_remove(name_here());
    }
}

TEST(a_written_row_is_found_again)
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
        cmocka_unit_test(an_entry_that_leads_nowhere_finds_nothing),
        cmocka_unit_test(an_index_that_cannot_be_is_refused),
        cmocka_unit_test(entries_that_pile_up_do_not_run_over_the_end),
        cmocka_unit_test(a_damaged_list_of_free_rows_is_forgotten),
        cmocka_unit_test(a_written_row_is_found_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
