/* hierarchical_sigmoid, against a walk from the root to the leaf, and as a distribution that adds up to 1. */
#include "tests/support/op_check.h"
#include "tests/support/op_rig.h"

#define IDS(list, ...) {SIZE(__VA_ARGS__), TYPED(TR_INT64, 0, 0), .values = list}
/* Three rows in a tree of 4 nodes: the second one's path is short, the third one's does not exist. */
#define TABLE          IDS(LIST(3, 1, 0, 2, -1, -1, -1, 1, 0), 3, 3)
#define CODE           IDS(LIST(1, 0, 1, 0, -1, -1, -1, 1, 0), 3, 3)

static const op_case cases[] = {
    {"two classes", {DIMS(3, 4), DIMS(1, 4), IDS(LIST(0, 1, 1), 3, 1)}, {INT_ATTR("num_classes", 2)}},
    {"a power of two", {DIMS(5, 19), DIMS(7, 19), INT64S(0, 8, 5, 1), ABSENT, ABSENT, DIMS(7, 1)}, {INT_ATTR("num_classes", 8)},
     .out = {DIMS(5, 1), DIMS(5, 3), DIMS(7, 19)}},
    {"paths of two lengths", {DIMS(6, 4), DIMS(5, 4), IDS(LIST(0, 1, 2, 3, 4, 5), 6, 1)}, {INT_ATTR("num_classes", 6)},
     .out = {DIMS(6, 1), DIMS(6, 3)}},
    {"a tree of one's own", {DIMS(3, 5), DIMS(4, 5), INT64S(0, 9, 3, 1), TABLE, CODE, DIMS(4, 1)},
     .out = {DIMS(3, 1), DIMS(3, 3)}},
    {"large scores", {FLOATS(-20, 20, 4, 8), DIMS(4, 8), INT64S(0, 5, 4, 1)}, {INT_ATTR("num_classes", 5)}},
    {"long paths", {DIMS(72, 9), DIMS(30, 9), INT64S(0, 9, 72, 1), INT64S(0, 30, 72, 50), INT64S(0, 2, 72, 50), DIMS(30, 1)}},
    {"no rows", {DIMS(0, 4), DIMS(4, 4), INT64S(0, 5, 0, 1)}, {INT_ATTR("num_classes", 5)}},
};

/* -- reference ------------------------------------------------------------------------------------------- */

static double score_of(const op_values *v, int64_t row, int64_t node)
{
    const int64_t width = v->in[0].dims[1];
    double        score = v->in_count > 5 && v->in[5].rank > 0 ? v->in[5].data[node] : 0;

    for (int64_t k = 0; k < width; k++)
        score += v->in[0].data[row * width + k] * v->in[1].data[node * width + k];
    return score;
}

static double turn_cost(double score, bool turn)
{
    return turn ? log1p(exp(-score)) : log1p(exp(score));
}

/* From the root down by the digits of the class's code after its first one; node 1 of a heap is row 0 of W. */
static double walk(double *scores, const op_values *v, int64_t row, int64_t label, int64_t classes)
{
    int    bits = 0;
    double cost = 0;

    while ((label + classes) >> (bits + 1) > 0)
        bits++;
    for (int64_t at = 1, b = bits - 1; b >= 0; b--) {
        const bool turn = (label + classes) >> b & 1;
        scores[b] = score_of(v, row, at - 1);
        cost += turn_cost(scores[b], turn);
        at = 2 * at + turn;
    }
    return cost;
}

static double walk_given(double *scores, const op_values *v, int64_t row)
{
    const int64_t depth = v->in[3].dims[1];
    double        cost = 0;

    for (int64_t k = row * depth; k < (row + 1) * depth && v->in[3].data[k] >= 0; k++) {
        *scores = score_of(v, row, (int64_t)v->in[3].data[k]);
        cost += turn_cost(*scores++, v->in[4].data[k] != 0);
    }
    return cost;
}

static void reference(op_values *v)
{
    const bool    is_given = v->in_count > 3 && v->in[3].rank > 0;
    const int64_t depth = v->out[1].dims[1];

    memset(v->out[1].data, 0, (size_t)v->out[1].count * sizeof(double));
    for (int64_t i = 0; i < v->in[0].dims[0]; i++)
        v->out[0].data[i] = is_given ? walk_given(v->out[1].data + i * depth, v, i)
                                     : walk(v->out[1].data + i * depth, v, i, (int64_t)v->in[2].data[i],
                                            (int64_t)op_case_number(v->c, "num_classes", 2));
    for (int64_t k = 0; k < v->out[2].count; k++)
        v->out[2].data[k] = v->in[1].data[k];
}

TEST(matches_reference)   { EACH(c) check_forward("hierarchical_sigmoid", c, reference, 3e-5); }
TEST(gradient_is_numeric) { EACH(c) check_gradient("hierarchical_sigmoid", c, 1e-5, 1e-6); }

TEST(probabilities_of_all_classes_add_up)
{
    for (int classes = 2; classes <= 40; classes++) {
        double label[40], total = 0;
        double x[40 * 3];
        for (int i = 0; i < classes; i++) {
            label[i] = i;
            for (int k = 0; k < 3; k++)
                x[i * 3 + k] = k - 0.7;
        }
        const op_case c = {"all", {VALUES(x, classes, 3), DIMS(classes - 1, 3), IDS(label, classes, 1)},
                           {INT_ATTR("num_classes", classes)}};
        op_values v = run_op("hierarchical_sigmoid", &c, TR_FP64);
        for (int i = 0; i < classes; i++)
            total += exp(-v.out[0].data[i]);
        assert_float_equal(total, 1, 1e-12);
        op_values_free(&v);
    }
}

/* -- sparse gradients ------------------------------------------------------------------------------------- */

/* The gradients of W and Bias. */
static void gradients(op_array out[2], op_case c, bool is_sparse)
{
    op_values plain = run_op("hierarchical_sigmoid", &c, TR_FP64);
    op_rig    rig;

    c.attr[1] = (op_attr)BOOL_ATTR("is_sparse", is_sparse);
    assert_int_equal(op_rig_init(&rig, "hierarchical_sigmoid", &c, TR_FP64, OP_PLAIN), TR_OK);
    assert_int_equal(op_rig_add_gradients(&rig, plain.out, -1), TR_OK);
    op_rig_fetch(&rig, "x%d@GRAD", 1);
    op_rig_fetch(&rig, "x%d@GRAD", 5);
    EXPECT_OK(op_rig_run(&rig));
    for (int i = 0; i < 2; i++)
        out[i] = op_array_of_tensor(rig.result[i]);
    op_rig_deinit(&rig);
    op_values_free(&plain);
}

TEST(sparse_gradients_are_the_nodes_on_the_paths)
{
    /* Classes 0 and 5 of 8: codes 8 (nodes 1, 2, 4) and 13 (nodes 1, 3, 6), less 1. */
    const op_case c = {"sparse", {DIMS(3, 4), DIMS(7, 4), IDS(LIST(5, 0, 5), 3, 1), ABSENT, ABSENT, DIMS(7, 1)},
                       {INT_ATTR("num_classes", 8)}};
    const int64_t expected[] = {0, 1, 2, 3, 5};
    op_array      sparse[2], dense[2];

    gradients(sparse, c, true);
    gradients(dense, c, false);
    for (int i = 0; i < 2; i++) {
        const int64_t width = i == 0 ? 4 : 1;
        assert_int_equal(sparse[i].height, 7);
        assert_int_equal(sparse[i].row_count, 5);
        assert_memory_equal(sparse[i].rows, expected, sizeof expected);
        for (int64_t g = 0; g < 5; g++)
            assert_memory_equal(sparse[i].data + g * width, dense[i].data + expected[g] * width, (size_t)width * sizeof(double));
        for (int64_t k = 0; k < width; k++)
            assert_true(dense[i].data[4 * width + k] == 0 && dense[i].data[6 * width + k] == 0);
        op_array_free(&sparse[i]);
        op_array_free(&dense[i]);
    }
}

/* -- mistakes ------------------------------------------------------------------------------------------------ */

#define OP "hierarchical_sigmoid"

TEST(mistakes_are_explained)
{
    EXPECT_FAIL(TR_ERANGE, "label 5 in row 1 of 'x2' is none of the 5 classes",
                run_status(OP, {DIMS(2, 4), DIMS(4, 4), IDS(LIST(0, 5), 2, 1)}, {INT_ATTR("num_classes", 5)}));
    EXPECT_FAIL(TR_ERANGE, "label -1 in row 0 of 'x2'",
                run_status(OP, {DIMS(2, 4), DIMS(4, 4), IDS(LIST(-1, 1), 2, 1)}, {INT_ATTR("num_classes", 5)}));
    EXPECT_FAIL(TR_ESHAPE, "W must be [4, 4], got [5, 4]",
                infer_shapes(OP, {DIMS(2, 4), DIMS(5, 4), INT64S(0, 5, 2, 1)}, {INT_ATTR("num_classes", 5)}));
    EXPECT_FAIL(TR_ESHAPE, "Bias must be [4, 1], got [5, 1]",
                infer_shapes(OP, {DIMS(2, 4), DIMS(4, 4), INT64S(0, 5, 2, 1), ABSENT, ABSENT, DIMS(5, 1)},
                             {INT_ATTR("num_classes", 5)}));
    EXPECT_FAIL(TR_ESHAPE, "Label must be [2, 1], got [3, 1]",
                infer_shapes(OP, {DIMS(2, 4), DIMS(4, 4), INT64S(0, 5, 3, 1)}, {INT_ATTR("num_classes", 5)}));
    EXPECT_FAIL(TR_ERANGE, "'num_classes' is 1; a tree has at least 2 classes",
                infer_shapes(OP, {DIMS(2, 4), DIMS(4, 4), INT64S(0, 5, 2, 1)}, {INT_ATTR("num_classes", 1)}));
}

TEST(wrong_trees_are_explained)
{
    EXPECT_FAIL(TR_EINVAL, "PathTable and PathCode come together; PathCode is missing",
                infer_shapes(OP, {DIMS(3, 5), DIMS(4, 5), INT64S(0, 9, 3, 1), TABLE}));
    EXPECT_FAIL(TR_ESHAPE, "PathTable must be [2, ?], got [3, 3]",
                infer_shapes(OP, {DIMS(2, 5), DIMS(4, 5), INT64S(0, 9, 2, 1), TABLE, CODE}));
    EXPECT_FAIL(TR_ERANGE, "node 3 in row 0 of 'x3' is no row of 'x1', which has 3",
                run_status(OP, {DIMS(3, 5), DIMS(3, 5), INT64S(0, 9, 3, 1), TABLE, CODE}));
    EXPECT_FAIL(TR_ERANGE, "the turn 2 in row 1 of 'x4' is neither 0 nor 1",
                run_status(OP, {DIMS(2, 5), DIMS(3, 5), INT64S(0, 9, 2, 1), IDS(LIST(1, 2), 2, 1), IDS(LIST(1, 2), 2, 1)}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_reference),
        cmocka_unit_test(gradient_is_numeric),
        cmocka_unit_test(probabilities_of_all_classes_add_up),
        cmocka_unit_test(sparse_gradients_are_the_nodes_on_the_paths),
        cmocka_unit_test(mistakes_are_explained),
        cmocka_unit_test(wrong_trees_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
