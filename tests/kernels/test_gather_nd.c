/* test_gather_nd.c - elements and slices by several numbers each: gather_nd, scatter_nd_add. */
#include "tests/support/op_check.h"

#define NUMBERS(list, ...) {SIZE(__VA_ARGS__), .values = list, .is_typed = true, .dtype = TR_INT64}

static const op_case gather_cases[] = {
    {"elements", {DIMS(2, 3), NUMBERS(LIST(1, 2, 0, 0, 1, 2), 3, 2)}, {{0}}, {DIMS(3)}},
    {"rows", {DIMS(5, 3), NUMBERS(LIST(4, 1, 4), 3, 1)}, {{0}}, {DIMS(3, 3)}},
    {"slices, in a table", {DIMS(2, 3, 4), NUMBERS(LIST(0, 2, 1, 1, 1, 1, 0, 0), 2, 2, 2)}, {{0}}, {DIMS(2, 2, 4)}},
    {"one element", {DIMS(2, 3), NUMBERS(LIST(1, 1), 2)}, {{0}}, {DIMS(1)}},
    {"the whole", {DIMS(2, 3), INT64S(0, 1, 2, 0)}, {{0}}, {DIMS(2, 2, 3)}},
    {"int32", {DIMS(17, 19), INT32S(0, 17, 23, 1)}, {{0}}, {DIMS(23, 19)}},
    {"no lines", {DIMS(2, 3), INT64S(0, 2, 0, 2)}, {{0}}, {DIMS(0)}},
    {"empty slices", {DIMS(2, 0), INT64S(0, 2, 3, 1)}, {{0}}, {DIMS(3, 0)}},
};
static const op_case whole_cases[] = {
    {"int64", {INT64S(-9, 9, 4, 2), NUMBERS(LIST(3, 0), 2, 1)}}, {"bool", {BOOLS(3, 2), NUMBERS(LIST(2, 1, 0, 0), 2, 2)}},
};

/* Where in X line `line` of Index begins, and how many elements it names. */
static int64_t place_of(const op_array *x, const op_array *index, int64_t line, int64_t *width)
{
    const int64_t q = index->dims[index->rank - 1];
    int64_t       at = 0;

    *width = 1;
    for (int d = 0; d < x->rank; d++) {
        at = at * x->dims[d] + (d < q ? (int64_t)index->data[line * q + d] : 0);
        *width *= d < q ? 1 : x->dims[d];
    }
    return at;
}

static int64_t lines_of(const op_array *index)
{
    int64_t lines = 1;

    for (int d = 0; d + 1 < index->rank; d++)
        lines *= index->dims[d];
    return lines;
}

static void gather_reference(op_values *v)
{
    int64_t width;

    for (int64_t i = 0; i < lines_of(&v->in[1]); i++) {
        const int64_t at = place_of(&v->in[0], &v->in[1], i, &width);
        for (int64_t k = 0; k < width; k++)
            v->out[0].data[i * width + k] = v->in[0].data[at + k];
    }
}

TEST(gather_matches_reference)   { EACH_OF(c, gather_cases) check_forward("gather_nd", c, gather_reference, 0); }
TEST(gather_takes_whole_numbers) { EACH_OF(c, whole_cases) check_forward("gather_nd", c, gather_reference, 0); }
TEST(gather_gradient_is_numeric) { EACH_OF(c, gather_cases) check_gradient("gather_nd", c, 1e-5, 1e-7); }

static const op_case scatter_cases[] = {
    {"elements, one twice", {DIMS(2, 3), NUMBERS(LIST(1, 2, 0, 0, 1, 2), 3, 2), DIMS(3)}, {{0}}, {DIMS(2, 3)}},
    {"rows", {DIMS(5, 3), NUMBERS(LIST(4, 1, 4), 3, 1), DIMS(3, 3)}},
    {"slices, in a table", {DIMS(2, 3, 4), NUMBERS(LIST(0, 2, 1, 1, 1, 1, 0, 0), 2, 2, 2), DIMS(2, 2, 4)}},
    {"one element", {DIMS(2, 3), NUMBERS(LIST(1, 1), 2), DIMS(1)}},
    {"the whole", {DIMS(2, 3), INT64S(0, 1, 2, 0), DIMS(2, 2, 3)}},
    {"int32", {DIMS(17, 19), INT32S(0, 17, 23, 1), DIMS(23, 19)}},
    {"no lines", {DIMS(2, 3), INT64S(0, 2, 0, 2), DIMS(0)}},
};
static const op_case whole_sums[] = {{"int64", {INT64S(-9, 9, 4, 2), NUMBERS(LIST(3, 3), 2, 1), INT64S(-9, 9, 2, 2)}}};

static void scatter_reference(op_values *v)
{
    int64_t width;

    for (int64_t i = 0; i < v->out[0].count; i++)
        v->out[0].data[i] = v->in[0].data[i];
    for (int64_t i = 0; i < lines_of(&v->in[1]); i++) {
        const int64_t at = place_of(&v->in[0], &v->in[1], i, &width);
        for (int64_t k = 0; k < width; k++)
            v->out[0].data[at + k] += v->in[2].data[i * width + k];
    }
}

TEST(scatter_matches_reference)   { EACH_OF(c, scatter_cases) check_forward("scatter_nd_add", c, scatter_reference, 1e-6); }
TEST(scatter_adds_whole_numbers)  { EACH_OF(c, whole_sums) check_forward("scatter_nd_add", c, scatter_reference, 0); }
TEST(scatter_gradient_is_numeric) { EACH_OF(c, scatter_cases) check_gradient("scatter_nd_add", c, 1e-5, 1e-7); }

TEST(mistakes_are_explained)
{
    EXPECT_FAIL(TR_ESHAPE, "a line of Index [2, 3] has 3 numbers, but X [4, 5] has 2 dimensions",
                infer_shapes("gather_nd", {DIMS(4, 5), INT64S(0, 4, 2, 3)}));
    EXPECT_FAIL(TR_EDTYPE, "gather_nd: Index must be int64, got float32", infer_shapes("gather_nd", {DIMS(4, 5), DIMS(2, 1)}));
    EXPECT_FAIL(TR_ERANGE, "number 4 at position 0 of line 0 of 'x1' must be from 0 to 3: X is [4, 5]",
                run_status("gather_nd", {DIMS(4, 5), INT64S(4, 5, 2, 1)}));
    EXPECT_FAIL(TR_ERANGE, "number -1 at position 0 of line 0",
                run_status("scatter_nd_add", {DIMS(4, 5), INT64S(-1, 0, 2, 1), DIMS(2, 5)}));
    EXPECT_FAIL(TR_ESHAPE, "Updates must be [2, 5], got [2, 4]",
                infer_shapes("scatter_nd_add", {DIMS(4, 5), INT64S(0, 4, 2, 1), DIMS(2, 4)}));
    EXPECT_FAIL(TR_EDTYPE, "Updates must be float32, got int64",
                infer_shapes("scatter_nd_add", {DIMS(4, 5), INT64S(0, 4, 2, 1), INT64S(0, 4, 2, 5)}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gather_matches_reference),    cmocka_unit_test(gather_takes_whole_numbers),
        cmocka_unit_test(gather_gradient_is_numeric),  cmocka_unit_test(scatter_matches_reference),
        cmocka_unit_test(scatter_adds_whole_numbers),  cmocka_unit_test(scatter_gradient_is_numeric),
        cmocka_unit_test(mistakes_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
