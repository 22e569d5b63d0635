/* test_activation.c - every function of the list against libm, every gradient against a central difference. */
#ifndef T
#include "kernels/math/arrays/activation.h"

#include "tests/kernels/math/check.h"

/* The functions as their definitions say them, in double. */
static double exact(tr_act act, double x, double p, double q)
{
    switch (act) {
    case TR_ACT_identity:         return x;
    case TR_ACT_relu:             return x > 0 ? x : 0;
    case TR_ACT_sigmoid:          return 1 / (1 + exp(-x));
    case TR_ACT_tanh:             return tanh(x);
    case TR_ACT_exp:              return exp(x);
    case TR_ACT_log:              return log(x);
    case TR_ACT_sqrt:             return sqrt(x);
    case TR_ACT_rsqrt:            return 1 / sqrt(x);
    case TR_ACT_square:           return x * x;
    case TR_ACT_abs:              return fabs(x);
    case TR_ACT_reciprocal:       return 1 / x;
    case TR_ACT_cos:              return cos(p * x);
    case TR_ACT_sin:              return sin(x);
    case TR_ACT_acos:             return acos(x);
    case TR_ACT_asin:             return asin(x);
    case TR_ACT_atan:             return atan(x);
    case TR_ACT_ceil:             return ceil(x);
    case TR_ACT_floor:            return floor(x);
    case TR_ACT_round:            return round(x);
    case TR_ACT_sign:             return (x > 0) - (x < 0);
    case TR_ACT_softsign:         return x / (1 + fabs(x));
    case TR_ACT_softplus:         return log1p(exp(x));
    case TR_ACT_logsigmoid:       return -log1p(exp(-x));
    case TR_ACT_tanh_shrink:      return x - tanh(x);
    case TR_ACT_erf:              return erf(x);
    case TR_ACT_gelu:             return x * 0.5 * erfc(-x / sqrt(2));
    case TR_ACT_relu6:            return fmin(fmax(x, 0), p);
    case TR_ACT_brelu:            return fmin(fmax(x, p), q);
    case TR_ACT_leaky_relu:       return x < 0 ? p * x : x;
    case TR_ACT_elu:              return x < 0 ? p * expm1(x) : x;
    case TR_ACT_pow:              return pow(x, p);
    case TR_ACT_stanh:            return q * tanh(p * x);
    case TR_ACT_soft_relu:        return log1p(exp(fmin(fmax(x, -p), p)));
    case TR_ACT_hard_shrink:      return fabs(x) > p ? x : 0;
    case TR_ACT_softshrink:       return x > p ? x - p : x < -p ? x + p : 0;
    case TR_ACT_thresholded_relu: return x > p ? x : 0;
    case TR_ACT_hard_sigmoid:     return fmin(fmax(p * x + q, 0), 1);
    case TR_ACT_swish:            return x / (1 + exp(-p * x));
    case TR_ACT_selu:             return p * (x < 0 ? q * expm1(x) : x);
    case TR_ACT_COUNT:            break;
    }
    return NAN;
}

/* Where each is tried: the domain, and parameters. */
static void domain_of(tr_act act, double *low, double *high, double *p, double *q)
{
    *low = -4, *high = 4, *p = 0.7, *q = 1.3;
    if (act == TR_ACT_log || act == TR_ACT_sqrt || act == TR_ACT_rsqrt || act == TR_ACT_reciprocal || act == TR_ACT_pow)
        *low = 0.1;
    if (act == TR_ACT_acos || act == TR_ACT_asin)
        *low = -0.95, *high = 0.95;
    if (act == TR_ACT_hard_sigmoid)
        *p = 0.2, *q = 0.5;
    if (act == TR_ACT_soft_relu)
        *p = 3;
}

/* Functions that subtract: near their zeros the error is that of the terms. */
static bool cancels(tr_act act)
{
    return act == TR_ACT_tanh_shrink || act == TR_ACT_gelu || act == TR_ACT_cos || act == TR_ACT_hard_sigmoid;
}

static void functions_have_names_and_say_what_their_gradients_read(void **state)
{
    (void)state;
    assert_string_equal(tr_act_name(TR_ACT_relu), "relu");
    assert_int_equal(tr_act_grad_reads(TR_ACT_relu), TR_ACT_READS_OUT);
    assert_int_equal(tr_act_grad_reads(TR_ACT_square), TR_ACT_READS_X);
}

#include "kernels/math/tools/each_float.h"

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_have_names_and_say_what_their_gradients_read), BOTH(functions_match), BOTH(gradients_match_differences),
        BOTH(tails_are_exact), BOTH(nan_goes_through),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else

static void NAME(functions_match)(void **state)
{
    (void)state;
    const int64_t sizes[] = {0, 1, 17, 30000};
    for (int a = 0; a < TR_ACT_COUNT; a++)
        for (int s = 0; s < 4; s++) {
            double low, high, p, q;
            domain_of((tr_act)a, &low, &high, &p, &q);
            const int64_t n = sizes[s];
            T *x = NAME(random)(n, 1, (T)low, (T)high), *y = array_new(n, sizeof(T));
            SAME_FOR_ALL_THREADS(y, n * (int64_t)sizeof(T), (void)0, NAME(tr_act_apply)((tr_act)a, y, x, n, (T)p, (T)q));
            for (int64_t i = 0; i < n; i++) {
                const double want = exact((tr_act)a, (double)x[i], (double)(T)p, (double)(T)q);
                NAME(near)((double)y[i], want, fabs(want) + cancels((tr_act)a), 6,
                           tr_act_name((tr_act)a), i);
            }
            NAME(tr_act_apply)((tr_act)a, x, x, n, (T)p, (T)q);
            assert_memory_equal(x, y, (size_t)n * sizeof(T));
            free(x), free(y);
        }
}

static void NAME(gradients_match_differences)(void **state)
{
    (void)state;
    enum { N = 3000 };
    for (int a = 0; a < TR_ACT_COUNT; a++) {
        double low, high, p, q;
        domain_of((tr_act)a, &low, &high, &p, &q);
        T *x = NAME(random)(N, 1, (T)low, (T)high), *d = NAME(random)(N, 2, -1, 1);
        T *y = array_new(N, sizeof(T)), *dx = array_new(N, sizeof(T));
        const tr_act_reads reads = tr_act_grad_reads((tr_act)a);
        NAME(tr_act_apply)((tr_act)a, y, x, N, (T)p, (T)q);
        NAME(tr_act_grad)((tr_act)a, dx, d, reads == TR_ACT_READS_X ? x : NULL, reads == TR_ACT_READS_OUT ? y : NULL, N, (T)p,
                          (T)q);
        for (int64_t i = 0; i < N; i++) {
            const double v = (double)x[i], h = 1e-5, a1 = (double)(T)p, a2 = (double)(T)q;
            const double up = exact((tr_act)a, v + h, a1, a2), at = exact((tr_act)a, v, a1, a2), down = exact((tr_act)a, v - h, a1, a2);
            const double slope = (up - down) / (2 * h);
            if (fabs((up - at) / h - (at - down) / h) > 1e-2 * (1 + fabs(slope)))
                continue;                                      /* at a kink or jump */
            const double want = slope * (double)d[i], bound = (sizeof(T) == 4 ? 1e-4 : 1e-7) * (1 + fabs(slope) * fabs(slope));
            if (!(fabs((double)dx[i] - want) <= bound))
                fail_msg("%s at %g: gradient %g, expected %g", tr_act_name((tr_act)a), v, (double)dx[i], want);
        }
        NAME(tr_act_grad)((tr_act)a, d, d, x, y, N, (T)p, (T)q);              /* in place */
        assert_memory_equal(d, dx, N * sizeof(T));
        free(x), free(d), free(y), free(dx);
    }
}

/* What rounds to a constant in a naive formula. */
static void NAME(tails_are_exact)(void **state)
{
    (void)state;
    const T x[] = {-30, -20, 20, 80};
    T       y[4];
    NAME(tr_act_apply)(TR_ACT_softplus, y, x, 4, 0, 0);
    for (int i = 0; i < 4; i++)
        NAME(near)((double)y[i], exact(TR_ACT_softplus, (double)x[i], 0, 0), exact(TR_ACT_softplus, (double)x[i], 0, 0), 6, "softplus", i);
    NAME(tr_act_apply)(TR_ACT_elu, y, (const T[]){(T)-1e-6, (T)-1e-3, -50, 3}, 4, 1, 0);
    NAME(near)((double)y[0], expm1((double)(T)-1e-6), 1e-6, 4, "elu", 0);
    NAME(near)((double)y[1], expm1((double)(T)-1e-3), 1e-3, 4, "elu", 1);
    NAME(near)((double)y[2], -1, 1, 4, "elu", 2);
    assert_true(y[3] == 3);
}

static void NAME(nan_goes_through)(void **state)
{
    (void)state;
    const T x[20] = {(T)NAN, 1, (T)NAN};
    T       y[20];
    for (int a = 0; a < TR_ACT_COUNT; a++) {
        NAME(tr_act_apply)((tr_act)a, y, x, 20, (T)0.7, (T)1.3);
        assert_true(isnan(y[0]) && isnan(y[2]));
        assert_false(isnan(y[1]));
    }
}

#endif
