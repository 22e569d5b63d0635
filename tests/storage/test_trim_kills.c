/* test_trim_kills.c - slots whose process is killed after any instruction while it gives up the last slots. */
#include "tests/support/expect.h"
#include "tests/support/instructions.h"

#include "framework/tensors/random.h"
#include "storage/slots/slots.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SLOTS = 120, LEFT = 80, ROUNDS = 120 };

static char                  name[64];
static const tr_slots_config CONFIG = {64, 0, TR_SHARDS, 0};
static tr_slots             *child_slots;

static int64_t key_at(uint32_t slot)
{
    return (int64_t)slot * 7919 - 100;
}

static bool attach_slots(void *payload)
{
    (void)payload;
    return tr_slots_attach(&child_slots, name, &CONFIG) == TR_OK;
}

static bool trim_slots(void *payload)
{
    (void)payload;
    tr_slots_trim(child_slots, LEFT);
    return true;
}

static void make_row(tr_slots *s, int64_t key)
{
    uint32_t slot;

    EXPECT_OK(tr_slots_new_row(&slot, s));
    memset(tr_slots_row(tr_slots_rows(s), tr_slots_stride(s), slot) + 1, (int)key, CONFIG.payload);
    tr_slots_publish(s, slot, key);
}

/* Slot i has key i. Some of the slots that stay are free, and all of those that do not. */
static uint64_t make_slots(uint64_t seed)
{
    tr_slots *s = NULL;
    uint64_t  live = 0;

    EXPECT_OK(tr_slots_create(&s, name, &CONFIG));
    for (uint32_t i = 0; i < SLOTS; i++)
        make_row(s, key_at(i));
    for (uint32_t i = 0; i < SLOTS; i++) {
        const uint32_t slot = (uint32_t)(((uint64_t)i * 37 + seed) % SLOTS);
        if (slot >= LEFT || tr_random_below(seed, slot, 4) == 0)
            tr_slots_delete(s, slot);
        else
            live++;
    }
    tr_slots_free(s);
    return live;
}

static void expect_row(const tr_slots *s, int64_t key)
{
    const uint32_t slot = tr_slots_find_one(s, key);

    assert_true(slot != TR_SLOT_NONE);
    const tr_slot_row *row = tr_slots_row(tr_slots_rows(s), tr_slots_stride(s), slot);
    assert_int_equal(row->key, key);
    assert_int_equal(*(const char *)(row + 1), (char)key);
}

/* All rows are there, and new rows take no other row's slot. Returns whether the slots were given up. */
static bool check(uint64_t seed, uint64_t live)
{
    tr_slots *s = NULL;

    EXPECT_OK(tr_slots_attach(&s, name, &CONFIG));
    const bool is_trimmed = tr_slots_used(s) == LEFT;
    assert_int_equal(tr_slots_count(s), live);
    for (int64_t i = 0; i < 3 * SLOTS; i++)
        make_row(s, 1000000 + i);
    assert_int_equal(tr_slots_used(s), live + 3 * SLOTS);
    for (uint32_t slot = 0; slot < LEFT; slot++)
        if (tr_random_below(seed, slot, 4))
            expect_row(s, key_at(slot));
    for (int64_t i = 0; i < 3 * SLOTS; i++)
        expect_row(s, 1000000 + i);
    tr_slots_free(s);
    return is_trimmed;
}

TEST(a_kill_after_any_instruction_leaves_all_rows_and_a_whole_list_of_free_ones)
{
    uint64_t length = 4000;
    int      trimmed = 0;

    for (uint64_t round = 1; round <= ROUNDS; round++) {
        const uint64_t live = make_slots(round);
        length = tr_kill_after(attach_slots, trim_slots, NULL, round % 8 ? tr_random_below(round, 1000, length) : length + 1000);
        length = length < 1000 ? 1000 : length;
        trimmed += check(round, live);
        tr_slots_remove(name);
    }
    print_message("%d of %d were killed after the slots were given up\n", trimmed, ROUNDS);
    assert_true(trimmed > ROUNDS / 20 && trimmed < ROUNDS - ROUNDS / 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kill_after_any_instruction_leaves_all_rows_and_a_whole_list_of_free_ones),
    };

    snprintf(name, sizeof name, "trireme-test-%d-trim", (int)getpid());
    return cmocka_run_group_tests(tests, NULL, NULL);
}
