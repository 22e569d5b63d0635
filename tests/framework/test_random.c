/* test_random.c - Philox gives its published numbers; fills are the same for any cut; distributions have their moments. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "framework/tensors/random.h"

enum { N = 10007 };

/* The known answers that come with the Random123 library for philox4x32-10. */
static void philox_gives_the_published_numbers(void **state)
{
    (void)state;
    static const struct { uint32_t counter[4], key[2], want[4]; } cases[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t got[4];
        tr_philox(got, cases[i].counter, cases[i].key);
        assert_memory_equal(got, cases[i].want, sizeof got);
    }
    assert_int_equal(tr_random_bits(0, 2), 0xbc57ac4c);
}

static void uniform_f32(void *out, int64_t n, uint64_t start) { tr_random_uniform_f32(out, n, 7, start, -1, 3); }
static void uniform_f64(void *out, int64_t n, uint64_t start) { tr_random_uniform_f64(out, n, 7, start, -1, 3); }
static void normal_f32(void *out, int64_t n, uint64_t start) { tr_random_normal_f32(out, n, 7, start, 1, 2); }
static void normal_f64(void *out, int64_t n, uint64_t start) { tr_random_normal_f64(out, n, 7, start, 1, 2); }
static void truncated_f32(void *out, int64_t n, uint64_t start) { tr_random_truncated_normal_f32(out, n, 7, start, 1, 2); }
static void truncated_f64(void *out, int64_t n, uint64_t start) { tr_random_truncated_normal_f64(out, n, 7, start, 1, 2); }
static void coins(void *out, int64_t n, uint64_t start) { tr_random_bernoulli(out, n, 7, start, 0.3); }

static const struct {
    void (*fill)(void *out, int64_t n, uint64_t start);
    size_t item_size;
} fills[] = {
    {uniform_f32, 4}, {uniform_f64, 8}, {normal_f32, 4}, {normal_f64, 8}, {truncated_f32, 4}, {truncated_f64, 8}, {coins, 1},
};

static void a_part_is_the_part_of_the_whole(void **state)
{
    (void)state;
    static double whole[N], part[N];
    const int64_t cuts[][2] = {{0, 1}, {1, 2}, {3, 300}, {255, 257}, {256, 512}, {1000, N}, {N - 1, N}, {5, 5}};
    for (size_t f = 0; f < sizeof fills / sizeof *fills; f++) {
        fills[f].fill(whole, N, 0);
        for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
            const int64_t begin = cuts[c][0], count = cuts[c][1] - begin;
            fills[f].fill(part, count, (uint64_t)begin);
            assert_memory_equal(part, (char *)whole + begin * (int64_t)fills[f].item_size, (size_t)count * fills[f].item_size);
        }
    }
}

static void threads_do_not_matter(void **state)
{
    (void)state;
    enum { LARGE = 100000 };
    double *one = malloc(LARGE * sizeof *one), *four = malloc(LARGE * sizeof *four);
    for (size_t f = 0; f < sizeof fills / sizeof *fills; f++) {
        tr_set_num_threads(1);
        fills[f].fill(one, LARGE, 3);
        tr_set_num_threads(4);
        fills[f].fill(four, LARGE, 3);
        assert_memory_equal(one, four, LARGE * fills[f].item_size);
    }
    free(one);
    free(four);
}

/* Large starts reach the upper half of the counter. */
static void starts_beyond_32_bits_differ(void **state)
{
    (void)state;
    float low[8], high[8];
    tr_random_uniform_f32(low, 8, 7, 0, 0, 1);
    tr_random_uniform_f32(high, 8, 7, (uint64_t)1 << 34, 0, 1);
    assert_memory_not_equal(low, high, sizeof low);
}

static void check_moments(const double *x, double mean, double variance, double skew_bound)
{
    double sum = 0, square = 0, cube = 0;
    for (int i = 0; i < N; i++)
        sum += x[i];
    sum /= N;
    for (int i = 0; i < N; i++) {
        square += (x[i] - sum) * (x[i] - sum);
        cube += pow((x[i] - sum) / sqrt(variance), 3);
    }
    assert_true(fabs(sum - mean) < 5 * sqrt(variance / N));
    assert_true(fabs(square / N / variance - 1) < 5 * sqrt(2.0 / N));
    assert_true(fabs(cube / N) < skew_bound);
}

static void as_doubles(double *out, const float *x)
{
    for (int i = 0; i < N; i++)
        out[i] = x[i];
}

/* The variance of a normal number within two standard deviations is 0.7737 of the whole's. */
static void distributions_have_their_moments(void **state)
{
    (void)state;
    static float  x[N];
    static double y[N];
    tr_random_uniform_f32(x, N, 11, 0, -1, 3);
    as_doubles(y, x);
    check_moments(y, 1, 16.0 / 12, 0.1);
    tr_random_uniform_f64(y, N, 12, 0, -1, 3);
    check_moments(y, 1, 16.0 / 12, 0.1);
    tr_random_normal_f32(x, N, 13, 0, 1, 2);
    as_doubles(y, x);
    check_moments(y, 1, 4, 0.15);
    tr_random_normal_f64(y, N, 14, 0, 1, 2);
    check_moments(y, 1, 4, 0.15);
    tr_random_truncated_normal_f32(x, N, 15, 0, 1, 2);
    as_doubles(y, x);
    check_moments(y, 1, 4 * 0.7737413, 0.1);
    tr_random_truncated_normal_f64(y, N, 16, 0, 1, 2);
    check_moments(y, 1, 4 * 0.7737413, 0.1);
}

static double normal_below(double z)
{
    return 0.5 * erfc(-z / sqrt(2.0));
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Kolmogorov and Smirnov: the largest distance of the two distribution functions. */
static void normal_numbers_follow_the_normal_distribution(void **state)
{
    (void)state;
    static double y[N];
    double        worst = 0;
    tr_random_normal_f64(y, N, 17, 0, 0, 1);
    qsort(y, N, sizeof *y, by_value);
    for (int i = 0; i < N; i++)
        worst = fmax(worst, fabs((i + 0.5) / N - normal_below(y[i])));
    assert_true(worst < 1.95 / sqrt(N));
    tr_random_truncated_normal_f64(y, N, 18, 0, 0, 1);
    qsort(y, N, sizeof *y, by_value);
    worst = 0;
    for (int i = 0; i < N; i++)
        worst = fmax(worst, fabs((i + 0.5) / N - (normal_below(y[i]) - normal_below(-2)) / (1 - 2 * normal_below(-2))));
    assert_true(worst < 1.95 / sqrt(N));
}

static void bounds_hold(void **state)
{
    (void)state;
    static float x[100 * 1000];
    tr_random_uniform_f32(x, 100 * 1000, 3, 0, 1, 2);
    for (int i = 0; i < 100 * 1000; i++)
        assert_true(x[i] >= 1 && x[i] < 2);
    tr_random_uniform_f32(x, 10, 3, 0, 5, 5);
    for (int i = 0; i < 10; i++)
        assert_true(x[i] == 5);
    tr_random_truncated_normal_f32(x, 100 * 1000, 3, 0, 0, 1);
    for (int i = 0; i < 100 * 1000; i++)
        assert_true(x[i] >= -2 && x[i] <= 2);
    for (uint64_t i = 0; i < 1000; i++)
        assert_true(tr_random_below(5, i, 7) < 7);
}

static void coins_fall_with_their_probability(void **state)
{
    (void)state;
    static uint8_t x[N];
    const double   probabilities[] = {0, 0.1, 0.5, 0.9, 1};
    for (int p = 0; p < 5; p++) {
        double heads = 0;
        tr_random_bernoulli(x, N, 21, 0, probabilities[p]);
        for (int i = 0; i < N; i++) {
            assert_true(x[i] <= 1);
            heads += x[i];
        }
        assert_true(fabs(heads / N - probabilities[p]) <= 5 * sqrt(probabilities[p] * (1 - probabilities[p]) / N));
    }
}

/* One flipped bit anywhere flips about half of the hash. */
static void hashes_spread_every_bit(void **state)
{
    (void)state;
    unsigned char bytes[40];
    for (size_t size = 1; size <= sizeof bytes; size++) {
        memset(bytes, 0x5a, sizeof bytes);
        const uint64_t hash = tr_hash_bytes(bytes, size);
        for (size_t bit = 0; bit < 8 * size; bit++) {
            bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
            const int flipped = __builtin_popcountll(hash ^ tr_hash_bytes(bytes, size));
            assert_in_range(flipped, 12, 52);
            bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        }
    }
    memset(bytes, 0, sizeof bytes);
    for (size_t size = 0; size < sizeof bytes; size++)
        assert_true(tr_hash_bytes(bytes, size) != tr_hash_bytes(bytes, size + 1));
}

static void keys_differ_in_each_part(void **state)
{
    (void)state;
    const uint64_t key = tr_random_key(1, 2, 3);
    assert_true(key == tr_random_key(1, 2, 3));
    assert_true(key != tr_random_key(2, 2, 3));
    assert_true(key != tr_random_key(1, 3, 3));
    assert_true(key != tr_random_key(1, 2, 4));
    assert_true(key != tr_random_key(2, 1, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_the_published_numbers),
        cmocka_unit_test(a_part_is_the_part_of_the_whole),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(starts_beyond_32_bits_differ),
        cmocka_unit_test(distributions_have_their_moments),
        cmocka_unit_test(normal_numbers_follow_the_normal_distribution),
        cmocka_unit_test(bounds_hold),
        cmocka_unit_test(coins_fall_with_their_probability),
        cmocka_unit_test(hashes_spread_every_bit),
        cmocka_unit_test(keys_differ_in_each_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
