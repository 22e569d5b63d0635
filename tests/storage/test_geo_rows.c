/* test_geo_rows.c - a trainer's copy of a table tells what changed since the servers' rows were taken, whatever their number. */
#include "tests/support/expect.h"

#include "storage/table/geo_rows.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { WIDTH = 3, KEYS = 500 };

static tr_geo_rows *open_rows(tr_dtype dtype, double share, const char *name, uint64_t exchange)
{
    const tr_table_config config = {.dtype = dtype, .width = WIDTH, .states = 1, .state_value = {0.5f}, .a = 9,
                                    .entry_count = 5, .entry_probability = share, .max_age = 2, .max_rows = 10};
    tr_geo_rows          *rows = NULL;

    EXPECT_OK(tr_geo_rows_new(&rows, &config, name, exchange));
    return rows;
}

static tr_geo_rows *new_rows(tr_dtype dtype, double share)
{
    return open_rows(dtype, share, NULL, 0);
}

static int64_t key_of(int i)
{
    return i % 2 ? -(int64_t)i * 1000003 : INT64_MAX - i;
}

static void take_for(tr_geo_rows *rows, uint64_t exchange, int i, float value)
{
    const float row[WIDTH] = {value, value + 1, value + 2};
    EXPECT_OK(tr_geo_rows_take(rows, exchange, key_of(i), row));
}

static void take(tr_geo_rows *rows, int i, float value)
{
    take_for(rows, 1, i, value);
}

/* What an optimizer does: add `by` to a row and to its state. */
static void update(tr_geo_rows *rows, int i, float by)
{
    tr_table     *table = tr_geo_rows_table(rows);
    const int64_t key = key_of(i);
    float         value[WIDTH], state[WIDTH], *states[] = {state};
    uint32_t      slot;

    EXPECT_OK(tr_table_take(table, &slot, &key, 1));
    tr_table_gather(table, &slot, 1, value, states);
    for (int c = 0; c < WIDTH; c++) {
        value[c] += by;
        state[c] += by;
    }
    EXPECT_OK(tr_table_keep(table, &slot, 1));
    tr_table_scatter(table, &slot, 1, value, (const float *const *)states);
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
        update(rows, i, 4);
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
    update(rows, 1, 2);
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
        EXPECT_OK(tr_geo_rows_take(rows, 1, key_of(i), zeros));       /* as the servers answer for them */
        update(rows, i, 1);
    }
    EXPECT_OK(tr_geo_rows_changes(rows, 1, &count, &keys, &values));
    assert_in_range(count, KEYS / 5, KEYS * 2 / 5);
    tr_geo_rows_free(rows);
}

/* -- beyond the process ----------------------------------------------------------------------------- */

static const char *name_here(void)
{
    static char name[64];
    snprintf(name, sizeof name, "trireme-test-%d.trainer0.0", (int)getpid());
    return name;
}

/* Exchange e adds e to the state of row 1 in two steps, and to that of a row of its own. */
static void train_until_exchange(tr_geo_rows *rows, uint64_t exchange)
{
    take_for(rows, exchange, 1, 0);
    update(rows, 1, (float)exchange - 1);
    take_for(rows, exchange, 10 + (int)exchange, 0);
    update(rows, 10 + (int)exchange, (float)exchange);
    update(rows, 1, 1);
}

TEST(the_next_process_has_the_states_as_they_were_behind_the_last_exchange)
{
    tr_geo_rows *rows = open_rows(TR_FP32, 1, name_here(), 0);

    for (uint64_t e = 1; e <= 3; e++) {
        train_until_exchange(rows, e);
        tr_geo_rows_forget(rows);
    }
    train_until_exchange(rows, 4);                     /* cut off by a kill */
    tr_geo_rows_free(rows);

    rows = open_rows(TR_FP32, 1, name_here(), 3);
    assert_true(state_of(rows, 1) == 6.5f && state_of(rows, 12) == 2.5f && state_of(rows, 13) == 3.5f && state_of(rows, 14) == 0.5f);
    assert_false(tr_geo_rows_has(rows, key_of(1)));    /* values are the servers' */
    train_until_exchange(rows, 4);
    tr_geo_rows_free(rows);

    rows = open_rows(TR_FP32, 1, name_here(), 4);      /* the servers have had that */
    assert_true(state_of(rows, 1) == 10.5f && state_of(rows, 14) == 4.5f);
    tr_geo_rows_free(rows);

    rows = open_rows(TR_BF16, 1, name_here(), 4);      /* another table of that name */
    assert_true(state_of(rows, 1) == 0.5f);
    tr_geo_rows_free(rows);
    tr_table_remove(name_here());
}

TEST(a_full_folder_ends_no_training)
{
    enum { MANY = 60000 };
    const struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY}, little = {1 << 20, RLIM_INFINITY};
    tr_geo_rows        *rows = open_rows(TR_FP32, 1, name_here(), 0);

    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
    for (int i = 0; i < MANY; i++) {
        take(rows, i, (float)i);
        update(rows, i, 1);
    }
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &unlimited), 0);
    for (int i = 0; i < MANY; i++)
        assert_true(state_of(rows, i) == 1.5f);
    tr_geo_rows_free(rows);
    rows = open_rows(TR_FP32, 1, name_here(), 1);      /* nothing is there that would be old */
    assert_true(state_of(rows, 1) == 0.5f);
    tr_geo_rows_free(rows);
    tr_table_remove(name_here());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_are_of_the_rows_that_were_trained),
        cmocka_unit_test(after_an_exchange_values_are_the_servers_and_states_stay),
        cmocka_unit_test(keys_that_never_have_a_row_change_nothing),
        cmocka_unit_test(the_next_process_has_the_states_as_they_were_behind_the_last_exchange),
        cmocka_unit_test(a_full_folder_ends_no_training),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
