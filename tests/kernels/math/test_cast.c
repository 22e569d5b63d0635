/* test_cast.c - every pair of types on values that both hold; 16-bit floats bit by bit. */
#include "kernels/math/tools/cast.h"

#include "tests/kernels/math/check.h"

static const tr_dtype types[] = {TR_BOOL, TR_INT16, TR_INT32, TR_INT64, TR_FP16, TR_FP32, TR_FP64, TR_SIZE_T, TR_UINT8,
                                 TR_INT8, TR_BF16};
enum { TYPES = sizeof types / sizeof *types, N = 100 };

static void every_pair_keeps_small_integers(void **state)
{
    (void)state;
    double   start[N], back[N];
    uint64_t first[N], second[N];                             /* room for any type */
    for (int i = 0; i < N; i++)
        start[i] = i;
    for (int a = 0; a < TYPES; a++)
        for (int b = 0; b < TYPES; b++) {
            tr_cast(first, types[a], start, TR_FP64, N);
            tr_cast(second, types[b], first, types[a], N);
            tr_cast(back, TR_FP64, second, types[b], N);
            for (int i = 0; i < N; i++)
                assert_true(back[i] == (types[a] == TR_BOOL || types[b] == TR_BOOL ? i != 0 : i));
        }
}

static void signs_and_fractions_are_cut(void **state)
{
    (void)state;
    const double x[] = {-1.9, 1.9, -0.5, 300.7};
    int32_t      i[4];
    int8_t       bytes[2];
    uint8_t      flags[4];
    tr_cast(i, TR_INT32, x, TR_FP64, 4);
    assert_memory_equal(i, ((int32_t[]){-1, 1, 0, 300}), sizeof i);
    tr_cast(bytes, TR_INT8, x, TR_FP64, 2);
    assert_memory_equal(bytes, ((int8_t[]){-1, 1}), sizeof bytes);
    tr_cast(flags, TR_BOOL, x, TR_FP64, 4);
    assert_memory_equal(flags, ((uint8_t[]){1, 1, 1, 1}), sizeof flags);
    const int64_t large = ((int64_t)1 << 53) + 1;
    int64_t       same;
    tr_cast(&same, TR_INT64, &large, TR_INT64, 1);
    assert_true(same == large);
}

/* The value of a half by its definition. */
static double half(uint16_t bits)
{
    const int    exponent = bits >> 10 & 31, fraction = bits & 1023;
    const double size = exponent == 31 ? (fraction ? (double)NAN : (double)INFINITY)
                      : exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return bits >> 15 ? -size : size;
}

static void every_half_is_its_value_and_comes_back(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        const float value = tr_f32_of_fp16((uint16_t)bits);
        if (isnan(half((uint16_t)bits))) {
            assert_true(isnan(value) && isnan(tr_f32_of_fp16(tr_fp16_of_f32(value))));
            continue;
        }
        assert_true((double)value == half((uint16_t)bits));
        assert_int_equal(tr_fp16_of_f32(value), bits);
    }
}

/* Of two neighbours a and b, what lies below the middle goes to a, above to b, the middle to the even one. */
static void halves_round_to_nearest_even(void **state)
{
    (void)state;
    for (uint16_t a = 0; a < 0x7c00; a++) {
        const uint16_t b = a + 1;
        const double   high = b == 0x7c00 ? 65536.0 : half(b);
        const float    middle = (float)((half(a) + high) / 2);
        assert_int_equal(tr_fp16_of_f32(nextafterf(middle, 0)), a);
        assert_int_equal(tr_fp16_of_f32(nextafterf(middle, INFINITY)), b);
        assert_int_equal(tr_fp16_of_f32(middle), a & 1 ? b : a);
        assert_int_equal(tr_fp16_of_f32(-middle), 0x8000 | (a & 1 ? b : a));
    }
    assert_int_equal(tr_fp16_of_f32(INFINITY), 0x7c00);
    assert_int_equal(tr_fp16_of_f32(1e30f), 0x7c00);
    assert_int_equal(tr_fp16_of_f32(1e-30f), 0);
}

static void bfloats_round_to_nearest_even(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        const float value = tr_f32_of_bf16((uint16_t)bits);
        if (isnan(value))
            assert_true(isnan(tr_f32_of_bf16(tr_bf16_of_f32(value))));
        else
            assert_int_equal(tr_bf16_of_f32(value), bits);
    }
    assert_int_equal(tr_bf16_of_f32(tr__f32_of_bits(0x3f808000)), 0x3f80);
    assert_int_equal(tr_bf16_of_f32(tr__f32_of_bits(0x3f818000)), 0x3f82);
    assert_int_equal(tr_bf16_of_f32(tr__f32_of_bits(0x3f808001)), 0x3f81);
    assert_int_equal(tr_bf16_of_f32(tr__f32_of_bits(0x7f7fffff)), 0x7f80);
    assert_true(isnan(tr_f32_of_bf16(tr_bf16_of_f32(tr__f32_of_bits(0x7f800001)))));
}

static void long_arrays_match_the_inline_functions(void **state)
{
    (void)state;
    enum { LONG = 70001 };
    float    *x = random_f32(LONG, 1, -70000, 70000), *back = array_new(LONG, sizeof *back);
    uint16_t *y = array_new(LONG, sizeof *y);
    x[5] = NAN;
    SAME_FOR_ALL_THREADS(y, LONG * 2, (void)0, tr_cast(y, TR_FP16, x, TR_FP32, LONG));
    tr_cast(back, TR_FP32, y, TR_FP16, LONG);
    for (int i = 0; i < LONG; i++) {
        assert_int_equal(y[i], tr_fp16_of_f32(x[i]));
        assert_true(isnan(x[i]) ? isnan(back[i]) : back[i] == tr_f32_of_fp16(y[i]));
    }
    tr_cast(y, TR_BF16, x, TR_FP32, LONG);
    for (int i = 0; i < LONG; i++)
        assert_int_equal(y[i], tr_bf16_of_f32(x[i]));
    tr_cast(y, TR_BF16, x, TR_FP32, 0);
    free(x), free(back), free(y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_keeps_small_integers),
        cmocka_unit_test(signs_and_fractions_are_cut),
        cmocka_unit_test(every_half_is_its_value_and_comes_back),
        cmocka_unit_test(halves_round_to_nearest_even),
        cmocka_unit_test(bfloats_round_to_nearest_even),
        cmocka_unit_test(long_arrays_match_the_inline_functions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
