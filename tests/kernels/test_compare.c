/* Comparisons and logic: bools from numbers, bools from bools. */
#include "tests/support/op_check.h"

#define FUNCTION(name, value) static bool name##_of(double x, double y) { (void)y; return value; }

FUNCTION(equal, x == y)
FUNCTION(not_equal, x != y)
FUNCTION(less_than, x < y)
FUNCTION(less_equal, x <= y)
FUNCTION(greater_than, x > y)
FUNCTION(greater_equal, x >= y)
FUNCTION(logical_and, x != 0 && y != 0)
FUNCTION(logical_or, x != 0 || y != 0)
FUNCTION(logical_xor, (x != 0) != (y != 0))
FUNCTION(logical_not, x == 0)

static const struct operator {
    const char *op;
    bool      (*f)(double x, double y);
} comparisons[] = {
    {"equal", equal_of},           {"not_equal", not_equal_of},       {"less_than", less_than_of},
    {"less_equal", less_equal_of}, {"greater_than", greater_than_of}, {"greater_equal", greater_equal_of},
}, logic[] = {
    {"logical_and", logical_and_of}, {"logical_or", logical_or_of}, {"logical_xor", logical_xor_of},
};
static const struct operator *current;

#define EACH_OPERATOR(table) for (current = table; current < table + sizeof(table) / sizeof *table; current++)
#define BOOL_OUT(...) {{SIZE(__VA_ARGS__), .is_typed = true, .dtype = TR_BOOL}}

static const op_case cases[] = {
    {"numbers that meet", {VALUES(LIST(1, 2, 3, NAN, -0.0), 5), VALUES(LIST(1, 3, 2, NAN, 0.0), 5)},
                          .out = BOOL_OUT(5)},
    {"ragged",            {DIMS(3, 17), DIMS(3, 17)}},
    {"large",             {DIMS(67, 1031), DIMS(67, 1031)}},
    {"a row",             {INT64S(0, 3, 5, 7), INT64S(0, 3, 7)}},
    {"a column",          {INT32S(0, 3, 5, 7), INT32S(0, 3, 5)}, {INT_ATTR("axis", 0)}},
    {"one number",        {INT32S(0, 3, 5, 7), INT32S(1, 2, 1)}},
    {"empty",             {DIMS(0, 3), DIMS(3)}, .out = BOOL_OUT(0, 3)},
};
static const op_case bools[] = {
    {"ragged", {BOOLS(3, 17), BOOLS(3, 17)}, .out = BOOL_OUT(3, 17)},
    {"large",  {BOOLS(67, 1031), BOOLS(67, 1031)}},
    {"empty",  {BOOLS(0), BOOLS(0)}},
};

/* Y is X's last dimensions, its first ones, or one number. */
static void reference(op_values *v)
{
    const op_array *x = &v->in[0], *y = &v->in[1];
    const int64_t   repeat = op_case_number(v->c, "axis", -1) == 0 && y->count > 0 ? x->count / y->count : 1;

    for (int64_t i = 0; i < x->count; i++)
        v->out[0].data[i] = current->f(x->data[i], y->rank ? y->data[i / repeat % y->count] : 0);
}

TEST(comparisons_match_reference)
{
    EACH_OPERATOR(comparisons) EACH(c) check_forward(current->op, c, reference, 0);
}

TEST(logic_matches_reference)
{
    EACH_OPERATOR(logic) EACH_OF(c, bools) check_forward(current->op, c, reference, 0);
}

TEST(not_matches_reference)
{
    static const op_case one[] = {{"ragged", {BOOLS(3, 17)}}, {"empty", {BOOLS(0, 2)}}};
    static const struct operator not = {"logical_not", logical_not_of};

    current = &not;
    EACH_OF(c, one) check_forward(current->op, c, reference, 0);
}

/* Whether the whole tensor is finite, holds infinities, holds NaN. */
static void expect_kind(const op_case *c, bool finite, bool has_inf, bool has_nan)
{
    static const char *const ops[] = {"isfinite", "isinf", "isnan"};
    const bool               want[] = {finite, has_inf, has_nan};

    for (int i = 0; i < 3; i++) {
        op_values v = run_op(ops[i], c, TR_FP32);
        if (v.out[0].data[0] != want[i])
            fail_msg("%s of '%s' is %g", ops[i], c->name, v.out[0].data[0]);
        op_values_free(&v);
    }
}

TEST(nan_and_infinities_are_found)
{
    expect_kind(&(op_case){"numbers", {DIMS(67, 1031)}}, true, false, false);
    expect_kind(&(op_case){"nothing", {DIMS(0, 3)}}, true, false, false);
    expect_kind(&(op_case){"infinity", {VALUES(LIST(1, -INFINITY, 2), 3)}}, false, true, false);
    expect_kind(&(op_case){"NaN", {VALUES(LIST(1, 2, NAN), 3)}}, false, false, true);
    expect_kind(&(op_case){"both", {VALUES(LIST(INFINITY, 2, NAN), 3)}}, false, true, true);
    check_forward("isnan", &(op_case){"repeated", {DIMS(3, 17)}, .out = BOOL_OUT(1)}, NULL, 0);
}

TEST(mistakes_are_explained)
{
    EACH_OPERATOR(comparisons) {
        EXPECT_FAIL(TR_EDTYPE, "Y must be int64", infer_shapes(current->op, {INT64S(0, 3, 5), INT32S(0, 3, 5)}));
        EXPECT_FAIL(TR_ESHAPE, "must be 4", infer_shapes(current->op, {DIMS(3, 4), DIMS(5)}));
    }
    EACH_OPERATOR(logic) {
        EXPECT_FAIL(TR_ESHAPE, "alike", infer_shapes(current->op, {BOOLS(3), BOOLS(4)}));
        EXPECT_FAIL(TR_EDTYPE, "float32", run_status(current->op, {DIMS(3), DIMS(3)}));
    }
    EXPECT_FAIL(TR_EDTYPE, "float32", run_status("logical_not", {DIMS(3)}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comparisons_match_reference),
        cmocka_unit_test(logic_matches_reference),
        cmocka_unit_test(not_matches_reference),
        cmocka_unit_test(nan_and_infinities_are_found),
        cmocka_unit_test(mistakes_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
