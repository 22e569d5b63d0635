/* test_rows_merge.c - rows of several trainers are merged by the rule of dense gradients. */
#include "tests/support/expect.h"

#include "framework/tensors/random.h"
#include "pserver/core/base/weighted_mean.h"
#include "storage/table/rows_merge.h"

#include <math.h>

enum { TRAINERS = 3, KEYS = 40, ROWS = 60, WIDTH = 3 };

/* Rows of a trainer, in pieces; a key comes once for each trainer. */
typedef struct rows {
    int64_t key[ROWS];
    float   value[ROWS * WIDTH];
    int     count;
} rows;

static int64_t key_of(int number)
{
    return number % 2 ? -(int64_t)number : INT64_MAX - number;
}

static void draw(rows *r, int trainer)
{
    r->count = 0;
    for (int k = 0; k < KEYS; k++) {
        if (tr_random_below(3, (uint64_t)(trainer * KEYS + k), 3) == 0)
            continue;                                  /* this trainer has no such row */
        r->key[r->count] = key_of(k);
        tr_random_uniform_f32(r->value + r->count * WIDTH, WIDTH, 9, (uint64_t)(trainer * KEYS + k) * WIDTH, -1, 1);
        r->count++;
    }
}

/* The mean of what all trainers have of one key, zeros where they have nothing. */
static void reference(float *out, const rows *all, int64_t key, const double *weight)
{
    tr_mean mean = {0};

    for (int t = 0; t < TRAINERS; t++) {
        float part[WIDTH] = {0};
        for (int i = 0; i < all[t].count; i++)
            if (all[t].key[i] == key)
                memcpy(part, all[t].value + i * WIDTH, sizeof part);
        tr_mean_add(&mean, TR_FP32, out, part, WIDTH, weight[t]);
    }
    tr_mean_finish(&mean, TR_FP32, out, WIDTH);
}

static void check(const double *weight, double tolerance)
{
    static rows   all[TRAINERS];
    tr_rows_part  part[2 * TRAINERS];
    tr_rows_merge merge = {0};
    int           present = 0;

    for (int t = 0; t < TRAINERS; t++) {
        draw(&all[t], t);
        const int half = all[t].count / 2;
        part[2 * t] = (tr_rows_part){t, weight[t], half, all[t].key, all[t].value};
        part[2 * t + 1] = (tr_rows_part){t, weight[t], all[t].count - half, all[t].key + half, all[t].value + half * WIDTH};
    }
    const tr_rows_update update = {2 * TRAINERS, part};
    for (int run = 0; run < 2; run++)                  /* its memory is used again */
        EXPECT_OK(tr_rows_merge_run(&merge, &update, WIDTH));
    for (uint32_t i = 0; i < merge.set.count; i++) {
        float want[WIDTH] = {0};
        reference(want, all, merge.set.keys[i], weight);
        for (int c = 0; c < WIDTH; c++)
            assert_true(fabs((double)merge.values[i * WIDTH + (uint32_t)c] - (double)want[c]) <= tolerance);
        for (uint32_t j = 0; j < i; j++)
            assert_true(merge.set.keys[j] != merge.set.keys[i]);
    }
    for (int k = 0; k < KEYS; k++) {
        bool is_there = false;
        for (int t = 0; t < TRAINERS; t++)
            for (int i = 0; weight[t] > 0 && i < all[t].count; i++)
                is_there |= all[t].key[i] == key_of(k);
        present += is_there;
    }
    assert_int_equal(merge.set.count, present);
    tr_rows_merge_deinit(&merge);
}

TEST(equal_weights_give_the_very_bits_of_the_dense_mean)
{
    check((const double[]){4, 4, 4}, 0);
}

TEST(samples_weigh)
{
    check((const double[]){4, 3, 5}, 1e-7);
    check((const double[]){0.5, 2, 2}, 1e-7);
}

TEST(a_trainer_without_samples_is_left_out_whatever_it_sent)
{
    check((const double[]){4, 0, 4}, 0);
    check((const double[]){0, 0, 7}, 0);               /* one that is left: its gradient, bit by bit */
    check((const double[]){0, 0, 0}, 0);
}

/* Trainers 0 and 1 are a group, whose sum is made here, or before. */
static void check_groups(const double *weight)
{
    static rows   all[TRAINERS];
    tr_rows_part  part[TRAINERS], sums[TRAINERS + 1];
    tr_rows_merge merge = {0}, group = {0}, summed = {0};

    for (int t = 0; t < TRAINERS; t++) {
        draw(&all[t], t);
        part[t] = (tr_rows_part){t, weight[t], all[t].count, all[t].key, all[t].value, .group = t / 2 * 2};
    }
    EXPECT_OK(tr_rows_merge_run(&merge, &(tr_rows_update){TRAINERS, part}, WIDTH));
    EXPECT_OK(tr_rows_merge_sum(&group, &(tr_rows_update){2, part}, WIDTH));
    sums[0] = (tr_rows_part){0, weight[0], 0};
    sums[1] = (tr_rows_part){0, weight[0], group.set.count, group.set.keys, group.values, .is_sum = true};
    sums[2] = (tr_rows_part){1, weight[1], 0};
    sums[3] = part[2];
    EXPECT_OK(tr_rows_merge_run(&summed, &(tr_rows_update){TRAINERS + 1, sums}, WIDTH));
    assert_int_equal(summed.set.count, merge.set.count);
    assert_memory_equal(summed.set.keys, merge.set.keys, merge.set.count * sizeof *merge.set.keys);
    assert_memory_equal(summed.values, merge.values, merge.set.count * WIDTH * sizeof *merge.values);
    for (uint32_t i = 0; i < merge.set.count; i++) {
        tr_mean mean = {0}, first = {0};
        float   want[WIDTH] = {0}, sum[WIDTH] = {0};
        for (int t = 0; t < TRAINERS; t++) {
            float value[WIDTH] = {0};
            for (int k = 0; k < all[t].count; k++)
                if (all[t].key[k] == merge.set.keys[i])
                    memcpy(value, all[t].value + k * WIDTH, sizeof value);
            if (t == 2)
                tr_mean_join(&mean, TR_FP32, want, &first, sum, WIDTH);
            tr_mean_add(t == 2 ? &mean : &first, TR_FP32, t == 2 ? want : sum, value, WIDTH, weight[t]);
        }
        tr_mean_finish(&mean, TR_FP32, want, WIDTH);
        for (int c = 0; c < WIDTH; c++)
            assert_true(fabs((double)merge.values[i * WIDTH + (uint32_t)c] - (double)want[c]) <= 1e-7);
    }
    tr_rows_merge_deinit(&merge);
    tr_rows_merge_deinit(&group);
    tr_rows_merge_deinit(&summed);
}

TEST(the_sum_of_a_group_may_be_made_before)
{
    check_groups((const double[]){4, 4, 4});
    check_groups((const double[]){4, 4, 3});           /* even in the group alone */
    check_groups((const double[]){4, 3, 4});
    check_groups((const double[]){0.5, 2, 2});
}

TEST(repeated_keys_of_one_part_add_up_in_their_order)
{
    const int64_t        keys[] = {5, -5, 5, 5};
    const float          values[] = {1e8f, 1, 1, -1e8f};
    const tr_rows_part   part = {0, 2, 4, keys, values};
    const tr_rows_update update = {1, &part};
    tr_rows_merge        merge = {0};

    EXPECT_OK(tr_rows_merge_run(&merge, &update, 1));
    assert_int_equal(merge.set.count, 2);
    assert_true(merge.set.keys[0] == 5 && merge.values[0] == 1e8f + 1 - 1e8f && merge.values[1] == 1);
    tr_rows_merge_deinit(&merge);
}

TEST(hints_follow_their_keys_if_all_parts_have_some)
{
    const int64_t  keys[2][3] = {{4, 5, 6}, {6, 7, 4}};
    const uint32_t hints[2][3] = {{40, 50, 60}, {60, 70, 40}};
    const float    values[3] = {1, 2, 3};
    tr_rows_part   part[2];
    tr_rows_merge  merge = {0};

    for (int i = 0; i < 2; i++)
        part[i] = (tr_rows_part){i, 1, 3, keys[i], values, true, hints[i]};
    const tr_rows_update update = {2, part};
    EXPECT_OK(tr_rows_merge_run(&merge, &update, 1));
    assert_int_equal(merge.set.count, 4);
    for (uint32_t i = 0; i < merge.set.count; i++)
        assert_int_equal(merge.hints[i], 10 * merge.set.keys[i]);
    part[1].hints = NULL;
    EXPECT_OK(tr_rows_merge_run(&merge, &update, 1));
    assert_null(merge.hints);
    tr_rows_merge_deinit(&merge);
}

TEST(a_copy_of_a_set_goes_on_by_itself)
{
    const int64_t keys[] = {8, -1, 8, 3}, more[] = {3, 9};
    uint32_t      number[4];
    tr_keyset     from = {0}, set = {0};

    EXPECT_OK(tr_keyset_reset(&set, 5000));            /* larger before */
    EXPECT_OK(tr_keyset_reset(&from, 40));
    tr_keyset_add(&from, number, keys, 4);
    EXPECT_OK(tr_keyset_copy(&set, &from));
    tr_keyset_add(&set, number, more, 2);
    assert_true(number[0] == 2 && number[1] == 3 && set.count == 4 && from.count == 3);
    assert_true(tr_keyset_has(&set, 9) && tr_keyset_has(&set, -1) && !tr_keyset_has(&from, 9));
    EXPECT_OK(tr_keyset_reset(&set, 5000));
    assert_false(tr_keyset_has(&set, 8));
    tr_keyset_deinit(&set);
    tr_keyset_deinit(&from);
}

TEST(many_keys_keep_the_order_in_which_they_came)
{
    enum { MANY = 100000 };
    int64_t  *keys = malloc(2 * MANY * sizeof *keys);
    uint32_t *number = malloc(2 * MANY * sizeof *number);
    tr_keyset set = {0};

    for (int i = 0; i < MANY; i++)
        keys[i] = keys[2 * MANY - 1 - i] = (int64_t)tr_hash_u64((uint64_t)i);
    for (int run = 0; run < 2; run++) {
        EXPECT_OK(tr_keyset_reset(&set, 2 * MANY));
        tr_keyset_add(&set, number, keys, 2 * MANY);
    }
    assert_int_equal(set.count, MANY);
    for (uint32_t i = 0; i < MANY; i++)
        assert_true(set.keys[i] == keys[i] && number[i] == i && number[2 * MANY - 1 - i] == i);
    tr_keyset_deinit(&set);
    free(keys);
    free(number);
}

TEST(parts_of_one_trainer_that_has_merged_them_are_the_update_as_they_are)
{
    const int64_t keys[2][2] = {{3, -1}, {7, 0}};
    const float   values[2][2] = {{1, 2}, {3, 4}};
    tr_rows_part  part[2];
    tr_rows_merge merge = {0};

    for (int i = 0; i < 2; i++)
        part[i] = (tr_rows_part){1, 2.5, 2, keys[i], values[i], true};
    const tr_rows_update update = {2, part}, none = {0, part};
    assert_true(tr_rows_are_merged(&update));
    EXPECT_OK(tr_rows_merge_run(&merge, &update, 1));
    assert_memory_equal(merge.set.keys, keys, sizeof keys);
    assert_memory_equal(merge.values, values, sizeof values);
    assert_false(tr_rows_are_merged(&none));
    part[1].trainer = 2;                               /* their mean */
    assert_false(tr_rows_are_merged(&update));
    part[1].trainer = 1;
    part[0].weight = part[1].weight = 0;               /* left out */
    assert_false(tr_rows_are_merged(&update));
    part[0].weight = part[1].weight = 1;
    part[0].is_merged = false;
    assert_false(tr_rows_are_merged(&update));
    tr_rows_merge_deinit(&merge);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_weights_give_the_very_bits_of_the_dense_mean),
        cmocka_unit_test(samples_weigh),
        cmocka_unit_test(a_trainer_without_samples_is_left_out_whatever_it_sent),
        cmocka_unit_test(the_sum_of_a_group_may_be_made_before),
        cmocka_unit_test(repeated_keys_of_one_part_add_up_in_their_order),
        cmocka_unit_test(parts_of_one_trainer_that_has_merged_them_are_the_update_as_they_are),
        cmocka_unit_test(hints_follow_their_keys_if_all_parts_have_some),
        cmocka_unit_test(a_copy_of_a_set_goes_on_by_itself),
        cmocka_unit_test(many_keys_keep_the_order_in_which_they_came),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
