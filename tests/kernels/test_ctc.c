/* warpctc, against all paths counted one by one, and ctc_align. */
#include "tests/support/op_check.h"

#define INTS(list, offsets, ...) {SIZE(__VA_ARGS__), TYPED(TR_INT32, 0, 0), .values = list, .lod = {offsets}}
#define ROWS_OF_3 OFFSETS(0, 4, 9, 11, 14)

static const op_case cases[] = {
    {"ragged", {SEQUENCES(ROWS_OF_3, 14, 3), INTS(LIST(1, 2, 2, 2, 1, 2), OFFSETS(0, 2, 4, 4, 6), 6, 1)}, .out = {[1] = DIMS(4, 1)}},
    {"another blank", {SEQUENCES(OFFSETS(0, 5), 5, 3), INTS(LIST(0, 1), OFFSETS(0, 2), 2, 1)}, {INT_ATTR("blank", 2)}},
    {"just enough rows", {SEQUENCES(OFFSETS(0, 3), 3, 3), INTS(LIST(1, 1), OFFSETS(0, 2), 2, 1)}},
    {"too few rows", {SEQUENCES(OFFSETS(0, 2, 3), 3, 3), INTS(LIST(1, 1, 2), OFFSETS(0, 2, 3), 3, 1)}},
    {"certain", {{SIZE(4, 3), .low = -50, .high = 50, .lod = {OFFSETS(0, 4)}}, INTS(LIST(2, 1), OFFSETS(0, 2), 2, 1)}},
    {"an empty sequence", {SEQUENCES(OFFSETS(0, 0, 2), 2, 3), INTS(LIST(1), OFFSETS(0, 0, 1), 1, 1)}},
};

/* What a path says: without repetitions, then without blanks. */
static bool says(const int *path, int64_t rows, const double *label, int64_t labels, int blank)
{
    int64_t found = 0;

    for (int64_t t = 0; t < rows; t++)
        if (path[t] != blank && (t == 0 || path[t] != path[t - 1])) {
            if (found == labels || (int)label[found] != path[t])
                return false;
            found++;
        }
    return found == labels;
}

/* -log of the probability of all paths that say so, and its gradient: each row's softmax less the share of its classes. */
static double all_paths(const op_values *v, int64_t begin, int64_t rows, const double *label, int64_t labels, double *dx)
{
    const int n = (int)v->in[0].dims[1], blank = (int)op_case_number(v->c, "blank", 0);
    double    p[16][4], share[16][4] = {{0}}, total = 0;
    int       path[16] = {0};

    for (int64_t t = 0; t < rows; t++) {
        double sum = 0;
        for (int k = 0; k < n; k++)
            sum += exp(v->in[0].data[(begin + t) * n + k]);
        for (int k = 0; k < n; k++)
            p[t][k] = exp(v->in[0].data[(begin + t) * n + k]) / sum;
    }
    for (int64_t at = 0; at >= 0 && rows > 0;) {
        double product = says(path, rows, label, labels, blank);
        for (int64_t t = 0; t < rows; t++)
            product *= p[t][path[t]];
        for (int64_t t = 0; t < rows; t++)
            share[t][path[t]] += product;
        total += product;
        for (at = rows - 1; at >= 0 && ++path[at] == n; at--)
            path[at] = 0;
    }
    for (int64_t i = 0; i < rows * n; i++)
        dx[i] = total > 0 ? p[i / n][i % n] - share[i / n][i % n] / total : 0;
    return total > 0 ? -log(total) : 0;
}

static void reference(op_values *v)
{
    const op_offsets *s = op_case_sequences(v->c, 0), *l = op_case_sequences(v->c, 1);

    for (int64_t i = 0; i + 1 < s->count; i++)
        v->out[1].data[i] = all_paths(v, s->item[i], s->item[i + 1] - s->item[i], v->in[1].data + l->item[i],
                                      l->item[i + 1] - l->item[i], v->out[0].data + s->item[i] * v->in[0].dims[1]);
}

TEST(ctc_matches_reference)   { EACH(c) check_forward("warpctc", c, reference, 1e-5); }
TEST(ctc_gradient_is_numeric) { EACH(c) check_gradient("warpctc", c, 1e-5, 1e-7); }

/* Scores that rule a class out in some rows. */
#define RULED_OUT(...) {SIZE(4, 3), .values = LIST(__VA_ARGS__), .lod = {OFFSETS(0, 4)}}
#define NOT_1_BUT_LAST RULED_OUT(0.5, -INFINITY, 1, 0.25, -INFINITY, 2, 1, -INFINITY, 0, 0, 0.5, 1)
#define NEVER_1        RULED_OUT(0.5, -INFINITY, 1, 0.25, -INFINITY, 2, 1, -INFINITY, 0, 0, -INFINITY, 1)

static const op_case ruled_out[] = {
    {"of a label", {NOT_1_BUT_LAST, INTS(LIST(2, 1), OFFSETS(0, 2), 2, 1)}},
    {"of no label", {NEVER_1, INTS(LIST(2, 2), OFFSETS(0, 2), 2, 1)}},
    {"of blank", {NEVER_1, INTS(LIST(2, 0), OFFSETS(0, 2), 2, 1)}, {INT_ATTR("blank", 1)}},
};

TEST(ctc_with_classes_ruled_out_matches_reference) { EACH_OF(c, ruled_out) check_forward("warpctc", c, reference, 1e-5); }

TEST(labels_that_cannot_be_cost_infinitely_much)
{
    const op_case c = {"", {NEVER_1, INTS(LIST(1), OFFSETS(0, 1), 1, 1)}};
    op_values     v = run_op("warpctc", &c, TR_FP32);

    assert_true(v.out[1].data[0] == (double)INFINITY);
    for (int64_t i = 0; i < v.out[0].count; i++)
        assert_true(v.out[0].data[i] == 0);
    op_values_free(&v);
}

TEST(ctc_mistakes_are_explained)
{
    EXPECT_FAIL(TR_ERANGE, "blank is 3; it must be one of the classes of Logits [4, 3]",
                infer_shapes("warpctc", {DIMS(4, 3), INT32S(1, 3, 2, 1)}, {INT_ATTR("blank", 3)}));
    EXPECT_FAIL(TR_EDTYPE, "Label must be int32", infer_shapes("warpctc", {DIMS(4, 3), INT64S(1, 3, 2, 1)}));
    EXPECT_FAIL(TR_ESHAPE, "Logits 'x0' has 1 sequences, but Label 'x1' has 2",
                run_status("warpctc", {SEQUENCES(OFFSETS(0, 4), 4, 3), INTS(LIST(1, 2), OFFSETS(0, 1, 2), 2, 1)}));
    EXPECT_FAIL(TR_ERANGE, "label 0 in row 1 of 'x1' must be one of the 3 classes other than blank, 0",
                run_status("warpctc", {SEQUENCES(OFFSETS(0, 4), 4, 3), INTS(LIST(1, 0), OFFSETS(0, 2), 2, 1)}));
}

/* -- ctc_align ------------------------------------------------------------------------------------ */

#define CLASSES(dtype_, list, offsets, ...) {SIZE(__VA_ARGS__), TYPED(dtype_, 0, 0), .values = list, .lod = {offsets}}
#define PATHS LIST(0, 1, 1, 0, 1, 2, 2, 0, 0, 2, 2, 2)

static const op_case align_cases[] = {
    {"ragged", {CLASSES(TR_INT64, PATHS, OFFSETS(0, 6, 6, 9, 12), 12, 1)},
     .out = {{SIZE(5, 1), TYPED(TR_INT64, 0, 0), .lod = {OFFSETS(0, 3, 3, 4, 5)}}}},
    {"another blank", {CLASSES(TR_INT32, PATHS, OFFSETS(0, 7, 12), 12, 1)}, {INT_ATTR("blank", 2)},
     {{SIZE(5, 1), TYPED(TR_INT32, 0, 0), .lod = {OFFSETS(0, 4, 5)}}}},
    {"repetitions stay", {CLASSES(TR_INT64, PATHS, OFFSETS(0, 7, 12), 12, 1)}, {BOOL_ATTR("merge_repeated", 0)},
     {{SIZE(8, 1), TYPED(TR_INT64, 0, 0), .lod = {OFFSETS(0, 5, 8)}}}},
    {"nothing but blanks", {CLASSES(TR_INT64, LIST(0, 0, 0), OFFSETS(0, 2, 3), 3, 1)},
     .out = {{SIZE(0, 1), TYPED(TR_INT64, 0, 0), .lod = {OFFSETS(0, 0, 0)}}}},
    {"no rows", {CLASSES(TR_INT32, LIST(0), OFFSETS(0, 0), 0, 1)}},
    {"in groups", {{SIZE(12, 1), TYPED(TR_INT64, 0, 0), .values = PATHS, .lod = {OFFSETS(0, 1, 3), OFFSETS(0, 6, 9, 12)}}},
     .out = {{SIZE(5, 1), TYPED(TR_INT64, 0, 0), .lod = {OFFSETS(0, 1, 3), OFFSETS(0, 3, 4, 5)}}}},
};

static void align_reference(op_values *v)
{
    const op_offsets *s = op_case_sequences(v->c, 0);
    const double      blank = op_case_number(v->c, "blank", 0);
    double           *out = v->out[0].data;

    for (int64_t i = 0; i + 1 < s->count; i++) {
        double before = -1;
        for (int64_t t = s->item[i]; t < s->item[i + 1]; t++) {
            const double one = v->in[0].data[t];
            if (one != blank && (one != before || op_case_number(v->c, "merge_repeated", 1) == 0))
                *out++ = one;
            before = one;
        }
    }
}

TEST(align_matches_reference) { EACH_OF(c, align_cases) check_forward("ctc_align", c, align_reference, 0); }

TEST(align_mistakes_are_explained)
{
    EXPECT_FAIL(TR_EINVAL, "ctc_align: Input 'x0' has no sequences", run_status("ctc_align", {INT64S(0, 5, 4, 1)}));
    EXPECT_FAIL(TR_ESHAPE, "ctc_align: Input must be [rows, 1], got [4, 2]", infer_shapes("ctc_align", {INT64S(0, 5, 4, 2)}));
    EXPECT_FAIL(TR_EDTYPE, "Input must be int64", infer_shapes("ctc_align", {DIMS(4, 1)}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ctc_matches_reference),
        cmocka_unit_test(ctc_gradient_is_numeric),
        cmocka_unit_test(ctc_with_classes_ruled_out_matches_reference),
        cmocka_unit_test(labels_that_cannot_be_cost_infinitely_much),
        cmocka_unit_test(ctc_mistakes_are_explained),
        cmocka_unit_test(align_matches_reference),
        cmocka_unit_test(align_mistakes_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
