/* test_row_distances.c - squared_l2_distance and cos_sim. */
#include "tests/support/op_check.h"

static const op_case cases[] = {
    {"rows", {DIMS(3, 5), DIMS(3, 5)}},
    {"one row for all", {DIMS(4, 3), DIMS(1, 3)}},
    {"one of one", {DIMS(1, 1), DIMS(1, 1)}},
    {"more dimensions", {DIMS(2, 3, 4), DIMS(1, 3, 4)}},
    {"no rows", {DIMS(0, 4), DIMS(0, 4)}},
};

/* Row i of X with its row of Y. */
static double sum_of(const op_values *v, int64_t i, double (*of)(double x, double y))
{
    const op_array *x = &v->in[0], *y = &v->in[1];
    const int64_t   width = x->count / x->dims[0], row = y->dims[0] == 1 ? 0 : i;
    double          sum = 0;

    for (int64_t j = 0; j < width; j++)
        sum += of(x->data[i * width + j], y->data[row * width + j]);
    return sum;
}

static double squared_difference(double x, double y) { return (x - y) * (x - y); }
static double product(double x, double y) { return x * y; }
static double x_squared(double x, double y) { (void)y; return x * x; }
static double y_squared(double x, double y) { (void)x; return y * y; }

static void distance_reference(op_values *v)
{
    const op_array *x = &v->in[0], *y = &v->in[1];

    for (int64_t k = 0; k < x->count; k++)
        v->out[0].data[k] = x->data[k] - y->data[k % y->count];
    for (int64_t i = 0; i < x->dims[0]; i++)
        v->out[1].data[i] = sum_of(v, i, squared_difference);
}

static void cosine_reference(op_values *v)
{
    for (int64_t i = 0; i < v->in[0].dims[0]; i++) {
        const double x = sqrt(sum_of(v, i, x_squared)), y = sqrt(sum_of(v, i, y_squared));
        v->out[0].data[i] = sum_of(v, i, product) / (x * y);
        v->out[1].data[i] = x;
        v->out[2].data[v->in[1].dims[0] == 1 ? 0 : i] = y;
    }
}

TEST(distance_matches_reference)   { EACH(c) check_forward("squared_l2_distance", c, distance_reference, 1e-6); }
TEST(distance_gradient_is_numeric) { EACH(c) check_gradient("squared_l2_distance", c, 1e-5, 1e-7); }
TEST(distance_is_its_parts)        { EACH(c) check_expansion("squared_l2_distance", c); }
TEST(cosine_matches_reference)     { EACH(c) check_forward("cos_sim", c, cosine_reference, 1e-6); }
TEST(cosine_gradient_is_numeric)   { EACH(c) check_gradient("cos_sim", c, 1e-5, 1e-6); }
TEST(cosine_is_its_parts)          { EACH(c) check_expansion("cos_sim", c); }

/* It has no direction: nothing is infinite, forward and backward. */
TEST(the_cosine_of_zeros_is_zero)
{
    const op_case c = {"zeros", {VALUES(LIST(0, 0, 3, 4), 2, 2), VALUES(LIST(1, 1, 3, 4), 2, 2)}};
    op_values     v = run_op("cos_sim", &c, TR_FP32);

    assert_true(v.out[0].data[0] == 0 && v.out[1].data[0] == 0);
    assert_float_equal(v.out[0].data[1], 1, 1e-6);
    op_values_free(&v);
}

TEST(wrong_rows_are_explained)
{
    EXPECT_SHAPE("float32[?, 1]", "cos_sim", {DIMS(-1, 4), DIMS(-1, 4)});
    EXPECT_SHAPE("float32[?, 12]", "squared_l2_distance", {DIMS(-1, 3, 4), DIMS(-1, 3, 4)});
    EXPECT_FAIL(TR_ESHAPE, "Y must be like X [3, 4], or have one row; got [2, 4]",
                infer_shapes("cos_sim", {DIMS(3, 4), DIMS(2, 4)}));
    EXPECT_FAIL(TR_ESHAPE, "or have one row", infer_shapes("squared_l2_distance", {DIMS(3, 4), DIMS(3, 5)}));
    EXPECT_FAIL(TR_ESHAPE, "X must have rank 2 or more", infer_shapes("cos_sim", {DIMS(3), DIMS(3)}));
    EXPECT_FAIL(TR_EDTYPE, "Y must be float32", infer_shapes("cos_sim", {DIMS(3, 4), {SIZE(3, 4), TYPED(TR_FP64, 0, 1)}}));
    EXPECT_FAIL(TR_EDTYPE, "there are kernels for float16, float32, float64, bfloat16 only",
                infer_shapes("cos_sim", {INT64S(0, 5, 3, 4), INT64S(0, 5, 3, 4)}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distance_matches_reference), cmocka_unit_test(distance_gradient_is_numeric),
        cmocka_unit_test(distance_is_its_parts),      cmocka_unit_test(cosine_matches_reference),
        cmocka_unit_test(cosine_gradient_is_numeric), cmocka_unit_test(cosine_is_its_parts),
        cmocka_unit_test(the_cosine_of_zeros_is_zero), cmocka_unit_test(wrong_rows_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
