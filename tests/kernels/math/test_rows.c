/* test_rows.c - gathers, scatters and groups against loops; sums in the order of the list. */
#ifndef T
#include "kernels/math/arrays/rows.h"

#include "tests/kernels/math/check.h"

static int64_t *random_ids(int64_t count, int64_t height, uint64_t key)
{
    int64_t *ids = array_new(count, sizeof *ids);
    for (int64_t i = 0; i < count; i++)
        ids[i] = (int64_t)tr_random_below(key, (uint64_t)i, (uint64_t)height);
    return ids;
}

static void numbers_out_of_range_are_found(void **state)
{
    (void)state;
    const int64_t ids[] = {0, 4, 2, -1, 5, 9};
    assert_int_equal(tr_rows_check(ids, 3, 5, -1), -1);
    assert_int_equal(tr_rows_check(ids, 6, 5, -1), 3);
    assert_int_equal(tr_rows_check(ids + 4, 2, 9, -1), 1);
    assert_int_equal(tr_rows_check(ids + 4, 2, 9, 9), -1);
    assert_int_equal(tr_rows_check(ids, 0, 0, -1), -1);
}

static void gathers_match(void **state)
{
    (void)state;
    enum { COUNT = 5000, HEIGHT = 300, BYTES = 40 };
    unsigned char *table = array_new(HEIGHT * BYTES, 1), *out = array_new(COUNT * BYTES, 1), zeros[BYTES] = {0};
    int64_t       *ids = random_ids(COUNT, HEIGHT, 1);
    for (int i = 0; i < HEIGHT * BYTES; i++)
        table[i] = (unsigned char)(1 + tr_random_bits(2, (uint64_t)i) % 255);
    for (int64_t padding = -1; padding < 3; padding += 3) {
        SAME_FOR_ALL_THREADS(out, COUNT * BYTES, (void)0, tr_rows_gather(out, table, ids, COUNT, BYTES, padding));
        for (int i = 0; i < COUNT; i++)
            assert_memory_equal(out + i * BYTES, ids[i] == padding ? zeros : table + ids[i] * BYTES, BYTES);
    }
    memset(table, 0, HEIGHT * BYTES);
    tr_rows_scatter(table, ids, out, COUNT, BYTES);
    for (int i = COUNT - 1; i >= 0; i--) {                    /* the last of each id stands */
        bool later = false;
        for (int k = i + 1; k < COUNT && !later; k++)
            later = ids[k] == ids[i];
        if (!later)
            assert_memory_equal(table + ids[i] * BYTES, out + i * BYTES, BYTES);
    }
    free(table), free(out), free(ids);
}

static void groups_are_sorted_and_stable(void **state)
{
    (void)state;
    const int64_t counts[] = {0, 1, 2, 300, 5000}, heights[] = {1, 3, 1000, (int64_t)1 << 62};
    for (int c = 0; c < 5; c++)
        for (int h = 0; h < 4; h++) {
            const int64_t count = counts[c];
            int64_t *ids = random_ids(count, heights[h], 3), *unique = array_new(count, 8), *first = array_new(count + 1, 8);
            int64_t *order = array_new(count, 8), *work = array_new(2 * count, 8);
            const int64_t groups = tr_rows_group(unique, first, order, work, ids, count);
            assert_int_equal(first[groups], count);
            if (groups > 0)
                assert_int_equal(first[0], 0);
            for (int64_t g = 0; g < groups; g++) {
                assert_true(g == 0 || unique[g] > unique[g - 1]);
                assert_true(first[g + 1] > first[g]);
                for (int64_t i = first[g]; i < first[g + 1]; i++) {
                    assert_int_equal(ids[order[i]], unique[g]);
                    assert_true(i == first[g] || order[i] > order[i - 1]);
                }
            }
            free(ids), free(unique), free(first), free(order), free(work);
        }
}

#include "kernels/math/tools/each_float.h"

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_out_of_range_are_found), cmocka_unit_test(gathers_match),
        cmocka_unit_test(groups_are_sorted_and_stable),   BOTH(sums_follow_the_order_of_the_list),
        BOTH(groups_sum_like_a_scatter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else

static void NAME(sums_follow_the_order_of_the_list)(void **state)
{
    (void)state;
    const int64_t cases[][3] = {{0, 5, 4}, {7, 3, 1}, {1000, 40, 17}, {20000, 500, 16}, {9000, 2, 64}};
    for (int c = 0; c < 5; c++) {
        const int64_t count = cases[c][0], height = cases[c][1], width = cases[c][2];
        T *values = NAME(random)(count * width, 1, -1, 1), *start = NAME(random)(height * width, 2, -1, 1);
        T *table = array_new(height * width, sizeof(T)), *want = array_new(height * width, sizeof(T));
        int64_t *ids = random_ids(count, height, 3);
        for (int64_t padding = -1; padding < 2; padding += 2) {
            SAME_FOR_ALL_THREADS(table, height * width * (int64_t)sizeof(T),
                                 memcpy(table, start, (size_t)(height * width) * sizeof(T)),
                                 NAME(tr_rows_scatter_add)(table, ids, values, count, width, padding));
            memcpy(want, start, (size_t)(height * width) * sizeof(T));
            for (int64_t i = 0; i < count; i++)
                for (int64_t k = 0; k < width && ids[i] != padding; k++)
                    want[ids[i] * width + k] += values[i * width + k];
            assert_memory_equal(table, want, (size_t)(height * width) * sizeof(T));
        }
        free(values), free(start), free(table), free(want), free(ids);
    }
}

static void NAME(groups_sum_like_a_scatter)(void **state)
{
    (void)state;
    enum { COUNT = 20000, HEIGHT = 700, WIDTH = 10 };
    T *values = NAME(random)(COUNT * WIDTH, 1, -1, 1), *table = calloc(HEIGHT * WIDTH, sizeof(T));
    T *out = array_new(HEIGHT * WIDTH, sizeof(T));
    int64_t *ids = random_ids(COUNT, HEIGHT, 3), *unique = array_new(COUNT, 8), *first = array_new(COUNT + 1, 8);
    int64_t *order = array_new(COUNT, 8), *work = array_new(2 * COUNT, 8);
    const int64_t groups = tr_rows_group(unique, first, order, work, ids, COUNT);
    SAME_FOR_ALL_THREADS(out, groups * WIDTH * (int64_t)sizeof(T), (void)0,
                         NAME(tr_rows_sum_groups)(out, values, first, order, groups, WIDTH));
    NAME(tr_rows_scatter_add)(table, ids, values, COUNT, WIDTH, -1);
    for (int64_t g = 0; g < groups; g++)
        assert_memory_equal(out + g * WIDTH, table + unique[g] * WIDTH, WIDTH * sizeof(T));
    free(values), free(table), free(out), free(ids), free(unique), free(first), free(order), free(work);
}

#endif
