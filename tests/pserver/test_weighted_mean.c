/* test_weighted_mean.c - means that are added up group by group. */
#include "tests/support/expect.h"

#include "pserver/core/base/weighted_mean.h"

enum { COUNT = 3, PARTS = 4 };

/* Sums of these in different orders differ in their last bits. */
static const float part[PARTS][COUNT] = {{0.1f, 1e8f, 3.0f}, {0.2f, 1.0f, 0.7f}, {0.3f, 1.0f, -0.1f}, {0.7f, 1.0f, 1e-7f}};

/* Parts first .. end - 1 of those weights. */
static tr_mean add(float *sum, const double *weight, int first, int end)
{
    tr_mean mean = {0};

    for (int i = first; i < end; i++) {
        tr_mean_add(&mean, TR_FP32, sum, part[i], COUNT, weight[i]);
        if (weight[i] == 0)
            tr_mean_keep(&mean, TR_FP32, sum, part[i], COUNT);
    }
    return mean;
}

/* The mean in groups, each of which ends before such a part. The first group lies in the sum itself, as on a server. */
static void mean_in_groups(float *sum, const double *weight, const int *ends)
{
    tr_mean mean = {0};

    for (int first = 0; first < PARTS; first = *ends++) {
        float         own[COUNT], *to = first ? own : sum;
        const tr_mean group = add(to, weight, first, *ends);
        tr_mean_join(&mean, TR_FP32, sum, &group, to, COUNT);
    }
    assert_int_equal(mean.parts, PARTS);
    tr_mean_finish(&mean, TR_FP32, sum, COUNT);
}

TEST(groups_of_equal_weights_are_added_unscaled)
{
    static const double weight[PARTS] = {8, 8, 8, 8};
    float sum[COUNT];

    mean_in_groups(sum, weight, (int[]){2, 4});
    for (int i = 0; i < COUNT; i++) {
        const float first = part[0][i] + part[1][i], second = part[2][i] + part[3][i], all = first + second;
        assert_true(sum[i] == all * 0.25f);
    }
}

TEST(groups_of_different_weights_are_added_scaled)
{
    static const double weights[][PARTS] = {{1, 2, 3, 4}, {2, 2, 3, 3}, {2, 2, 2, 3}, {1, 2, 3, 3}};

    for (size_t k = 0; k < sizeof weights / sizeof *weights; k++) {
        const double *w = weights[k];
        float         sum[COUNT];
        mean_in_groups(sum, w, (int[]){2, 4});
        for (int i = 0; i < COUNT; i++) {
            double all = 0, total = 0;
            for (int p = 0; p < PARTS; p++) {
                all += w[p] * (double)part[p][i];
                total += w[p];
            }
            const double off = (double)sum[i] - all / total;
            assert_true(off * off <= 1e-12 * (all / total) * (all / total));
        }
    }
}

TEST(groups_of_one_part_are_the_flat_mean)
{
    static const double weights[][PARTS] = {{8, 8, 8, 8}, {1, 2, 3, 4}, {0, 2, 2, 0}, {0, 0, 0, 5}, {0, 0, 0, 0}};

    for (size_t k = 0; k < sizeof weights / sizeof *weights; k++) {
        float flat[COUNT], one[COUNT], apart[COUNT];
        tr_mean mean = add(flat, weights[k], 0, PARTS);
        tr_mean_finish(&mean, TR_FP32, flat, COUNT);
        mean_in_groups(one, weights[k], (int[]){PARTS});
        mean_in_groups(apart, weights[k], (int[]){1, 2, 3, 4});
        assert_memory_equal(flat, one, sizeof flat);
        assert_memory_equal(flat, apart, sizeof flat);
    }
}

/* A group that has no sample changes nothing, wherever it stands. */
TEST(an_empty_group_is_left_out)
{
    static const double first[PARTS] = {0, 0, 3, 3}, last[PARTS] = {3, 3, 0, 0};
    float sum[COUNT];

    mean_in_groups(sum, first, (int[]){2, 4});
    for (int i = 0; i < COUNT; i++)
        assert_true(sum[i] == (part[2][i] + part[3][i]) * 0.5f);
    mean_in_groups(sum, last, (int[]){2, 4});
    for (int i = 0; i < COUNT; i++)
        assert_true(sum[i] == (part[0][i] + part[1][i]) * 0.5f);
}

/* A carrier has added the parts up: the server only counts them. */
TEST(parts_that_are_in_the_sum_are_counted)
{
    static const double weights[][PARTS] = {{8, 8, 8, 8}, {1, 2, 3, 4}};

    for (int k = 0; k < 2; k++) {
        float         want[COUNT], sum[COUNT];
        const tr_mean whole = add(want, weights[k], 0, PARTS);
        tr_mean       mean = {0};
        memcpy(sum, want, sizeof sum);
        for (int i = 0; i < PARTS; i++)
            tr_mean_note(&mean, weights[k][i]);
        assert_true(mean.count == whole.count && mean.parts == whole.parts && mean.is_uneven == whole.is_uneven);
        assert_true(mean.first == whole.first && mean.total == whole.total);
        assert_memory_equal(sum, want, sizeof sum);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_of_equal_weights_are_added_unscaled),
        cmocka_unit_test(groups_of_different_weights_are_added_scaled),
        cmocka_unit_test(groups_of_one_part_are_the_flat_mean),
        cmocka_unit_test(an_empty_group_is_left_out),
        cmocka_unit_test(parts_that_are_in_the_sum_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
