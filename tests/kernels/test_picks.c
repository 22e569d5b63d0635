/* test_picks.c - operators that order, pick or number elements: cumsum, reverse, argsort, arg_max, arg_min, multiplex, scatter, linspace,
 * sampling_id, hash, fill, fill_zeros_like2, reduce_all, reduce_any, where, similarity_focus. */
#include "tests/support/op_check.h"
#include "tests/support/op_rig.h"

#include "kernels/math/tools/xxhash.h"

#define THREE_QUESTIONS(name, op, cases, reference)                                                   \
    TEST(name##_matches_reference)   { EACH_OF(c, cases) check_forward(op, c, reference, 1e-6); }     \
    TEST(name##_gradient_is_numeric) { EACH_OF(c, cases) check_gradient(op, c, 1e-5, 1e-7); }

/* How many elements lie behind dimension `axis`. */
static int64_t behind(const op_array *a, int axis)
{
    int64_t count = 1;

    for (int d = axis + 1; d < a->rank; d++)
        count *= a->dims[d];
    return count;
}

static int axis_of(const op_values *v, double otherwise)
{
    const int axis = (int)op_case_number(v->c, "axis", otherwise);

    return axis < 0 ? axis + v->in[0].rank : axis;
}

/* -- cumsum, reverse --------------------------------------------------------------------------------------------- */

static const op_case cumsum_cases[] = {
    {"last", {DIMS(2, 3, 5)}}, {"first", {DIMS(4, 3)}, {INT_ATTR("axis", 0)}},
    {"exclusive", {DIMS(2, 4, 3)}, {INT_ATTR("axis", 1), BOOL_ATTR("exclusive", 1)}},
    {"reverse", {DIMS(3, 4)}, {BOOL_ATTR("reverse", 1)}},
    {"both", {DIMS(2, 3, 2)}, {INT_ATTR("axis", -2), BOOL_ATTR("reverse", 1), BOOL_ATTR("exclusive", 1)}},
    {"empty", {DIMS(2, 0)}}, {"vector", {DIMS(6)}},
};
static const op_case whole_cases[] = {
    {"int64", {INT64S(-9, 9, 3, 4)}, {INT_ATTR("axis", 0)}}, {"int32", {INT32S(-9, 9, 3, 4)}, {BOOL_ATTR("exclusive", 1)}},
};
static const op_case reverse_cases[] = {
    {"last", {DIMS(2, 3)}, {INTS_ATTR("axis", -1)}}, {"first", {DIMS(4, 3, 2)}, {INTS_ATTR("axis", 0)}},
    {"two", {DIMS(2, 3, 4)}, {INTS_ATTR("axis", 0, 2)}}, {"empty", {DIMS(0, 3)}, {INTS_ATTR("axis", 0)}},
};

static void cumsum_reference(op_values *v)
{
    const op_array *x = &v->in[0];
    const int       axis = axis_of(v, -1);
    const bool      is_reverse = op_case_number(v->c, "reverse", 0) != 0, is_exclusive = op_case_number(v->c, "exclusive", 0) != 0;
    const int64_t   n = x->dims[axis], post = behind(x, axis);

    for (int64_t i = 0; i < x->count; i++) {
        const int64_t place = i / post % n;
        v->out[0].data[i] = 0;
        for (int64_t k = 0; k < n; k++)
            if ((is_reverse ? k > place : k < place) || (!is_exclusive && k == place))
                v->out[0].data[i] += x->data[i + (k - place) * post];
    }
}

static void reverse_reference(op_values *v)
{
    const op_array *x = &v->in[0];

    for (int64_t i = 0; i < x->count; i++) {
        int64_t from = i;
        for (int d = 0; d < x->rank; d++)
            for (int k = 0; k < 2; k++)
                if ((int)op_case_item(v->c, "axis", k, 99) == d || (int)op_case_item(v->c, "axis", k, 99) == d - x->rank) {
                    const int64_t place = i / behind(x, d) % x->dims[d];
                    from += (x->dims[d] - 1 - 2 * place) * behind(x, d);
                }
        v->out[0].data[i] = x->data[from];
    }
}

THREE_QUESTIONS(cumsum, "cumsum", cumsum_cases, cumsum_reference)
THREE_QUESTIONS(reverse, "reverse", reverse_cases, reverse_reference)
TEST(cumsum_of_whole_numbers) { EACH_OF(c, whole_cases) check_forward("cumsum", c, cumsum_reference, 0); }

/* -- orders --------------------------------------------------------------------------------------------------------- */

static const op_case sort_cases[] = {
    {"rows", {DIMS(3, 7)}, {}, {DIMS(3, 7), {SIZE(3, 7), .is_typed = true, .dtype = TR_INT64}}},
    {"columns", {DIMS(5, 3)}, {INT_ATTR("axis", 0)}},
    {"middle", {DIMS(2, 4, 3)}, {INT_ATTR("axis", -2)}},
    {"equal ones", {VALUES(LIST(2, 1, 2, 1, 0, 2), 6)}},
    {"no rows", {DIMS(0, 3)}},
};

static void sort_reference(op_values *v)
{
    const op_array *x = &v->in[0];
    const int       axis = axis_of(v, -1);
    const int64_t   n = x->dims[axis], post = behind(x, axis);

    for (int64_t i = 0; i < x->count; i++) {
        const int64_t first = i - i / post % n * post;
        int64_t       rank = 0;
        for (int64_t k = 0; k < n; k++)
            rank += x->data[first + k * post] < x->data[i] || (x->data[first + k * post] == x->data[i] && first + k * post < i);
        v->out[0].data[first + rank * post] = x->data[i];
        v->out[1].data[first + rank * post] = (double)((i - first) / post);
    }
}

TEST(sort_matches_reference) { EACH_OF(c, sort_cases) check_forward("argsort", c, sort_reference, 0); }

TEST(nan_is_sorted_to_the_end)
{
    const op_case c = {"nan", {VALUES(LIST(NAN, 1, -1), 3)}};
    op_values     v = run_op("argsort", &c, TR_FP32);

    assert_true(v.out[0].data[0] == -1 && v.out[0].data[1] == 1 && isnan(v.out[0].data[2]) && v.out[1].data[2] == 0);
    op_values_free(&v);
}

static const op_case arg_cases[] = {
    {"rows", {DIMS(3, 7)}, {LONG_ATTR("axis", 1)}, {{SIZE(3), .is_typed = true, .dtype = TR_INT64}}},
    {"columns", {DIMS(3, 4)}, {LONG_ATTR("axis", 0)}}, {"middle", {DIMS(2, 4, 3)}, {LONG_ATTR("axis", -2)}},
    {"vector", {DIMS(5)}, {LONG_ATTR("axis", 0)}}, {"equal ones", {VALUES(LIST(2, 5, 5, 1, 1), 5)}, {LONG_ATTR("axis", 0)}},
    {"no rows", {DIMS(0, 3)}, {LONG_ATTR("axis", 1)}}, {"int32", {INT32S(-9, 9, 3, 4)}, {LONG_ATTR("axis", 0)}},
};

static void extreme(op_values *v, double sign)
{
    const op_array *x = &v->in[0];
    const int       axis = axis_of(v, 0);
    const int64_t   n = x->dims[axis], post = behind(x, axis);

    for (int64_t i = 0; i < v->out[0].count; i++) {
        const int64_t first = i / post * n * post + i % post;
        int64_t       best = 0;
        for (int64_t k = 1; k < n; k++)
            best = sign * x->data[first + k * post] > sign * x->data[first + best * post] ? k : best;
        v->out[0].data[i] = (double)best;
    }
}

static void max_reference(op_values *v) { extreme(v, 1); }
static void min_reference(op_values *v) { extreme(v, -1); }

TEST(arg_max_matches_reference) { EACH_OF(c, arg_cases) check_forward("arg_max", c, max_reference, 0); }
TEST(arg_min_matches_reference) { EACH_OF(c, arg_cases) check_forward("arg_min", c, min_reference, 0); }

/* -- rows ------------------------------------------------------------------------------------------------------------- */

#define ROW_IDS(list, n, type) {SIZE(n), .values = list, .is_typed = true, .dtype = type}

static const op_case multiplex_cases[] = {
    {"three", {INT32S(0, 3, 4, 1), DIMS(4, 2), MORE(4, 2), MORE(4, 2)}, {}, {DIMS(4, 2)}},
    {"flat ids", {INT32S(0, 2, 5), DIMS(5, 2, 2), MORE(5, 2, 2)}}, {"no rows", {INT32S(0, 2, 0, 1), DIMS(0, 2), MORE(0, 2)}},
};
static const op_case scatter_cases[] = {
    {"rows", {DIMS(5, 3), ROW_IDS(LIST(4, 0), 2, TR_INT64), DIMS(2, 3)}, {}, {DIMS(5, 3)}},
    {"repeated", {DIMS(4, 2), ROW_IDS(LIST(1, 3, 1), 3, TR_INT32), DIMS(3, 2)}},
    {"sums", {DIMS(4, 2), ROW_IDS(LIST(1, 3, 1), 3, TR_INT32), DIMS(3, 2)}, {BOOL_ATTR("overwrite", 0)}},
    {"column of ids", {DIMS(3, 2, 2), {SIZE(2, 1), TYPED(TR_INT64, 0, 3)}, DIMS(2, 2, 2)}},
    {"none", {DIMS(3, 2), {SIZE(0), TYPED(TR_INT64, 0, 3)}, DIMS(0, 2)}},
};

static void multiplex_reference(op_values *v)
{
    for (int64_t i = 0; i < v->out[0].count; i++)
        v->out[0].data[i] = v->in[1 + (int)v->in[0].data[i / behind(&v->out[0], 0)]].data[i];
}

static void scatter_reference(op_values *v)
{
    const bool    overwrite = op_case_number(v->c, "overwrite", 1) != 0;
    const int64_t width = behind(&v->in[0], 0);

    memcpy(v->out[0].data, v->in[0].data, (size_t)v->in[0].count * sizeof(double));
    for (int64_t i = 0; i < v->in[2].count; i++)
        v->out[0].data[(int64_t)v->in[1].data[i / width] * width + i % width] = 0;
    for (int64_t i = 0; i < v->in[2].count; i++) {
        double *to = &v->out[0].data[(int64_t)v->in[1].data[i / width] * width + i % width];
        *to = v->in[2].data[i] + (overwrite ? 0 : *to);
    }
}

THREE_QUESTIONS(multiplex, "multiplex", multiplex_cases, multiplex_reference)
THREE_QUESTIONS(scatter, "scatter", scatter_cases, scatter_reference)

/* -- numbers ------------------------------------------------------------------------------------------------------------ */

static const op_case linspace_cases[] = {
    {"eleven", {DIMS(1), DIMS(1), INT32S(11, 12, 1)}, {}, {DIMS(11)}}, {"one", {DIMS(1), DIMS(1), INT32S(1, 2, 1)}},
};

static void linspace_reference(op_values *v)
{
    for (int64_t i = 0; i < v->out[0].count; i++)
        v->out[0].data[i] = v->out[0].count == 1 ? v->in[0].data[0]
                            : v->in[0].data[0] + (double)i * (v->in[1].data[0] - v->in[0].data[0]) / (double)(v->out[0].count - 1);
}

TEST(linspace_matches_reference) { EACH_OF(c, linspace_cases) check_forward("linspace", c, linspace_reference, 1e-6); }

static const op_case fill_case = {"numbers", {ABSENT}, {FLOATS_ATTR("value", 1.5, -2, 0, 7), INTS_ATTR("shape", 2, 2), INT_ATTR("dtype", TR_INT64)}};
static const op_case zeros_cases[] = {
    {"int64 of floats", {DIMS(2, 3)}, {INT_ATTR("dtype", TR_INT64)}, {{SIZE(2, 3), .is_typed = true, .dtype = TR_INT64}}},
    {"bool of int32", {INT32S(0, 9, 4)}, {INT_ATTR("dtype", TR_BOOL)}}, {"none", {DIMS(0, 3)}},
};

static void zeros_reference(op_values *v)
{
    for (int64_t i = 0; i < v->out[0].count; i++)
        v->out[0].data[i] = 0;
}

TEST(zeros_match_reference) { EACH_OF(c, zeros_cases) check_forward("fill_zeros_like2", c, zeros_reference, 0); }

static void fill_reference(op_values *v)
{
    for (int i = 0; i < 4; i++)
        v->out[0].data[i] = (const double[]){1, -2, 0, 7}[i];
}

TEST(fill_has_each_number) { check_forward("fill", &fill_case, fill_reference, 0); }

/* Of a row that leaves no doubt, its column is drawn. */
static const op_case certain_cases[] = {
    {"certain", {VALUES(LIST(0, 1, 0, 1, 0, 0, 0, 0, 1, 0, 1, 0), 4, 3)}, {}, {{SIZE(4), .is_typed = true, .dtype = TR_INT64}}},
    {"no rows", {DIMS(0, 3)}},
};

static void certain_reference(op_values *v)
{
    for (int64_t i = 0; i < v->in[0].count; i++)
        if (v->in[0].data[i] == 1)
            v->out[0].data[i / 3] = (double)(i % 3);
}

TEST(certain_samples_are_drawn) { EACH_OF(c, certain_cases) check_forward("sampling_id", c, certain_reference, 0); }

/* A column is drawn as often as its probability says; min and max cut the distribution. */
TEST(samples_follow_the_probabilities)
{
    enum { ROWS = 4000 };
    static double  probabilities[ROWS * 3];
    int            drawn[3] = {0};
    const op_case  c = {"rows", {{SIZE(ROWS, 3), .values = probabilities}}, {INT_ATTR("seed", 7)}};
    const op_case  high = {"high", {{SIZE(ROWS, 3), .values = probabilities}}, {FLOAT_ATTR("min", 0.8)}};

    for (int i = 0; i < ROWS; i++)
        memcpy(probabilities + 3 * i, (double[]){0.2, 0.5, 0.3}, 3 * sizeof(double));
    op_values v = run_op("sampling_id", &c, TR_FP64), w = run_op("sampling_id", &high, TR_FP32);
    for (int i = 0; i < ROWS; i++) {
        drawn[(int)v.out[0].data[i]]++;
        assert_true(w.out[0].data[i] == 2);
    }
    assert_in_range(drawn[0], 700, 900);
    assert_in_range(drawn[1], 1850, 2150);
    op_values_free(&v);
    op_values_free(&w);
}

/* The published values of XXH64, and one that needs whole stripes. */
TEST(hashes_are_xxh64)
{
    static const uint8_t zeros[100];

    assert_true(tr_xxh64("", 0, 0) == 0xEF46DB3751D8E999u);
    assert_true(tr_xxh64("abc", 3, 0) == 0x44BC2CF5AD770999u);
    assert_true(tr_xxh64("Nobody inspects the spammish repetition", 39, 0) == 0xFBCEA83C8A378BF1u);
    assert_true(tr_xxh64(zeros, 100, 0) != tr_xxh64(zeros, 100, 1));
}

static const op_case hash_cases[] = {
    {"pairs", {INT32S(0, 1000, 5, 2)}, {INT_ATTR("num_hash", 3), INT_ATTR("mod_by", 1000)}, {{SIZE(5, 3, 1), .is_typed = true, .dtype = TR_INT64}}},
    {"int64", {INT64S(0, 1000, 4, 1)}}, {"sequences", {{SIZE(3, 1), TYPED(TR_INT64, 0, 9), .lod = {OFFSETS(0, 1, 3)}}}},
    {"none", {INT32S(0, 9, 0, 2)}},
};

static void hash_reference(op_values *v)
{
    const int64_t n = v->in[0].dims[v->in[0].rank - 1], hashes = (int64_t)op_case_number(v->c, "num_hash", 1);
    void         *bytes = op_array_encode(&v->in[0]);
    const size_t  size = v->in[0].dtype == TR_INT64 ? 8 : 4;

    for (int64_t i = 0; i < v->out[0].count; i++)
        v->out[0].data[i] = (double)(tr_xxh64((char *)bytes + (size_t)(i / hashes * n) * size, (size_t)n * 4, (uint64_t)(i % hashes)) %
                                     (uint64_t)op_case_number(v->c, "mod_by", 100000));
    free(bytes);
}

TEST(hash_matches_reference) { EACH_OF(c, hash_cases) check_forward("hash", c, hash_reference, 0); }

/* -- truth ---------------------------------------------------------------------------------------------------------------- */

static const op_case truth_cases[] = {
    {"rows", {BOOLS(4, 3)}, {INTS_ATTR("dim", 1)}, {{SIZE(4), .is_typed = true, .dtype = TR_BOOL}}},
    {"columns, kept", {BOOLS(3, 4)}, {INTS_ATTR("dim", 0), BOOL_ATTR("keep_dim", 1)}},
    {"outer ones", {BOOLS(2, 3, 2)}, {INTS_ATTR("dim", 0, 2)}}, {"everything", {BOOLS(2, 3)}, {BOOL_ATTR("reduce_all", 1)}},
    {"nothing", {BOOLS(2, 0)}, {INTS_ATTR("dim", 1)}},
};

static void truth(op_values *v, bool all)
{
    const op_array *x = &v->in[0];

    for (int64_t i = 0; i < v->out[0].count; i++)
        v->out[0].data[i] = all;
    for (int64_t i = 0; i < x->count; i++) {
        int64_t to = 0;
        for (int d = 0; d < x->rank; d++) {
            bool goes = op_case_number(v->c, "reduce_all", 0) != 0;
            for (int k = 0; k < 2; k++)
                goes |= op_case_item(v->c, "dim", k, 99) == d;
            to = goes ? to : to * x->dims[d] + i / behind(x, d) % x->dims[d];
        }
        v->out[0].data[to] = all ? v->out[0].data[to] != 0 && x->data[i] != 0 : v->out[0].data[to] != 0 || x->data[i] != 0;
    }
}

static void all_reference(op_values *v) { truth(v, true); }
static void any_reference(op_values *v) { truth(v, false); }

TEST(all_matches_reference) { EACH_OF(c, truth_cases) check_forward("reduce_all", c, all_reference, 0); }
TEST(any_matches_reference) { EACH_OF(c, truth_cases) check_forward("reduce_any", c, any_reference, 0); }

/* -- where ----------------------------------------------------------------------------------------------------------------- */

static const op_case where_cases[] = {
    {"a vector", {BOOLS(7)}}, {"rows", {BOOLS(3, 4)}}, {"a cube", {BOOLS(2, 3, 2)}}, {"nothing", {BOOLS(0, 3)}},
};

static void where_reference(op_values *v)
{
    const op_array *x = &v->in[0];
    int64_t         row = 0;

    for (int64_t i = 0; i < x->count; i++)
        if (x->data[i] != 0) {
            for (int d = 0; d < x->rank; d++)
                v->out[0].data[row * x->rank + d] = (double)(i / behind(x, d) % x->dims[d]);
            row++;
        }
}

TEST(where_matches_reference)
{
    EACH_OF(c, where_cases) check_forward("where", c, where_reference, 0);
    EACH_OF(c, where_cases) check_forward("where_index", c, where_reference, 0);       /* the name that later versions have for it */
}
TEST(where_takes_bools_alone)
{
    EXPECT_FAIL(TR_EDTYPE, "where: Condition must be bool, got float32", infer_shapes("where", {DIMS(2, 2)}));
}

/* -- similarity_focus --------------------------------------------------------------------------------------------------------- */

static const op_case focus_cases[] = {
    {"first axis", {DIMS(2, 3, 4, 2)}, {INT_ATTR("axis", 1), INTS_ATTR("indexes", 1)}},
    {"second axis", {DIMS(2, 3, 4, 5)}, {INT_ATTR("axis", 2), INTS_ATTR("indexes", 0, 3)}},
    {"third axis", {DIMS(1, 3, 3, 4)}, {INT_ATTR("axis", 3), INTS_ATTR("indexes", 2)}},
    {"no samples", {DIMS(0, 2, 2, 2)}, {INT_ATTR("axis", 1), INTS_ATTR("indexes", 0)}},
};

static void focus_reference(op_values *v)
{
    const op_array *x = &v->in[0];
    const int       axis = axis_of(v, 1), row = axis == 1 ? 2 : 1, column = axis == 3 ? 2 : 3;
    const int64_t   rows = x->dims[row], columns = x->dims[column];

    zeros_reference(v);
    for (int64_t n = 0; n < x->dims[0]; n++)
        for (int k = 0; op_case_item(v->c, "indexes", k, -1) >= 0; k++) {
            bool row_used[8] = {0}, column_used[8] = {0};
            for (int64_t round = 0; round < rows && round < columns; round++) {
                int64_t best_row = -1, best_column = -1, best = -1;
                for (int64_t i = 0; i < rows; i++)
                    for (int64_t j = 0; j < columns; j++) {
                        const int64_t at = n * behind(x, 0) + (int64_t)op_case_item(v->c, "indexes", k, 0) * behind(x, axis) +
                                           i * behind(x, row) + j * behind(x, column);
                        if (row_used[i] || column_used[j] || (best >= 0 && x->data[at] <= x->data[best]))
                            continue;
                        best = at;
                        best_row = i;
                        best_column = j;
                    }
                row_used[best_row] = column_used[best_column] = true;
                for (int64_t i = 0; i < x->dims[axis]; i++)
                    v->out[0].data[n * behind(x, 0) + i * behind(x, axis) + best_row * behind(x, row) + best_column * behind(x, column)] = 1;
            }
        }
}

TEST(focus_matches_reference) { EACH_OF(c, focus_cases) check_forward("similarity_focus", c, focus_reference, 0); }

/* -- mistakes ------------------------------------------------------------------------------------------------------------------- */

TEST(mistakes_are_explained)
{
    EXPECT_FAIL(TR_ERANGE, "axis", infer_shapes("cumsum", {DIMS(2, 3)}, {INT_ATTR("axis", 2)}));
    EXPECT_FAIL(TR_ERANGE, "it must have 1 to", infer_shapes("reverse", {DIMS(2, 3)}, {{"axis", TR_ATTR_INTS}}));
    EXPECT_FAIL(TR_ESHAPE, "there is nothing along dimension 1", infer_shapes("arg_max", {DIMS(2, 0)}, {LONG_ATTR("axis", 1)}));
    EXPECT_FAIL(TR_ERANGE, "X must be two tensors or more, got 1", infer_shapes("multiplex", {INT32S(0, 1, 2, 1), DIMS(2, 2)}));
    EXPECT_FAIL(TR_ERANGE, "is none of the 2 tensors of X", run_status("multiplex", {INT32S(2, 3, 2, 1), DIMS(2, 2), MORE(2, 2)}));
    EXPECT_FAIL(TR_ESHAPE, "Updates must be [2, 3], got [2, 4]", infer_shapes("scatter", {DIMS(5, 3), INT64S(0, 5, 2), DIMS(2, 4)}));
    EXPECT_FAIL(TR_ERANGE, "is no row of X, which has 5", run_status("scatter", {DIMS(5, 3), INT64S(5, 6, 2), DIMS(2, 3)}));
    EXPECT_FAIL(TR_ERANGE, "it must be at least 1", run_status("linspace", {DIMS(1), DIMS(1), INT32S(0, 1, 1)}));
    EXPECT_FAIL(TR_ERANGE, "'max' must be at least that", infer_shapes("sampling_id", {DIMS(2, 2)}, {FLOAT_ATTR("min", 2)}));
    EXPECT_FAIL(TR_ERANGE, "'value' has 3 numbers", infer_shapes("fill", {ABSENT}, {FLOATS_ATTR("value", 1, 2, 3), INTS_ATTR("shape", 2, 2)}));
    EXPECT_FAIL(TR_EDTYPE, "reduce_all", infer_shapes("reduce_all", {DIMS(2, 2)}));
    EXPECT_FAIL(TR_ERANGE, "dim", infer_shapes("reduce_any", {BOOLS(2, 2)}, {INTS_ATTR("dim", 2)}));
    EXPECT_FAIL(TR_ERANGE, "axis", infer_shapes("argsort", {DIMS(2, 2)}, {INT_ATTR("axis", -3)}));
    EXPECT_FAIL(TR_ERANGE, "axis", infer_shapes("arg_min", {DIMS(2, 2)}, {LONG_ATTR("axis", 2)}));
    EXPECT_FAIL(TR_EDTYPE, "hash: X must be int64", infer_shapes("hash", {DIMS(2, 2)}, {INT_ATTR("num_hash", 1), INT_ATTR("mod_by", 10)}));
    EXPECT_FAIL(TR_EUNSUPPORTED, "X must be a dense tensor", infer_shapes("fill_zeros_like2", {ROWS(9, OFFSETS(1, 2), 2, 2)}));
    EXPECT_FAIL(TR_ERANGE, "dimension 1 of X [1, 2, 2, 2] has no such place",
                infer_shapes("similarity_focus", {DIMS(1, 2, 2, 2)}, {INT_ATTR("axis", 1), INTS_ATTR("indexes", 2)}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cumsum_matches_reference),    cmocka_unit_test(cumsum_gradient_is_numeric),
        cmocka_unit_test(cumsum_of_whole_numbers),     cmocka_unit_test(reverse_matches_reference),
        cmocka_unit_test(reverse_gradient_is_numeric), cmocka_unit_test(sort_matches_reference),
        cmocka_unit_test(nan_is_sorted_to_the_end),    cmocka_unit_test(arg_max_matches_reference),
        cmocka_unit_test(arg_min_matches_reference),   cmocka_unit_test(multiplex_matches_reference),
        cmocka_unit_test(multiplex_gradient_is_numeric), cmocka_unit_test(scatter_matches_reference),
        cmocka_unit_test(scatter_gradient_is_numeric), cmocka_unit_test(linspace_matches_reference),
        cmocka_unit_test(zeros_match_reference),       cmocka_unit_test(fill_has_each_number),
        cmocka_unit_test(certain_samples_are_drawn),   cmocka_unit_test(samples_follow_the_probabilities), cmocka_unit_test(hashes_are_xxh64),
        cmocka_unit_test(hash_matches_reference),      cmocka_unit_test(all_matches_reference),
        cmocka_unit_test(any_matches_reference),
        cmocka_unit_test(where_matches_reference),
        cmocka_unit_test(where_takes_bools_alone),
        cmocka_unit_test(focus_matches_reference),
        cmocka_unit_test(mistakes_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
