/* test_exact.c - sums of squares: exact ones, in any order, cut anywhere, of all magnitudes. */
#ifndef T
#include "kernels/math/arrays/exact.h"

#include "tests/kernels/math/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Some bits, the same each time. */
static uint64_t bits_at(uint64_t i)
{
    i = (i + 1) * 0x9e3779b97f4a7c15u;
    i = (i ^ i >> 30) * 0xbf58476d1ce4e5b9u;
    i = (i ^ i >> 27) * 0x94d049bb133111ebu;
    return i ^ i >> 31;
}

static void ties_go_to_the_even_one(void **state)
{
    (void)state;
    /* 1 + 2^-24 lies between two floats, 1 + 3 * 2^-24, too; one more bit anywhere decides. */
    const struct {
        double low, lower;
        float  want;
    } cases[] = {
        {0x1p-12, 0, 1}, {0x1p-12, 0x1p-140, 1 + 0x1p-23f}, {0x1p-13, 0x1p-13, 1},
    };
    for (int i = 0; i < 3; i++) {
        tr_exact sum = {0};
        tr_exact_add_squares_f64(&sum, (double[]){1, cases[i].low, cases[i].lower}, 3);
        assert_true(tr_exact_round_f32(&sum) == cases[i].want);
    }
    tr_exact odd = {0};
    tr_exact_add_squares_f64(&odd, (double[]){1, 0x1p-12, 0x1p-12, 0x1p-12}, 4);
    assert_true(tr_exact_round_f32(&odd) == 1 + 0x1p-22f);
}

#include "kernels/math/tools/each_float.h"

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ties_go_to_the_even_one),
        cmocka_unit_test(integers_are_exact_f32),
        cmocka_unit_test(integers_are_exact_f64),
        cmocka_unit_test(any_cut_gives_the_same_bits_f32),
        cmocka_unit_test(any_cut_gives_the_same_bits_f64),
        cmocka_unit_test(the_ends_of_the_range_f32),
        cmocka_unit_test(the_ends_of_the_range_f64),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else

static T NAME(total)(const T *x, int64_t n)
{
    tr_exact sum = {0};

    NAME(tr_exact_add_squares)(&sum, x, n);
    return NAME(tr_exact_round)(&sum);
}

/* Sums of squares of integers below 2^10 that stay below 2^53: another way to the same. */
static void NAME(integers_are_exact)(void **state)
{
    (void)state;
    enum { N = 300000 };
    T      *x = malloc(N * sizeof *x);
    int64_t want = 0;
    for (int i = 0; i < N; i++) {
        const int64_t k = (int64_t)(bits_at((uint64_t)i) % 2047) - 1023;
        x[i] = (T)k;
        want += k * k;
        if (i < 3000 || i == N - 1)
            assert_true(NAME(total)(x, i + 1) == (T)want);
    }
    free(x);
}

/* Values of all exponents whose squares neither vanish nor overflow the type. */
static void NAME(fill)(T *x, int n, int spread)
{
    for (int i = 0; i < n; i++) {
        const uint64_t bits = bits_at((uint64_t)i);
        const int      exponent = (int)(bits % (unsigned)spread) - spread / 2;
        x[i] = (T)ldexp((double)(bits >> 11) * (bits & 1024 ? -1 : 1), exponent - 53);
    }
}

static void NAME(any_cut_gives_the_same_bits)(void **state)
{
    (void)state;
    enum { N = 200003 };
    T *x = malloc(N * sizeof *x), *back = malloc(N * sizeof *x);
    const int spreads[] = {1, 8, 30, 60, T_IS_F32 ? 100 : 900};
    for (int s = 0; s < 5; s++) {
        NAME(fill)(x, N, spreads[s]);
        for (int i = 0; i < N; i++)
            back[i] = x[N - 1 - i];
        const T want = NAME(total)(x, N);
        const double about = (double)want;
        long double  plain = 0;
        for (int i = 0; i < N; i++)
            plain += (long double)x[i] * (long double)x[i];
        assert_true(fabsl(plain - about) <= 1e-15L * (T_IS_F32 ? 1e9L : 1) * plain);
        assert_true(NAME(total)(back, N) == want);
        const int cuts[] = {1, 17, 1024, 65537, 150000};
        for (int c = 0; c < 5; c++) {
            tr_exact first = {0}, second = {0}, both = {0};
            uint32_t words[TR_EXACT_WORDS];
            NAME(tr_exact_add_squares)(&first, x, cuts[c]);
            NAME(tr_exact_add_squares)(&second, x + cuts[c], N - cuts[c]);
            tr_exact_pack(words, &second);
            tr_exact_add(&both, &first);
            tr_exact_add_packed(&both, words);
            assert_true(NAME(tr_exact_round)(&both) == want);
        }
    }
    free(x);
    free(back);
}

static void NAME(the_ends_of_the_range)(void **state)
{
    (void)state;
    const T least = T_IS_F32 ? (T)0x1p-149 : (T)0x1p-1074, greatest = T_IS_F32 ? (T)0x1.fffffep127 : (T)0x1.fffffffffffffp1023;
    const T small = T_IS_F32 ? (T)0x1.8p-75 : (T)0x1.8p-538;       /* its square is 9/8 (9/16) of `least` */
    assert_true(NAME(total)(NULL, 0) == 0);
    assert_true(NAME(total)((T[]){least}, 1) == 0);
    assert_true(isinf(NAME(total)((T[]){greatest}, 1)));
    assert_true(isinf(NAME(total)((T[]){1, -(T)INFINITY}, 2)));
    assert_true(isnan(NAME(total)((T[]){(T)INFINITY, (T)NAN, 2}, 3)));
    assert_true(NAME(total)((T[]){least, small, least}, 3) == least);
    tr_exact nan = {0}, none = {0};
    uint32_t words[TR_EXACT_WORDS];
    NAME(tr_exact_add_squares)(&nan, (T[]){(T)NAN}, 1);
    tr_exact_pack(words, &nan);
    tr_exact_add_packed(&none, words);
    assert_true(isnan(NAME(tr_exact_round)(&none)));
}
#endif
