/* test_server_threads.c - what a server computes with several threads has the bits of one: sums of gradients, rows that are looked up. */
#include "framework/tensors/random.h"
#include "pserver/core/base/weighted_mean.h"
#include "storage/table/rows_merge.h"
#include "storage/table/table.h"
#include "tests/support/expect.h"

#include <stdlib.h>
#include <string.h>

enum { COUNT = 100001, PARTS = 3, ROWS = 30000, WIDTH = 8 };

/* Fill with numbers whose sums are rounded. */
static void fill(tr_dtype dtype, void *to, int64_t count, uint64_t seed)
{
    for (int64_t i = 0; i < count; i++) {
        const double x = (double)(tr_hash_u64(seed * COUNT + (uint64_t)i) >> 20) / 1e9;
        if (dtype == TR_FP32)
            ((float *)to)[i] = (float)x;
        else
            ((double *)to)[i] = x;
    }
}

static void mean_of(void *sum, tr_dtype dtype, const double *weights, int threads)
{
    void   *part = malloc((size_t)(COUNT * tr_dtype_size(dtype)));
    tr_mean mean = {0};

    tr_set_num_threads(threads);
    for (int i = 0; i < PARTS; i++) {
        fill(dtype, part, COUNT, (uint64_t)i);
        tr_mean_add(&mean, dtype, sum, part, COUNT, weights[i]);
    }
    tr_mean_finish(&mean, dtype, sum, COUNT);
    tr_set_num_threads(0);
    free(part);
}

static void test_sums_have_the_bits_of_one_thread(void **state)
{
    static const double weights[2][PARTS] = {{2, 2, 2}, {2, 3, 5}};

    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        const tr_dtype dtype = kind / 2 ? TR_FP64 : TR_FP32;
        const size_t   bytes = (size_t)(COUNT * tr_dtype_size(dtype));
        void          *one = malloc(bytes), *many = malloc(bytes);
        mean_of(one, dtype, weights[kind % 2], 1);
        for (int threads = 2; threads <= 5; threads++) {
            mean_of(many, dtype, weights[kind % 2], threads);
            assert_memory_equal(one, many, bytes);
        }
        free(one);
        free(many);
    }
}

static void test_rows_are_found_by_several_threads(void **state)
{
    const tr_table_config  config = {.dtype = TR_FP32, .width = WIDTH, .states = 0, .init = TR_TABLE_UNIFORM, .a = -1, .b = 1};
    const tr_table_segment place = {NULL, 0, TR_SHARDS, 0};
    tr_table              *t = NULL;
    int64_t               *keys = malloc(ROWS * sizeof *keys);
    uint32_t              *made = malloc(ROWS * sizeof *made), *found = malloc(ROWS * sizeof *found);
    float                 *one = malloc(sizeof(float) * ROWS * WIDTH), *many = malloc(sizeof(float) * ROWS * WIDTH);

    (void)state;
    for (int64_t i = 0; i < ROWS; i++)
        keys[i] = (int64_t)tr_hash_u64((uint64_t)i);
    EXPECT_OK(tr_table_create(&t, &config, &place));
    EXPECT_OK(tr_table_begin(t, 1));
    tr_set_num_threads(4);
    EXPECT_OK(tr_table_take(t, made, keys, ROWS / 2));         /* the others have no row */
    tr_table_pull_places(t, many, found, keys, ROWS);
    tr_set_num_threads(1);
    tr_table_pull(t, one, keys, ROWS);
    tr_set_num_threads(0);
    assert_memory_equal(one, many, sizeof(float) * ROWS * WIDTH);
    for (int64_t i = 0; i < ROWS; i++)
        assert_true(found[i] == (i < ROWS / 2 ? made[i] : TR_SLOT_NONE));
    tr_table_free(t);
    free(keys);
    free(made);
    free(found);
    free(one);
    free(many);
}

/* Three trainers have some keys in common. */
static void merge_all(tr_rows_merge *merge, const double *weights, int threads)
{
    static int64_t keys[PARTS][ROWS];
    static float   values[PARTS][ROWS * WIDTH];
    tr_rows_part   part[PARTS];

    for (int i = 0; i < PARTS; i++) {
        for (int64_t k = 0; k < ROWS; k++)
            keys[i][k] = (int64_t)tr_hash_u64((uint64_t)(k + i * ROWS / 3));
        fill(TR_FP32, values[i], ROWS * WIDTH, (uint64_t)i);
        part[i] = (tr_rows_part){.trainer = i, .weight = weights[i], .count = ROWS - i, .keys = keys[i], .values = values[i],
                                 .is_merged = true};
    }
    tr_set_num_threads(threads);
    EXPECT_OK(tr_rows_merge_run(merge, &(tr_rows_update){PARTS, part}, WIDTH));
    tr_set_num_threads(0);
}

static void test_rows_of_trainers_add_up_to_the_bits_of_one_thread(void **state)
{
    static const double weights[3][PARTS] = {{2, 2, 2}, {2, 3, 5}, {2, 0, 2}};

    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        tr_rows_merge one = {0}, many = {0};
        merge_all(&one, weights[kind], 1);
        merge_all(&many, weights[kind], 5);
        assert_int_equal(one.set.count, many.set.count);
        assert_memory_equal(one.set.keys, many.set.keys, one.set.count * sizeof *one.set.keys);
        assert_memory_equal(one.values, many.values, one.set.count * WIDTH * sizeof *one.values);
        tr_rows_merge_deinit(&one);
        tr_rows_merge_deinit(&many);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_have_the_bits_of_one_thread),
        cmocka_unit_test(test_rows_are_found_by_several_threads),
        cmocka_unit_test(test_rows_of_trainers_add_up_to_the_bits_of_one_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
