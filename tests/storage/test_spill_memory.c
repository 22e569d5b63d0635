/* test_spill_memory.c - a table with rows on disk takes as much memory as it may. */
#include "tests/support/table_check.h"
#include "tests/support/table_rig.h"

#include <stdio.h>
#include <unistd.h>

enum { MANY = 120000, AT_ONCE = 500 };

static void look_up_and_check(tr_table *t, const int64_t *keys, float amount)
{
    static float values[AT_ONCE * WIDTH];

    EXPECT_OK(tr_table_pull(t, values, keys, AT_ONCE));
    for (int i = 0; i < AT_ONCE * WIDTH; i++)
        assert_true(values[i] == amount);
}

/* All keys of a table come once, and later some come again. The index of the cold rows becomes as large as a third of the memory. */
static void fill_and_measure(const char *name)
{
    tr_table_config config = config_of(TR_FP32);
    const uint64_t  memory = 4 << 20;
    static int64_t  keys[AT_ONCE];
    uint64_t        most_used = 0;
    tr_table       *t = NULL;
    tr_table_report report;

    config.init = TR_TABLE_CONSTANT;
    config.a = 0;
    EXPECT_OK(tr_table_create(&t, &config, &(tr_table_segment){.name = name, .shard_count = TR_SHARDS, .spill = "/dev/shm", .memory = memory}));
    for (uint64_t step = 1; step <= 3 * MANY / AT_ONCE; step++) {
        for (uint64_t i = 0; i < AT_ONCE; i++)
            keys[i] = key_of((step - 1) * AT_ONCE % MANY + i);
        update(t, step, keys, AT_ONCE, 1);
        look_up_and_check(t, keys, (float)(1 + (step - 1) * AT_ONCE / MANY));
        tr_table_get_report(t, &report);
        most_used = tr_slots_used(tr_table_slots(t)) > most_used ? tr_slots_used(tr_table_slots(t)) : most_used;
        assert_in_range(report.bytes - report.undo_bytes, 0, memory + memory / 16 + 2 * TR_SLOTS_FIRST_INDEX + (256 << 10));
    }
    assert_int_equal(report.rows, MANY);
    assert_true(report.cold.index_bytes > memory / 5 && tr_slots_used(tr_table_slots(t)) < most_used * 7 / 8);
    EXPECT_OK(tr_table_check(t));
    tr_table_free(t);
}

TEST(a_table_keeps_to_its_memory_while_the_index_of_its_cold_rows_grows)
{
    char name[64];

    fill_and_measure(NULL);
    snprintf(name, sizeof name, "trireme-test-%d-memory", (int)getpid());
    fill_and_measure(name);
    tr_table_remove(name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_keeps_to_its_memory_while_the_index_of_its_cold_rows_grows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
