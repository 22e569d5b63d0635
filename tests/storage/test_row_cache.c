/* test_row_cache.c - kept rows are those that were put, no longer than they may be used, and the hot ones stay. */
#include "tests/support/expect.h"

#include "storage/table/row_cache.h"

#include <string.h>

enum { WIDTH = 3 };

static tr_row_cache *new_cache(int64_t rows)
{
    tr_row_cache *cache = NULL;

    assert_int_equal(tr_row_cache_new(&cache, rows, WIDTH * (int64_t)sizeof(float)), TR_OK);
    return cache;
}

static void put(tr_row_cache *cache, int64_t key, uint64_t step, uint64_t until)
{
    const float row[WIDTH] = {(float)key, (float)step, 0.5f};
    tr_row_cache_put(cache, key, row, step, until);
}

/* Is it there, as it was put at step `put_at`? */
static bool has(tr_row_cache *cache, int64_t key, uint64_t step, uint64_t put_at)
{
    const float expected[WIDTH] = {(float)key, (float)put_at, 0.5f};
    float       row[WIDTH];

    if (!tr_row_cache_get(cache, row, key, step))
        return false;
    assert_memory_equal(row, expected, sizeof row);
    return true;
}

static void a_row_is_used_up_to_its_last_step(void **state)
{
    tr_row_cache *cache = new_cache(100);

    (void)state;
    assert_false(has(cache, -5, 0, 0));
    put(cache, -5, 3, 5);
    put(cache, INT64_MIN, 3, 3);
    for (uint64_t step = 3; step <= 5; step++)
        assert_true(has(cache, -5, step, 3));
    assert_false(has(cache, INT64_MIN, 4, 3));
    assert_false(has(cache, -5, 6, 3));
    put(cache, -5, 6, 6);                              /* a newer one takes its place */
    assert_true(has(cache, -5, 6, 6));
    tr_row_cache_free(cache);
}

static void no_more_rows_are_kept_than_there_is_room_for(void **state)
{
    tr_row_cache *cache = new_cache(64);
    int           kept = 0;

    (void)state;
    for (int64_t key = 0; key < 1000; key++)
        put(cache, key * 7919, 1, 9);
    for (int64_t key = 0; key < 1000; key++)
        kept += has(cache, key * 7919, 1, 1);
    assert_in_range(kept, 56, 64);
    tr_row_cache_free(cache);
}

static void many_cold_keys_do_not_drive_out_the_hot_ones(void **state)
{
    tr_row_cache *cache = new_cache(256);
    int64_t       cold = 1000;
    int           kept = 0;

    (void)state;
    for (uint64_t step = 1; step <= 20; step++) {
        for (int64_t key = 0; key < 40; key++)         /* a step looks for its rows first */
            if (!has(cache, key, step, 1))
                put(cache, key, step, 100);
        for (int i = 0; i < 400; i++)
            put(cache, cold++, step, 100);
    }
    for (int64_t key = 0; key < 40; key++)
        kept += has(cache, key, 20, 1);
    assert_true(kept >= 39);
    tr_row_cache_free(cache);
}

static void memory_that_is_not_there_is_said(void **state)
{
    tr_row_cache *cache = NULL;

    (void)state;
    EXPECT_FAIL(TR_ENOMEM, "no memory to keep", tr_row_cache_new(&cache, INT64_MAX / 4, 400));
    assert_null(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_is_used_up_to_its_last_step),
        cmocka_unit_test(no_more_rows_are_kept_than_there_is_room_for),
        cmocka_unit_test(many_cold_keys_do_not_drive_out_the_hot_ones),
        cmocka_unit_test(memory_that_is_not_there_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
