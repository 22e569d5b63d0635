/* sequence_pool and sequence_softmax: what each sequence becomes. */
#include "tests/support/op_check.h"

#define POOL(name) {STRING_ATTR("pooltype", name)}
#define RAGGED     OFFSETS(0, 2, 2, 7, 8, 8)             /* two of five are empty */

/* -- sequence_pool ------------------------------------------------------------------------------ */

static const op_case cases[] = {
    {"average", {SEQUENCES(RAGGED, 8, 3)}, .out = {DIMS(5, 3)}},
    {"sum", {SEQUENCES(RAGGED, 8, 3)}, POOL("SUM")},
    {"sum over root of length", {SEQUENCES(RAGGED, 8, 3)}, POOL("SQRT")},
    {"max", {SEQUENCES(RAGGED, 8, 3)}, POOL("MAX"), .out = {DIMS(5, 3), {SIZE(5, 3), .is_typed = true, .dtype = TR_INT32}}},
    {"last", {SEQUENCES(RAGGED, 8, 3)}, POOL("LAST")},
    {"first", {SEQUENCES(RAGGED, 8, 3)}, POOL("FIRST")},
    {"one sequence of one row", {SEQUENCES(OFFSETS(0, 1), 1, 1)}, POOL("SQRT")},
    {"a vector", {SEQUENCES(OFFSETS(0, 3, 7), 7)}, POOL("MAX"), .out = {DIMS(2)}},
    {"rows of two dimensions", {SEQUENCES(OFFSETS(0, 3, 7), 7, 2, 5)}, POOL("SUM"), .out = {DIMS(2, 2, 5)}},
    {"all are empty", {SEQUENCES(OFFSETS(0, 0, 0), 0, 4)}, POOL("MAX"), .out = {DIMS(2, 4)}},
    {"no sequences", {SEQUENCES(OFFSETS(0), 0, 4)}, POOL("AVERAGE"), .out = {DIMS(0, 4)}},
    {"a value for empty ones", {SEQUENCES(RAGGED, 8, 3)}, {STRING_ATTR("pooltype", "LAST"), FLOAT_ATTR("pad_value", -2)}},
    {"outer levels stay", {NESTED(OFFSETS(0, 1, 3), OFFSETS(0, 2, 5, 6), 6, 2)}, POOL("AVERAGE"),
     .out = {SEQUENCES(OFFSETS(0, 1, 3), 3, 2)}},
};

static double pooled(const char *pool, const double *x, int64_t rows, int64_t width, int64_t *row)
{
    double  sum = 0;
    int64_t best = 0;

    for (int64_t r = 0; r < rows; r++) {
        sum += x[r * width];
        best = x[r * width] > x[best * width] ? r : best;
    }
    *row = best;
    switch (pool[0]) {
    case 'A': return sum / (double)rows;
    case 'M': return x[best * width];
    case 'L': return x[(rows - 1) * width];
    case 'F': return x[0];
    default:  return strcmp(pool, "SUM") == 0 ? sum : sum / sqrt((double)rows);
    }
}

static void reference(op_values *v)
{
    const op_offsets *s = op_case_sequences(v->c, 0);
    const char       *pool = "AVERAGE";
    int64_t           width = 1;

    for (int i = 0; i < OP_MAX_ATTRS && v->c->attr[i].name; i++)
        if (strcmp(v->c->attr[i].name, "pooltype") == 0)
            pool = v->c->attr[i].text;
    for (int d = 1; d < v->in[0].rank; d++)
        width *= v->in[0].dims[d];
    for (int64_t i = 0; i + 1 < s->count; i++)
        for (int64_t k = 0; k < width; k++) {
            const int64_t first = s->item[i], rows = s->item[i + 1] - first;
            int64_t       row = 0;
            v->out[0].data[i * width + k] = rows == 0 ? op_case_number(v->c, "pad_value", 0)
                                            : pooled(pool, v->in[0].data + first * width + k, rows, width, &row);
            if (strcmp(pool, "MAX") == 0)
                v->out[1].data[i * width + k] = rows == 0 ? -1 : (double)(first + row);
        }
}

TEST(pools_match_reference)    { EACH(c) check_forward("sequence_pool", c, reference, 1e-6); }
TEST(pool_gradient_is_numeric) { EACH(c) check_gradient("sequence_pool", c, 1e-5, 1e-7); }

TEST(many_long_sequences_are_pooled)
{
    enum { SEQUENCES_ = 300, ROWS_ = 37 };
    static int64_t offset[SEQUENCES_ + 1];

    for (int i = 0; i < SEQUENCES_; i++)
        offset[i + 1] = offset[i] + i % ROWS_;
    const op_case c = {"many", {{SIZE(offset[SEQUENCES_], 33), .lod = {{SEQUENCES_ + 1, offset}}}}, POOL("MAX")};
    check_forward("sequence_pool", &c, reference, 1e-6);
    const op_case sums = {"many", {{SIZE(offset[SEQUENCES_], 33), .lod = {{SEQUENCES_ + 1, offset}}}}, POOL("SQRT")};
    check_forward("sequence_pool", &sums, reference, 1e-5);
}

TEST(pool_mistakes_are_explained)
{
    EXPECT_FAIL(TR_EINVAL, "sequence_pool: X 'x0' has no sequences (LoD); feed it with create_lod_tensor",
                run_status("sequence_pool", {DIMS(4, 2)}));
    EXPECT_FAIL(TR_ERANGE, "AVERAGE, SUM, SQRT, MAX, LAST, FIRST", infer_shapes("sequence_pool", {DIMS(4, 2)}, POOL("MIN")));
}

TEST(pool_shape_is_inferred)
{
    EXPECT_SHAPE("float32[?, 2]", "sequence_pool", {DIMS(4, 2)});
}

/* -- sequence_softmax --------------------------------------------------------------------------- */

static const op_case softmax_cases[] = {
    {"a column", {SEQUENCES(RAGGED, 8, 1)}, .out = {SEQUENCES(RAGGED, 8, 1)}},
    {"a vector", {SEQUENCES(OFFSETS(0, 4, 5, 9), 9)}, .out = {SEQUENCES(OFFSETS(0, 4, 5, 9), 9)}},
    {"large numbers", {{SIZE(5, 1), .low = 500, .high = 900, .lod = {OFFSETS(0, 3, 5)}}}},
    {"two levels", {NESTED(OFFSETS(0, 2, 3), OFFSETS(0, 2, 5, 6), 6, 1)},
     .out = {NESTED(OFFSETS(0, 2, 3), OFFSETS(0, 2, 5, 6), 6, 1)}},
    {"nothing", {SEQUENCES(OFFSETS(0, 0), 0, 1)}},
};

static void softmax_reference(op_values *v)
{
    const op_offsets *s = op_case_sequences(v->c, 0);

    for (int64_t i = 0; i + 1 < s->count; i++) {
        double max = -INFINITY, sum = 0;
        for (int64_t t = s->item[i]; t < s->item[i + 1]; t++)
            max = fmax(max, v->in[0].data[t]);
        for (int64_t t = s->item[i]; t < s->item[i + 1]; t++)
            sum += exp(v->in[0].data[t] - max);
        for (int64_t t = s->item[i]; t < s->item[i + 1]; t++)
            v->out[0].data[t] = exp(v->in[0].data[t] - max) / sum;
    }
}

TEST(softmax_matches_reference) { EACH_OF(c, softmax_cases) check_forward("sequence_softmax", c, softmax_reference, 2e-5); }
TEST(softmax_gradient_is_numeric)
{
    EACH_OF(c, softmax_cases)
        if (c->in[0].high == 0)
            check_gradient("sequence_softmax", c, 1e-5, 1e-7);
}

TEST(softmax_mistakes_are_explained)
{
    EXPECT_FAIL(TR_EINVAL, "sequence_softmax: X 'x0' has no sequences (LoD)", run_status("sequence_softmax", {DIMS(4, 1)}));
    EXPECT_FAIL(TR_ESHAPE, "one number in each row, got [4, 2]", infer_shapes("sequence_softmax", {DIMS(4, 2)}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pools_match_reference),
        cmocka_unit_test(pool_gradient_is_numeric),
        cmocka_unit_test(many_long_sequences_are_pooled),
        cmocka_unit_test(pool_mistakes_are_explained),
        cmocka_unit_test(pool_shape_is_inferred),
        cmocka_unit_test(softmax_matches_reference),
        cmocka_unit_test(softmax_gradient_is_numeric),
        cmocka_unit_test(softmax_mistakes_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
