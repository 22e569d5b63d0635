/* top_k, accuracy, auc and one_hot. */
#include "tests/support/op_check.h"

#define IDS(list, ...) {SIZE(__VA_ARGS__), TYPED(TR_INT64, 0, 0), .values = list}

/* -- top_k ------------------------------------------------------------------------------------------ */

static const op_case top_cases[] = {
    {"the largest", {DIMS(4, 9)}, .out = {DIMS(4, 1)}},
    {"three", {DIMS(5, 9)}, {INT_ATTR("k", 3)}, {DIMS(5, 3)}},
    {"all", {DIMS(2, 4)}, {INT_ATTR("k", 4)}},
    {"equal ones", {VALUES(LIST(1, 2, 2, 0, 2, 3, 3, 3), 2, 4)}, {INT_ATTR("k", 3)}},
    {"three dimensions", {DIMS(2, 3, 5)}, {INT_ATTR("k", 2)}, {DIMS(2, 3, 2)}},
    {"by the input K", {DIMS(3, 5), {SIZE(1), TYPED(TR_INT32, 0, 0), .values = LIST(2)}}, .out = {DIMS(3, 2)}},
    {"empty batch", {DIMS(0, 5)}},
};

static void top_reference(op_values *v)
{
    const int64_t n = v->in[0].dims[v->in[0].rank - 1], k = v->out[0].dims[v->out[0].rank - 1];

    for (int64_t i = 0; i < v->out[0].count; i++) {            /* the one with exactly i % k others before it */
        const double *row = v->in[0].data + i / k * n;
        for (int64_t j = 0; j < n; j++) {
            int64_t before = 0;
            for (int64_t other = 0; other < n; other++)
                before += row[other] > row[j] || (row[other] == row[j] && other < j);
            if (before == i % k) {
                v->out[0].data[i] = row[j];
                v->out[1].data[i] = (double)j;
            }
        }
    }
}

TEST(top_k_matches_reference) { EACH_OF(c, top_cases) check_forward("top_k", c, top_reference, 0); }

/* -- accuracy ------------------------------------------------------------------------------------------ */

static const op_case accuracy_cases[] = {
    {"some right", {DIMS(4, 2), IDS(LIST(0, 1, 2, 3, 1, 0, 3, 2), 4, 2), IDS(LIST(1, 1, 1, 2), 4, 1)}},
    {"generated", {DIMS(50, 3), INT64S(0, 9, 50, 3), INT64S(0, 9, 50, 1)}},
    {"empty batch", {DIMS(0, 2), INT64S(0, 9, 0, 2), INT64S(0, 9, 0, 1)}},
};

static void accuracy_reference(op_values *v)
{
    const int64_t rows = v->in[1].dims[0], k = v->in[1].dims[1];
    int64_t       right = 0;

    for (int64_t i = 0; i < rows; i++) {
        bool hit = false;
        for (int64_t j = 0; j < k; j++)
            hit = hit || v->in[1].data[i * k + j] == v->in[2].data[i];
        right += hit;
    }
    v->out[0].data[0] = (float)(rows > 0 ? (double)right / (double)rows : 0);
    v->out[1].data[0] = (double)right;
    v->out[2].data[0] = (double)rows;
}

TEST(accuracy_matches_reference) { EACH_OF(c, accuracy_cases) check_forward("accuracy", c, accuracy_reference, 0); }

TEST(accuracy_of_the_first_case_is_three_quarters)
{
    op_values v = run_op("accuracy", &accuracy_cases[0], TR_FP32);

    assert_true(v.out[0].data[0] == 0.75);
    op_values_free(&v);
}

/* -- auc ------------------------------------------------------------------------------------------------- */

/* Predictions are multiples of 1/8 and there are 9 buckets, so that no two of them share one by chance. */
#define PREDICTIONS VALUES(LIST(0.5, 0.5, 0.875, 0.125, 0.25, 0.75, 0, 1, 0.375, 0.625, 0.5, 0.5), 6, 2)
#define LABELS      IDS(LIST(1, 0, 0, 1, 1, 0), 6, 1)

static const op_case auc_cases[] = {
    {"first batch", {PREDICTIONS, LABELS, IDS(LIST(0, 0, 0, 0, 0, 0, 0, 0, 0), 1, 9), IDS(LIST(0, 0, 0, 0, 0, 0, 0, 0, 0), 1, 9)},
     {INT_ATTR("num_thresholds", 8), INT_ATTR("slide_steps", 0)}},
    {"all so far", {PREDICTIONS, LABELS, IDS(LIST(0, 0, 1, 0, 2, 0, 0, 0, 1), 1, 9), IDS(LIST(3, 0, 0, 0, 1, 0, 0, 1, 0), 1, 9)},
     {INT_ATTR("num_thresholds", 8), INT_ATTR("slide_steps", 0)}},
    {"one batch", {PREDICTIONS, LABELS, IDS(LIST(9, 9, 9, 9, 9, 9, 9, 9, 9), 1, 9), IDS(LIST(0, 0, 0, 0, 0, 0, 0, 0, 0), 1, 9)},
     {INT_ATTR("num_thresholds", 8)}},
    {"two batches", {PREDICTIONS, LABELS, {SIZE(2, 9), TYPED(TR_INT64, 0, 4)}, {SIZE(2, 9), TYPED(TR_INT64, 0, 4)}},
     {INT_ATTR("num_thresholds", 8), INT_ATTR("slide_steps", 2)}},
};

/* How often a positive example is ahead of a negative one; a tie counts half. */
static double auc_by_pairs(const double *positive, const double *negative)
{
    double won = 0, positives = 0, negatives = 0;

    for (int i = 0; i < 9; i++) {
        positives += positive[i];
        negatives += negative[i];
        for (int j = 0; j < 9; j++)
            won += positive[i] * negative[j] * (i > j ? 1 : i == j ? 0.5 : 0);
    }
    return won / positives / negatives;
}

/* The counts after the batch: stat has `steps` rows of 9 (0: one row that sums up). */
static void auc_counts(double *stat, double *sum, const op_values *v, int slot, int label, int64_t steps)
{
    const double *before = v->in[slot].data;
    const int64_t rows = steps > 0 ? steps : 1;

    for (int64_t r = 0; r < rows; r++)
        for (int64_t b = 0; b < 9; b++)
            stat[r * 9 + b] = steps == 0 ? before[b] : r + 1 < rows ? before[(r + 1) * 9 + b] : 0;
    for (int64_t i = 0; i < v->in[1].count; i++)
        if (v->in[1].data[i] == label)
            stat[(rows - 1) * 9 + (int64_t)(v->in[0].data[2 * i + 1] * 8)] += 1;
    for (int64_t b = 0; b < 9; b++) {
        sum[b] = 0;
        for (int64_t r = 0; r < rows; r++)
            sum[b] += stat[r * 9 + b];
    }
}

static void auc_reference(op_values *v)
{
    const int64_t steps = (int64_t)op_case_number(v->c, "slide_steps", 1);
    double        positive[9], negative[9];

    auc_counts(v->out[1].data, positive, v, 2, 1, steps);
    auc_counts(v->out[2].data, negative, v, 3, 0, steps);
    v->out[0].data[0] = auc_by_pairs(positive, negative);
}

/* The area is float64 in both types. */
TEST(auc_matches_reference) { EACH_OF(c, auc_cases) check_forward("auc", c, auc_reference, 1e-6); }

static double area_of(const op_case *c)
{
    op_values    v = run_op("auc", c, TR_FP32);
    const double area = v.out[0].data[0];

    op_values_free(&v);
    return area;
}

TEST(precision_recall_area)
{
    const op_attr pr = STRING_ATTR("curve", "PR");
    op_case       c = {"", {VALUES(LIST(0, 1, 0.5, 0.5, 1, 0), 3, 2), IDS(LIST(1, 1, 0), 3, 1),
                            IDS(LIST(0, 0, 0), 1, 3), IDS(LIST(0, 0, 0), 1, 3)}, {INT_ATTR("num_thresholds", 2)}};

    c.attr[1] = pr;
    assert_true(area_of(&c) == 1);                     /* both positive ones ahead of the negative one */
    c.in[1].values = LIST(1, 0, 1);                    /* precision 1 until half the recall, then 1/2 to 2/3 */
    assert_true(fabs(area_of(&c) - (0.5 * 1 + 0.5 * (1.0 / 2 + 2.0 / 3) / 2)) < 1e-12);
    c.in[1].values = LIST(0, 0, 0);
    assert_true(area_of(&c) == 0);
}

/* -- one_hot --------------------------------------------------------------------------------------------- */

static const op_case one_hot_cases[] = {
    {"float", {IDS(LIST(2, 0, 3), 3, 1)}, {INT_ATTR("depth", 4)}, {{SIZE(3, 4), .is_typed = true, .dtype = TR_FP32}}},
    {"int32 to int64", {INT32S(0, 5, 2, 3, 1)}, {INT_ATTR("depth", 5), INT_ATTR("dtype", TR_INT64)},
     {{SIZE(2, 3, 5), .is_typed = true, .dtype = TR_INT64}}},
    {"nothing", {INT64S(0, 5, 0, 1)}, {INT_ATTR("depth", 5)}, {DIMS(0, 5)}},
};

static void one_hot_reference(op_values *v)
{
    const int64_t depth = (int64_t)op_case_number(v->c, "depth", 0);

    for (int64_t i = 0; i < v->out[0].count; i++)
        v->out[0].data[i] = v->in[0].data[i / depth] == (double)(i % depth);
}

TEST(one_hot_matches_reference) { EACH_OF(c, one_hot_cases) check_forward("one_hot", c, one_hot_reference, 0); }

/* -- mistakes ----------------------------------------------------------------------------------------------- */

TEST(mistakes_are_explained)
{
    EXPECT_FAIL(TR_ESHAPE, "k is 6", infer_shapes("top_k", {DIMS(3, 5)}, {INT_ATTR("k", 6)}));
    EXPECT_FAIL(TR_ERANGE, "K is 6",
                run_status("top_k", {DIMS(3, 5), {SIZE(1), TYPED(TR_INT32, 0, 0), .values = LIST(6)}}));
    EXPECT_FAIL(TR_ESHAPE, "Label must be [3], got [2]", infer_shapes("accuracy", {DIMS(3, 2), INT64S(0, 5, 3, 2), INT64S(0, 5, 2)}));
    EXPECT_FAIL(TR_ESHAPE, "StatPos must be [1, 9]",
                infer_shapes("auc", {DIMS(3, 2), INT64S(0, 2, 3, 1), INT64S(0, 1, 8), INT64S(0, 1, 9)},
                             {INT_ATTR("num_thresholds", 8)}));
    EXPECT_FAIL(TR_ERANGE, "the prediction of row 1 of 'x0' is 1.5",
                run_status("auc", {VALUES(LIST(0, 1, 0, 1.5), 2, 2), INT64S(0, 2, 2, 1), INT64S(0, 1, 9), INT64S(0, 1, 9)},
                           {INT_ATTR("num_thresholds", 8)}));
    EXPECT_FAIL(TR_ERANGE, "the prediction of row 0 of 'x0' is nan",
                run_status("auc", {VALUES(LIST(0, NAN, 0, 1), 2, 2), INT64S(0, 2, 2, 1), INT64S(0, 1, 9), INT64S(0, 1, 9)},
                           {INT_ATTR("num_thresholds", 8)}));
    EXPECT_FAIL(TR_ERANGE, "the label of row 1 in 'x1' is 2; it must be 0 or 1",
                run_status("auc", {VALUES(LIST(0, 1, 0, 1), 2, 2), IDS(LIST(1, 2), 2, 1), INT64S(0, 1, 9), INT64S(0, 1, 9)},
                           {INT_ATTR("num_thresholds", 8)}));
    EXPECT_FAIL(TR_ERANGE, "the label of row 0 in 'x1' is -1; it must be 0 or 1",
                run_status("auc", {VALUES(LIST(0, 1, 0, 1), 2, 2), IDS(LIST(-1, 0), 2, 1), INT64S(0, 1, 9), INT64S(0, 1, 9)},
                           {INT_ATTR("num_thresholds", 8)}));
    EXPECT_FAIL(TR_ERANGE, "accuracy: the label of row 1 in 'x2' is -1; it must be at least 0",
                run_status("accuracy", {DIMS(2, 1), IDS(LIST(0, 1), 2, 1), IDS(LIST(0, -1), 2, 1)}));
    EXPECT_FAIL(TR_ERANGE, "accuracy: the label of row 0 in 'x2' is 3; it must be at least 0 and below 3",
                run_status("accuracy", {DIMS(2, 1), IDS(LIST(0, 1), 2, 1), IDS(LIST(3, 1), 2, 1)}, {INT_ATTR("num_classes", 3)}));
    EXPECT_FAIL(TR_ERANGE, "number 4 at position 1 of 'x0' is not in [0, 4)",
                run_status("one_hot", {IDS(LIST(0, 4), 2, 1)}, {INT_ATTR("depth", 4)}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(top_k_matches_reference),
        cmocka_unit_test(accuracy_matches_reference),
        cmocka_unit_test(accuracy_of_the_first_case_is_three_quarters),
        cmocka_unit_test(auc_matches_reference),
        cmocka_unit_test(precision_recall_area),
        cmocka_unit_test(one_hot_matches_reference),
        cmocka_unit_test(mistakes_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
