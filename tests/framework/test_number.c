/* test_number.c - numbers come out as strtod and strtoll have them, to the bit. */
#include "tests/support/expect.h"

#include "framework/base/number.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static void is_like_strtod(const char *text)
{
    const char *at = text;
    char       *end;
    double      got;
    const double want = strtod(text, &end);

    assert_true(tr_number_double(&got, &at));
    if (memcmp(&got, &want, sizeof got) && !(isnan(got) && isnan(want)))
        fail_msg("'%s': %.17g instead of %.17g", text, got, want);
    assert_ptr_equal(at, end);
}

TEST(floats_are_those_of_strtod)
{
    static const char *const texts[] = {
        "0", "-0", "1", "-1.5", "+2.25", ".5", "5.", "1e3", "1E-3", "1e", "1e+", "123456789012345678", "9007199254740993",
        "0.1", "0.30000000000000004", "1e22", "1e23", "1.7976931348623157e308", "1e400", "4.9e-324", "1e-400", "2.5 ",
        "3,4", "7\n", "nan", "-inf", "Infinity", "00000000000000000000000000001.5", "123456789012345678901234567890",
        "0.00000000000000000000000000000000000000000123", "8.5e-23", "1e99999999999", "12345678901234567890e-5",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        is_like_strtod(texts[i]);
}

TEST(random_floats_are_those_of_strtod)
{
    char     text[64];
    uint64_t bits = 7;

    for (int i = 0; i < 200000; i++) {
        bits = bits * 6364136223846793005u + 1442695040888963407u;
        const int digits = (int)(bits >> 60) + 1;
        snprintf(text, sizeof text, "%s%.*e", bits & 1 ? "-" : "", digits, (double)(bits >> 11) * pow(10, (int)(bits >> 33 & 63) - 40));
        is_like_strtod(text);
        snprintf(text, sizeof text, "%.*f", digits, (double)(int64_t)bits / 1e12);
        is_like_strtod(text);
    }
}

TEST(text_that_is_no_number_is_left_alone)
{
    static const char *const texts[] = {"", " 1", "x", "-", "+", ".", "-.", "e5", "in", "na", "--1"};
    double  d;
    int64_t n;

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *at = texts[i];
        assert_false(tr_number_double(&d, &at));
        assert_false(tr_number_int64(&n, &at));
        assert_ptr_equal(at, texts[i]);
    }
}

TEST(integers_of_all_sizes)
{
    static const struct { const char *text; int64_t value; } cases[] = {
        {"0", 0}, {"-7", -7}, {"+12", 12}, {"999999999999999999", 999999999999999999},
        {"1000000000000000000", 1000000000000000000}, {"9223372036854775807", INT64_MAX},
        {"-9223372036854775808", INT64_MIN}, {"18446744073709551615", -1}, {"0000000000000000000000012", 12},
    };
    static const char *const too_large[] = {"18446744073709551616", "-9223372036854775809", "99999999999999999999999"};
    int64_t value;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *at = cases[i].text;
        assert_true(tr_number_int64(&value, &at));
        assert_int_equal(value, cases[i].value);
        assert_int_equal(*at, 0);
    }
    for (size_t i = 0; i < sizeof too_large / sizeof *too_large; i++) {
        const char *at = too_large[i];
        assert_false(tr_number_int64(&value, &at));
    }
}

TEST(texts_are_compared_without_the_case_of_ascii)
{
    assert_true(tr__is_like("NaN", "nan", 3) && tr__is_like("Zen", "zEN", SIZE_MAX) && tr__is_like("inf9", "INFx", 3));
    assert_false(tr__is_like("na", "nan", 3) || tr__is_like("Zen2", "Zen", SIZE_MAX));
    assert_true(tr__is_alnum('z') && tr__is_alnum('A') && tr__is_alnum('0'));
    assert_false(tr__is_alnum('_') || tr__is_alnum((char)0xe4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_compared_without_the_case_of_ascii),
        cmocka_unit_test(floats_are_those_of_strtod),
        cmocka_unit_test(random_floats_are_those_of_strtod),
        cmocka_unit_test(text_that_is_no_number_is_left_alone),
        cmocka_unit_test(integers_of_all_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
