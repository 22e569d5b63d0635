/* Metrics that count classes, and pairs of a query. */
#include "tests/support/op_check.h"

#define IDS(list, type, ...) {SIZE(__VA_ARGS__), TYPED(type, 0, 1), .values = list}

/* -- mean_iou --------------------------------------------------------------------------------------------------- */

#define FIVE INT_ATTR("num_classes", 5)

static const op_case iou_cases[] = {
    {"an image", {INT32S(0, 5, 4, 6), INT32S(0, 5, 4, 6)}, {FIVE}},
    {"a column of int64", {INT64S(0, 3, 9, 1), INT64S(1, 4, 9, 1)}, {FIVE}},
    {"counts so far", {INT32S(0, 5, 7), INT32S(0, 5, 7), INT32S(0, 9, 5), {SIZE(5), TYPED(TR_INT32, 0, 9), .is_more = true}, INT32S(0, 9, 5),
                       {SIZE(1), TYPED(TR_FP32, 0, 1)}}, {FIVE}},
    {"nothing", {INT32S(0, 5, 0, 1), INT32S(0, 5, 0, 1)}, {FIVE}},
};

static void iou_reference(op_values *v)
{
    const bool has_counts = v->in_count > 2;
    double    *wrong = v->out[1].data, *correct = v->out[2].data, sum = 0, classes = 0;

    for (int k = 0; k < 5; k++) {
        wrong[k] = has_counts ? v->in[2].data[k] + v->in[3].data[k] : 0;
        correct[k] = has_counts ? v->in[4].data[k] : 0;
        for (int64_t i = 0; i < v->in[0].count; i++) {
            const bool guessed = v->in[0].data[i] == k, is = v->in[1].data[i] == k;
            correct[k] += guessed && is;
            wrong[k] += guessed != is;
        }
        classes += wrong[k] + correct[k] > 0;
        sum += wrong[k] + correct[k] > 0 ? correct[k] / (correct[k] + wrong[k]) : 0;
    }
    v->out[0].data[0] = (classes > 0 ? sum / classes : 0) + (has_counts ? v->in[5].data[0] : 0);
}

TEST(iou_matches_reference) { EACH_OF(c, iou_cases) check_forward("mean_iou", c, iou_reference, 1e-6); }

/* -- precision_recall --------------------------------------------------------------------------------------------- */

#define THREE INT_ATTR("class_number", 3)

static const op_case recall_cases[] = {
    {"a batch", {DIMS(9, 1), INT32S(0, 3, 9, 1), INT32S(0, 3, 9, 1)}, {THREE}},
    {"weights, flat int64", {DIMS(6), INT64S(0, 3, 6), INT64S(0, 3, 6), FLOATS(0, 2, 6)}, {THREE}},
    {"so far", {DIMS(5, 1), INT32S(0, 3, 5, 1), INT32S(0, 3, 5, 1), FLOATS(0, 2, 5, 1), FLOATS(0, 9, 3, 4)}, {THREE}},
    {"classes that do not occur", {DIMS(2, 1), IDS(LIST(0, 0), TR_INT32, 2, 1), IDS(LIST(0, 1), TR_INT32, 2, 1)}, {THREE}},
    {"empty batch", {DIMS(0, 1), INT32S(0, 3, 0, 1), INT32S(0, 3, 0, 1)}, {THREE}},
};

static double ratio(double right, double wrong) { return right + wrong > 0 ? right / (right + wrong) : 1; }
static double f1(double p, double r)            { return p + r > 0 ? 2 * p * r / (p + r) : 0; }

static void metrics_of(double *out, const double *s)
{
    double all[4] = {0};

    out[0] = out[1] = 0;
    for (int k = 0; k < 3; k++) {
        out[0] += ratio(s[4 * k], s[4 * k + 1]) / 3;
        out[1] += ratio(s[4 * k], s[4 * k + 3]) / 3;
        for (int i = 0; i < 4; i++)
            all[i] += s[4 * k + i];
    }
    out[2] = f1(out[0], out[1]);
    out[3] = ratio(all[0], all[1]);
    out[4] = ratio(all[0], all[3]);
    out[5] = f1(out[3], out[4]);
}

static void recall_reference(op_values *v)
{
    double *state = v->out[2].data;

    memset(state, 0, 12 * sizeof *state);
    for (int64_t i = 0; i < v->in[1].count; i++)
        for (int k = 0; k < 3; k++) {
            const bool guessed = v->in[1].data[i] == k, is = v->in[2].data[i] == k;
            state[4 * k + (guessed ? (is ? 0 : 1) : is ? 3 : 2)] += v->in_count > 3 ? v->in[3].data[i] : 1;
        }
    metrics_of(v->out[0].data, state);
    for (int k = 0; k < 12 && v->in_count > 4; k++)
        state[k] += v->in[4].data[k];
    metrics_of(v->out[1].data, state);
}

TEST(recall_matches_reference) { EACH_OF(c, recall_cases) check_forward("precision_recall", c, recall_reference, 2e-6); }

/* -- positive_negative_pair ------------------------------------------------------------------------------------------ */

#define STEPS(list, ...) {SIZE(__VA_ARGS__), .values = list}

static const op_case pair_cases[] = {
    {"three queries", {DIMS(12, 1), STEPS(LIST(0, 1, 2, 0, 1, 2, 0, 1, 2, 1, 1, 0), 12, 1), INT64S(0, 3, 12, 1)}},
    {"equal scores, weights, the last column, so far",
     {STEPS(LIST(9, 1, 8, 1, 7, 2, 6, 2, 5, 3, 4, 1), 6, 2), STEPS(LIST(0, 1, 1, 0, 2, 2), 6), IDS(LIST(7, 7, 7, -1, 7, -1), TR_INT64, 6),
      FLOATS(0, 9, 1), FLOATS(0, 9, 1), FLOATS(0, 9, 1), FLOATS(0, 2, 6)}, {INT_ATTR("column", -1)}},
    {"nothing", {DIMS(0, 1), DIMS(0, 1), INT64S(0, 3, 0, 1)}},
};

static void pair_reference(op_values *v)
{
    const int64_t rows = v->in[0].dims[0], width = v->in[0].dims[1];
    const bool    is_full = v->in_count > 3;
    const int64_t column = op_case_number(v->c, "column", 0) < 0 ? width - 1 : 0;

    for (int i = 0; i < 3; i++)
        v->out[i].data[0] = is_full ? v->in[3 + i].data[0] : 0;
    for (int64_t a = 0; a < rows; a++)
        for (int64_t b = 0; b < a; b++) {
            const double label = v->in[1].data[a] - v->in[1].data[b], score = v->in[0].data[a * width + column] - v->in[0].data[b * width + column];
            if (v->in[2].data[a] == v->in[2].data[b] && label != 0)
                v->out[score == 0 ? 2 : label * score > 0 ? 0 : 1].data[0] += is_full ? (v->in[6].data[a] + v->in[6].data[b]) / 2 : 1;
        }
}

TEST(pairs_match_reference) { EACH_OF(c, pair_cases) check_forward("positive_negative_pair", c, pair_reference, 1e-6); }

/* -- mistakes ---------------------------------------------------------------------------------------------------------- */

TEST(mistakes_are_explained)
{
    EXPECT_FAIL(TR_ERANGE, "mean_iou: element 1 of 'x1' is 5; it must be in [0, 5)",
                run_status("mean_iou", {INT32S(0, 5, 2), IDS(LIST(0, 5), TR_INT32, 2)}, {FIVE}));
    EXPECT_FAIL(TR_ESHAPE, "Labels is [3], but Predictions is [2]", infer_shapes("mean_iou", {INT32S(0, 5, 2), INT32S(0, 5, 3)}, {FIVE}));
    EXPECT_FAIL(TR_ESHAPE, "InWrongs must be [5]", infer_shapes("mean_iou", {INT32S(0, 5, 2), INT32S(0, 5, 2), INT32S(0, 5, 4)}, {FIVE}));
    EXPECT_FAIL(TR_ERANGE, "num_classes", infer_shapes("mean_iou", {INT32S(0, 5, 2), INT32S(0, 5, 2)}, {INT_ATTR("num_classes", 0)}));
    EXPECT_FAIL(TR_ERANGE, "precision_recall: row 0 of 'x1' is -1; it must be in [0, 3)",
                run_status("precision_recall", {DIMS(1, 1), IDS(LIST(-1), TR_INT32, 1, 1), INT32S(0, 3, 1, 1)}, {THREE}));
    EXPECT_FAIL(TR_ESHAPE, "StatesInfo must be [3, 4]",
                infer_shapes("precision_recall", {DIMS(1, 1), INT32S(0, 3, 1, 1), INT32S(0, 3, 1, 1), ABSENT, DIMS(4, 4)}, {THREE}));
    EXPECT_FAIL(TR_ESHAPE, "Labels must be [2, 1]", infer_shapes("precision_recall", {DIMS(2, 1), INT32S(0, 3, 2, 1), INT32S(0, 3, 3, 1)}, {THREE}));
    EXPECT_FAIL(TR_ERANGE, "has no column 2", infer_shapes("positive_negative_pair", {DIMS(4, 2), DIMS(4, 1), INT64S(0, 3, 4, 1)}, {INT_ATTR("column", 2)}));
    EXPECT_FAIL(TR_EDTYPE, "QueryID must be int64", infer_shapes("positive_negative_pair", {DIMS(4, 2), DIMS(4, 1), INT32S(0, 3, 4, 1)}));
    EXPECT_FAIL(TR_ESHAPE, "Weight must be [4, 1]",
                infer_shapes("positive_negative_pair", {DIMS(4, 2), DIMS(4, 1), INT64S(0, 3, 4, 1), ABSENT, ABSENT, ABSENT, DIMS(3, 1)}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(iou_matches_reference),
        cmocka_unit_test(recall_matches_reference),
        cmocka_unit_test(pairs_match_reference),
        cmocka_unit_test(mistakes_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
