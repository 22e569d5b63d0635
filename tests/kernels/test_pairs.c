/* test_pairs.c - operators that join two tensors, or learn how: prelu, fsp, bilinear_tensor_product, conv_shift, tree_conv. */
#include "tests/support/op_check.h"
#include "tests/support/op_rig.h"

#define THREE_QUESTIONS(name, op, cases, reference)                                                   \
    TEST(name##_matches_reference)   { EACH_OF(c, cases) check_forward(op, c, reference, 2e-6); }     \
    TEST(name##_gradient_is_numeric) { EACH_OF(c, cases) check_gradient(op, c, 1e-5, 1e-7); }

/* -- prelu -------------------------------------------------------------------------------------------------------- */

#define MODE(mode) STRING_ATTR("mode", mode)

static const op_case prelu_cases[] = {
    {"all", {DIMS(3, 4), DIMS(1)}}, {"channel", {DIMS(2, 3, 2, 2), DIMS(1, 3, 1, 1)}, {MODE("channel")}},
    {"channel of a matrix", {DIMS(5, 3), DIMS(3)}, {MODE("channel")}}, {"element", {DIMS(3, 2, 4), DIMS(1, 2, 4)}, {MODE("element")}},
    {"no samples", {DIMS(0, 3), DIMS(3)}, {MODE("element")}}, {"vector", {DIMS(7), DIMS(1, 1)}},
};

static void prelu_reference(op_values *v)
{
    const op_array *x = &v->in[0], *alpha = &v->in[1];
    const bool      is_channel = op_case_says(v->c, "mode", "channel"), is_element = op_case_says(v->c, "mode", "element");
    int64_t         inner = 1;

    for (int d = 2; d < x->rank && is_channel; d++)
        inner *= x->dims[d];
    for (int64_t i = 0; i < x->count; i++)
        v->out[0].data[i] = x->data[i] > 0 ? x->data[i] : x->data[i] * alpha->data[is_channel || is_element ? i / inner % alpha->count : 0];
}

THREE_QUESTIONS(prelu, "prelu", prelu_cases, prelu_reference)

/* -- fsp, bilinear_tensor_product, conv_shift ------------------------------------------------------------------------- */

static const op_case fsp_cases[] = {
    {"images", {DIMS(2, 3, 4, 2), DIMS(2, 5, 4, 2)}, {}, {DIMS(2, 3, 5)}}, {"one pixel", {DIMS(1, 2, 1, 1), DIMS(1, 2, 1, 1)}},
    {"no images", {DIMS(0, 3, 4, 2), DIMS(0, 5, 4, 2)}, {}, {DIMS(0, 3, 5)}},
};
static const op_case product_cases[] = {
    {"bias", {DIMS(4, 3), DIMS(4, 2), DIMS(5, 3, 2), DIMS(1, 5)}, {}, {DIMS(4, 5)}},
    {"flat bias", {DIMS(2, 3), DIMS(2, 4), DIMS(2, 3, 4), DIMS(2)}},
    {"no bias", {DIMS(3, 1), DIMS(3, 2), DIMS(1, 1, 2)}}, {"no rows", {DIMS(0, 3), DIMS(0, 2), DIMS(2, 3, 2), DIMS(2)}},
};
static const op_case shift_cases[] = {
    {"three", {DIMS(2, 7), DIMS(2, 3)}}, {"as long", {DIMS(3, 5), DIMS(3, 5)}}, {"one", {DIMS(2, 4), DIMS(2, 1)}},
    {"no rows", {DIMS(0, 4), DIMS(0, 3)}},
};

static void fsp_reference(op_values *v)
{
    const op_array *x = &v->in[0], *y = &v->in[1];
    const int64_t   pixels = x->dims[2] * x->dims[3], a = x->dims[1], b = y->dims[1];

    for (int64_t i = 0; i < v->out[0].count; i++) {
        const int64_t n = i / a / b;
        v->out[0].data[i] = 0;
        for (int64_t p = 0; p < pixels; p++)
            v->out[0].data[i] += x->data[(n * a + i / b % a) * pixels + p] * y->data[(n * b + i % b) * pixels + p] / (double)pixels;
    }
}

static void product_reference(op_values *v)
{
    const op_array *x = &v->in[0], *y = &v->in[1], *w = &v->in[2];
    const int64_t   size = w->dims[0];

    for (int64_t i = 0; i < v->out[0].count; i++) {
        double sum = v->in_count > 3 ? v->in[3].data[i % size] : 0;
        for (int64_t a = 0; a < w->dims[1]; a++)
            for (int64_t b = 0; b < w->dims[2]; b++)
                sum += x->data[i / size * w->dims[1] + a] * w->data[(i % size * w->dims[1] + a) * w->dims[2] + b] *
                       y->data[i / size * w->dims[2] + b];
        v->out[0].data[i] = sum;
    }
}

static void shift_reference(op_values *v)
{
    const int64_t m = v->in[0].dims[1], n = v->in[1].dims[1];

    for (int64_t i = 0; i < v->out[0].count; i++) {
        v->out[0].data[i] = 0;
        for (int64_t k = 0; k < n; k++)
            v->out[0].data[i] += v->in[0].data[i / m * m + (i % m + k - (n - 1) / 2 + 2 * m) % m] * v->in[1].data[i / m * n + k];
    }
}

THREE_QUESTIONS(fsp, "fsp", fsp_cases, fsp_reference)
THREE_QUESTIONS(product, "bilinear_tensor_product", product_cases, product_reference)
THREE_QUESTIONS(shift, "conv_shift", shift_cases, shift_reference)
TEST(fsp_is_its_parts)     { EACH_OF(c, fsp_cases) check_expansion("fsp", c); }
TEST(product_is_its_parts) { EACH_OF(c, product_cases) check_expansion("bilinear_tensor_product", c); }

/* -- tree_conv ---------------------------------------------------------------------------------------------------------- */

#define EDGES(list, ...) {SIZE(__VA_ARGS__), .values = list, .is_typed = true, .dtype = TR_INT32}

static const op_case tree_cases[] = {
    {"a tree",
     {DIMS(1, 6, 3), EDGES(LIST(1, 2, 1, 3, 1, 4, 2, 5, 5, 6), 1, 5, 2), DIMS(3, 3, 2, 2)},
     {INT_ATTR("max_depth", 3)},
     {DIMS(1, 6, 2, 2)}},
    {"short lists", {DIMS(2, 4, 2), EDGES(LIST(1, 2, 0, 0, 0, 0, 1, 2, 2, 3, 2, 4), 2, 3, 2), DIMS(2, 3, 1, 3)}},
    {"nodes alone", {DIMS(1, 3, 2), EDGES(LIST(1, 2, 1, 3), 1, 2, 2), DIMS(2, 3, 2, 1)}, {INT_ATTR("max_depth", 1)}},
    {"no trees", {DIMS(0, 3, 2), EDGES(NULL, 0, 2, 2), DIMS(2, 3, 2, 1)}},
};

/* Add node `node`, at `depth`, child `index` of `siblings`, and its descendants to the window's sums. */
static void add_subtree(const op_values *v, double *sums, int64_t n, int node, int depth, int index, int siblings)
{
    const op_array *x = &v->in[0], *edges = &v->in[1];
    const int       max_depth = (int)op_case_number(v->c, "max_depth", 2);
    const double   *edge = edges->data + n * edges->dims[1] * 2;
    const double    top = (double)(max_depth - depth) / max_depth;
    const double    left = (1 - top) * (siblings == 1 ? 0.5 : (double)(index - 1) / (siblings - 1)), right = (1 - top) * (1 - left);
    int             count = 0, child = 0;

    for (int64_t f = 0; f < x->dims[2]; f++)
        for (int k = 0; k < 3; k++)
            sums[3 * f + k] += (double[]){left, right, top}[k] * x->data[(n * x->dims[1] + node - 1) * x->dims[2] + f];
    for (int64_t e = 0; e < edges->dims[1] && edge[2 * e] != 0; e++)
        count += edge[2 * e] == node;
    for (int64_t e = 0; e < edges->dims[1] && edge[2 * e] != 0; e++)
        if (edge[2 * e] == node && depth + 1 < max_depth)
            add_subtree(v, sums, n, (int)edge[2 * e + 1], depth + 1, ++child, count);
}

static void tree_reference(op_values *v)
{
    const op_array *x = &v->in[0], *edges = &v->in[1], *w = &v->in[2];
    const int64_t   width = w->dims[2] * w->dims[3];

    for (int64_t i = 0; i < v->out[0].count; i++)
        v->out[0].data[i] = 0;
    for (int64_t n = 0; n < x->dims[0]; n++) {
        int nodes = 1;
        for (int64_t e = 0; e < edges->dims[1] && edges->data[(n * edges->dims[1] + e) * 2] != 0; e++)
            nodes++;
        for (int node = 1; node <= nodes; node++) {
            double sums[16] = {0};
            add_subtree(v, sums, n, node, 0, 1, 1);
            for (int64_t o = 0; o < width; o++)
                for (int64_t f = 0; f < 3 * x->dims[2]; f++)
                    v->out[0].data[(n * x->dims[1] + node - 1) * width + o] += sums[f] * w->data[f * width + o];
        }
    }
}

THREE_QUESTIONS(tree, "tree_conv", tree_cases, tree_reference)

/* -- mistakes ------------------------------------------------------------------------------------------------------------ */

TEST(mistakes_are_explained)
{
    EXPECT_FAIL(TR_ESHAPE, "Alpha must have 3 elements; got [2]", infer_shapes("prelu", {DIMS(4, 3), DIMS(2)}, {MODE("channel")}));
    EXPECT_FAIL(TR_ERANGE, "mode", infer_shapes("prelu", {DIMS(4, 3), DIMS(1)}, {MODE("some")}));
    EXPECT_FAIL(TR_ESHAPE, "Y must be [2, ?, 4, 2], got [2, 5, 4, 3]", infer_shapes("fsp", {DIMS(2, 3, 4, 2), DIMS(2, 5, 4, 3)}));
    EXPECT_FAIL(TR_ESHAPE, "Weight must be [?, 3, 2], got [5, 2, 3]",
                infer_shapes("bilinear_tensor_product", {DIMS(4, 3), DIMS(4, 2), DIMS(5, 2, 3)}));
    EXPECT_FAIL(TR_ESHAPE, "must have an odd number of elements", infer_shapes("conv_shift", {DIMS(2, 5), DIMS(2, 2)}));
    EXPECT_FAIL(TR_ESHAPE, "must have an odd number of elements", infer_shapes("conv_shift", {DIMS(2, 3), DIMS(2, 5)}));
    EXPECT_FAIL(TR_ERANGE, "is (1, 4); the nodes of a tree are 1 to 3",
                run_status("tree_conv", {DIMS(1, 3, 2), EDGES(LIST(1, 4), 1, 1, 2), DIMS(2, 3, 1, 1)}));
    EXPECT_FAIL(TR_ESHAPE, "Filter must be [2, 3, ?, ?]",
                infer_shapes("tree_conv", {DIMS(1, 3, 2), INT32S(0, 1, 1, 2, 2), DIMS(2, 2, 1, 1)}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prelu_matches_reference),   cmocka_unit_test(prelu_gradient_is_numeric),
        cmocka_unit_test(fsp_matches_reference),     cmocka_unit_test(fsp_gradient_is_numeric),   cmocka_unit_test(fsp_is_its_parts),
        cmocka_unit_test(product_matches_reference), cmocka_unit_test(product_gradient_is_numeric), cmocka_unit_test(product_is_its_parts),
        cmocka_unit_test(shift_matches_reference),   cmocka_unit_test(shift_gradient_is_numeric),
        cmocka_unit_test(tree_matches_reference),    cmocka_unit_test(tree_gradient_is_numeric),
        cmocka_unit_test(mistakes_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
