/* The activations: each function against the C library's, in its interesting range. */
#include "tests/support/op_check.h"

typedef double (*function)(double x, double p, double q);

static double softplus(double x) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

#define FUNCTION(name, value) \
    static double name##_of(double x, double p, double q) { (void)x; (void)p; (void)q; return value; }

FUNCTION(abs, fabs(x))
FUNCTION(acos, acos(x))
FUNCTION(asin, asin(x))
FUNCTION(atan, atan(x))
FUNCTION(brelu, fmin(fmax(x, p), q))
FUNCTION(ceil, ceil(x))
FUNCTION(cos, cos(p * x))
FUNCTION(elu, x > 0 ? x : p * expm1(x))
FUNCTION(erf, erf(x))
FUNCTION(exp, exp(x))
FUNCTION(floor, floor(x))
FUNCTION(gelu, 0.5 * x * (1 + erf(x / sqrt(2))))
FUNCTION(hard_shrink, fabs(x) > p ? x : 0)
FUNCTION(hard_sigmoid, fmin(fmax(p * x + q, 0), 1))
FUNCTION(leaky_relu, x > 0 ? x : p * x)
FUNCTION(log, log(x))
FUNCTION(logsigmoid, -softplus(-x))
FUNCTION(pow, pow(x, p))
FUNCTION(reciprocal, 1 / x)
FUNCTION(relu, fmax(x, 0))
FUNCTION(relu6, fmin(fmax(x, 0), p))
FUNCTION(round, round(x))
FUNCTION(rsqrt, 1 / sqrt(x))
FUNCTION(selu, x > 0 ? p * x : p * q * expm1(x))
FUNCTION(sigmoid, sigmoid(x))
FUNCTION(sign, (x > 0) - (x < 0))
FUNCTION(sin, sin(x))
FUNCTION(soft_relu, log1p(exp(fmin(fmax(x, -p), p))))
FUNCTION(softplus, softplus(x))
FUNCTION(softshrink, x > p ? x - p : x < -p ? x + p : 0)
FUNCTION(softsign, x / (1 + fabs(x)))
FUNCTION(sqrt, sqrt(x))
FUNCTION(square, x * x)
FUNCTION(stanh, q * tanh(p * x))
FUNCTION(swish, x * sigmoid(p * x))
FUNCTION(tanh, tanh(x))
FUNCTION(tanh_shrink, x - tanh(x))
FUNCTION(thresholded_relu, x > p ? x : 0)

/* Name, function, range of X; the parameters' names and defaults, and other values for them. */
static const struct activation {
    const char *op;
    function    f;
    double      low, high;
    const char *p, *q;
    double      default_p, default_q, other_p, other_q;
} activations[] = {
    {"abs", abs_of, -2, 2},
    {"acos", acos_of, -0.9, 0.9},
    {"asin", asin_of, -0.9, 0.9},
    {"atan", atan_of, -4, 4},
    {"brelu", brelu_of, -2, 30, "t_min", "t_max", 0, 24, 1, 20},
    {"ceil", ceil_of, -4, 4},
    {"cos", cos_of, -4, 4, "scale", NULL, 1, 0, 2.5, 0},
    {"elu", elu_of, -3, 3, "alpha", NULL, 1, 0, 0.5, 0},
    {"erf", erf_of, -4, 4},
    {"exp", exp_of, -4, 4},
    {"floor", floor_of, -4, 4},
    {"gelu", gelu_of, -4, 4},
    {"hard_shrink", hard_shrink_of, -2, 2, "threshold", NULL, 0.5, 0, 1.25, 0},
    {"hard_sigmoid", hard_sigmoid_of, -4, 4, "slope", "offset", 0.2f, 0.5, 0.25, 0.25},
    {"leaky_relu", leaky_relu_of, -2, 2, "alpha", NULL, 0.02f, 0, 0.125, 0},
    {"log", log_of, 0.1, 4},
    {"logsigmoid", logsigmoid_of, -4, 4},
    {"pow", pow_of, 0.1, 3, "factor", NULL, 1, 0, 2.5, 0},
    {"reciprocal", reciprocal_of, 0.2, 3},
    {"relu", relu_of, -2, 2},
    {"relu6", relu6_of, -2, 9, "threshold", NULL, 6, 0, 3, 0},
    {"round", round_of, -4, 4},
    {"rsqrt", rsqrt_of, 0.1, 4},
    {"selu", selu_of, -3, 3, "scale", "alpha", 1.0507009873554805f, 1.6732632423543772f, 1.5, 0.5},
    {"sigmoid", sigmoid_of, -6, 6},
    {"sign", sign_of, -2, 2},
    {"sin", sin_of, -4, 4},
    {"soft_relu", soft_relu_of, -4, 4, "threshold", NULL, 40, 0, 2, 0},
    {"softplus", softplus_of, -6, 6},
    {"softshrink", softshrink_of, -2, 2, "lambda", NULL, 0.5, 0, 0.25, 0},
    {"softsign", softsign_of, -3, 3},
    {"sqrt", sqrt_of, 0.1, 4},
    {"square", square_of, -3, 3},
    {"stanh", stanh_of, -3, 3, "scale_a", "scale_b", (float)(2.0 / 3), 1.7159f, 0.5, 2},
    {"swish", swish_of, -4, 4, "beta", NULL, 1, 0, 1.5, 0},
    {"tanh", tanh_of, -4, 4},
    {"tanh_shrink", tanh_shrink_of, -4, 4},
    {"thresholded_relu", thresholded_relu_of, -2, 3, "threshold", NULL, 1, 0, 0.5, 0},
};

static const struct activation *current;

static void reference(op_values *v)
{
    const double p = current->p ? op_case_number(v->c, current->p, current->default_p) : 0;
    const double q = current->q ? op_case_number(v->c, current->q, current->default_q) : 0;

    for (int64_t i = 0; i < v->out[0].count; i++)
        v->out[0].data[i] = current->f(v->in[0].data[i], p, q);
}

enum { MAX_CASES = 5 };

/* Ragged, large enough for vectors and threads, one, none; and with the parameters set. */
static int cases_of(op_case *cases, const struct activation *a)
{
    static const int64_t offsets[] = {0, 2, 5};
    const double         low = a->low, high = a->high;
    int                  count = 0;

    cases[count++] = (op_case){"ragged", {FLOATS(low, high, 3, 17)}, .out = {DIMS(3, 17)}};
    cases[count++] = (op_case){"one", {FLOATS(low, high, 1)}};
    cases[count++] = (op_case){"none", {FLOATS(low, high, 0, 4)}};
    cases[count++] = (op_case){"sequences", {{SIZE(5, 3), .low = low, .high = high, .lod = {{3, offsets}}}},
                               .out = {{SIZE(5, 3), .lod = {{3, offsets}}}}};
    if (a->p)
        cases[count++] = (op_case){"parameters", {FLOATS(low, high, 29)},
                                   {FLOAT_ATTR(a->p, a->other_p), FLOAT_ATTR(a->q, a->other_q)},
                                   .has_jumps = a->f == soft_relu_of};
    return count;
}

TEST(matches_reference)
{
    op_case cases[MAX_CASES];

    for (current = activations; current < activations + sizeof activations / sizeof *activations; current++) {
        const int count = cases_of(cases, current);
        for (int i = 0; i < count; i++)
            check_forward(current->op, &cases[i], reference, 2e-6);
    }
}

TEST(matches_reference_when_threads_share_it)
{
    for (current = activations; current < activations + sizeof activations / sizeof *activations; current++)
        check_forward(current->op, &(op_case){"large", {FLOATS(current->low, current->high, 211, 397)}}, reference,
                      2e-6);
}

TEST(gradient_is_numeric)
{
    op_case cases[MAX_CASES];

    for (current = activations; current < activations + sizeof activations / sizeof *activations; current++) {
        const int count = cases_of(cases, current);
        for (int i = 0; i < count; i++)
            check_gradient(current->op, &cases[i], 1e-6, 1e-7);
    }
}

TEST(nan_stays_nan)
{
    for (const struct activation *a = activations; a < activations + sizeof activations / sizeof *activations; a++) {
        op_values v = run_op(a->op, &(op_case){"nan", {VALUES(LIST(NAN, NAN, NAN), 3)}}, TR_FP32);
        if (!isnan(v.out[0].data[1]))
            fail_msg("%s of NaN is %g", a->op, v.out[0].data[1]);
        op_values_free(&v);
    }
}

TEST(mistakes_are_explained)
{
    EXPECT_FAIL(TR_ERANGE, "scale", infer_shapes("cos", {DIMS(3)}, {FLOAT_ATTR("scale", 0)}));
    for (const struct activation *a = activations; a < activations + sizeof activations / sizeof *activations; a++) {
        EXPECT_FAIL(TR_EINVAL, "input X is missing", infer_shapes(a->op, {ABSENT}));
        EXPECT_FAIL(TR_EDTYPE, "is bool, but there are kernels for float16, float32, float64, bfloat16 only",
                    infer_shapes(a->op, {BOOLS(3)}));
    }
}

TEST(shape_is_that_of_x)
{
    EXPECT_SHAPE("float32[?, 10]", "relu", {DIMS(-1, 10)});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_reference),
        cmocka_unit_test(matches_reference_when_threads_share_it),
        cmocka_unit_test(gradient_is_numeric),
        cmocka_unit_test(nan_stays_nan),
        cmocka_unit_test(mistakes_are_explained),
        cmocka_unit_test(shape_is_that_of_x),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
