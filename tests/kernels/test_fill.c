/* Tensors from nothing: constants, given values, random numbers; and the shape as numbers. */
#include "tests/support/op_check.h"

#define DTYPE(type)       INT_ATTR("dtype", type)
#define OUT_OF(type, ...) {{SIZE(__VA_ARGS__), .is_typed = true, .dtype = (type)}}

/* -- constants --------------------------------------------------------------------------------------------- */

static void constant(op_values *v)
{
    for (int64_t i = 0; i < v->out[0].count; i++)
        v->out[0].data[i] = op_case_number(v->c, "value", 0);
}

static const op_case cases[] = {
    {"default",  {ABSENT}, {LONGS_ATTR("shape", 3, 17)}, OUT_OF(TR_FP32, 3, 17)},
    {"float64",  {ABSENT}, {LONGS_ATTR("shape", 5), DTYPE(TR_FP64), FLOAT_ATTR("value", -2.5)}, OUT_OF(TR_FP64, 5)},
    {"int64",    {ABSENT}, {LONGS_ATTR("shape", 5), DTYPE(TR_INT64), FLOAT_ATTR("value", 7)}, OUT_OF(TR_INT64, 5)},
    {"bool",     {ABSENT}, {LONGS_ATTR("shape", 2), DTYPE(TR_BOOL), FLOAT_ATTR("value", 1)}, OUT_OF(TR_BOOL, 2)},
    {"large",    {ABSENT}, {LONGS_ATTR("shape", 211, 501), FLOAT_ATTR("value", 0.5)}},
    {"empty",    {ABSENT}, {LONGS_ATTR("shape", 0, 4)}},
};

TEST(fill_constant_fills) { EACH(c) check_forward("fill_constant", c, constant, 0); }

TEST(fill_constant_explains_mistakes)
{
    EXPECT_FAIL(TR_EDTYPE, "dtype is 99",
                infer_shapes("fill_constant", {ABSENT}, {LONGS_ATTR("shape", 3), DTYPE(99)}));
    EXPECT_FAIL(TR_ESHAPE, "dimension 1 of attribute shape is -1",
                infer_shapes("fill_constant", {ABSENT}, {LONGS_ATTR("shape", 3, -1)}));
}

TEST(batch_size_comes_from_input)
{
    static const int64_t three[] = {0, 2, 3, 5};
    const op_case        likes[] = {
        {"rows",      {DIMS(5, 3)}, {INTS_ATTR("shape", -1, 4), FLOAT_ATTR("value", 2)}, OUT_OF(TR_FP32, 5, 4)},
        {"other dims", {DIMS(5, 3)}, {INTS_ATTR("shape", 4, 0), INT_ATTR("input_dim_idx", 1),
                                      INT_ATTR("output_dim_idx", 1), DTYPE(TR_INT64)}, OUT_OF(TR_INT64, 4, 3)},
        {"sequences", {{SIZE(5, 3), .lod = {{4, three}}}}, {INTS_ATTR("shape", -1, 4)}, OUT_OF(TR_FP32, 3, 4)},
    };

    EACH_OF(c, likes) check_forward("fill_constant_batch_size_like", c, constant, 0);
    EXPECT_SHAPE("float32[?, 4]", "fill_constant_batch_size_like", {DIMS(-1, 3)}, {INTS_ATTR("shape", 1, 4)});
    EXPECT_FAIL(TR_ERANGE, "input_dim_idx is 2", infer_shapes("fill_constant_batch_size_like", {DIMS(5, 3)},
                {INTS_ATTR("shape", 1, 4), INT_ATTR("input_dim_idx", 2)}));
    EXPECT_FAIL(TR_ESHAPE, "dimension 1 of attribute shape is -1",
                infer_shapes("fill_constant_batch_size_like", {DIMS(5, 3)}, {INTS_ATTR("shape", 1, -1)}));
}

TEST(zeros_are_like_x)
{
    const op_case likes[] = {
        {"floats", {DIMS(3, 17)}, .out = {DIMS(3, 17)}},
        {"int64",  {INT64S(1, 5, 4)}, .out = OUT_OF(TR_INT64, 4)},
        {"empty",  {DIMS(0)}},
    };

    EACH_OF(c, likes) check_forward("fill_zeros_like", c, constant, 0);
}

/* -- given values --------------------------------------------------------------------------------------------- */

static void given(op_values *v)
{
    for (int64_t i = 0; i < v->out[0].count; i++)
        v->out[0].data[i] = (double)(i + 1);
}

TEST(assign_value_gives_values)
{
    const op_case values[] = {
        {"floats", {ABSENT}, {INTS_ATTR("shape", 2, 2), DTYPE(TR_FP32), FLOATS_ATTR("fp32_values", 1, 2, 3, 4)},
                   OUT_OF(TR_FP32, 2, 2)},
        {"int32",  {ABSENT}, {INTS_ATTR("shape", 3), DTYPE(TR_INT32), INTS_ATTR("int32_values", 1, 2, 3)},
                   OUT_OF(TR_INT32, 3)},
    };

    EACH_OF(c, values) check_forward("assign_value", c, given, 0);
    EXPECT_FAIL(TR_ESHAPE, "must be 4 values", infer_shapes("assign_value", {ABSENT},
                {INTS_ATTR("shape", 2, 2), INT_ATTR("dtype", TR_FP32), FLOATS_ATTR("fp32_values", 1, 2)}));
    EXPECT_FAIL(TR_EDTYPE, "float32 (5) or int32 (2)", infer_shapes("assign_value", {ABSENT},
                {INTS_ATTR("shape", 1), INT_ATTR("dtype", TR_INT64)}));
}

static void dimensions(op_values *v)
{
    for (int i = 0; i < v->in[0].rank; i++)
        v->out[0].data[i] = (double)v->in[0].dims[i];
}

TEST(shape_gives_dimensions)
{
    check_forward("shape", &(op_case){"three", {DIMS(2, 0, 7)}, .out = OUT_OF(TR_INT32, 3)}, dimensions, 0);
}

static void ranged(op_values *v)
{
    for (int64_t i = 0; i < v->out[0].count; i++)
        v->out[0].data[i] = v->in[0].data[0] + (double)i * v->in[2].data[0];
}

#define NUMBER(value)   VALUES(LIST(value), 1)
#define INTEGER(value)  {SIZE(1), TYPED(TR_INT64, 0, 0), .values = LIST(value)}

TEST(range_stops_before_its_end)
{
    const op_case ranges[] = {
        {"up",       {NUMBER(0), NUMBER(5), NUMBER(1)}, .out = {DIMS(5)}},
        {"partly",   {NUMBER(0), NUMBER(1), NUMBER(0.375)}, .out = {DIMS(3)}},
        {"down",     {NUMBER(3), NUMBER(0), NUMBER(-2)}, .out = {DIMS(2)}},
        {"integers", {INTEGER(-2), INTEGER(9), INTEGER(5)}, .out = OUT_OF(TR_INT64, 3)},
        {"none",     {NUMBER(3), NUMBER(3), NUMBER(1)}, .out = {DIMS(0)}},
    };

    EACH_OF(c, ranges) check_forward("range", c, ranged, 0);
    EXPECT_FAIL(TR_ERANGE, "Step must be neither 0", run_status("range", {NUMBER(0), NUMBER(1), NUMBER(0)}));
    EXPECT_FAIL(TR_ESHAPE, "End must hold one element", infer_shapes("range", {NUMBER(0), DIMS(2), NUMBER(1)}));
}

/* -- random numbers -------------------------------------------------------------------------------------------- */

#define MANY LONGS_ATTR("shape", 100, 1000)

static void moments(const op_array *x, double *mean, double *std)
{
    double sum = 0, squares = 0;

    for (int64_t i = 0; i < x->count; i++)
        sum += x->data[i];
    *mean = sum / (double)x->count;
    for (int64_t i = 0; i < x->count; i++)
        squares += (x->data[i] - *mean) * (x->data[i] - *mean);
    *std = sqrt(squares / (double)x->count);
}

/* `limit`: how far from the mean a number may lie. */
static void expect_moments(const char *op, const op_case *c, double want_mean, double want_std, double limit)
{
    op_values v = run_op(op, c, TR_FP32);
    double    mean, std;

    moments(&v.out[0], &mean, &std);
    assert_true(fabs(mean - want_mean) < 0.02 * want_std);
    assert_true(fabs(std - want_std) < 0.02 * want_std);
    for (int64_t i = 0; i < v.out[0].count; i++)
        assert_true(fabs(v.out[0].data[i] - want_mean) <= limit);
    op_values_free(&v);
    check_forward(op, c, NULL, 0);
}

TEST(random_numbers_have_their_distribution)
{
    static const double spread = 0.57735026918962576;      /* 1 / sqrt(3) */
    static const double cut = 0.87962566103423978;         /* of a normal distribution that ends at 2 */

    expect_moments("uniform_random", &(op_case){"default", {ABSENT}, {MANY}}, 0, spread, 1);
    expect_moments("uniform_random", &(op_case){"range", {ABSENT}, {MANY, FLOAT_ATTR("min", 2), FLOAT_ATTR("max", 6),
                   INT_ATTR("dtype", TR_FP64)}}, 4, 2 * spread, 2);
    expect_moments("gaussian_random", &(op_case){"default", {ABSENT}, {MANY}}, 0, 1, 7);
    expect_moments("gaussian_random", &(op_case){"moved", {ABSENT}, {MANY, FLOAT_ATTR("mean", 3),
                   FLOAT_ATTR("std", 0.5)}}, 3, 0.5, 3.5);
    expect_moments("truncated_gaussian_random", &(op_case){"default", {ABSENT}, {INTS_ATTR("shape", 100, 1000)}}, 0,
                   cut, 2);
    expect_moments("uniform_random_batch_size_like", &(op_case){"like", {DIMS(100, 1)}, {INTS_ATTR("shape", 1, 1000)},
                   {DIMS(100, 1000)}}, 0, spread, 1);
    expect_moments("gaussian_random_batch_size_like", &(op_case){"like", {DIMS(100, 1)}, {INTS_ATTR("shape", 1, 1000)},
                   {DIMS(100, 1000)}}, 0, 1, 7);
}

static op_values numbers(int seed)
{
    return run_op("gaussian_random", &(op_case){"seeded", {ABSENT}, {LONGS_ATTR("shape", 64), INT_ATTR("seed", seed)}},
                  TR_FP32);
}

static bool same_numbers(int seed, int other_seed)
{
    op_values  a = numbers(seed), b = numbers(other_seed);
    const bool same = memcmp(a.out[0].data, b.out[0].data, 64 * sizeof(double)) == 0;

    op_values_free(&a);
    op_values_free(&b);
    return same;
}

TEST(seed_decides_the_numbers)
{
    assert_true(same_numbers(7, 7));
    assert_true(same_numbers(0, 0));          /* the program's, which is the same here */
    assert_false(same_numbers(7, 8));
    assert_false(same_numbers(0, 1));
}

TEST(random_numbers_explain_mistakes)
{
    EXPECT_FAIL(TR_ERANGE, "attribute 'min' is 2, so 'max' must be at least that; got 1",
                infer_shapes("uniform_random", {ABSENT}, {MANY, FLOAT_ATTR("min", 2)}));
    EXPECT_FAIL(TR_ERANGE, "so 'max' must be", infer_shapes("uniform_random_batch_size_like", {DIMS(5, 3)},
                {INTS_ATTR("shape", 1, 4), FLOAT_ATTR("max", -2)}));
    EXPECT_FAIL(TR_ERANGE, "'std' must be >= 0",
                infer_shapes("gaussian_random", {ABSENT}, {MANY, FLOAT_ATTR("std", -1)}));
    EXPECT_FAIL(TR_ESHAPE, "dimension 0 of attribute shape is -1",
                infer_shapes("gaussian_random", {ABSENT}, {LONGS_ATTR("shape", -1)}));
    EXPECT_FAIL(TR_EINVAL, "attribute 'shape'", infer_shapes("uniform_random", {ABSENT}));
    EXPECT_FAIL(TR_EDTYPE, "int64", run_status("uniform_random", {ABSENT}, {MANY, INT_ATTR("dtype", TR_INT64)}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fill_constant_fills),
        cmocka_unit_test(fill_constant_explains_mistakes),
        cmocka_unit_test(batch_size_comes_from_input),
        cmocka_unit_test(zeros_are_like_x),
        cmocka_unit_test(assign_value_gives_values),
        cmocka_unit_test(shape_gives_dimensions),
        cmocka_unit_test(range_stops_before_its_end),
        cmocka_unit_test(random_numbers_have_their_distribution),
        cmocka_unit_test(seed_decides_the_numbers),
        cmocka_unit_test(random_numbers_explain_mistakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
