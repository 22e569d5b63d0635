/* test_scales.c - operators that divide by statistics or lengths: group_norm, data_norm, lrn, norm, spectral_norm, sync_batch_norm. */
#include "tests/support/op_check.h"
#include "tests/support/op_rig.h"

#define THREE_QUESTIONS(name, op, cases, reference)                                                   \
    TEST(name##_matches_reference)   { EACH_OF(c, cases) check_forward(op, c, reference, 2e-6); }     \
    TEST(name##_gradient_is_numeric) { EACH_OF(c, cases) check_gradient(op, c, 1e-5, 1e-6); }

/* -- group_norm ------------------------------------------------------------------------------------------------ */

static const op_case group_cases[] = {
    {"image", {DIMS(2, 6, 3, 2), DIMS(6), DIMS(6)}, {INT_ATTR("groups", 3)}, {DIMS(2, 6, 3, 2), DIMS(2, 3), DIMS(2, 3)}},
    {"no scale, no bias", {DIMS(2, 4, 5)}, {INT_ATTR("groups", 2)}},
    {"one group", {DIMS(1, 3, 2, 2), DIMS(3), DIMS(3)}, {INT_ATTR("groups", 1), FLOAT_ATTR("epsilon", 0.01)}},
    {"each channel", {DIMS(3, 4, 6), DIMS(4), DIMS(4)}, {INT_ATTR("groups", 4)}},
    {"matrix", {DIMS(3, 8), DIMS(8), DIMS(8)}, {INT_ATTR("groups", 2)}},
    {"no images", {DIMS(0, 4, 2, 2), DIMS(4), DIMS(4)}, {INT_ATTR("groups", 2)}},
};

static void group_reference(op_values *v)
{
    const op_array *x = &v->in[0];
    const int64_t   groups = (int64_t)op_case_number(v->c, "groups", 1), channels = x->dims[1];
    const int64_t   inner = x->count / (x->dims[0] * channels > 0 ? x->dims[0] * channels : 1), size = channels / groups * inner;
    const double    epsilon = op_round(TR_FP32, op_case_number(v->c, "epsilon", 1e-5));

    for (int64_t g = 0; g < x->dims[0] * groups; g++) {
        double mean = 0, variance = 0;
        for (int64_t i = g * size; i < (g + 1) * size; i++)
            mean += x->data[i] / (double)size;
        for (int64_t i = g * size; i < (g + 1) * size; i++)
            variance += (x->data[i] - mean) * (x->data[i] - mean) / (double)size;
        v->out[1].data[g] = mean;
        v->out[2].data[g] = variance;
        for (int64_t i = g * size; i < (g + 1) * size; i++) {
            const int64_t c = i / inner % channels;
            v->out[0].data[i] = (x->data[i] - mean) / sqrt(variance + epsilon) * (v->in_count > 1 ? v->in[1].data[c] : 1) +
                                (v->in_count > 2 ? v->in[2].data[c] : 0);
        }
    }
}

TEST(group_matches_reference) { EACH_OF(c, group_cases) check_forward("group_norm", c, group_reference, 1e-5); }
TEST(group_gradient_is_numeric) { EACH_OF(c, group_cases) check_gradient("group_norm", c, 1e-5, 1e-5); }

/* -- data_norm ------------------------------------------------------------------------------------------------- */

#define STATISTICS(n) {SIZE(n), .low = 5, .high = 9, .is_constant = true}

static const op_case data_cases[] = {
    {"rows", {DIMS(5, 3), STATISTICS(3), CONSTANT(3), STATISTICS(3)}, {}, {DIMS(5, 3), DIMS(3), DIMS(3)}},
    {"one row", {DIMS(1, 4), STATISTICS(4), CONSTANT(4), STATISTICS(4)}},
    {"no rows", {DIMS(0, 2), STATISTICS(2), CONSTANT(2), STATISTICS(2)}},
    {"decay", {DIMS(4, 2), STATISTICS(2), CONSTANT(2), STATISTICS(2)}, {FLOAT_ATTR("summary_decay_rate", 0.5)}},
    {"test", {DIMS(4, 2), STATISTICS(2), CONSTANT(2), STATISTICS(2)}, {BOOL_ATTR("is_test", 1)}},
};

static void data_reference(op_values *v)
{
    const int64_t columns = v->in[0].dims[1];

    for (int64_t j = 0; j < columns; j++) {
        v->out[1].data[j] = v->in[2].data[j] / v->in[1].data[j];
        v->out[2].data[j] = sqrt(v->in[1].data[j] / v->in[3].data[j]);
    }
    for (int64_t i = 0; i < v->in[0].count; i++)
        v->out[0].data[i] = (v->in[0].data[i] - v->out[1].data[i % columns]) * v->out[2].data[i % columns];
    const bool   is_test = op_case_number(v->c, "is_test", 0) != 0 || v->in[0].count == 0;
    const double kept = is_test ? 1 : op_round(TR_FP32, op_case_number(v->c, "summary_decay_rate", 0.9999999));
    for (int64_t j = 0; j < columns && v->out_count > 3; j++)
        for (int k = 0; k < 3; k++)
            v->out[3 + k].data[j] = kept * v->in[1 + k].data[j];
    for (int64_t i = 0; i < v->in[0].count && v->out_count > 3 && !is_test; i++) {
        v->out[3].data[i % columns] += 1;
        v->out[4].data[i % columns] += v->in[0].data[i];
        v->out[5].data[i % columns] += pow(v->in[0].data[i] - v->out[1].data[i % columns], 2) + op_round(TR_FP32, 1e-4);
    }
}

TEST(data_matches_reference) { EACH_OF(c, data_cases) check_forward("data_norm", c, data_reference, 2e-6); }

/* The new statistics hand no gradient on. */
TEST(data_gradient_is_numeric)
{
    EACH_OF(c, data_cases) {
        op_case alone = *c;
        for (int slot = 3; slot < 6; slot++)
            alone.out_count[slot] = -1;
        check_gradient("data_norm", &alone, 1e-5, 1e-6);
    }
}

/* -- lrn ---------------------------------------------------------------------------------------------------------- */

static const op_case lrn_cases[] = {
    {"few channels", {DIMS(2, 3, 2, 2)}, {}, {DIMS(2, 3, 2, 2), DIMS(2, 3, 2, 2)}},
    {"many channels", {DIMS(1, 9, 2, 1)}, {INT_ATTR("n", 3), FLOAT_ATTR("alpha", 0.5), FLOAT_ATTR("k", 1)}},
    {"even window", {DIMS(1, 7, 1, 2)}, {INT_ATTR("n", 4), FLOAT_ATTR("alpha", 0.25), FLOAT_ATTR("beta", 0.5)}},
    {"window of one", {DIMS(1, 2, 2, 2)}, {INT_ATTR("n", 1), FLOAT_ATTR("alpha", 1)}},
    {"no images", {DIMS(0, 3, 2, 2)}},
};

static void lrn_reference(op_values *v)
{
    const op_array *x = &v->in[0];
    const int64_t   n = (int64_t)op_case_number(v->c, "n", 5), channels = x->dims[1], pixels = x->dims[2] * x->dims[3];

    for (int64_t i = 0; i < x->count; i++) {
        double sum = 0;
        for (int64_t e = i / pixels % channels - (n - 1) / 2, k = 0; k < n; k++, e++)
            if (e >= 0 && e < channels)
                sum += pow(x->data[i + (e - i / pixels % channels) * pixels], 2);
        v->out[1].data[i] = op_round(TR_FP32, op_case_number(v->c, "k", 2)) +
                            op_round(TR_FP32, op_case_number(v->c, "alpha", 0.0001)) * sum;
        v->out[0].data[i] = x->data[i] * pow(v->out[1].data[i], -op_round(TR_FP32, op_case_number(v->c, "beta", 0.75)));
    }
}

TEST(lrn_matches_reference)   { EACH_OF(c, lrn_cases) check_forward("lrn", c, lrn_reference, 2e-6); }
TEST(lrn_gradient_is_numeric) { EACH_OF(c, lrn_cases) check_gradient("lrn", c, 1e-5, 1e-6); }

/* -- norm ---------------------------------------------------------------------------------------------------------- */

static const op_case norm_cases[] = {
    {"rows", {DIMS(3, 5)}, {INT_ATTR("axis", 1)}, {DIMS(3, 1), DIMS(3, 5)}},
    {"columns", {DIMS(3, 5)}, {INT_ATTR("axis", 0), FLOAT_ATTR("epsilon", 0.5)}, {DIMS(1, 5), DIMS(3, 5)}},
    {"middle", {DIMS(2, 3, 4, 2)}, {INT_ATTR("axis", -2)}, {DIMS(2, 3, 1, 2), DIMS(2, 3, 4, 2)}},
    {"vector", {DIMS(4)}, {INT_ATTR("axis", 0)}},
    {"no rows", {DIMS(0, 3)}, {INT_ATTR("axis", 1)}},
};

static void norm_reference(op_values *v)
{
    const op_array *x = &v->in[0];
    int             axis = (int)op_case_number(v->c, "axis", 0);
    int64_t         post = 1;

    axis += axis < 0 ? x->rank : 0;
    for (int d = axis + 1; d < x->rank; d++)
        post *= x->dims[d];
    for (int64_t i = 0; i < x->count; i++) {
        const int64_t n = x->dims[axis], first = i / post / n * n * post + i % post;
        double        sum = 0;
        for (int64_t k = 0; k < n; k++)
            sum += x->data[first + k * post] * x->data[first + k * post];
        const double length = sqrt(sum + op_round(TR_FP32, op_case_number(v->c, "epsilon", 1e-10)));
        v->out[0].data[i / post / n * post + i % post] = length;
        v->out[1].data[i] = x->data[i] / length;
    }
}

THREE_QUESTIONS(norm, "norm", norm_cases, norm_reference)

/* -- spectral_norm -------------------------------------------------------------------------------------------------- */

#define ITERATIONS(n) INT_ATTR("power_iters", n)

static const op_case spectral_cases[] = {
    {"given vectors", {DIMS(3, 4), CONSTANT(3), CONSTANT(4)}, {ITERATIONS(0)}, {DIMS(3, 4)}},
    {"image filters", {DIMS(3, 2, 2, 2), CONSTANT(3), CONSTANT(8)}, {ITERATIONS(0)}},
    {"transposed filters", {DIMS(3, 2, 2, 1), CONSTANT(2), CONSTANT(6)}, {ITERATIONS(0), INT_ATTR("dim", 1)}},
    {"converged", {VALUES(LIST(3, 0.5, 0.1, 0.2, 1, 0.3), 2, 3), CONSTANT(2), CONSTANT(3)}, {ITERATIONS(30)}},
    {"converged, transposed",
     {VALUES(LIST(3, 0.5, 0.1, 0.2, 1, 0.3), 3, 2), CONSTANT(2), CONSTANT(3)},
     {ITERATIONS(40), INT_ATTR("dim", 1)}},
};

/* The matrix's element (row, column), and Weight's place of it. */
static int64_t place_of(const op_case *c, const op_array *w, int64_t row, int64_t column)
{
    const int64_t inner = w->count / w->dims[0] / (w->rank > 1 ? w->dims[1] : 1);

    if (op_case_number(c, "dim", 0) == 0)
        return row * (w->count / w->dims[0]) + column;
    return (column / inner * w->dims[1] + row) * inner + column % inner;
}

/* to = W from, or W^T from, of length 1 where `scale`. */
static void product(const op_values *v, double *to, const double *from, bool transposed, bool scale)
{
    const int64_t rows = v->in[1].count, columns = v->in[2].count;
    double        length = 0;

    for (int64_t i = 0; i < (transposed ? columns : rows); i++) {
        to[i] = 0;
        for (int64_t k = 0; k < (transposed ? rows : columns); k++)
            to[i] += from[k] * v->in[0].data[transposed ? place_of(v->c, &v->in[0], k, i) : place_of(v->c, &v->in[0], i, k)];
        length += to[i] * to[i];
    }
    for (int64_t i = 0; i < (transposed ? columns : rows) && scale; i++)
        to[i] /= sqrt(length) + 1e-12;
}

static void spectral_reference(op_values *v)
{
    double u[8], w[8], stretched[8], sigma = 0;

    memcpy(u, v->in[1].data, (size_t)v->in[1].count * sizeof *u);
    memcpy(w, v->in[2].data, (size_t)v->in[2].count * sizeof *w);
    for (int i = 0; i < (int)op_case_number(v->c, "power_iters", 1); i++) {
        product(v, w, u, true, true);
        product(v, u, w, false, true);
    }
    product(v, stretched, w, false, false);
    for (int64_t i = 0; i < v->in[1].count; i++)
        sigma += u[i] * stretched[i];
    for (int64_t i = 0; i < v->out[0].count; i++)
        v->out[0].data[i] = v->in[0].data[i] / (sigma + 1e-12);
}

TEST(spectral_matches_reference)   { EACH_OF(c, spectral_cases) check_forward("spectral_norm", c, spectral_reference, 2e-5); }
TEST(spectral_gradient_is_numeric) { EACH_OF(c, spectral_cases) check_gradient("spectral_norm", c, 1e-6, 1e-4); }

/* Where there are iterations, the gradient of the parts would go through them. */
TEST(spectral_is_its_parts)
{
    EACH_OF(c, spectral_cases)
        if (op_case_number(c, "power_iters", 1) == 0)
            check_expansion("spectral_norm", c);
}

/* -- sync_batch_norm is batch_norm ------------------------------------------------------------------------------------- */

static const op_case batch_cases[] = {
    {"image",
     {DIMS(3, 4, 2, 2), DIMS(4), DIMS(4), CONSTANT(4), {SIZE(4), .low = 0.5, .high = 2, .is_constant = true}},
     {BOOL_ATTR("is_test", 0)}},
    {"test", {DIMS(3, 4), DIMS(4), DIMS(4), CONSTANT(4), {SIZE(4), .low = 0.5, .high = 2, .is_constant = true}}, {BOOL_ATTR("is_test", 1)}},
    {"no rows",
     {DIMS(0, 4), DIMS(4), DIMS(4), CONSTANT(4), {SIZE(4), .low = 0.5, .high = 2, .is_constant = true}},
     {BOOL_ATTR("is_test", 0)}},
};

static void like_batch_norm(op_values *v)
{
    op_values other = run_op("batch_norm", v->c, v->in[0].dtype);

    for (int i = 0; i < v->out_count; i++)
        memcpy(v->out[i].data, other.out[i].data, (size_t)v->out[i].count * sizeof(double));
    op_values_free(&other);
}

TEST(sync_is_batch_norm) { EACH_OF(c, batch_cases) check_forward("sync_batch_norm", c, like_batch_norm, 0); }

/* With a momentum of 1 the running statistics, which hand no gradient on, stay as they are. */
TEST(sync_gradient_is_numeric)
{
    EACH_OF(c, batch_cases) {
        op_case steady = *c;
        steady.attr[1] = (op_attr)FLOAT_ATTR("momentum", 1);
        check_gradient("sync_batch_norm", &steady, 1e-5, 2e-6);
    }
}

/* -- mistakes ------------------------------------------------------------------------------------------------------------ */

TEST(mistakes_are_explained)
{
    EXPECT_FAIL(TR_ESHAPE, "the 6 channels of X [2, 6, 2, 2] cannot be cut into 4 groups",
                infer_shapes("group_norm", {DIMS(2, 6, 2, 2)}, {INT_ATTR("groups", 4)}));
    EXPECT_FAIL(TR_ESHAPE, "Scale must be [6], got [3]", infer_shapes("group_norm", {DIMS(2, 6, 2, 2), DIMS(3)}, {INT_ATTR("groups", 2)}));
    EXPECT_FAIL(TR_ESHAPE, "BatchSum must be [3], got [2]", infer_shapes("data_norm", {DIMS(5, 3), DIMS(3), DIMS(2), DIMS(3)}));
    EXPECT_FAIL(TR_ESHAPE, "sync_batch_norm: Scale must be [3], got [2]",
                infer_shapes("sync_batch_norm", {DIMS(5, 3, 2, 2), DIMS(2), DIMS(3), DIMS(3), DIMS(3)}));
    EXPECT_FAIL(TR_ESHAPE, "X must", infer_shapes("lrn", {DIMS(2, 3)}));
    EXPECT_FAIL(TR_ERANGE, "'n'", infer_shapes("lrn", {DIMS(1, 2, 2, 2)}, {INT_ATTR("n", 0)}));
    EXPECT_FAIL(TR_ERANGE, "axis", infer_shapes("norm", {DIMS(2, 3)}, {INT_ATTR("axis", 2)}));
    EXPECT_FAIL(TR_ESHAPE, "V must be [8], got [4]", infer_shapes("spectral_norm", {DIMS(3, 2, 2, 2), DIMS(3), DIMS(4)}));
    EXPECT_FAIL(TR_ESHAPE, "rank 2 to 5", infer_shapes("spectral_norm", {DIMS(3), DIMS(3), DIMS(1)}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(group_matches_reference),    cmocka_unit_test(group_gradient_is_numeric),
        cmocka_unit_test(data_matches_reference),     cmocka_unit_test(data_gradient_is_numeric),
        cmocka_unit_test(lrn_matches_reference),      cmocka_unit_test(lrn_gradient_is_numeric),
        cmocka_unit_test(norm_matches_reference),     cmocka_unit_test(norm_gradient_is_numeric),
        cmocka_unit_test(spectral_matches_reference), cmocka_unit_test(spectral_gradient_is_numeric),
        cmocka_unit_test(spectral_is_its_parts),      cmocka_unit_test(sync_is_batch_norm),
        cmocka_unit_test(sync_gradient_is_numeric),
        cmocka_unit_test(mistakes_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
