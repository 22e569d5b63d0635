/* test_later_math.c - operators of later versions of Fluid: those of later_math.c, and expand_v2, tile, strided_slice, slice that drops axes, where_index and the
 * _v2 forms of interp.c. */
#include "tests/support/op_check.h"

/* -- references ---------------------------------------------------------------------------------- */

static void silu_reference(op_values *v)
{
    for (int64_t i = 0; i < v->in[0].count; i++)
        v->out[0].data[i] = v->in[0].data[i] / (1 + exp(-v->in[0].data[i]));
}

static void mish_reference(op_values *v)
{
    for (int64_t i = 0; i < v->in[0].count; i++)
        v->out[0].data[i] = v->in[0].data[i] * tanh(log1p(exp(v->in[0].data[i])));
}

/* Where element i of Out lies in X: digit by digit. `place` maps a place along dimension d of Out to one of X, or to -1: X has no such dimension. */
static int64_t element_of(const op_values *v, int64_t i, int64_t (*place)(const op_values *v, int d, int64_t at))
{
    const int lack = v->out[0].rank - v->in[0].rank;
    int64_t   at[TR_MAX_RANK], found = 0;

    for (int d = v->out[0].rank - 1; d >= 0; i /= v->out[0].dims[d--])
        at[d] = i % v->out[0].dims[d];
    for (int d = lack > 0 ? lack : 0; d < v->out[0].rank; d++)
        found = found * v->in[0].dims[d - lack] + place(v, d - lack, at[d]);
    return found;
}

static int64_t repeated(const op_values *v, int d, int64_t at)
{
    return at % v->in[0].dims[d];
}

static void repeat_reference(op_values *v)
{
    for (int64_t i = 0; i < v->out[0].count; i++)
        v->out[0].data[i] = v->in[0].data[element_of(v, i, repeated)];
}

/* Of a matrix: the last column first, every second one; rows from 1 on. */
static int64_t cut(const op_values *v, int d, int64_t at)
{
    return d == 0 ? 1 + at : v->in[0].dims[1] - 1 - 2 * at;
}

static void cut_reference(op_values *v)
{
    for (int64_t i = 0; i < v->out[0].count; i++)
        v->out[0].data[i] = v->in[0].data[element_of(v, i, cut)];
}

/* Row 1 of each matrix of three rows. */
static void row_reference(op_values *v)
{
    const int64_t width = v->in[0].dims[2];

    for (int64_t i = 0; i < v->out[0].count; i++)
        v->out[0].data[i] = v->in[0].data[i / width * 3 * width + width + i % width];
}

static int64_t turned(const op_values *v, int d, int64_t at)
{
    return v->in[0].dims[d] - 1 - at;
}

static void turned_reference(op_values *v)
{
    for (int64_t i = 0; i < v->out[0].count; i++)
        v->out[0].data[i] = v->in[0].data[element_of(v, i, turned)];
}

static void pick_reference(op_values *v)
{
    const bool    rows = v->out[0].dims[0] != v->in[0].dims[0];
    const int64_t width = v->out[0].dims[1];

    for (int64_t i = 0; i < v->out[0].count; i++)
        v->out[0].data[i] = rows ? v->in[0].data[(int64_t)v->in[1].data[i / width] * width + i % width]
                                 : v->in[0].data[i / width * v->in[0].dims[1] + (int64_t)v->in[1].data[i % width]];
}

/* Lines along dimension `axis`: the first element of line `i`, and the distance of its elements. */
static const double *line_of(const op_values *v, int axis, int64_t i, int64_t *step)
{
    *step = 1;
    for (int d = axis + 1; d < v->in[0].rank; d++)
        *step *= v->in[0].dims[d];
    return v->in[0].data + i / *step * *step * v->in[0].dims[axis] + i % *step;
}

static void logarithm_reference(op_values *v)
{
    const int     axis = (int)op_case_number(v->c, "axis", 1);
    const int64_t n = v->in[0].dims[axis];

    for (int64_t i = 0; i < v->in[0].count / (n ? n : 1); i++) {
        int64_t       step;
        const double *x = line_of(v, axis, i, &step);
        double        sum = 0;
        for (int64_t k = 0; k < n; k++)
            sum += exp(x[k * step]);
        for (int64_t k = 0; k < n; k++)
            v->out[0].data[x - v->in[0].data + k * step] = x[k * step] - log(sum);
    }
}

static void norm_reference(op_values *v)
{
    const double  p = op_case_number(v->c, "porder", 2);
    const bool    is_all = op_case_number(v->c, "asvector", 0) != 0;
    const int     axis = (int)op_case_number(v->c, "axis", 1);
    const int64_t n = is_all ? v->in[0].count : v->in[0].dims[axis];

    for (int64_t i = 0; i < v->out[0].count; i++) {
        int64_t       step = 1;
        const double *x = is_all ? v->in[0].data : line_of(v, axis, i, &step);
        double        sum = 0, most = 0;
        for (int64_t k = 0; k < n; k++) {
            sum += pow(fabs(x[k * step]), p);
            most = fmax(most, fabs(x[k * step]));
        }
        v->out[0].data[i] = isinf(p) ? most : pow(sum + (p == 1 ? 0 : (double)1e-12f), 1 / p);
    }
}

static void product_reference(op_values *v)
{
    const int64_t n = v->in[0].dims[1], k = v->in[0].dims[2], m = v->in[1].dims[2];

    for (int64_t i = 0; i < v->out[0].count; i++) {
        const double *x = v->in[0].data + i / (n * m) * n * k + i / m % n * k, *y = v->in[1].data + i / (n * m) * k * m + i % m;
        v->out[0].data[i] = 0;
        for (int64_t j = 0; j < k; j++)
            v->out[0].data[i] += x[j] * y[j * m];
    }
}

/* Places where the extent times the scale is no whole number: k / scale, and (k + 1/2) / scale - 1/2. */
static void nearest_reference(op_values *v)
{
    const int64_t out_h = v->out[0].dims[2], out_w = v->out[0].dims[3];

    for (int64_t i = 0; i < v->out[0].count; i++) {
        const int64_t y = (int64_t)floor((double)(i / out_w % out_h) / 1.5), x = i % out_w / 2;
        v->out[0].data[i] = v->in[0].data[(i / (out_h * out_w) * v->in[0].dims[2] + y) * v->in[0].dims[3] + x];
    }
}

static double mixed(const double *x, int64_t n, int64_t step, double s)
{
    const int64_t low = (int64_t)fmax(s, 0), high = low + 1 < n ? low + 1 : n - 1;
    const double  share = fmax(s, 0) - (double)low;

    return (1 - share) * x[low * step] + share * x[high * step];
}

static void bilinear_reference(op_values *v)
{
    const int64_t h = v->in[0].dims[2], w = v->in[0].dims[3], out_h = v->out[0].dims[2], out_w = v->out[0].dims[3];

    for (int64_t i = 0; i < v->out[0].count; i++) {
        const double *plane = v->in[0].data + i / (out_h * out_w) * h * w;
        const double  y = ((double)(i / out_w % out_h) + 0.5) / 1.5 - 0.5, x = ((double)(i % out_w) + 0.5) / 2 - 0.5;
        const int64_t top = (int64_t)fmax(y, 0), under = top + 1 < h ? top + 1 : h - 1;
        const double  rows[] = {mixed(plane + top * w, w, 1, x), mixed(plane + under * w, w, 1, x)}, share = fmax(y, 0) - (double)top;
        v->out[0].data[i] = (1 - share) * rows[0] + share * rows[1];
    }
}

/* -- cases ------------------------------------------------------------------------------------------ */

static const op_case unary_cases[] = {{"some", {DIMS(3, 5)}}, {"no rows", {DIMS(0, 3)}}};
static const op_case tile_cases[] = {
    {"each dimension", {DIMS(2, 3)}, {INTS_ATTR("repeat_times", 2, 3)}, {DIMS(4, 9)}},
    {"a short list", {DIMS(2, 3)}, {INTS_ATTR("repeat_times", 2)}, {DIMS(2, 6)}},
    {"new dimensions", {DIMS(3)}, {INTS_ATTR("repeat_times", 2, 2, 1)}, {DIMS(2, 2, 3)}},
    {"no rows", {DIMS(0, 3)}, {INTS_ATTR("repeat_times", 2, 1)}, {DIMS(0, 3)}},
};
static const op_case expand_cases[] = {
    {"a dimension of 1", {DIMS(2, 1, 3)}, {INTS_ATTR("shape", -1, 4, -1)}, {DIMS(2, 4, 3)}},
    {"new dimensions", {DIMS(2, 1)}, {INTS_ATTR("shape", 3, 2, 5)}, {DIMS(3, 2, 5)}},
    {"no rows", {DIMS(0, 1)}, {INTS_ATTR("shape", -1, 4)}, {DIMS(0, 4)}},
};
static const op_case strided_cases[] = {
    {"backwards", {DIMS(3, 5)}, {INTS_ATTR("axes", 0, -1), INTS_ATTR("starts", 1, -1), INTS_ATTR("ends", 9, -1), INTS_ATTR("strides", 1, -2)}, {DIMS(2, 3)}},
    {"to a place from the end", {DIMS(3, 6)}, {INTS_ATTR("axes", 1, 0), INTS_ATTR("starts", 9, 1), INTS_ATTR("ends", -5, 3), INTS_ATTR("strides", -2, 1)}, {DIMS(2, 2)}},
};
static const op_case row_cases[] = {
    {"a row of each", {DIMS(2, 3, 4)}, {INTS_ATTR("axes", 1), INTS_ATTR("starts", 1), INTS_ATTR("ends", 2), INTS_ATTR("decrease_axis", 1)}, {DIMS(2, 4)}},
    {"no matrices", {DIMS(0, 3, 4)}, {INTS_ATTR("axes", 1), INTS_ATTR("starts", 1), INTS_ATTR("ends", 2), INTS_ATTR("decrease_axis", 1)}, {DIMS(0, 4)}},
};
static const op_case flip_cases[] = {{"both", {DIMS(3, 2)}, {INTS_ATTR("axis", 0, -1)}}};
static const op_case pick_cases[] = {
    {"rows", {DIMS(4, 3), INT64S(0, 4, 3)}, {INT_ATTR("dim", 0)}, {DIMS(3, 3)}},
    {"columns", {DIMS(3, 4), INT64S(0, 4, 5)}, {INT_ATTR("dim", -1)}, {DIMS(3, 5)}},
};
static const op_case logarithm_cases[] = {
    {"rows", {DIMS(3, 5)}}, {"along the first", {DIMS(3, 5)}, {INT_ATTR("axis", 0)}}, {"the middle", {DIMS(2, 3, 2)}, {INT_ATTR("axis", 1)}}, {"no rows", {DIMS(0, 3)}},
};
static const op_case norm_cases[] = {
    {"lengths", {DIMS(3, 5)}, {INT_ATTR("axis", 1)}, {DIMS(3)}},
    {"of 3, kept", {DIMS(3, 5)}, {FLOAT_ATTR("porder", 3), INT_ATTR("axis", 0), BOOL_ATTR("keepdim", 1)}, {DIMS(1, 5)}},
    {"sums", {DIMS(2, 3, 2)}, {FLOAT_ATTR("porder", 1), INT_ATTR("axis", 1)}, {DIMS(2, 2)}},
    {"the largest", {DIMS(3, 5)}, {FLOAT_ATTR("porder", HUGE_VAL), INT_ATTR("axis", 1)}, {DIMS(3)}},
    {"all", {DIMS(3, 5)}, {FLOAT_ATTR("porder", 2), BOOL_ATTR("asvector", 1)}, {DIMS(1)}},
};
static const op_case product_cases[] = {{"two", {DIMS(2, 3, 4), DIMS(2, 4, 5)}, {}, {DIMS(2, 3, 5)}}};
static const op_case nearest_cases[] = {
    {"a half too much", {DIMS(1, 2, 5, 3)}, {FLOATS_ATTR("scale", 1.5, 2), BOOL_ATTR("align_corners", 0)}, {DIMS(1, 2, 7, 6)}},
};
static const op_case bilinear_cases[] = {
    {"a half too much", {DIMS(1, 2, 5, 3)}, {FLOATS_ATTR("scale", 1.5, 2), BOOL_ATTR("align_corners", 0), INT_ATTR("align_mode", 0)}, {DIMS(1, 2, 7, 6)}},
};

/* -- tests ------------------------------------------------------------------------------------------- */

#define QUESTIONS(name, op, cases, reference, step, tolerance)                                          \
    TEST(name##_matches_reference)   { EACH_OF(c, cases) check_forward(op, c, reference, 4e-6); }       \
    TEST(name##_gradient_is_numeric) { EACH_OF(c, cases) check_gradient(op, c, step, tolerance); }

QUESTIONS(silu, "silu", unary_cases, silu_reference, 1e-5, 1e-7)
QUESTIONS(mish, "mish", unary_cases, mish_reference, 1e-5, 1e-7)
QUESTIONS(tile, "tile", tile_cases, repeat_reference, 1e-5, 1e-7)
QUESTIONS(expand_v2, "expand_v2", expand_cases, repeat_reference, 1e-5, 1e-7)
QUESTIONS(strided_slice, "strided_slice", strided_cases, cut_reference, 1e-5, 1e-7)
QUESTIONS(row, "slice", row_cases, row_reference, 1e-5, 1e-7)
QUESTIONS(flip, "flip", flip_cases, turned_reference, 1e-5, 1e-7)
QUESTIONS(index_select, "index_select", pick_cases, pick_reference, 1e-5, 1e-7)
QUESTIONS(log_softmax, "log_softmax", logarithm_cases, logarithm_reference, 1e-5, 1e-7)
QUESTIONS(p_norm, "p_norm", norm_cases, norm_reference, 1e-6, 1e-6)
QUESTIONS(bmm, "bmm", product_cases, product_reference, 1e-5, 1e-7)
QUESTIONS(nearest, "nearest_interp_v2", nearest_cases, nearest_reference, 1e-5, 1e-7)
QUESTIONS(bilinear, "bilinear_interp_v2", bilinear_cases, bilinear_reference, 1e-5, 1e-7)

static void filled_reference(op_values *v)
{
    for (int64_t i = 0; i < v->out[0].count; i++)
        v->out[0].data[i] = 2.5;
}

static const op_case filled_cases[] = {{"as X", {DIMS(2, 3)}, {FLOAT_ATTR("value", 2.5)}}, {"no rows", {DIMS(0, 3)}, {FLOAT_ATTR("value", 2.5)}}};
TEST(filled_matches_reference) { EACH_OF(c, filled_cases) check_forward("fill_any_like", c, filled_reference, 0); }

TEST(numbers_are_filled_in_with_the_type_that_is_asked_for)
{
    const op_case whole = {"int64", {DIMS(2, 2)}, {FLOAT_ATTR("value", 3), INT_ATTR("dtype", TR_INT64)}};
    op_values     v = run_op("fill_any_like", &whole, TR_FP32);

    assert_true(v.out[0].count == 4 && v.out[0].data[3] == 3);
    op_values_free(&v);
}

TEST(mistakes_are_explained)
{
    EXPECT_FAIL(TR_ESHAPE, "only dimensions of 1 are repeated", infer_shapes("expand_v2", {DIMS(2, 3)}, {INTS_ATTR("shape", 2, 6)}));
    EXPECT_FAIL(TR_ESHAPE, "a new dimension needs an extent", infer_shapes("expand_v2", {DIMS(3)}, {INTS_ATTR("shape", -1, 3)}));
    EXPECT_FAIL(TR_ERANGE, "repeat_times[1] is 0", infer_shapes("tile", {DIMS(2, 3)}, {INTS_ATTR("repeat_times", 1, 0)}));
    EXPECT_FAIL(TR_ERANGE, "strides[0] is 0",
                infer_shapes("strided_slice", {DIMS(4)}, {INTS_ATTR("axes", 0), INTS_ATTR("starts", 0), INTS_ATTR("ends", 4), INTS_ATTR("strides", 0)}));
    EXPECT_FAIL(TR_ERANGE, "one element must be left of it; got 2",
                infer_shapes("slice", {DIMS(4, 3)}, {INTS_ATTR("axes", 1), INTS_ATTR("starts", 0), INTS_ATTR("ends", 2), INTS_ATTR("decrease_axis", 1)}));
    EXPECT_FAIL(TR_ESHAPE, "Y must be [2, 3, ?], got [2, 4, 2]", infer_shapes("bmm", {DIMS(2, 2, 3), DIMS(2, 4, 2)}));
    EXPECT_FAIL(TR_ERANGE, "scale must have 2 elements above 0", infer_shapes("nearest_interp_v2", {DIMS(1, 1, 2, 2)}, {FLOATS_ATTR("scale", 2)}));
    EXPECT_FAIL(TR_ESHAPE, "Index must be [m]", infer_shapes("index_select", {DIMS(4, 3), INT64S(0, 4, 2, 2)}));
}

#define BOTH(name) cmocka_unit_test(name##_matches_reference), cmocka_unit_test(name##_gradient_is_numeric)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(silu), BOTH(mish), BOTH(tile), BOTH(expand_v2), BOTH(strided_slice), BOTH(row), BOTH(flip), BOTH(index_select), BOTH(log_softmax), BOTH(p_norm),
        BOTH(bmm), BOTH(nearest), BOTH(bilinear),
        cmocka_unit_test(filled_matches_reference), cmocka_unit_test(numbers_are_filled_in_with_the_type_that_is_asked_for), cmocka_unit_test(mistakes_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
