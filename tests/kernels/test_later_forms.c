/* test_later_forms.c - operators of later versions of Fluid: lookup_table_v2, one_hot_v2, top_k_v2, matmul_v2, hard_swish,
 * flatten_contiguous_range, where of three inputs, expand_as and expand_as_v2. */
#include "tests/support/op_check.h"

/* -- references ---------------------------------------------------------------------------------- */

static void lookup_reference(op_values *v)
{
    const int64_t width = v->in[0].dims[1], padding = (int64_t)op_case_number(v->c, "padding_idx", -1);

    for (int64_t i = 0; i < v->in[1].count; i++)
        for (int64_t k = 0; k < width; k++)
            v->out[0].data[i * width + k] = v->in[1].data[i] == padding ? 0 : v->in[0].data[(int64_t)v->in[1].data[i] * width + k];
}

static void hot_reference(op_values *v)
{
    const int64_t depth = (int64_t)op_case_number(v->c, "depth", 0);

    for (int64_t i = 0; i < v->out[0].count; i++)
        v->out[0].data[i] = v->in[0].data[i / depth] == (double)(i % depth);
}

static void product_reference(op_values *v)
{
    const bool    tx = op_case_number(v->c, "trans_x", 0) != 0, ty = op_case_number(v->c, "trans_y", 0) != 0;
    const int     rx = v->in[0].rank, ry = v->in[1].rank, ro = v->out[0].rank;
    const int64_t n = v->out[0].dims[ro - 2], m = v->out[0].dims[ro - 1], k = v->in[0].dims[tx ? rx - 2 : rx - 1];

    for (int64_t i = 0; i < v->out[0].count; i++) {
        const int64_t matrix = i / (n * m), row = i / m % n, column = i % m;
        const double *x = v->in[0].data + (rx > 2 ? matrix * n * k : 0), *y = v->in[1].data + (ry > 2 ? matrix * k * m : 0);
        double        sum = 0;
        for (int64_t j = 0; j < k; j++)
            sum += x[tx ? j * n + row : row * k + j] * y[ty ? column * k + j : j * m + column];
        v->out[0].data[i] = sum;
    }
}

/* Stacks of at most two dimensions, as NumPy spreads them. */
static void spread_reference(op_values *v)
{
    const bool    tx = op_case_number(v->c, "trans_x", 0) != 0, ty = op_case_number(v->c, "trans_y", 0) != 0;
    const int     r[2] = {v->in[0].rank, v->in[1].rank};
    const int64_t n = v->out[0].dims[2], m = v->out[0].dims[3], k = v->in[0].dims[tx ? r[0] - 2 : r[0] - 1];

    for (int64_t i = 0; i < v->out[0].count; i++) {
        const int64_t row = i / m % n, column = i % m, inner = i / (n * m) % v->out[0].dims[1], outer = i / (n * m) / v->out[0].dims[1];
        const double *at[2];
        for (int s = 0; s < 2; s++) {
            const int64_t *dims = v->in[s].dims, width = dims[r[s] - 3];
            const int64_t  matrix = (r[s] > 3 && dims[0] > 1 ? outer * width : 0) + (width > 1 ? inner : 0);
            at[s] = v->in[s].data + matrix * dims[r[s] - 2] * dims[r[s] - 1];
        }
        double sum = 0;
        for (int64_t j = 0; j < k; j++)
            sum += at[0][tx ? j * n + row : row * k + j] * at[1][ty ? column * k + j : j * m + column];
        v->out[0].data[i] = sum;
    }
}

/* A vector takes part with each matrix, or vector, of the other side, whose rows or columns are summed. */
static void vector_reference(op_values *v)
{
    const int     side = v->in[1].rank == 1 ? 0 : 1;
    const int64_t k = v->in[!side].dims[0], *dims = v->in[side].dims, rank = v->in[side].rank;
    const int64_t m = side ? dims[rank - 1] : 1;

    for (int64_t i = 0; i < v->out[0].count; i++) {
        double sum = 0;
        for (int64_t j = 0; j < k; j++)
            sum += v->in[!side].data[j] * (side ? v->in[1].data[(i / m * k + j) * m + i % m] : v->in[0].data[i * k + j]);
        v->out[0].data[i] = sum;
    }
}

static void swish_reference(op_values *v)
{
    for (int64_t i = 0; i < v->in[0].count; i++)
        v->out[0].data[i] = v->in[0].data[i] * fmin(fmax(v->in[0].data[i] + 3, 0), 6) / 6;
}

static void chosen_reference(op_values *v)
{
    for (int64_t i = 0; i < v->out[0].count; i++)
        v->out[0].data[i] = v->in[v->in[0].data[i] != 0 ? 1 : 2].data[i];
}

static void tiled_reference(op_values *v)              /* at most three dimensions, of which X has the last ones */
{
    const op_array *x = &v->in[0], *out = &v->out[0];

    for (int64_t i = 0; i < out->count; i++) {
        int64_t at = 0, step = 1, rest = i;
        for (int d = 1; d <= x->rank; d++) {
            at += rest % out->dims[out->rank - d] % x->dims[x->rank - d] * step;
            rest /= out->dims[out->rank - d];
            step *= x->dims[x->rank - d];
        }
        v->out[0].data[i] = x->data[at];
    }
}

static void same_elements(op_values *v)
{
    memcpy(v->out[0].data, v->in[0].data, (size_t)v->in[0].count * sizeof(double));
}

/* -- cases ------------------------------------------------------------------------------------------ */

static const op_case lookup_cases[] = {
    {"a matrix of ids", {DIMS(5, 3), INT64S(0, 4, 2, 4)}, {LONG_ATTR("padding_idx", 2)}, {DIMS(2, 4, 3)}},
    {"a row of ids", {DIMS(5, 2), INT64S(0, 4, 6)}, {}, {DIMS(6, 2)}},
    {"no ids", {DIMS(5, 2), INT64S(0, 4, 0)}},
};
static const op_case hot_cases[] = {
    {"a row", {INT64S(0, 4, 6)}, {INT_ATTR("depth", 5)}, {DIMS(6, 5)}},
    {"a matrix", {INT64S(0, 2, 2, 3)}, {INT_ATTR("depth", 3)}, {DIMS(2, 3, 3)}},
};
static const op_case product_cases[] = {
    {"matrices", {DIMS(2, 3), DIMS(3, 4)}, {BOOL_ATTR("trans_x", 0)}, {DIMS(2, 4)}},
    {"many, transposed", {DIMS(2, 3, 4), DIMS(2, 5, 3)}, {BOOL_ATTR("trans_x", 1), BOOL_ATTR("trans_y", 1)}, {DIMS(2, 4, 5)}},
    {"many and one", {DIMS(2, 2, 3), DIMS(3, 4)}, {BOOL_ATTR("trans_x", 0)}, {DIMS(2, 2, 4)}},
};
static const op_case spread_cases[] = {
    {"dimensions of 1 on both sides", {DIMS(2, 1, 2, 3), DIMS(1, 3, 3, 4)}, {BOOL_ATTR("trans_x", 0)}, {DIMS(2, 3, 2, 4)}},
    {"a stack of less rank", {DIMS(2, 3, 2, 3), DIMS(3, 3, 2)}, {BOOL_ATTR("trans_x", 0)}, {DIMS(2, 3, 2, 2)}},
    {"X has less rank", {DIMS(1, 2, 3), DIMS(4, 2, 3, 2)}, {BOOL_ATTR("trans_x", 0)}, {DIMS(4, 2, 2, 2)}},
    {"transposed", {DIMS(2, 1, 3, 2), DIMS(3, 4, 3)}, {BOOL_ATTR("trans_x", 1), BOOL_ATTR("trans_y", 1)}, {DIMS(2, 3, 2, 4)}},
    {"Y transposed", {DIMS(3, 2, 3), DIMS(2, 1, 4, 3)}, {BOOL_ATTR("trans_y", 1)}, {DIMS(2, 3, 2, 4)}},
};
static const op_case vector_cases[] = {
    {"a stack and a vector", {DIMS(2, 2, 3), DIMS(3)}, {BOOL_ATTR("trans_y", 1)}, {DIMS(2, 2)}},
    {"a vector and a stack", {DIMS(3), DIMS(2, 3, 4)}, {BOOL_ATTR("trans_x", 1)}, {DIMS(2, 4)}},
    {"a matrix and a vector", {DIMS(2, 3), DIMS(3)}, {BOOL_ATTR("trans_x", 0)}, {DIMS(2)}},
    {"two vectors", {DIMS(3), DIMS(3)}, {BOOL_ATTR("trans_x", 0)}, {DIMS(1)}},
};
static const op_case swish_cases[] = {
    {"all parts", {FLOATS(-5, 5, 4, 9)}},
    {"no rows", {DIMS(0, 3)}},
};
static const op_case flatten_cases[] = {
    {"the middle", {DIMS(2, 3, 4, 5)}, {INT_ATTR("start_axis", 1), INT_ATTR("stop_axis", 2)}, {DIMS(2, 12, 5)}},
    {"all but the rows", {DIMS(2, 3, 4)}, {INT_ATTR("start_axis", 1)}, {DIMS(2, 12)}},
    {"all", {DIMS(2, 3)}, {INT_ATTR("start_axis", 0)}, {DIMS(6)}},
    {"no rows", {DIMS(0, 3, 2)}, {INT_ATTR("start_axis", 1)}, {DIMS(0, 6)}},
};

#define FLAGS(list, ...) {SIZE(__VA_ARGS__), .values = list, .is_typed = true, .dtype = TR_BOOL}
static const op_case where_cases[] = {
    {"a matrix", {FLAGS(LIST(1, 0, 0, 1, 1, 0), 2, 3), DIMS(2, 3), DIMS(2, 3)}, {}, {DIMS(2, 3)}},
    {"all of Y", {FLAGS(LIST(0, 0), 2), DIMS(2), DIMS(2)}},
    {"no rows", {FLAGS(LIST(0), 0, 3), DIMS(0, 3), DIMS(0, 3)}},
};
static const op_case as_cases[] = {
    {"dimensions of 1", {DIMS(2, 1), CONSTANT(2, 3)}, {}, {DIMS(2, 3)}},
    {"new dimensions", {DIMS(1, 3), CONSTANT(2, 4, 3)}, {}, {DIMS(2, 4, 3)}},
    {"as large", {DIMS(2, 3), CONSTANT(2, 3)}},
    {"no rows", {DIMS(0, 1), CONSTANT(0, 4)}, {}, {DIMS(0, 4)}},
};
static const op_case as_attr_cases[] = {{"an attribute", {DIMS(3, 1)}, {INTS_ATTR("target_shape", 2, 3, 2)}, {DIMS(2, 3, 2)}}};
static const op_case multiple_cases[] = {
    {"tiles", {DIMS(2, 3), CONSTANT(4, 3)}, {}, {DIMS(4, 3)}},
    {"both", {DIMS(2, 1, 2), CONSTANT(4, 3, 4)}, {}, {DIMS(4, 3, 4)}},
};

/* -- tests ------------------------------------------------------------------------------------------- */

#define QUESTIONS(name, op, cases, reference, step, tolerance)                                          \
    TEST(name##_matches_reference)   { EACH_OF(c, cases) check_forward(op, c, reference, 2e-6); }       \
    TEST(name##_gradient_is_numeric) { EACH_OF(c, cases) check_gradient(op, c, step, tolerance); }

QUESTIONS(lookup, "lookup_table_v2", lookup_cases, lookup_reference, 1e-5, 1e-7)
QUESTIONS(product, "matmul_v2", product_cases, product_reference, 1e-5, 1e-7)
QUESTIONS(spread_product, "matmul_v2", spread_cases, spread_reference, 1e-5, 1e-7)
QUESTIONS(vector_product, "matmul_v2", vector_cases, vector_reference, 1e-5, 1e-7)
QUESTIONS(swish, "hard_swish", swish_cases, swish_reference, 1e-6, 1e-6)
QUESTIONS(flatten, "flatten_contiguous_range", flatten_cases, same_elements, 1e-5, 1e-7)
QUESTIONS(where, "where", where_cases, chosen_reference, 1e-5, 1e-7)
QUESTIONS(expand_as_v2, "expand_as_v2", as_cases, tiled_reference, 1e-5, 1e-7)
QUESTIONS(expand_to, "expand_as_v2", as_attr_cases, tiled_reference, 1e-5, 1e-7)
QUESTIONS(expand_as, "expand_as", multiple_cases, tiled_reference, 1e-5, 1e-7)
TEST(one_hot_matches_reference) { EACH_OF(c, hot_cases) check_forward("one_hot_v2", c, hot_reference, 0); }

/* Of rows: the largest elements, the first of equal ones first. */
static void top_reference(op_values *v)
{
    const int64_t n = v->in[0].dims[1], k = v->out[0].dims[1];

    for (int64_t i = 0; i < v->out[0].count; i++) {
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

static const op_case top_cases[] = {
    {"two of each row", {DIMS(3, 5)}, {INT_ATTR("k", 2)}, {DIMS(3, 2), DIMS(3, 2)}},
    {"no rows", {DIMS(0, 5)}, {INT_ATTR("k", 2)}, {DIMS(0, 2), DIMS(0, 2)}},
};
TEST(top_matches_reference) { EACH_OF(c, top_cases) check_forward("top_k_v2", c, top_reference, 0); }

TEST(the_largest_and_the_smallest_are_found_along_an_axis)
{
    const op_case rows = {"rows", {VALUES(LIST(3, 1, 2, 0, 5, 4), 2, 3)}, {INT_ATTR("k", 2)}};
    const op_case columns = {"columns", {VALUES(LIST(3, 1, 2, 0, 5, 4), 2, 3)}, {INT_ATTR("k", 1), INT_ATTR("axis", 0), BOOL_ATTR("largest", 0)}};
    op_values     v = run_op("top_k_v2", &rows, TR_FP32);

    assert_memory_equal(v.out[0].data, ((const double[]){3, 2, 5, 4}), 4 * sizeof(double));
    assert_memory_equal(v.out[1].data, ((const double[]){0, 2, 1, 2}), 4 * sizeof(double));
    op_values_free(&v);
    v = run_op("top_k_v2", &columns, TR_FP32);
    assert_memory_equal(v.out[0].data, ((const double[]){0, 1, 2}), 3 * sizeof(double));
    assert_memory_equal(v.out[1].data, ((const double[]){1, 0, 0}), 3 * sizeof(double));
    op_values_free(&v);
}

TEST(mistakes_are_explained)
{
    EXPECT_FAIL(TR_ESHAPE, "so Y must have 3 rows; got [4, 2] with 4", infer_shapes("matmul_v2", {DIMS(2, 3), DIMS(4, 2)}));
    EXPECT_FAIL(TR_ESHAPE, "stacks of 2 and of 3 do not fit", infer_shapes("matmul_v2", {DIMS(2, 2, 3), DIMS(3, 3, 2)}));
    EXPECT_SHAPE("float32[?, 4, 2, 5]", "matmul_v2", {DIMS(-1, 1, 2, 3), DIMS(4, 3, 5)});
    EXPECT_FAIL(TR_ESHAPE, "k is 4, but X [2, 3] has 3 elements", infer_shapes("top_k_v2", {DIMS(2, 3)}, {INT_ATTR("k", 4)}));
    EXPECT_FAIL(TR_ERANGE, "axis is 255", infer_shapes("top_k_v2", {DIMS(2, 3)}, {INT_ATTR("axis", 255)}));
    EXPECT_FAIL(TR_ERANGE, "start_axis 2 is behind stop_axis 1",
                infer_shapes("flatten_contiguous_range", {DIMS(2, 3, 4)}, {INT_ATTR("start_axis", 2), INT_ATTR("stop_axis", 1)}));
    EXPECT_FAIL(TR_EINVAL, "where: X and Y belong together; Y is missing", infer_shapes("where", {BOOLS(2, 3), DIMS(2, 3)}));
    EXPECT_FAIL(TR_ESHAPE, "Condition must be [2, 3], got [2]", infer_shapes("where", {BOOLS(2), DIMS(2, 3), DIMS(2, 3)}));
    EXPECT_FAIL(TR_ESHAPE, "X [2, 3] cannot become as large as [2, 6] along dimension 1; only dimensions of 1 are repeated",
                infer_shapes("expand_as_v2", {DIMS(2, 3), DIMS(2, 6)}));
    EXPECT_FAIL(TR_ESHAPE, "it must be a multiple of X's", infer_shapes("expand_as", {DIMS(2, 3), DIMS(2, 4)}));
    EXPECT_FAIL(TR_ESHAPE, "give target_tensor, Y or target_shape", infer_shapes("expand_as_v2", {DIMS(2, 3)}));
    EXPECT_SHAPE("float32[?, 5]", "expand_as_v2", {DIMS(-1, 1), DIMS(-1, 5)});
}

#define BOTH(name) cmocka_unit_test(name##_matches_reference), cmocka_unit_test(name##_gradient_is_numeric)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(lookup),
        BOTH(product),
        BOTH(spread_product),
        BOTH(vector_product),
        BOTH(swish),
        BOTH(flatten),
        BOTH(where),
        BOTH(expand_as_v2),
        BOTH(expand_to),
        BOTH(expand_as),
        cmocka_unit_test(one_hot_matches_reference),
        cmocka_unit_test(top_matches_reference),
        cmocka_unit_test(the_largest_and_the_smallest_are_found_along_an_axis),
        cmocka_unit_test(mistakes_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
