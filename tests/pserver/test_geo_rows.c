/* test_geo_rows.c - a trainer's copy of a table tells what changed since the servers' rows were taken, whatever their number. */
#include "tests/support/expect.h"

#include "pserver/geo_rows.h"

#include <string.h>

enum { WIDTH = 3, KEYS = 500 };

static tr_geo_rows *new_rows(tr_dtype dtype, double share)
{
    const tr_table_config config = {.dtype = dtype, .width = WIDTH, .states = 1, .state_value = {0.5f}, .a = 9,
                                    .entry_count = 5, .entry_probability = share, .max_age = 2, .max_rows = 10};
    tr_geo_rows          *rows = NULL;

    EXPECT_OK(tr_geo_rows_new(&rows, &config));
    return rows;
}

static int64_t key_of(int i)
{
    return i % 2 ? -(int64_t)i * 1000003 : INT64_MAX - i;
}

static void take(tr_geo_rows *rows, int i, float value)
{
    const float row[WIDTH] = {value, value + 1, value + 2};
    EXPECT_OK(tr_geo_rows_take(rows, key_of(i), row));
}

/* What an optimizer does: add `by` to a row and to its state. */
static void update(tr_geo_rows *rows, uint64_t step, int i, float by)
{
    tr_table     *table = tr_geo_rows_table(rows);
    const int64_t key = key_of(i);
    float         value[WIDTH], state[WIDTH], *states[] = {state};
    uint32_t      slot;

    EXPECT_OK(tr_table_begin(table, step));
    EXPECT_OK(tr_table_take(table, &slot, &key, 1));
    tr_table_gather(table, &slot, 1, value, states);
    for (int c = 0; c < WIDTH; c++) {
        value[c] += by;
        state[c] += by;
    }
    EXPECT_OK(tr_table_scatter(table, &slot, 1, value, (const float *const *)states));
}

static float state_of(tr_geo_rows *rows, int i)
{
    const int64_t key = key_of(i);
    float         value[WIDTH], state[WIDTH], *states[] = {state};
    uint32_t      slot;

    EXPECT_OK(tr_table_take(tr_geo_rows_table(rows), &slot, &key, 1));
    tr_table_gather(tr_geo_rows_table(rows), &slot, 1, value, states);
    return state[0];
}

TEST(changes_are_of_the_rows_that_were_trained)
{
    tr_geo_rows   *rows = new_rows(TR_FP32, 1);
    const int64_t *keys;
    const float   *values;
    int64_t        count;

    for (int i = 0; i < KEYS; i++) {
        assert_false(tr_geo_rows_has(rows, key_of(i)));
        take(rows, i, (float)i);
        assert_true(tr_geo_rows_has(rows, key_of(i)));
    }
    for (int i = 0; i < KEYS; i += 5)
        update(rows, 1 + (uint64_t)i, i, 4);
    EXPECT_OK(tr_geo_rows_changes(rows, 4, &count, &keys, &values));
    assert_int_equal(count, KEYS / 5);
    for (int64_t k = 0; k < count; k++) {
        assert_int_equal(keys[k], key_of((int)k * 5));
        for (int c = 0; c < WIDTH; c++)
            assert_true(values[k * WIDTH + c] == 1);
    }
    tr_geo_rows_free(rows);
}

TEST(after_an_exchange_values_are_the_servers_and_states_stay)
{
    tr_geo_rows   *rows = new_rows(TR_FP32, 1);
    const int64_t *keys;
    const float   *values;
    float          row[WIDTH];
    int64_t        count;

    take(rows, 1, 10);
    update(rows, 1, 1, 2);
    tr_geo_rows_get(rows, row, key_of(1));
    assert_true(row[0] == 12 && row[2] == 14);
    tr_geo_rows_forget(rows);
    assert_false(tr_geo_rows_has(rows, key_of(1)));
    EXPECT_OK(tr_geo_rows_changes(rows, 1, &count, &keys, &values));
    assert_int_equal(count, 0);
    take(rows, 1, 20);
    tr_geo_rows_get(rows, row, key_of(1));
    assert_true(row[0] == 20 && row[2] == 22);
    assert_true(state_of(rows, 1) == 2.5f);            /* the optimizer's, of before */
    tr_geo_rows_free(rows);
}

TEST(keys_that_never_have_a_row_change_nothing)
{
    tr_geo_rows   *rows = new_rows(TR_FP32, 0.3);
    const float    zeros[WIDTH] = {0};
    const int64_t *keys;
    const float   *values;
    int64_t        count;

    for (int i = 0; i < KEYS; i++) {
        EXPECT_OK(tr_geo_rows_take(rows, key_of(i), zeros));       /* as the servers answer for them */
        update(rows, 1 + (uint64_t)i, i, 1);
    }
    EXPECT_OK(tr_geo_rows_changes(rows, 1, &count, &keys, &values));
    assert_in_range(count, KEYS / 5, KEYS * 2 / 5);
    tr_geo_rows_free(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_are_of_the_rows_that_were_trained),
        cmocka_unit_test(after_an_exchange_values_are_the_servers_and_states_stay),
        cmocka_unit_test(keys_that_never_have_a_row_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
