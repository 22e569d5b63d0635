/* batch_norm, layer_norm and dropout. */
#include "tests/support/op_check.h"

#define CONSTANTS(from, to, ...) {SIZE(__VA_ARGS__), .low = (from), .high = (to), .is_constant = true}
#define NHWC STRING_ATTR("data_layout", "NHWC")
/* X, Scale, Bias, Mean, Variance */
#define BATCH_NORM(channels, ...) \
    {{SIZE(__VA_ARGS__)}, DIMS(channels), DIMS(channels), CONSTANTS(-1, 1, channels), CONSTANTS(0.5, 2, channels)}

/* -- batch_norm ------------------------------------------------------------------------------------ */

static const op_case batch_cases[] = {
    {"images", BATCH_NORM(3, 4, 3, 2, 5)},
    {"matrix", BATCH_NORM(5, 7, 5)},
    {"channels last", BATCH_NORM(3, 2, 4, 2, 3), {NHWC}},
    {"own momentum", BATCH_NORM(2, 6, 2), {FLOAT_ATTR("momentum", 0.25), FLOAT_ATTR("epsilon", 0.0009765625)}},
    {"test", BATCH_NORM(3, 4, 3, 2, 2), {BOOL_ATTR("is_test", 1)}},
    {"test, channels last", BATCH_NORM(3, 2, 4, 2, 3), {NHWC, BOOL_ATTR("is_test", 1)}},
    {"global statistics", BATCH_NORM(3, 4, 3, 2, 2), {BOOL_ATTR("use_global_stats", 1)}},
    {"no images", BATCH_NORM(3, 0, 3, 2, 2)},
    {"no rows", BATCH_NORM(5, 0, 5)},
};

static bool has(const op_case *c, const char *attr) { return op_case_number(c, attr, 0) != 0; }

static int64_t channel_of(const op_values *v, int64_t element)
{
    const op_array *x = &v->in[0];
    int64_t         post = 1;

    if (v->c->attr[0].text && strcmp(v->c->attr[0].text, "NHWC") == 0)
        return element % x->dims[x->rank - 1];
    for (int d = 2; d < x->rank; d++)
        post *= x->dims[d];
    return element / post % x->dims[1];
}

static double channel_mean(const op_values *v, int64_t channel, double offset, int power)
{
    double  sum = 0;
    int64_t count = 0;

    for (int64_t i = 0; i < v->in[0].count; i++)
        if (channel_of(v, i) == channel) {
            sum += pow(v->in[0].data[i] - offset, power);
            count++;
        }
    return sum / (double)count;
}

static void batch_reference(op_values *v)
{
    const double momentum = (float)op_case_number(v->c, "momentum", 0.9f);
    const double epsilon = (float)op_case_number(v->c, "epsilon", 1e-5f);
    const bool   is_global = has(v->c, "is_test") || has(v->c, "use_global_stats") || v->in[0].count == 0;

    for (int64_t c = 0; c < v->in[1].count; c++) {
        double mean = v->in[3].data[c], variance = v->in[4].data[c];
        v->out[1].data[c] = mean;
        v->out[2].data[c] = variance;
        if (!is_global) {
            mean = channel_mean(v, c, 0, 1);
            variance = channel_mean(v, c, mean, 2);
            v->out[1].data[c] = momentum * v->in[3].data[c] + (1 - momentum) * mean;
            v->out[2].data[c] = momentum * v->in[4].data[c] + (1 - momentum) * variance;
        }
        v->out[3].data[c] = mean;
        v->out[4].data[c] = 1 / sqrt(variance + epsilon);
    }
    for (int64_t i = 0; i < v->in[0].count; i++) {
        const int64_t c = channel_of(v, i);
        v->out[0].data[i] = (v->in[0].data[i] - v->out[3].data[c]) * v->out[4].data[c] * v->in[1].data[c] + v->in[2].data[c];
    }
}

TEST(batch_norm_matches_reference) { EACH_OF(c, batch_cases) check_forward("batch_norm", c, batch_reference, 4e-6); }

/* Only Y has a gradient. With the momentum 1 the other outputs do not depend on X, and the numeric one agrees. */
TEST(batch_norm_gradient_is_numeric)
{
    EACH_OF(c, batch_cases) {
        op_case steady = *c;
        int     i = 0;
        while (steady.attr[i].name && strcmp(steady.attr[i].name, "momentum") != 0)
            i++;
        steady.attr[i] = (op_attr)FLOAT_ATTR("momentum", 1);
        check_gradient("batch_norm", &steady, 1e-5, 2e-6);
    }
}

/* -- layer_norm ------------------------------------------------------------------------------------- */

static const op_case layer_cases[] = {
    {"matrix", {DIMS(3, 17), DIMS(17), DIMS(17)}},
    {"without scale and bias", {DIMS(4, 6)}},
    {"scale alone", {DIMS(4, 6), DIMS(6)}},
    {"bias alone", {DIMS(4, 6), ABSENT, DIMS(6)}},
    {"second axis", {DIMS(2, 3, 4), DIMS(4), DIMS(4)}, {INT_ATTR("begin_norm_axis", 2)}},
    {"two axes in a row", {DIMS(2, 3, 4), DIMS(12), DIMS(12)}},
    {"empty batch", {DIMS(0, 4), DIMS(4), DIMS(4)}},
};

static void layer_reference(op_values *v)
{
    const int64_t rows = v->out[1].count, cols = rows > 0 ? v->in[0].count / rows : 0;
    const double *scale = v->in_count > 1 && v->in[1].rank > 0 ? v->in[1].data : NULL;
    const double *bias = v->in_count > 2 ? v->in[2].data : NULL;

    for (int64_t i = 0; i < rows; i++) {
        const double *x = v->in[0].data + i * cols;
        double        mean = 0, variance = 0;
        for (int64_t j = 0; j < cols; j++)
            mean += x[j] / (double)cols;
        for (int64_t j = 0; j < cols; j++)
            variance += (x[j] - mean) * (x[j] - mean) / (double)cols;
        v->out[1].data[i] = mean;
        v->out[2].data[i] = variance;
        for (int64_t j = 0; j < cols; j++)
            v->out[0].data[i * cols + j] = (x[j] - mean) / sqrt(variance + (float)1e-5) * (scale ? scale[j] : 1) +
                                           (bias ? bias[j] : 0);
    }
}

TEST(layer_norm_matches_reference)   { EACH_OF(c, layer_cases) check_forward("layer_norm", c, layer_reference, 4e-6); }
TEST(layer_norm_gradient_is_numeric) { EACH_OF(c, layer_cases) check_gradient("layer_norm", c, 1e-5, 2e-6); }

/* -- dropout ------------------------------------------------------------------------------------------ */

static const op_case dropout_cases[] = {
    {"downgrade", {FLOATS(1, 2, 50, 40)}, {FLOAT_ATTR("dropout_prob", 0.25), BOOL_ATTR("fix_seed", 1), INT_ATTR("seed", 3)}},
    {"upscale", {FLOATS(1, 2, 50, 40)},
     {FLOAT_ATTR("dropout_prob", 0.75), STRING_ATTR("dropout_implementation", "upscale_in_train"), BOOL_ATTR("fix_seed", 1)}},
    {"some dropped", {FLOATS(1, 2, 13)}, {FLOAT_ATTR("dropout_prob", 0.5), BOOL_ATTR("fix_seed", 1), INT_ATTR("seed", 5)}},
    {"nothing dropped", {FLOATS(1, 2, 7)}, {FLOAT_ATTR("dropout_prob", 0), BOOL_ATTR("fix_seed", 1)}},
    {"all dropped", {FLOATS(1, 2, 7)},
     {FLOAT_ATTR("dropout_prob", 1), STRING_ATTR("dropout_implementation", "upscale_in_train"), BOOL_ATTR("fix_seed", 1)}},
    {"empty", {FLOATS(1, 2, 0, 3)}, {BOOL_ATTR("fix_seed", 1)}},
};

/* X is nowhere 0, so Out tells what was dropped; how much and where is the next tests' question. */
static void dropout_reference(op_values *v)
{
    const double p = op_case_number(v->c, "dropout_prob", 0.5);
    const bool   upscale = v->c->attr[1].text != NULL;
    op_values    got = run_op("dropout", v->c, v->in[0].dtype);

    for (int64_t i = 0; i < v->out[0].count; i++) {
        const bool kept = got.out[0].data[i] != 0;
        v->out[0].data[i] = kept ? v->in[0].data[i] * (upscale ? 1 / (1 - p) : 1) : 0;
        v->out[1].data[i] = kept;
    }
    op_values_free(&got);
}

TEST(dropout_keeps_or_drops)      { EACH_OF(c, dropout_cases) check_forward("dropout", c, dropout_reference, 1e-6); }
TEST(dropout_gradient_is_numeric) { EACH_OF(c, dropout_cases) if (c->in[0].rank == 1) check_gradient("dropout", c, 1e-5, 1e-7); }

static int64_t count_kept(const op_case *c)
{
    op_values v = run_op("dropout", c, TR_FP32);
    int64_t   kept = 0;

    for (int64_t i = 0; i < v.out[1].count; i++)
        kept += v.out[1].data[i] != 0;
    op_values_free(&v);
    return kept;
}

TEST(dropout_keeps_the_share_it_should)
{
    assert_in_range(count_kept(&dropout_cases[0]), 1500 - 80, 1500 + 80);      /* of 2000; four standard deviations */
    assert_in_range(count_kept(&dropout_cases[1]), 500 - 80, 500 + 80);
    assert_int_equal(count_kept(&dropout_cases[3]), 7);
    assert_int_equal(count_kept(&dropout_cases[4]), 0);
}

static void in_test_by(const char *implementation, double factor)
{
    const op_case c = {"test", {FLOATS(1, 2, 9)}, {FLOAT_ATTR("dropout_prob", 0.25), BOOL_ATTR("is_test", 1),
                                                   STRING_ATTR("dropout_implementation", implementation)}, .out_count = {1, -1}};
    op_values     v = run_op("dropout", &c, TR_FP64);

    for (int64_t i = 0; i < v.out[0].count; i++)
        assert_true(v.out[0].data[i] == v.in[0].data[i] * factor);
    op_values_free(&v);
}

TEST(dropout_in_tests_only_scales)
{
    in_test_by("downgrade_in_infer", 0.75);
    in_test_by("upscale_in_train", 1);
}

TEST(mistakes_are_explained)
{
    EXPECT_FAIL(TR_ERANGE, "dropout_prob", infer_shapes("dropout", {DIMS(3)}, {FLOAT_ATTR("dropout_prob", 1.5)}));
    EXPECT_FAIL(TR_ERANGE, "epsilon", infer_shapes("layer_norm", {DIMS(3, 4)}, {FLOAT_ATTR("epsilon", 1)}));
    EXPECT_FAIL(TR_ESHAPE, "Scale must be [4], got [3]", infer_shapes("layer_norm", {DIMS(3, 4), DIMS(3)}));
    EXPECT_FAIL(TR_ESHAPE, "begin_norm_axis is 2",
                infer_shapes("layer_norm", {DIMS(3, 4)}, {INT_ATTR("begin_norm_axis", 2)}));
    EXPECT_FAIL(TR_ESHAPE, "Mean must be [3], got [4]",
                infer_shapes("batch_norm", {DIMS(2, 3, 4, 4), DIMS(3), DIMS(3), DIMS(4), DIMS(3)}));
    EXPECT_FAIL(TR_ERANGE, "data_layout",
                infer_shapes("batch_norm", BATCH_NORM(3, 2, 3), {STRING_ATTR("data_layout", "CHWN")}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batch_norm_matches_reference),
        cmocka_unit_test(batch_norm_gradient_is_numeric),
        cmocka_unit_test(layer_norm_matches_reference),
        cmocka_unit_test(layer_norm_gradient_is_numeric),
        cmocka_unit_test(dropout_keeps_or_drops),
        cmocka_unit_test(dropout_gradient_is_numeric),
        cmocka_unit_test(dropout_keeps_the_share_it_should),
        cmocka_unit_test(dropout_in_tests_only_scales),
        cmocka_unit_test(mistakes_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
