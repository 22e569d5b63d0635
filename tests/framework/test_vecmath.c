/* test_vecmath.c - the errors of the fast functions over the whole range, in units in the last place of libm's result.
 *
 * Every 251st float is tried (a prime, so that all mantissas take part), doubles at random exponents. The functions run in
 * clones as they do in the kernels. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "framework/tensors/random.h"
#include "framework/tensors/vecmath.h"

enum { BLOCK = 256, STEP = 251 };

static double units_f32(float got, double want)
{
    if ((isnan(got) && isnan(want)) || (double)got == want || (isinf((float)want) && got == (float)want))
        return 0;
    return fabs(got - want) / fmax(ldexp(1, ilogb(want) - 23), 0x1p-149);
}

static double units_f64(double got, double want)
{
    if ((isnan(got) && isnan(want)) || got == want)
        return 0;
    return fabs(got - want) / fmax(ldexp(1, ilogb(want) - 52), 0x1p-1074);
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

#define FUNCTION(name)                                                                                     \
    TR_CLONES static void name##_loop_f32(float *out, const float *x)                                      \
    {                                                                                                      \
        for (int i = 0; i < BLOCK; i++)                                                                    \
            out[i] = tr_##name##_f32(x[i]);                                                                \
    }                                                                                                      \
    TR_CLONES static void name##_loop_f64(double *out, const double *x)                                    \
    {                                                                                                      \
        for (int i = 0; i < BLOCK; i++)                                                                    \
            out[i] = tr_##name##_f64(x[i]);                                                                \
    }
FUNCTION(exp)
FUNCTION(log)
FUNCTION(tanh)
FUNCTION(sigmoid)
FUNCTION(erf)

static void check_floats(const char *name, void (*loop)(float *, const float *), double (*exact)(double), double bound,
                         double ignored_below)
{
    float    x[BLOCK], y[BLOCK];
    uint64_t bits = 0;
    while (bits < (uint64_t)1 << 32) {
        for (int i = 0; i < BLOCK; i++, bits += STEP)
            x[i] = tr_from_bits_f32((uint32_t)bits);
        loop(y, x);
        for (int i = 0; i < BLOCK; i++) {
            const double want = exact((double)x[i]), units = units_f32(y[i], want);
            if (!(units <= bound) && !(fabs(want) < ignored_below && y[i] == 0))
                fail_msg("%s(%a) = %a: %.2f units from %a", name, (double)x[i], (double)y[i], units, want);
        }
    }
}

static void check_doubles(const char *name, void (*loop)(double *, const double *), double (*exact)(double), double bound,
                          double ignored_below)
{
    double x[BLOCK], y[BLOCK];
    for (uint64_t round = 0; round < 2000; round++) {
        for (uint64_t i = 0; i < BLOCK; i++) {
            const uint64_t bits = tr_hash_u64(round * BLOCK + i + 1);
            x[i] = round % 2 ? tr_from_bits_f64(bits) : ldexp((double)(int64_t)bits, -63 + (int)(bits % 24) - 12);
        }
        loop(y, x);
        for (int i = 0; i < BLOCK; i++) {
            const double want = exact(x[i]), units = units_f64(y[i], want);
            if (!(units <= bound) && !(fabs(want) < ignored_below && y[i] == 0))
                fail_msg("%s(%a) = %a: %.2f units from %a", name, x[i], y[i], units, want);
        }
    }
}

/* Of sigmoid, results below the normal numbers may be 0. */
static void floats_are_close(void **state)
{
    (void)state;
    check_floats("exp", exp_loop_f32, exp, 1.5, 0);
    check_floats("log", log_loop_f32, log, 1.5, 0);
    check_floats("tanh", tanh_loop_f32, tanh, 3, 0);
    check_floats("erf", erf_loop_f32, erf, 3, 0);
    check_floats("sigmoid", sigmoid_loop_f32, sigmoid, 3, 0x1p-126);
}

static void doubles_are_close(void **state)
{
    (void)state;
    check_doubles("exp", exp_loop_f64, exp, 2, 0);
    check_doubles("log", log_loop_f64, log, 2, 0);
    check_doubles("tanh", tanh_loop_f64, tanh, 4, 0);
    check_doubles("erf", erf_loop_f64, erf, 0, 0);
    check_doubles("sigmoid", sigmoid_loop_f64, sigmoid, 4, 0x1p-1022);
}

static void edges_are_those_of_libm(void **state)
{
    (void)state;
    const double edges[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1, -1, 0x1p-149, 0x1p-1074, 1e30, -1e30};
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
        const double x = edges[i];
        assert_true(units_f64(tr_exp_f64(x), exp(x)) <= 1);
        assert_true(units_f64(tr_log_f64(x), log(x)) <= 1);
        assert_true(units_f64(tr_tanh_f64(x), tanh(x)) <= 1);
        assert_true(units_f64(tr_sigmoid_f64(x), sigmoid(x)) <= 1);
    }
    assert_true(signbit(tr_tanh_f32(-0.0f)));
    assert_false(signbit(tr_tanh_f32(0.0f)));
    assert_true(isnan(tr_log_f32(-1.0f)));
}

static void turns_give_sine_and_cosine(void **state)
{
    (void)state;
    for (int i = 0; i <= 100000; i++) {
        const double u = i / 100000.0, angle = 6.28318530717958647692 * (double)(float)u;
        float        s, c;
        double       sd, cd;
        tr_sincos_turn_f32(&s, &c, (float)u);
        assert_true(fabs(s - sin(angle)) < 2e-7 && fabs(c - cos(angle)) < 2e-7);
        tr_sincos_turn_f64(&sd, &cd, u);
        assert_true(fabs(sd - sin(6.28318530717958647692 * u)) < 2e-15);
        assert_true(fabs(cd - cos(6.28318530717958647692 * u)) < 2e-15);
    }
}

static void erfinv_inverts_erf(void **state)
{
    (void)state;
    for (int i = -1350; i <= 1350; i++) {
        const double x = i / 1000.0;
        assert_true(fabs(tr_erfinv_inner_f64(erf(x)) - x) <= 1e-14);
        assert_true(fabs(tr_erfinv_inner_f32((float)erf(x)) - x) <= 3e-6);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floats_are_close),
        cmocka_unit_test(doubles_are_close),
        cmocka_unit_test(edges_are_those_of_libm),
        cmocka_unit_test(turns_give_sine_and_cosine),
        cmocka_unit_test(erfinv_inverts_erf),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
