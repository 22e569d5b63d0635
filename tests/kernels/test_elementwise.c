/* Arithmetic of two tensors: every operator, every way that Y can be smaller. */
#include "tests/support/op_check.h"

#define FUNCTION(name, value) static double name##_of(double x, double y) { return value; }

FUNCTION(add, x + y)
FUNCTION(sub, x - y)
FUNCTION(mul, x * y)
FUNCTION(div, x / y)
FUNCTION(int_div, y == 0 ? 0 : trunc(x / y))
FUNCTION(max, fmax(x, y))
FUNCTION(min, fmin(x, y))
FUNCTION(pow, pow(x, y))
FUNCTION(mod, y == 0 ? 0 : x - y * floor(x / y))
FUNCTION(floordiv, y == 0 ? 0 : floor(x / y))

static const struct operator {
    const char *op;
    double    (*f)(double x, double y);
    double      low, high;            /* of both; what keeps away from kinks and poles */
    double      tolerance;
} float_ops[] = {
    {"elementwise_add", add_of, -2, 2, 0},
    {"elementwise_sub", sub_of, -2, 2, 0},
    {"elementwise_mul", mul_of, -2, 2, 0},
    {"elementwise_div", div_of, 0.5, 2, 0},
    {"elementwise_max", max_of, -2, 2, 0},
    {"elementwise_min", min_of, -2, 2, 0},
    {"elementwise_pow", pow_of, 0.5, 2, 2e-6},
};
static const struct operator int_ops[] = {
    {"elementwise_add", add_of, 0, 0, 0},
    {"elementwise_sub", sub_of, 0, 0, 0},
    {"elementwise_mul", mul_of, 0, 0, 0},
    {"elementwise_div", int_div_of, 0, 0, 0},
    {"elementwise_max", max_of, 0, 0, 0},
    {"elementwise_min", min_of, 0, 0, 0},
    {"elementwise_mod", mod_of, 0, 0, 0},
    {"elementwise_floordiv", floordiv_of, 0, 0, 0},
};
static const struct operator *current;

#define EACH_OPERATOR(table) for (current = table; current < table + sizeof(table) / sizeof *table; current++)

/* Name, X, Y, axis. */
static const op_case cases[] = {
    {"equal shapes",       {DIMS(3, 17), DIMS(3, 17)}, .out = {DIMS(3, 17)}},
    {"one element",        {DIMS(1), DIMS(1)}},
    {"row at the end",     {DIMS(5, 7), DIMS(7)}},
    {"matrix at the end",  {DIMS(2, 3, 4), DIMS(3, 4)}},
    {"channels",           {DIMS(2, 3, 4, 5), DIMS(3)}, {INT_ATTR("axis", 1)}, {DIMS(2, 3, 4, 5)}},
    {"a run in between",   {DIMS(2, 3, 4, 5), DIMS(3, 4)}, {INT_ATTR("axis", 1)}},
    {"a column",           {DIMS(5, 7), DIMS(5)}, {INT_ATTR("axis", 0)}},
    {"ones at Y's end",    {DIMS(5, 7), DIMS(5, 1)}, {INT_ATTR("axis", 0)}},
    {"ones at Y's front",  {DIMS(2, 3, 4), DIMS(1, 3, 4)}},
    {"ones at both ends",  {DIMS(2, 3, 4, 5), DIMS(1, 3, 4, 1)}},
    {"more ones in front", {DIMS(2, 3, 4, 5), DIMS(1, 1, 4, 5)}},
    {"a one behind axis",  {DIMS(2, 3, 4), DIMS(1, 4)}, {INT_ATTR("axis", 1)}},
    {"nothing but ones",   {DIMS(3, 5), DIMS(1, 1)}},
    {"one number",         {DIMS(3, 5), DIMS(1)}},
    {"empty batch",        {DIMS(0, 4), DIMS(4)}},
    {"both empty",         {DIMS(0, 4), DIMS(0, 4)}},
    {"sequences",          {SEQUENCES(OFFSETS(0, 2, 5), 5, 3), DIMS(3)}, .out = {SEQUENCES(OFFSETS(0, 2, 5), 5, 3)}},
};
static const op_case large[] = {
    {"large",              {DIMS(67, 1031), DIMS(67, 1031)}},
    {"large with a row",   {DIMS(67, 1031), DIMS(1031)}},
    {"large with columns", {DIMS(67, 1031), DIMS(67)}, {INT_ATTR("axis", 0)}},
};

/* The rule in its plainest form: walk X's index, keep the digits that Y has. */
static void reference(op_values *v)
{
    const op_array *x = &v->in[0], *y = &v->in[1];
    const int       axis = (int)op_case_number(v->c, "axis", -1), begin = axis < 0 ? x->rank - y->rank : axis;

    for (int64_t i = 0; i < x->count; i++) {
        int64_t rest = i, at = 0, step = 1;
        for (int d = x->rank - 1; d >= 0; d--) {
            const int64_t digit = rest % x->dims[d];
            rest /= x->dims[d];
            if (d >= begin && d < begin + y->rank && y->dims[d - begin] > 1) {
                at += digit * step;
                step *= y->dims[d - begin];
            }
        }
        v->out[0].data[i] = current->f(x->data[i], y->data[at]);
    }
}

static op_case in_range(const op_case *c)
{
    op_case ranged = *c;

    ranged.in[0].low = ranged.in[1].low = current->low;
    ranged.in[0].high = ranged.in[1].high = current->high;
    return ranged;
}

static op_case of_ints(const op_case *c, tr_dtype dtype)
{
    op_case ints = *c;

    for (int i = 0; i < 2; i++) {
        ints.in[i].is_typed = true;
        ints.in[i].dtype = dtype;
        ints.in[i].low = -9;
        ints.in[i].high = 10;
    }
    return ints;
}

TEST(matches_reference)
{
    EACH_OPERATOR(float_ops) EACH(c) {
        const op_case ranged = in_range(c);
        check_forward(current->op, &ranged, reference, current->tolerance);
    }
}

TEST(matches_reference_when_threads_share_it)
{
    EACH_OPERATOR(float_ops) EACH_OF(c, large) {
        const op_case ranged = in_range(c);
        check_forward(current->op, &ranged, reference, current->tolerance);
    }
}

TEST(matches_reference_for_integers)
{
    EACH_OPERATOR(int_ops) EACH(c) {
        const op_case i32 = of_ints(c, TR_INT32), i64 = of_ints(c, TR_INT64);
        check_forward(current->op, &i32, reference, 0);
        check_forward(current->op, &i64, reference, 0);
    }
}

TEST(gradient_is_numeric)
{
    EACH_OPERATOR(float_ops) EACH(c) {
        const op_case ranged = in_range(c);
        check_gradient(current->op, &ranged, 1e-5, 1e-7);
    }
}

static void scaled_rows(op_values *v)
{
    for (int64_t i = 0; i < v->out[0].count; i++)
        v->out[0].data[i] = current->f(v->in[0].data[i], v->in[1].data[0]);
}

TEST(selected_rows_are_scaled_by_one_number)
{
    const op_case rows = {"rows", {ROWS(9, OFFSETS(7, 3, 7), 3, 4), VALUES(LIST(0.5), 1)},
                          .out = {ROWS(9, OFFSETS(7, 3, 7), 3, 4)}};

    for (current = &float_ops[2]; current <= &float_ops[3]; current++)
        check_forward(current->op, &rows, scaled_rows, 0);
}

TEST(mistakes_are_explained)
{
    EACH_OPERATOR(int_ops) {
        EXPECT_FAIL(TR_ESHAPE, "Y's dimension 0 must be 4", infer_shapes(current->op, {DIMS(3, 4), DIMS(5)}));
        EXPECT_FAIL(TR_EINVAL, "input Y is missing", infer_shapes(current->op, {DIMS(3, 4)}));
    }
    EXPECT_FAIL(TR_ESHAPE, "Y's dimension 0 must be 4", infer_shapes("elementwise_pow", {DIMS(3, 4), DIMS(5)}));
    EXPECT_FAIL(TR_ESHAPE, "must be a run of X's", infer_shapes("elementwise_add", {DIMS(4), DIMS(3, 4)}));
    EXPECT_FAIL(TR_ESHAPE, "axis is 2",
                infer_shapes("elementwise_sub", {DIMS(2, 3, 4), DIMS(3, 4)}, {INT_ATTR("axis", 2)}));
    EXPECT_FAIL(TR_ERANGE, "axis", infer_shapes("elementwise_mul", {DIMS(3), DIMS(3)}, {INT_ATTR("axis", -2)}));
    EXPECT_FAIL(TR_EDTYPE, "Y must be float32", infer_shapes("elementwise_div", {DIMS(3), INT32S(0, 5, 3)}));
    EXPECT_FAIL(TR_ESHAPE, "selected rows", infer_shapes("elementwise_mul", {ROWS(9, OFFSETS(7), 1, 4), DIMS(4)}));
    EXPECT_FAIL(TR_EUNSUPPORTED, "dense", infer_shapes("elementwise_max", {ROWS(9, OFFSETS(7), 1, 4), DIMS(1)}));
}

TEST(unknown_dimensions_fit)
{
    EXPECT_SHAPE("float32[?, 10]", "elementwise_add", {DIMS(-1, 10), DIMS(10)});
    EXPECT_SHAPE("float32[?, 10]", "elementwise_add", {DIMS(-1, 10), DIMS(32, 10)});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_reference),
        cmocka_unit_test(matches_reference_when_threads_share_it),
        cmocka_unit_test(matches_reference_for_integers),
        cmocka_unit_test(gradient_is_numeric),
        cmocka_unit_test(selected_rows_are_scaled_by_one_number),
        cmocka_unit_test(mistakes_are_explained),
        cmocka_unit_test(unknown_dimensions_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
