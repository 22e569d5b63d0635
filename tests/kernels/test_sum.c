/* What gradients and parameter updates are made of: sum, scale, minus, assign, increment, cast. */
#include "tests/support/op_check.h"

/* -- sum ------------------------------------------------------------------------------------------------- */

static const op_case sum_cases[] = {
    {"one",         {DIMS(3, 17)}, .out = {DIMS(3, 17)}},
    {"two",         {DIMS(3, 17), MORE(3, 17)}},
    {"five",        {DIMS(7), MORE(7), MORE(7), MORE(7), MORE(7)}},
    {"large",       {DIMS(67, 1031), MORE(67, 1031), MORE(67, 1031)}},
    {"empty batch", {DIMS(0, 4), MORE(0, 4)}},
    {"sequences",   {SEQUENCES(OFFSETS(0, 2, 3), 3, 2), MORE(3, 2)}, .out = {SEQUENCES(OFFSETS(0, 2, 3), 3, 2)}},
};

static void sum_reference(op_values *v)
{
    op_array *out = &v->out[0];

    for (int64_t i = 0; i < out->count; i++)
        out->data[i] = 0;
    for (int k = 0; k < v->in_count; k++)
        for (int64_t i = 0; i < v->in[k].count; i++) {
            const int64_t width = v->in[k].count / v->in[k].dims[0], row = i / width;
            const int     is_sparse = v->c->in[k].height > 0;
            out->data[(is_sparse ? v->c->in[k].rows.item[row] : row) * width + i % width] += v->in[k].data[i];
        }
}

TEST(sum_matches_reference) { EACH_OF(c, sum_cases) check_forward("sum", c, sum_reference, 1e-6); }
TEST(gradient_of_sum_is_numeric)
{
    EACH_OF(c, sum_cases)
        if (strcmp(c->name, "large") != 0)
            check_gradient("sum", c, 1e-5, 1e-7);
}

TEST(sum_of_integers)
{
    check_forward("sum", &(op_case){"int64", {INT64S(-5, 5, 4), {SIZE(4), TYPED(TR_INT64, 0, 9), .is_more = true}}},
                  sum_reference, 0);
}

#define MORE_ROWS(full_height, numbers, ...) \
    {SIZE(__VA_ARGS__), .height = (full_height), .rows = numbers, .is_more = true}

TEST(sparse_rows_are_added_to_dense_ones)
{
    const op_case mixed[] = {
        {"dense first",  {DIMS(9, 2), MORE_ROWS(9, OFFSETS(7, 3, 7), 3, 2)}, .out = {DIMS(9, 2)}},
        {"sparse first", {ROWS(9, OFFSETS(7, 3, 7), 3, 2), MORE(9, 2)}, .out = {DIMS(9, 2)}},
    };

    EACH_OF(c, mixed) check_forward("sum", c, sum_reference, 1e-6);
}

static void rounded_once(op_values *v)
{
    v->out[0].data[0] = 3;
    v->out[0].data[1] = 16777218;                      /* 2^24 + 1 + 1 in float32 is 2^24, when it is rounded twice */
}

TEST(rows_of_equal_numbers_are_added_to_dense_ones_as_one)
{
    const op_case rows = {"rows", {VALUES(LIST(3, 16777216), 2, 1),
                                   {SIZE(2, 1), .height = 2, .rows = OFFSETS(1, 1), .values = LIST(1, 1), .is_more = true}},
                          .out = {DIMS(2, 1)}};

    check_forward("sum", &rows, rounded_once, 0);
}

static void joined(op_values *v)
{
    int64_t at = 0;

    for (int k = 0; k < v->in_count; k++)
        for (int64_t i = 0; i < v->in[k].count; i++)
            v->out[0].data[at++] = v->in[k].data[i];
}

static void nonzero(op_values *v)
{
    static const double rows[] = {0, -2, 3, 1};

    for (int i = 0; i < 4; i++)
        v->out[0].data[i] = rows[i];
}

TEST(sparse_rows_alone_are_joined)
{
    check_forward("sum", &(op_case){"rows", {ROWS(9, OFFSETS(7, 3), 2, 4), MORE_ROWS(9, OFFSETS(3, 0, 8), 3, 4)},
                                    .out = {ROWS(9, OFFSETS(7, 3, 3, 0, 8), 5, 4)}}, joined, 0);
}

TEST(rows_without_values_are_left_out)
{
    static const double values[] = {0, 0, 0, -2, 0, -0.0, 3, 1};
    op_case             c = {"rows", {{SIZE(4, 2), .values = values}}, .out = {ROWS(4, OFFSETS(1, 3), 2, 2)}};

    check_forward("nonzero_rows", &c, nonzero, 0);
}

TEST(sum_explains_mistakes)
{
    EXPECT_FAIL(TR_ESHAPE, "X[1] must be, too; got [4]", infer_shapes("sum", {DIMS(3), MORE(4)}));
    EXPECT_FAIL(TR_EDTYPE, "X[1] must be, too; got int32",
                infer_shapes("sum", {DIMS(3), {SIZE(3), TYPED(TR_INT32, 0, 5), .is_more = true}}));
    EXPECT_FAIL(TR_ESHAPE, "X[1]", infer_shapes("sum", {DIMS(8, 4), MORE_ROWS(9, OFFSETS(1), 1, 4)}));
}

/* -- scale ------------------------------------------------------------------------------------------------ */

static const op_case scale_cases[] = {
    {"default",      {DIMS(3, 17)}},
    {"scale",        {DIMS(67, 1031)}, {FLOAT_ATTR("scale", 0.5)}},
    {"bias after",   {DIMS(3, 17)}, {FLOAT_ATTR("scale", 0.5), FLOAT_ATTR("bias", 2)}},
    {"bias before",  {DIMS(3, 17)},
                     {FLOAT_ATTR("scale", 0.5), FLOAT_ATTR("bias", 2), BOOL_ATTR("bias_after_scale", 0)}},
    {"integers",     {INT32S(-5, 5, 9)}, {FLOAT_ATTR("scale", 3), FLOAT_ATTR("bias", -1)}},
    {"empty",        {DIMS(0)}, {FLOAT_ATTR("scale", 3)}},
};

static void scale_reference(op_values *v)
{
    const double scale = op_case_number(v->c, "scale", 1), bias = op_case_number(v->c, "bias", 0);
    const bool   after = op_case_number(v->c, "bias_after_scale", 1);

    for (int64_t i = 0; i < v->out[0].count; i++)
        v->out[0].data[i] = after ? scale * v->in[0].data[i] + bias : scale * (v->in[0].data[i] + bias);
}

TEST(scale_matches_reference) { EACH_OF(c, scale_cases) check_forward("scale", c, scale_reference, 1e-6); }
TEST(gradient_of_scale_is_numeric) { check_gradient("scale", &scale_cases[2], 1e-5, 1e-7); }
TEST(scale_keeps_rows)
{
    check_forward("scale", &(op_case){"rows", {ROWS(9, OFFSETS(7, 3, 7), 3, 4)}, {FLOAT_ATTR("scale", 2)},
                                      {ROWS(9, OFFSETS(7, 3, 7), 3, 4)}}, scale_reference, 0);
}

/* -- minus, assign, increment, cast ---------------------------------------------------------------------------- */

static void minus_reference(op_values *v)
{
    for (int64_t i = 0; i < v->out[0].count; i++)
        v->out[0].data[i] = v->in[0].data[i] - v->in[1].data[i];
}

TEST(minus_matches_reference_and_numeric_gradient)
{
    const op_case ragged = {"ragged", {DIMS(3, 17), DIMS(3, 17)}};

    check_forward("minus", &ragged, minus_reference, 0);
    check_gradient("minus", &ragged, 1e-5, 1e-7);
    EXPECT_FAIL(TR_ESHAPE, "alike", infer_shapes("minus", {DIMS(3), DIMS(4)}));
}

static void same(op_values *v)
{
    for (int64_t i = 0; i < v->out[0].count; i++)
        v->out[0].data[i] = v->in[0].data[i] + op_case_number(v->c, "step", 0);
}

TEST(assign_copies)
{
    const op_case copies[] = {
        {"floats",    {DIMS(3, 17)}, .out = {DIMS(3, 17)}},
        {"integers",  {INT64S(0, 9, 5)}},
        {"bools",     {BOOLS(5)}},
        {"empty",     {DIMS(0, 3)}, .out = {DIMS(0, 3)}},
        {"sequences", {SEQUENCES(OFFSETS(0, 1, 3), 3, 2)}, .out = {SEQUENCES(OFFSETS(0, 1, 3), 3, 2)}},
        {"rows",      {ROWS(9, OFFSETS(7, 3), 2, 2)}, .out = {ROWS(9, OFFSETS(7, 3), 2, 2)}},
    };

    EACH_OF(c, copies) check_forward("assign", c, same, 0);
    check_gradient("assign", &copies[0], 1e-5, 1e-7);
}

TEST(increment_adds_its_step)
{
    const op_case steps[] = {
        {"float",  {DIMS(1)}, {FLOAT_ATTR("step", 2)}},
        {"int64",  {INT64S(41, 42, 1)}, {FLOAT_ATTR("step", 1)}},
        {"int32",  {INT32S(3, 4, 1)}, {FLOAT_ATTR("step", -1)}},
    };

    EACH_OF(c, steps) check_forward("increment", c, same, 0);
    check_gradient("increment", &steps[0], 1e-5, 1e-7);
    EXPECT_FAIL(TR_ESHAPE, "one element", infer_shapes("increment", {DIMS(2)}));
}

static double as_type(tr_dtype dtype, double x)
{
    switch (dtype) {
    case TR_BOOL:  return x != 0;
    case TR_INT32:
    case TR_INT64: return trunc(x);
    default:       return op_round(dtype, x);
    }
}

static void cast_reference(op_values *v)
{
    for (int64_t i = 0; i < v->out[0].count; i++)
        v->out[0].data[i] = as_type(v->out[0].dtype, v->in[0].data[i]);
}

TEST(cast_matches_reference)
{
    static const tr_dtype types[] = {TR_BOOL, TR_INT32, TR_INT64, TR_FP32, TR_FP64};

    for (int from = 0; from < 5; from++)
        for (int to = 0; to < 5; to++) {
            const op_case c = {"every pair", {{SIZE(3, 17), TYPED(types[from], from == 0 ? 0 : -9, from == 0 ? 2 : 9)}},
                               {INT_ATTR("in_dtype", types[from]), INT_ATTR("out_dtype", types[to])},
                               {{SIZE(3, 17), .is_typed = true, .dtype = types[to]}}};
            check_forward("cast", &c, cast_reference, 0);
        }
}

TEST(cast_passes_gradients)
{
    check_gradient("cast", &(op_case){"float64", {{SIZE(3, 4), TYPED(TR_FP64, -1, 1)}},
                                      {INT_ATTR("in_dtype", TR_FP64), INT_ATTR("out_dtype", TR_FP64)}}, 1e-5, 1e-7);
    EXPECT_FAIL(TR_EDTYPE, "no data type",
                infer_shapes("cast", {DIMS(3)}, {INT_ATTR("in_dtype", TR_FP32), INT_ATTR("out_dtype", 7)}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sum_matches_reference),
        cmocka_unit_test(gradient_of_sum_is_numeric),
        cmocka_unit_test(sum_of_integers),
        cmocka_unit_test(sparse_rows_are_added_to_dense_ones),
        cmocka_unit_test(rows_of_equal_numbers_are_added_to_dense_ones_as_one),
        cmocka_unit_test(sparse_rows_alone_are_joined),
        cmocka_unit_test(rows_without_values_are_left_out),
        cmocka_unit_test(sum_explains_mistakes),
        cmocka_unit_test(scale_matches_reference),
        cmocka_unit_test(gradient_of_scale_is_numeric),
        cmocka_unit_test(scale_keeps_rows),
        cmocka_unit_test(minus_matches_reference_and_numeric_gradient),
        cmocka_unit_test(assign_copies),
        cmocka_unit_test(increment_adds_its_step),
        cmocka_unit_test(cast_matches_reference),
        cmocka_unit_test(cast_passes_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
