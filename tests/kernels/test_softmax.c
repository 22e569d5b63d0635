/* softmax, alone and with cross entropy, against the formulas in doubles. */
#include "tests/support/op_check.h"

#define IDS(list, ...) {SIZE(__VA_ARGS__), TYPED(TR_INT64, 0, 0), .values = list}

static void softmax_at(double *out, const double *x, int64_t n, int64_t step)
{
    double largest = -INFINITY, sum = 0;

    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, x[i * step]);
    for (int64_t i = 0; i < n; i++)
        sum += exp(x[i * step] - largest);
    for (int64_t i = 0; i < n; i++)
        out[i * step] = exp(x[i * step] - largest) / sum;
}

/* -- softmax ------------------------------------------------------------------------------------- */

static const op_case softmax_cases[] = {
    {"one element", {DIMS(1, 1)}},
    {"ragged", {DIMS(3, 17)}},
    {"large logits", {FLOATS(-80, 80, 5, 7)}},
    {"a vector", {DIMS(9)}},
    {"three dimensions", {DIMS(2, 3, 4)}},
    {"first axis", {DIMS(6, 5)}, {INT_ATTR("axis", 0)}},
    {"middle axis", {DIMS(2, 5, 3)}, {INT_ATTR("axis", -2)}},
    {"empty batch", {DIMS(0, 4)}},
    {"sequences stay", {SEQUENCES(OFFSETS(0, 2, 5), 5, 4)}, .out = {SEQUENCES(OFFSETS(0, 2, 5), 5, 4)}},
};

static void softmax_reference(op_values *v)
{
    const op_array *x = &v->in[0];
    int             axis = (int)op_case_number(v->c, "axis", -1);
    int64_t         post = 1;

    axis = axis < 0 ? axis + x->rank : axis;
    for (int d = axis + 1; d < x->rank; d++)
        post *= x->dims[d];
    const int64_t n = x->dims[axis], pre = x->count / (n * post);
    for (int64_t i = 0; i < pre; i++)
        for (int64_t k = 0; k < post; k++)
            softmax_at(v->out[0].data + i * n * post + k, x->data + i * n * post + k, n, post);
}

TEST(softmax_matches_reference)   { EACH_OF(c, softmax_cases) check_forward("softmax", c, softmax_reference, 1e-6); }
TEST(softmax_gradient_is_numeric) { EACH_OF(c, softmax_cases) check_gradient("softmax", c, 1e-5, 1e-7); }

TEST(softmax_axis_beyond_the_rank_is_explained)
{
    EXPECT_FAIL(TR_ERANGE, "axis is 2", infer_shapes("softmax", {DIMS(3, 4)}, {INT_ATTR("axis", 2)}));
}

/* -- cross_entropy: input 0 holds probabilities ---------------------------------------------------------- */

static const op_case entropy_cases[] = {
    {"one row", {FLOATS(0.1, 0.9, 1, 3), INT64S(0, 3, 1, 1)}},
    {"ragged", {FLOATS(0.1, 0.9, 7, 5), INT64S(0, 5, 7, 1)}},
    {"three dimensions", {FLOATS(0.1, 0.9, 2, 3, 4), INT64S(0, 4, 2, 3, 1)}},
    {"an ignored row", {FLOATS(0.1, 0.9, 3, 4), IDS(LIST(1, -100, 3), 3, 1)}},
    {"another ignored number", {FLOATS(0.1, 0.9, 3, 4), IDS(LIST(1, 2, 3), 3, 1)}, {INT_ATTR("ignore_index", 2)}},
    {"soft labels", {FLOATS(0.1, 0.9, 3, 4), {SIZE(3, 4), .low = 0.1, .high = 0.5, .is_constant = true}},
     {BOOL_ATTR("soft_label", 1)}},
    {"empty batch", {DIMS(0, 4), INT64S(0, 4, 0, 1)}},
};

static double row_entropy(const op_values *v, const double *p, int64_t row, int64_t classes)
{
    const double *label = v->in[1].data;
    double        loss = 0;

    if (op_case_number(v->c, "soft_label", 0) != 0) {
        for (int64_t j = 0; j < classes; j++)
            loss -= label[row * classes + j] * log(p[j]);
        return loss;
    }
    if (label[row] == op_case_number(v->c, "ignore_index", -100))
        return 0;
    return -log(p[(int64_t)label[row]]);
}

static void entropy_reference(op_values *v)
{
    const int64_t classes = v->in[0].dims[v->in[0].rank - 1];

    for (int64_t i = 0; i < v->out[0].count; i++)
        v->out[0].data[i] = row_entropy(v, v->in[0].data + i * classes, i, classes);
}

TEST(cross_entropy_matches_reference)
{
    EACH_OF(c, entropy_cases) check_forward("cross_entropy", c, entropy_reference, 1e-6);
}

TEST(cross_entropy_gradient_is_numeric) { EACH_OF(c, entropy_cases) check_gradient("cross_entropy", c, 1e-6, 1e-6); }

TEST(cross_entropy_of_probability_zero_is_finite)
{
    const op_case c = {"zero", {VALUES(LIST(0, 1), 1, 2), IDS(LIST(0), 1, 1)}};
    op_values     v = run_op("cross_entropy", &c, TR_FP32);

    assert_true(isfinite(v.out[0].data[0]) && v.out[0].data[0] > 80);
    op_values_free(&v);
}

TEST(wrong_labels_are_explained)
{
    EXPECT_FAIL(TR_ESHAPE, "Label must be [3, 1]", infer_shapes("cross_entropy", {DIMS(3, 4), INT64S(0, 4, 4)}));
    EXPECT_FAIL(TR_EDTYPE, "Label must be int64", infer_shapes("cross_entropy", {DIMS(3, 4), INT32S(0, 4, 3, 1)}));
    EXPECT_FAIL(TR_ERANGE, "the label of row 1 in 'x1' is 4; it must be in [0, 4)",
                run_status("cross_entropy", {DIMS(2, 4), IDS(LIST(3, 4), 2, 1)}));
    EXPECT_FAIL(TR_ERANGE, "is -1",
                run_status("softmax_with_cross_entropy", {DIMS(2, 4), IDS(LIST(-1, 3), 2, 1)}));
    EXPECT_FAIL(TR_ESHAPE, "Label is [3, 5]",
                infer_shapes("cross_entropy", {DIMS(3, 4), DIMS(3, 5)}, {BOOL_ATTR("soft_label", 1)}));
}

/* -- softmax_with_cross_entropy --------------------------------------------------------------------------- */

static const op_case both_cases[] = {
    {"one row", {DIMS(1, 3), INT64S(0, 3, 1, 1)}},
    {"ragged", {FLOATS(-4, 4, 7, 19), INT64S(0, 19, 7, 1)}},
    {"large logits", {FLOATS(-60, 60, 4, 5), INT64S(0, 5, 4, 1)}},
    {"three dimensions", {DIMS(2, 3, 4), INT64S(0, 4, 2, 3, 1)}},
    {"an ignored row", {DIMS(3, 4), IDS(LIST(1, -100, 3), 3, 1)}},
    {"soft labels", {DIMS(3, 4), VALUES(LIST(0.25, 0.25, 0.5, 0, 1, 0, 0, 0, 0.125, 0.125, 0.25, 0.5), 3, 4)},
     {BOOL_ATTR("soft_label", 1)}},
    {"empty batch", {DIMS(0, 4), INT64S(0, 4, 0, 1)}},
};

static void both_reference(op_values *v)
{
    const int64_t classes = v->in[0].dims[v->in[0].rank - 1];

    for (int64_t i = 0; i < v->out[1].count; i++) {
        double *p = v->out[0].data + i * classes;
        softmax_at(p, v->in[0].data + i * classes, classes, 1);
        v->out[1].data[i] = row_entropy(v, p, i, classes);
    }
}

TEST(softmax_with_cross_entropy_matches_reference)
{
    EACH_OF(c, both_cases) check_forward("softmax_with_cross_entropy", c, both_reference, 4e-6);
}

TEST(softmax_with_cross_entropy_gradient_is_numeric)
{
    EACH_OF(c, both_cases) {
        op_case constant = *c;
        constant.in[1].is_constant = true;
        check_gradient("softmax_with_cross_entropy", &constant, 1e-5, 1e-7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(softmax_matches_reference),
        cmocka_unit_test(softmax_gradient_is_numeric),
        cmocka_unit_test(softmax_axis_beyond_the_rank_is_explained),
        cmocka_unit_test(cross_entropy_matches_reference),
        cmocka_unit_test(cross_entropy_gradient_is_numeric),
        cmocka_unit_test(cross_entropy_of_probability_zero_is_finite),
        cmocka_unit_test(wrong_labels_are_explained),
        cmocka_unit_test(softmax_with_cross_entropy_matches_reference),
        cmocka_unit_test(softmax_with_cross_entropy_gradient_is_numeric),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
