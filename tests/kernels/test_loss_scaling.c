/* Gradients of a scaled loss: divided again, set to 0 where one of them is not finite; and the factor, which follows. */
#include "tests/support/op_check.h"

#define INTS(value) {SIZE(1), TYPED(TR_INT32, 0, 0), .values = LIST(value)}
#define F32(value)  {SIZE(1), TYPED(TR_FP32, 0, 0), .values = LIST(value)}
#define BOOL(value) {SIZE(1), TYPED(TR_BOOL, 0, 0), .values = LIST(value)}

static void unscaled(op_values *v)
{
    const int pairs = v->in_count - 1;
    bool      found = false;

    for (int i = 0; i < pairs; i++)
        for (int64_t k = 0; k < v->in[i].count; k++) {
            v->out[i].data[k] = v->in[i].data[k] * (1 / v->in[pairs].data[0]);
            found = found || !isfinite(v->in[i].data[k]);
        }
    v->out[pairs].data[0] = found;
}

TEST(gradients_are_divided_by_the_factor)
{
    const op_case cases[] = {
        {"one", {DIMS(3, 17), F32(128)}, .out = {DIMS(3, 17), {SIZE(1), .is_typed = true, .dtype = TR_BOOL}}},
        {"two", {DIMS(3, 17), MORE(5), F32(0.5)}, .out_count = {2}},
        {"large", {DIMS(300, 211), F32(1024)}},
        {"infinite", {VALUES(LIST(1, INFINITY, 2), 3), MORE(4), F32(4)}, .out_count = {2}},
        {"empty", {DIMS(0), F32(2)}},
    };

    EACH(c) check_forward("check_finite_and_unscale", c, unscaled, 1e-6);
}

TEST(rows_are_divided_as_well)
{
    op_values v = run_op("check_finite_and_unscale", &(op_case){"rows", {ROWS(100, OFFSETS(7, 3), 2, 4), F32(2)}}, TR_FP32);

    assert_int_equal(v.out[0].row_count, 2);
    assert_int_equal(v.out[0].rows[0], 7);
    for (int k = 0; k < 8; k++)
        assert_float_equal(v.out[0].data[k], v.in[0].data[k] / 2, 1e-7);
    op_values_free(&v);
}

TEST(a_gradient_that_is_not_a_number_is_found)
{
    op_values v = run_op("check_finite_and_unscale", &(op_case){"nan", {VALUES(LIST(1, NAN), 2), F32(2)}}, TR_FP32);

    assert_int_equal((int)v.out[1].data[0], 1);
    op_values_free(&v);
}

/* What becomes of gradient, factor, good and bad steps. */
static void expect_update(bool was_bad, double scaling, int good, int bad, const double *expected)
{
    const op_case c = {"update", {VALUES(LIST(3), 1), BOOL(was_bad), F32(scaling), INTS(good), INTS(bad)},
                       {INT_ATTR("incr_every_n_steps", 4), INT_ATTR("decr_every_n_nan_or_inf", 2), FLOAT_ATTR("incr_ratio", 2),
                        FLOAT_ATTR("decr_ratio", 0.5)}};
    op_values     v = run_op("update_loss_scaling", &c, TR_FP32);

    for (int i = 0; i < 4; i++)
        assert_float_equal(v.out[i].data[0], expected[i], 1e-6);
    op_values_free(&v);
}

TEST(the_factor_follows_good_and_bad_steps)
{
    expect_update(false, 128, 0, 1, LIST(3, 128, 1, 0));
    expect_update(false, 128, 3, 0, LIST(3, 256, 0, 0));
    expect_update(true, 128, 3, 0, LIST(0, 128, 0, 1));
    expect_update(true, 128, 0, 1, LIST(0, 64, 0, 0));
    expect_update(true, 1, 0, 1, LIST(0, 1, 0, 0));
    expect_update(false, 3e38, 3, 0, LIST(3, 3e38, 0, 0));
}

static void as_it_was(op_values *v)
{
    for (int i = 0; i < 2; i++)
        for (int64_t k = 0; k < v->out[i].count; k++)
            v->out[i].data[k] = v->in[i].data[k];
    v->out[2].data[0] = v->in[3].data[0];
    v->out[3].data[0] = v->in[4].data[0] + 1;
    v->out[4].data[0] = 0;
}

TEST(good_gradients_stay)
{
    const op_case cases[] = {{"two", {DIMS(3, 17), MORE(2), BOOL(0), F32(8), INTS(5), INTS(1)}, .out_count = {2}}};

    EACH(c) check_forward("update_loss_scaling", c, as_it_was, 0);
}

TEST(mistakes_are_explained)
{
    EXPECT_FAIL(TR_ERANGE, "is 0; it must be finite and above 0", run_status("check_finite_and_unscale", {DIMS(3), F32(0)}));
    EXPECT_FAIL(TR_EDTYPE, "Scale must be float32", infer_shapes("check_finite_and_unscale", {DIMS(3), INT64S(1, 2, 1)}));
    EXPECT_FAIL(TR_ESHAPE, "Scale must hold one element",
                infer_shapes("check_finite_and_unscale", {DIMS(3), {SIZE(2), TYPED(TR_FP32, 1, 2)}}));
    EXPECT_FAIL(TR_EINVAL, "there are 2 X, so there must be as many Out; got 1",
                infer_shapes("check_finite_and_unscale", {DIMS(3), MORE(3), F32(1)}));
    EXPECT_FAIL(TR_EDTYPE, "InGoodSteps must be int32",
                infer_shapes("update_loss_scaling", {DIMS(3), BOOL(0), F32(1), INT64S(0, 1, 1), INTS(0)}));
    EXPECT_FAIL(TR_ERANGE, "incr_ratio", infer_shapes("update_loss_scaling", {DIMS(3), BOOL(0), F32(1), INTS(0), INTS(0)},
                                                      {FLOAT_ATTR("incr_ratio", 1)}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_divided_by_the_factor), cmocka_unit_test(rows_are_divided_as_well),
        cmocka_unit_test(a_gradient_that_is_not_a_number_is_found), cmocka_unit_test(the_factor_follows_good_and_bad_steps),
        cmocka_unit_test(good_gradients_stay), cmocka_unit_test(mistakes_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
