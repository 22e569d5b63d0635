/* Clipping: by value, by norm. */
#include "tests/support/op_check.h"

static const op_case cases[] = {
    {"ragged", {DIMS(3, 17)}, {FLOAT_ATTR("min", -0.5), FLOAT_ATTR("max", 0.25)}, {DIMS(3, 17)}},
    {"large",  {DIMS(67, 1031)}, {FLOAT_ATTR("min", -0.5), FLOAT_ATTR("max", 0.25)}},
    {"empty",  {DIMS(0, 3)}, {FLOAT_ATTR("min", 0), FLOAT_ATTR("max", 0)}},
};

static void reference(op_values *v)
{
    const double min = op_case_number(v->c, "min", 0), max = op_case_number(v->c, "max", 0);

    for (int64_t i = 0; i < v->out[0].count; i++)
        v->out[0].data[i] = fmin(fmax(v->in[0].data[i], min), max);
}

TEST(matches_reference) { EACH(c) check_forward("clip", c, reference, 0); }
TEST(gradient_is_numeric) { check_gradient("clip", &cases[0], 1e-5, 1e-7); }

TEST(mistakes_are_explained)
{
    EXPECT_FAIL(TR_ERANGE, "min is 2", infer_shapes("clip", {DIMS(3)}, {FLOAT_ATTR("min", 2), FLOAT_ATTR("max", 1)}));
    EXPECT_FAIL(TR_EINVAL, "max", infer_shapes("clip", {DIMS(3)}, {FLOAT_ATTR("min", 2)}));
    EXPECT_FAIL(TR_ERANGE, "max_norm", infer_shapes("clip_by_norm", {DIMS(3)}, {FLOAT_ATTR("max_norm", 0)}));
}

/* -- by norm --------------------------------------------------------------------------------------------------- */

static const op_case norm_cases[] = {
    {"longer",  {DIMS(3, 17)}, {FLOAT_ATTR("max_norm", 0.5)}, {DIMS(3, 17)}},
    {"shorter", {DIMS(3, 17)}, {FLOAT_ATTR("max_norm", 50)}},
    {"zero",    {VALUES(LIST(0, 0, 0), 3)}, {FLOAT_ATTR("max_norm", 1)}},
    {"empty",   {DIMS(0)}, {FLOAT_ATTR("max_norm", 1)}},
};

static void shorten(double *out, int64_t n, double max_norm)
{
    double squares = 0;

    for (int64_t i = 0; i < n; i++)
        squares += out[i] * out[i];
    for (int64_t i = 0; i < n && sqrt(squares) > max_norm; i++)
        out[i] *= max_norm / sqrt(squares);
}

static void norm_reference(op_values *v)
{
    memcpy(v->out[0].data, v->in[0].data, (size_t)v->in[0].count * sizeof(double));
    shorten(v->out[0].data, v->out[0].count, op_case_number(v->c, "max_norm", 0));
}

/* Rows 7, 3, 7 become 3, 7. */
static void rows_reference(op_values *v)
{
    const double *x = v->in[0].data;
    double       *out = v->out[0].data;

    for (int i = 0; i < 4; i++) {
        out[i] = x[4 + i];
        out[4 + i] = x[i] + x[8 + i];
    }
    shorten(out, 8, op_case_number(v->c, "max_norm", 0));
}

TEST(norm_matches_reference) { EACH_OF(c, norm_cases) check_forward("clip_by_norm", c, norm_reference, 1e-6); }
TEST(equal_rows_are_added_up_before_the_norm)
{
    check_forward("clip_by_norm", &(op_case){"rows", {ROWS(9, OFFSETS(7, 3, 7), 3, 4)}, {FLOAT_ATTR("max_norm", 0.5)},
                                             {ROWS(9, OFFSETS(3, 7), 2, 4)}}, rows_reference, 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_reference),
        cmocka_unit_test(gradient_is_numeric),
        cmocka_unit_test(mistakes_are_explained),
        cmocka_unit_test(norm_matches_reference),
        cmocka_unit_test(equal_rows_are_added_up_before_the_norm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
