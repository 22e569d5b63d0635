/* edit_distance, against the recursion that defines it. */
#include "tests/support/op_check.h"

#define I32(list, offsets, ...) {SIZE(__VA_ARGS__), TYPED(TR_INT32, 0, 0), .values = list, .lod = {offsets}}
#define I64(list, offsets, ...) {SIZE(__VA_ARGS__), TYPED(TR_INT64, 0, 0), .values = list, .lod = {offsets}}
#define LETTERS                 LIST('k', 'i', 't', 't', 'e', 'n', 'f', 'l', 'a', 'w')
#define MORE_LETTERS            LIST('s', 'i', 't', 't', 'i', 'n', 'g', 'l', 'a', 'w', 'n')

static const op_case cases[] = {
    {"ragged", {I64(LETTERS, OFFSETS(0, 6, 10), 10, 1), I64(MORE_LETTERS, OFFSETS(0, 7, 11), 11, 1)},
     .out = {[1] = {SIZE(2, 1), TYPED(TR_FP32, 0, 0)}}},
    {"normalized", {I64(LETTERS, OFFSETS(0, 6, 10), 10, 1), I64(MORE_LETTERS, OFFSETS(0, 7, 11), 11, 1)},
     {BOOL_ATTR("normalized", 1)}},
    {"int32", {I32(LETTERS, OFFSETS(0, 3, 6, 10), 10, 1), I32(MORE_LETTERS, OFFSETS(0, 5, 6, 11), 11, 1)}},
    {"some empty", {I64(LETTERS, OFFSETS(0, 0, 3, 3, 10), 10, 1), I64(MORE_LETTERS, OFFSETS(0, 2, 2, 2, 11), 11, 1)}},
    {"nothing made", {I64(LIST(0), OFFSETS(0, 0), 0, 1), I64(LETTERS, OFFSETS(0, 10), 10, 1)}, {BOOL_ATTR("normalized", 1)}},
    {"no sequences", {I64(LIST(0), OFFSETS(0), 0, 1), I64(LIST(0), OFFSETS(0), 0, 1)}, {BOOL_ATTR("normalized", 1)}},
    {"many", {{SIZE(9, 1), TYPED(TR_INT64, 0, 3), .lod = {OFFSETS(0, 1, 2, 3, 4, 5, 6, 7, 8, 9)}},
              {SIZE(18, 1), TYPED(TR_INT64, 0, 3), .lod = {OFFSETS(0, 2, 4, 6, 8, 10, 12, 14, 16, 18)}}}},
};

/* No table: of the last row of each, change one into the other, put one in, or take one out. */
static double distance(const double *from, int64_t n, const double *to, int64_t m)
{
    if (n == 0 || m == 0)
        return (double)(n + m);
    const double changed = distance(from, n - 1, to, m - 1) + (from[n - 1] != to[m - 1]);
    return fmin(changed, 1 + fmin(distance(from, n - 1, to, m), distance(from, n, to, m - 1)));
}

static void reference(op_values *v)
{
    const op_offsets *from = op_case_sequences(v->c, 0), *to = op_case_sequences(v->c, 1);

    v->out[0].data[0] = (double)(to->count - 1);
    for (int64_t i = 0; i + 1 < to->count; i++) {
        const int64_t n = from->item[i + 1] - from->item[i], m = to->item[i + 1] - to->item[i];
        const double  found = distance(v->in[0].data + from->item[i], n, v->in[1].data + to->item[i], m);
        v->out[1].data[i] = op_case_number(v->c, "normalized", 0) != 0 ? (float)(found / (double)m) : found;
    }
}

TEST(matches_reference) { EACH(c) check_forward("edit_distance", c, reference, 0); }

TEST(from_kitten_to_sitting_are_three_steps)
{
    op_values v = run_op("edit_distance", &cases[0], TR_FP32);

    assert_true(v.out[1].data[0] == 3 && v.out[1].data[1] == 2);
    op_values_free(&v);
}

TEST(mistakes_are_explained)
{
    EXPECT_FAIL(TR_ESHAPE, "edit_distance: Hyps 'x0' has 1 sequences, but Refs 'x1' has 2",
                run_status("edit_distance", {I64(LIST(1, 2), OFFSETS(0, 2), 2, 1), I64(LIST(1, 2), OFFSETS(0, 1, 2), 2, 1)}));
    EXPECT_FAIL(TR_EINVAL, "sequence 1 of Refs 'x1' is empty",
                run_status("edit_distance", {I64(LIST(1, 2), OFFSETS(0, 1, 2), 2, 1), I64(LIST(1, 2), OFFSETS(0, 2, 2), 2, 1)},
                           {BOOL_ATTR("normalized", 1)}));
    EXPECT_FAIL(TR_EINVAL, "edit_distance: Refs 'x1' has no sequences",
                run_status("edit_distance", {I64(LIST(1, 2), OFFSETS(0, 2), 2, 1), INT64S(0, 5, 2, 1)}));
    EXPECT_FAIL(TR_EDTYPE, "Refs must be int32", infer_shapes("edit_distance", {INT32S(0, 5, 4, 1), INT64S(0, 5, 4, 1)}));
    EXPECT_FAIL(TR_ESHAPE, "Hyps must be [?, 1], got [4, 2]",
                infer_shapes("edit_distance", {INT64S(0, 5, 4, 2), INT64S(0, 5, 4, 1)}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_reference),
        cmocka_unit_test(from_kitten_to_sitting_are_three_steps),
        cmocka_unit_test(mistakes_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
