/* nce: cost and gradient against the formula for given negative classes; the samplers by what they draw. */
#include "tests/support/op_check.h"
#include "tests/support/op_rig.h"

#define IDS(list, ...)   {SIZE(__VA_ARGS__), TYPED(TR_INT64, 0, 0), .values = list}
#define WEIGHTS(n)       {SIZE(n, 1), .low = 0, .high = 2, .is_constant = true}
/* Of 5 classes 0.1, 0.3, 0.2, 0.15, 0.25: fifths of the places, topped up by an alias. */
#define PROBS            {SIZE(5), TYPED(TR_FP32, 0, 0), .values = LIST(0.1, 0.3, 0.2, 0.15, 0.25), .is_constant = true}
#define ALIAS            {SIZE(5), TYPED(TR_INT32, 0, 0), .values = LIST(1, -1, -1, 4, -1)}
#define ALIAS_PROBS      {SIZE(5), TYPED(TR_FP32, 0, 0), .values = LIST(0.5, 1, 1, 0.75, 1), .is_constant = true}

static const op_case cases[] = {
    {"plain", {DIMS(3, 4), IDS(LIST(0, 4, 2), 3, 1), DIMS(5, 4)},
     {INT_ATTR("num_total_classes", 5), INT_ATTR("num_neg_samples", 3), INTS_ATTR("custom_neg_classes", 1, 3, 1)},
     .out = {DIMS(3, 1), DIMS(3, 4), INT64S(0, 0, 3, 4)}},
    {"bias, several labels", {DIMS(4, 19), IDS(LIST(0, 1, 4, 4, 2, 0, 3, 1), 4, 2), DIMS(5, 19), DIMS(5, 1)},
     {INT_ATTR("num_total_classes", 5), INT_ATTR("num_neg_samples", 2), INTS_ATTR("custom_neg_classes", 2, 4)}},
    {"weights of rows", {DIMS(4, 33), INT64S(0, 7, 4, 1), DIMS(7, 33), DIMS(7, 1), WEIGHTS(4)},
     {INT_ATTR("num_total_classes", 7), INT_ATTR("num_neg_samples", 2), INTS_ATTR("custom_neg_classes", 6, 0)}},
    {"by frequency", {DIMS(4, 5), INT64S(0, 9, 4, 3), DIMS(9, 5), DIMS(9, 1)},
     {INT_ATTR("num_total_classes", 9), INT_ATTR("num_neg_samples", 2), INT_ATTR("sampler", 1),
      INTS_ATTR("custom_neg_classes", 0, 8)}},
    {"by tables", {DIMS(4, 5), INT64S(0, 5, 4, 1), DIMS(5, 5), DIMS(5, 1), ABSENT, PROBS, ALIAS, ALIAS_PROBS},
     {INT_ATTR("num_total_classes", 5), INT_ATTR("num_neg_samples", 3), INT_ATTR("sampler", 2),
      INTS_ATTR("custom_neg_classes", 0, 3, 3)}},
    {"large scores", {FLOATS(-30, 30, 3, 8), INT64S(0, 4, 3, 1), DIMS(4, 8)},
     {INT_ATTR("num_total_classes", 4), INT_ATTR("num_neg_samples", 1), INTS_ATTR("custom_neg_classes", 2)}},
    {"many labels", {DIMS(72, 9), INT64S(0, 30, 72, 48), DIMS(30, 9), DIMS(30, 1)},
     {INT_ATTR("num_total_classes", 30), INT_ATTR("num_neg_samples", 2), INTS_ATTR("custom_neg_classes", 29, 3)}},
    {"no rows", {DIMS(0, 4), INT64S(0, 5, 0, 1), DIMS(5, 4)},
     {INT_ATTR("num_total_classes", 5), INT_ATTR("num_neg_samples", 1), INTS_ATTR("custom_neg_classes", 1)}},
};

/* -- reference ------------------------------------------------------------------------------------------- */

static double probability(const op_values *v, int64_t id)
{
    const double classes = op_case_number(v->c, "num_total_classes", 0);

    switch ((int)op_case_number(v->c, "sampler", 0)) {
    case 0: return 1 / classes;
    case 1: return log(((double)id + 2) / ((double)id + 1)) / log(classes + 1);
    default: return v->in[5].data[id];
    }
}

static const double *given_classes(const op_case *c)
{
    for (const op_attr *a = c->attr; a->name; a++)
        if (strcmp(a->name, "custom_neg_classes") == 0)
            return a->list;
    return NULL;
}

/* What the classes `id` of row i cost, and o of each. */
static double row_cost(double *o, const op_values *v, int64_t i, const double *id, int64_t truths, int64_t drawn)
{
    const op_array *x = &v->in[0], *w = &v->in[2], *bias = &v->in[3];
    const int64_t   width = x->dims[1];
    double          cost = 0;

    for (int64_t j = 0; j < truths + drawn; j++) {
        const int64_t c = (int64_t)id[j];
        double        score = v->in_count > 3 && bias->rank > 0 ? bias->data[c] : 0;
        for (int64_t k = 0; k < width; k++)
            score += x->data[i * width + k] * w->data[c * width + k];
        const double b = (double)drawn * probability(v, c);
        o[j] = 1 / (1 + exp(-score));
        cost += j < truths ? log1p(b * (1 + exp(-score))) : log1p(o[j] / b);
    }
    return cost;
}

static void reference(op_values *v)
{
    const int64_t n = v->in[0].dims[0], truths = v->in[1].dims[1], drawn = (int64_t)op_case_number(v->c, "num_neg_samples", 10);
    const double *given = given_classes(v->c);

    for (int64_t i = 0; i < n; i++) {
        double *id = v->out[2].data + i * (truths + drawn);
        for (int64_t j = 0; j < truths + drawn; j++)
            id[j] = j < truths ? v->in[1].data[i * truths + j] : given[j - truths];
        const double cost = row_cost(v->out[1].data + i * (truths + drawn), v, i, id, truths, drawn);
        v->out[0].data[i] = v->in_count > 4 && v->in[4].rank > 0 ? v->in[4].data[i] * cost : cost;
    }
}

TEST(matches_reference)   { EACH(c) check_forward("nce", c, reference, 3e-5); }
TEST(gradient_is_numeric) { EACH(c) check_gradient("nce", c, 1e-5, 1e-6); }

TEST(scores_of_any_size_have_a_finite_cost)
{
    const op_case c = {"huge", {VALUES(LIST(1000, -1000), 2, 1), IDS(LIST(0, 0), 2, 1), VALUES(LIST(1, 1), 2, 1)},
                       {INT_ATTR("num_total_classes", 2), INT_ATTR("num_neg_samples", 1), INTS_ATTR("custom_neg_classes", 1)}};

    for (tr_dtype dtype = TR_FP32; dtype <= TR_FP64; dtype++) {
        op_values v = run_op("nce", &c, dtype);
        /* o is 1, b is 1/2; then o is e^-1000. */
        assert_float_equal(v.out[0].data[0], log(1.5) + log(3), 1e-5);
        assert_float_equal(v.out[0].data[1], 1000 + log(0.5), 1e-3);
        op_values_free(&v);
    }
}

/* -- sparse gradients ------------------------------------------------------------------------------------- */

/* The gradients of W and Bias, made dense, of `c` with is_sparse or without. */
static void gradients(op_array out[2], const op_case *c, bool is_sparse)
{
    op_case   one = *c;
    op_values plain = run_op("nce", c, TR_FP64);
    op_rig    rig;

    for (int i = 0; i < OP_MAX_ATTRS; i++)
        if (!one.attr[i].name) {
            one.attr[i] = (op_attr)BOOL_ATTR("is_sparse", is_sparse);
            break;
        }
    assert_int_equal(op_rig_init(&rig, "nce", &one, TR_FP64, OP_PLAIN), TR_OK);
    assert_int_equal(op_rig_add_gradients(&rig, plain.out, -1), TR_OK);
    op_rig_fetch(&rig, "x%d@GRAD", 2);
    op_rig_fetch(&rig, "x%d@GRAD", 3);
    EXPECT_OK(op_rig_run(&rig));
    for (int i = 0; i < 2; i++)
        out[i] = op_array_of_tensor(rig.result[i]);
    op_rig_deinit(&rig);
    op_values_free(&plain);
}

TEST(sparse_gradients_have_each_row_once)
{
    const op_case *c = &cases[1];                           /* its lists name all 5 classes, some of them twice */
    const int64_t  expected[] = {0, 1, 2, 3, 4};
    op_array       sparse[2], dense[2];

    gradients(sparse, c, true);
    gradients(dense, c, false);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sparse[i].height, 5);
        assert_int_equal(sparse[i].row_count, 5);
        assert_memory_equal(sparse[i].rows, expected, sizeof expected);
        assert_memory_equal(sparse[i].data, dense[i].data, (size_t)dense[i].count * sizeof(double));
        op_array_free(&sparse[i]);
        op_array_free(&dense[i]);
    }
}

TEST(sparse_gradients_leave_out_what_was_not_picked)
{
    const int64_t expected[] = {0, 6};                      /* the negatives of this case; its labels are generated */
    op_array      sparse[2], dense[2];

    gradients(sparse, &cases[2], true);
    gradients(dense, &cases[2], false);
    assert_true(sparse[0].row_count < 7 && sparse[0].rows[0] == expected[0] && sparse[0].rows[sparse[0].row_count - 1] == expected[1]);
    int64_t at = 0;
    for (int64_t row = 0; row < 7; row++) {
        const bool is_there = at < sparse[0].row_count && sparse[0].rows[at] == row;
        for (int64_t k = 0; k < 33; k++)
            assert_true(dense[0].data[row * 33 + k] == (is_there ? sparse[0].data[at * 33 + k] : 0));
        assert_true(dense[1].data[row] == (is_there ? sparse[1].data[at] : 0));
        at += is_there;
    }
    for (int i = 0; i < 2; i++) {
        op_array_free(&sparse[i]);
        op_array_free(&dense[i]);
    }
}

/* -- samplers ----------------------------------------------------------------------------------------------- */

enum { ROWS_DRAWN = 400, DRAWS = 50, CLASSES = 5 };

#define DRAWING(...) \
    {"drawing", {DIMS(ROWS_DRAWN, 2), INT64S(0, CLASSES, ROWS_DRAWN, 1), DIMS(CLASSES, 2), ABSENT, ABSENT, PROBS, ALIAS, ALIAS_PROBS}, \
     {INT_ATTR("num_total_classes", CLASSES), INT_ATTR("num_neg_samples", DRAWS), __VA_ARGS__}}

TEST(samplers_draw_by_their_distributions)
{
    for (int sampler = 0; sampler < 3; sampler++) {
        const op_case c = DRAWING(INT_ATTR("sampler", sampler));
        op_values     v = run_op("nce", &c, TR_FP32);
        double        seen[CLASSES] = {0}, cost = 0, o[1 + DRAWS];
        for (int64_t i = 0; i < ROWS_DRAWN; i++) {
            const double *id = v.out[2].data + i * (1 + DRAWS);
            assert_true(id[0] == v.in[1].data[i]);
            for (int j = 1; j <= DRAWS; j++)
                seen[(int)id[j]] += 1.0 / (ROWS_DRAWN * DRAWS);
            cost = row_cost(o, &v, i, id, 1, DRAWS);
            assert_float_equal(v.out[0].data[i], cost, 1e-4 * cost);
        }
        for (int64_t k = 0; k < CLASSES; k++)               /* 20000 draws: 5 standard deviations are below 0.018 */
            assert_float_equal(seen[k], probability(&v, k), 0.018);
        op_values_free(&v);
    }
}

/* The classes of two runs in a row. */
static void draw_twice(op_array out[2], const op_case *c)
{
    op_rig rig;

    assert_int_equal(op_rig_init(&rig, "nce", c, TR_FP32, OP_PLAIN), TR_OK);
    op_rig_fetch(&rig, "out%d", 2);
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(op_rig_run(&rig));
        out[i] = op_array_of_tensor(rig.result[0]);
    }
    op_rig_deinit(&rig);
}

static bool are_equal(const op_array *a, const op_array *b)
{
    return memcmp(a->data, b->data, (size_t)a->count * sizeof *a->data) == 0;
}

TEST(draws_depend_on_the_step_and_the_seed_alone)
{
    const op_case plain = DRAWING(INT_ATTR("sampler", 0)), seeded = DRAWING(INT_ATTR("seed", 7));
    op_array      a[2], b[2], c[2];

    draw_twice(a, &plain);
    draw_twice(b, &plain);
    draw_twice(c, &seeded);
    assert_true(are_equal(&a[0], &b[0]) && are_equal(&a[1], &b[1]));
    assert_false(are_equal(&a[0], &a[1]));
    assert_false(are_equal(&a[0], &c[0]));
    assert_false(are_equal(&c[0], &c[1]));
    for (int i = 0; i < 2; i++) {
        op_array_free(&a[i]);
        op_array_free(&b[i]);
        op_array_free(&c[i]);
    }
}

/* -- mistakes ------------------------------------------------------------------------------------------------ */

#define FIVE INT_ATTR("num_total_classes", 5), INT_ATTR("num_neg_samples", 2)

TEST(mistakes_are_explained)
{
    EXPECT_FAIL(TR_ERANGE, "label 5 in row 1 of 'x1' is none of the 5 classes",
                run_status("nce", {DIMS(2, 4), IDS(LIST(0, 5), 2, 1), DIMS(5, 4)}, {FIVE}));
    EXPECT_FAIL(TR_ERANGE, "label -1 in row 1 of 'x1'",
                run_status("nce", {DIMS(2, 4), IDS(LIST(0, 1, 2, -1), 2, 2), DIMS(5, 4)}, {FIVE}));
    EXPECT_FAIL(TR_ESHAPE, "Weight must be [5, 4], got [6, 4]",
                infer_shapes("nce", {DIMS(2, 4), INT64S(0, 5, 2, 1), DIMS(6, 4)}, {FIVE}));
    EXPECT_FAIL(TR_ESHAPE, "Bias must be [5], got [4]",
                infer_shapes("nce", {DIMS(2, 4), INT64S(0, 5, 2, 1), DIMS(5, 4), DIMS(4)}, {FIVE}));
    EXPECT_FAIL(TR_ESHAPE, "SampleWeight must be [2, 1], got [3, 1]",
                infer_shapes("nce", {DIMS(2, 4), INT64S(0, 5, 2, 1), DIMS(5, 4), ABSENT, DIMS(3, 1)}, {FIVE}));
    EXPECT_FAIL(TR_EDTYPE, "Label must be int64", infer_shapes("nce", {DIMS(2, 4), DIMS(2, 1), DIMS(5, 4)}, {FIVE}));
    EXPECT_FAIL(TR_EINVAL, "sampler 2 draws by CustomDistProbs, which is missing",
                infer_shapes("nce", {DIMS(2, 4), INT64S(0, 5, 2, 1), DIMS(5, 4)}, {FIVE, INT_ATTR("sampler", 2)}));
    EXPECT_FAIL(TR_ERANGE, "'sampler'",
                infer_shapes("nce", {DIMS(2, 4), INT64S(0, 5, 2, 1), DIMS(5, 4)}, {FIVE, INT_ATTR("sampler", 3)}));
    EXPECT_FAIL(TR_ERANGE, "'custom_neg_classes' lists 3 classes; it must be num_neg_samples, 2",
                run_status("nce", {DIMS(2, 4), INT64S(0, 5, 2, 1), DIMS(5, 4)}, {FIVE, INTS_ATTR("custom_neg_classes", 1, 2, 3)}));
    EXPECT_FAIL(TR_ERANGE, "'custom_neg_classes' lists 5, which is none of the 5 classes",
                run_status("nce", {DIMS(2, 4), INT64S(0, 5, 2, 1), DIMS(5, 4)}, {FIVE, INTS_ATTR("custom_neg_classes", 1, 5)}));
}

TEST(wrong_tables_are_explained)
{
    const op_arg alias = {SIZE(5), TYPED(TR_INT32, 0, 0), .values = LIST(9, 9, 9, 9, 9)};
    const op_arg never = {SIZE(5), TYPED(TR_FP32, 0, 0), .values = LIST(0, 0, 0, 0, 0)};

    EXPECT_FAIL(TR_ERANGE, "'x6' (CustomDistAlias) names 9, which is none of the 5 classes",
                run_status("nce", {DIMS(40, 4), INT64S(0, 5, 40, 1), DIMS(5, 4), ABSENT, ABSENT, PROBS, alias, never},
                           {FIVE, INT_ATTR("sampler", 2)}));
    EXPECT_FAIL(TR_ERANGE, "was drawn, but its probability in 'x5' (CustomDistProbs) is 0",
                run_status("nce", {DIMS(40, 4), INT64S(0, 5, 40, 1), DIMS(5, 4), ABSENT, ABSENT, never, ALIAS, ALIAS_PROBS},
                           {FIVE, INT_ATTR("sampler", 2)}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_reference),
        cmocka_unit_test(gradient_is_numeric),
        cmocka_unit_test(scores_of_any_size_have_a_finite_cost),
        cmocka_unit_test(sparse_gradients_have_each_row_once),
        cmocka_unit_test(sparse_gradients_leave_out_what_was_not_picked),
        cmocka_unit_test(samplers_draw_by_their_distributions),
        cmocka_unit_test(draws_depend_on_the_step_and_the_seed_alone),
        cmocka_unit_test(mistakes_are_explained),
        cmocka_unit_test(wrong_tables_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
