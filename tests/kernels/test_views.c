/* The operators that give the same elements another shape, and transpose. */
#include "tests/support/op_check.h"

/* XShape, the second output of the forms that end in 2, has no elements to compare. */
static void same_elements(op_values *v)
{
    memcpy(v->out[0].data, v->in[0].data, (size_t)v->in[0].count * sizeof(double));
}

/* -- reshape ------------------------------------------------------------------------------------------- */

static const op_case reshape_cases[] = {
    {"given", {DIMS(6, 4)}, {INTS_ATTR("shape", 3, 8)}, {DIMS(3, 8)}},
    {"the rest", {DIMS(6, 4)}, {INTS_ATTR("shape", -1, 3)}, {DIMS(8, 3)}},
    {"kept and rest", {DIMS(3, 4, 5)}, {INTS_ATTR("shape", 0, -1)}, {DIMS(3, 20)}},
    {"kept in the middle", {DIMS(3, 4, 5)}, {INTS_ATTR("shape", -1, 0, 1)}, {DIMS(15, 4, 1)}},
    {"one element", {DIMS(1)}, {INTS_ATTR("shape", 1, 1, 1)}, {DIMS(1, 1, 1)}},
    {"whole numbers", {INT64S(-9, 9, 6)}, {INTS_ATTR("shape", 2, 3)}, {DIMS(2, 3)}},
    {"empty batch", {DIMS(0, 4, 5)}, {INTS_ATTR("shape", 0, -1)}, {DIMS(0, 20)}},
    {"rows and their sequences stay", {SEQUENCES(OFFSETS(0, 2, 5), 5, 4)}, {INTS_ATTR("shape", 0, 2, 2)},
     {SEQUENCES(OFFSETS(0, 2, 5), 5, 2, 2)}},
    {"by the input Shape", {DIMS(3, 4), {SIZE(2), TYPED(TR_INT32, 0, 0), .values = LIST(2, -1)}},
     {INTS_ATTR("shape", 7)}, {DIMS(2, 6)}},
};

TEST(reshape_matches_reference)
{
    EACH_OF(c, reshape_cases) check_forward("reshape", c, same_elements, 0);
    EACH_OF(c, reshape_cases) check_forward("reshape2", c, same_elements, 0);
}

TEST(reshape_gradient_is_numeric)
{
    EACH_OF(c, reshape_cases)
        if (!c->in[0].is_typed) {
            check_gradient("reshape", c, 1e-4, 1e-7);
            check_gradient("reshape2", c, 1e-4, 1e-7);
        }
}

TEST(reshape_mistakes_are_explained)
{
    EXPECT_FAIL(TR_ESHAPE, "there are 24 elements, not 25", infer_shapes("reshape", {DIMS(6, 4)}, {INTS_ATTR("shape", 5, 5)}));
    EXPECT_FAIL(TR_ESHAPE, "not a multiple of 5", infer_shapes("reshape2", {DIMS(6, 4)}, {INTS_ATTR("shape", 5, -1)}));
    EXPECT_FAIL(TR_ESHAPE, "one may be -1", infer_shapes("reshape", {DIMS(6, 4)}, {INTS_ATTR("shape", -1, -1)}));
    EXPECT_FAIL(TR_ESHAPE, "0 needs a dimension of X", infer_shapes("reshape", {DIMS(6, 4)}, {INTS_ATTR("shape", 24, 1, 0)}));
    EXPECT_FAIL(TR_ESHAPE, "not 5", run_status("reshape", {DIMS(6, 4), {SIZE(1), TYPED(TR_INT32, 0, 0), .values = LIST(5)}},
                                               {INTS_ATTR("shape", 24)}));
}

TEST(reshape_of_unknown_dimensions)
{
    EXPECT_SHAPE("float32[?, 20]", "reshape2", {DIMS(-1, 4, 5)}, {INTS_ATTR("shape", 0, -1)});
    EXPECT_SHAPE("float32[?, 5]", "reshape", {DIMS(-1, 4, 5)}, {INTS_ATTR("shape", -1, 5)});
}

/* -- squeeze, unsqueeze, flatten --------------------------------------------------------------------------- */

static const op_case squeeze_cases[] = {
    {"named", {DIMS(3, 1, 4, 1)}, {INTS_ATTR("axes", 1)}, {DIMS(3, 4, 1)}},
    {"from the end", {DIMS(3, 1, 4, 1)}, {INTS_ATTR("axes", -1, 1)}, {DIMS(3, 4)}},
    {"all", {DIMS(1, 3, 1)}, .out = {DIMS(3)}},
    {"to one", {DIMS(1, 1)}, .out = {DIMS(1)}},
};
static const op_case unsqueeze_cases[] = {
    {"front", {DIMS(3, 4)}, {INTS_ATTR("axes", 0)}, {DIMS(1, 3, 4)}},
    {"one after the other", {DIMS(3, 4)}, {INTS_ATTR("axes", 1, 3)}, {DIMS(3, 1, 4, 1)}},
    {"end", {DIMS(3, 4)}, {INTS_ATTR("axes", -1)}, {DIMS(3, 4, 1)}},
};
static const op_case flatten_cases[] = {
    {"by default", {DIMS(2, 3, 4)}, .out = {DIMS(2, 12)}},
    {"second axis", {DIMS(2, 3, 4)}, {INT_ATTR("axis", 2)}, {DIMS(6, 4)}},
    {"all", {DIMS(2, 3, 4)}, {INT_ATTR("axis", 0)}, {DIMS(1, 24)}},
    {"empty batch", {DIMS(0, 3, 4)}, .out = {DIMS(0, 12)}},
};

#define EVERYTHING(op, table)                                                   \
    EACH_OF(c, table) {                                                         \
        check_forward(op, c, same_elements, 0);                                 \
        check_forward(op "2", c, same_elements, 0);                             \
        check_gradient(op, c, 1e-4, 1e-7);                                      \
        check_gradient(op "2", c, 1e-4, 1e-7);                                  \
    }

TEST(squeeze_and_its_gradient)   { EVERYTHING("squeeze", squeeze_cases) }
TEST(unsqueeze_and_its_gradient) { EVERYTHING("unsqueeze", unsqueeze_cases) }
TEST(flatten_and_its_gradient)   { EVERYTHING("flatten", flatten_cases) }

TEST(dimension_mistakes_are_explained)
{
    EXPECT_FAIL(TR_ESHAPE, "dimension 0 of X [3, 1] is not 1", infer_shapes("squeeze", {DIMS(3, 1)}, {INTS_ATTR("axes", 0)}));
    EXPECT_FAIL(TR_ERANGE, "axes is 4", infer_shapes("unsqueeze", {DIMS(3, 1)}, {INTS_ATTR("axes", 4)}));
    EXPECT_FAIL(TR_ERANGE, "axis is 3", infer_shapes("flatten2", {DIMS(3, 1)}, {INT_ATTR("axis", 3)}));
    EXPECT_FAIL(TR_ESHAPE, "rank must be below 9",
                infer_shapes("flatten2", {DIMS(1, 1, 1, 1, 1, 1, 1, 1, 2)}));
}

/* -- transpose ---------------------------------------------------------------------------------------------- */

static const op_case transpose_cases[] = {
    {"matrix", {DIMS(5, 7)}, {INTS_ATTR("axis", 1, 0)}, {DIMS(7, 5)}},
    {"large matrix", {DIMS(67, 45)}, {INTS_ATTR("axis", 1, 0)}},
    {"nothing moved", {DIMS(3, 4)}, {INTS_ATTR("axis", 0, 1)}},
    {"turned round", {DIMS(2, 3, 4)}, {INTS_ATTR("axis", 2, 0, 1)}, {DIMS(4, 2, 3)}},
    {"images to channels last", {DIMS(2, 3, 4, 5)}, {INTS_ATTR("axis", 0, 2, 3, 1)}, {DIMS(2, 4, 5, 3)}},
    {"heads", {DIMS(2, 5, 3, 4)}, {INTS_ATTR("axis", 0, 2, 1, 3)}},
    {"whole numbers", {INT64S(-9, 9, 3, 2)}, {INTS_ATTR("axis", 1, 0)}},
    {"empty batch", {DIMS(0, 3)}, {INTS_ATTR("axis", 1, 0)}, {DIMS(3, 0)}},
};

static void transpose_reference(op_values *v)
{
    const op_array *x = &v->in[0];
    op_array       *out = &v->out[0];

    for (int64_t k = 0; k < out->count; k++) {
        int64_t place[TR_MAX_RANK], rest = k, from = 0;
        for (int d = out->rank - 1; d >= 0; d--) {
            place[(int)v->c->attr[0].list[d]] = rest % out->dims[d];
            rest /= out->dims[d];
        }
        for (int d = 0; d < x->rank; d++)
            from = from * x->dims[d] + place[d];
        out->data[k] = x->data[from];
    }
}

TEST(transpose_matches_reference)
{
    EACH_OF(c, transpose_cases) check_forward("transpose", c, transpose_reference, 0);
    EACH_OF(c, transpose_cases) check_forward("transpose2", c, transpose_reference, 0);
}

TEST(transpose_gradient_is_numeric)
{
    EACH_OF(c, transpose_cases)
        if (!c->in[0].is_typed && c->in[0].dims[0] < 60)
            check_gradient("transpose2", c, 1e-4, 1e-7);
    check_gradient("transpose", &transpose_cases[3], 1e-4, 1e-7);
}

TEST(transpose_mistakes_are_explained)
{
    EXPECT_FAIL(TR_ESHAPE, "axis names 2 dimensions, but X is [2, 3, 4]",
                infer_shapes("transpose", {DIMS(2, 3, 4)}, {INTS_ATTR("axis", 1, 0)}));
    EXPECT_FAIL(TR_EINVAL, "its element 1 is 0", infer_shapes("transpose2", {DIMS(2, 3)}, {INTS_ATTR("axis", 0, 0)}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reshape_matches_reference),
        cmocka_unit_test(reshape_gradient_is_numeric),
        cmocka_unit_test(reshape_mistakes_are_explained),
        cmocka_unit_test(reshape_of_unknown_dimensions),
        cmocka_unit_test(squeeze_and_its_gradient),
        cmocka_unit_test(unsqueeze_and_its_gradient),
        cmocka_unit_test(flatten_and_its_gradient),
        cmocka_unit_test(dimension_mistakes_are_explained),
        cmocka_unit_test(transpose_matches_reference),
        cmocka_unit_test(transpose_gradient_is_numeric),
        cmocka_unit_test(transpose_mistakes_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
