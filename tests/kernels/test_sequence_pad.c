/* Sequences and rows of equal length: sequence_pad, sequence_unpad, sequence_mask. */
#include "tests/support/op_check.h"

#define RAGGED OFFSETS(0, 2, 2, 5, 6)
#define IDS(list, ...) {SIZE(__VA_ARGS__), TYPED(TR_INT64, 0, 0), .values = list}

/* -- sequence_pad ------------------------------------------------------------------------------- */

static const op_case cases[] = {
    {"to the longest", {SEQUENCES(RAGGED, 6, 2), CONSTANT(1)}, .out = {DIMS(4, 3, 2), DIMS(4, 1)}},
    {"farther", {SEQUENCES(RAGGED, 6, 2), CONSTANT(1)}, {INT_ATTR("padded_length", 5)}, {DIMS(4, 5, 2)}},
    {"a row of padding", {SEQUENCES(RAGGED, 6, 2, 2), CONSTANT(2, 2)}, .out = {DIMS(4, 3, 2, 2)}},
    {"a vector", {SEQUENCES(RAGGED, 6), CONSTANT(1)}, .out = {DIMS(4, 3)}},
    {"outer levels stay", {NESTED(OFFSETS(0, 1, 2), OFFSETS(0, 2, 5), 5, 1), CONSTANT(1)},
     .out = {SEQUENCES(OFFSETS(0, 1, 2), 2, 3, 1)}},
    {"all are empty", {SEQUENCES(OFFSETS(0, 0, 0), 0, 2), CONSTANT(1)}, .out = {DIMS(2, 0, 2)}},
};

static int64_t width_of(const op_array *x, int from)
{
    int64_t width = 1;

    for (int d = from; d < x->rank; d++)
        width *= x->dims[d];
    return width;
}

static void reference(op_values *v)
{
    const op_offsets *s = op_case_sequences(v->c, 0);
    const int64_t     length = v->out[0].dims[1], width = width_of(&v->in[0], 1);

    for (int64_t i = 0; i + 1 < s->count; i++) {
        const int64_t rows = s->item[i + 1] - s->item[i];
        v->out[1].data[i] = (double)rows;
        for (int64_t t = 0; t < length; t++)
            for (int64_t k = 0; k < width; k++)
                v->out[0].data[(i * length + t) * width + k] = t < rows ? v->in[0].data[(s->item[i] + t) * width + k]
                                                                        : v->in[1].data[v->in[1].count == 1 ? 0 : k];
    }
}

TEST(padding_matches_reference)   { EACH(c) check_forward("sequence_pad", c, reference, 0); }
TEST(padding_gradient_is_numeric) { EACH(c) check_gradient("sequence_pad", c, 1e-4, 1e-7); }

TEST(padding_mistakes_are_explained)
{
    EXPECT_FAIL(TR_ERANGE, "padded_length is 2, but a sequence of 'x0' has 3 rows",
                run_status("sequence_pad", {SEQUENCES(RAGGED, 6, 2), DIMS(1)}, {INT_ATTR("padded_length", 2)}));
    EXPECT_FAIL(TR_EINVAL, "sequence_pad: X 'x0' has no sequences", run_status("sequence_pad", {DIMS(6, 2), DIMS(1)}));
    EXPECT_FAIL(TR_ESHAPE, "PadValue must hold 1 or 2 numbers; it is [3]", infer_shapes("sequence_pad", {DIMS(6, 2), DIMS(3)}));
    EXPECT_FAIL(TR_EDTYPE, "PadValue must be float32", infer_shapes("sequence_pad", {DIMS(6, 2), INT64S(0, 1, 1)}));
}

/* -- sequence_unpad ----------------------------------------------------------------------------- */

static const op_case unpad_cases[] = {
    {"some", {DIMS(4, 3, 2), IDS(LIST(2, 0, 3, 1), 4, 1)}, .out = {SEQUENCES(RAGGED, 6, 2)}},
    {"single numbers", {DIMS(3, 4), IDS(LIST(1, 4, 2), 3)}, .out = {SEQUENCES(OFFSETS(0, 1, 5, 7), 7, 1)}},
    {"a level more", {SEQUENCES(OFFSETS(0, 1, 2), 2, 3, 1), IDS(LIST(2, 3), 2, 1)},
     .out = {NESTED(OFFSETS(0, 1, 2), OFFSETS(0, 2, 5), 5, 1)}},
    {"nothing", {DIMS(2, 3, 2), IDS(LIST(0, 0), 2, 1)}, .out = {SEQUENCES(OFFSETS(0, 0, 0), 0, 2)}},
};

static void unpad_reference(op_values *v)
{
    const int64_t length = v->in[0].dims[1], width = width_of(&v->in[0], 2);
    double       *out = v->out[0].data;

    for (int64_t i = 0; i < v->in[0].dims[0]; i++)
        for (int64_t k = 0; k < (int64_t)v->in[1].data[i] * width; k++)
            *out++ = v->in[0].data[i * length * width + k];
}

TEST(unpadding_matches_reference)   { EACH_OF(c, unpad_cases) check_forward("sequence_unpad", c, unpad_reference, 0); }
TEST(unpadding_gradient_is_numeric) { EACH_OF(c, unpad_cases) check_gradient("sequence_unpad", c, 1e-4, 1e-7); }

TEST(unpadding_mistakes_are_explained)
{
    EXPECT_FAIL(TR_ERANGE, "Length 'x1' says 4 rows for sequence 1, but X 'x0' is [2, 3, 2]",
                run_status("sequence_unpad", {DIMS(2, 3, 2), IDS(LIST(0, 4), 2, 1)}));
    EXPECT_FAIL(TR_ESHAPE, "Length must hold 2 numbers; it is [3, 1]",
                infer_shapes("sequence_unpad", {DIMS(2, 3, 2), INT64S(0, 2, 3, 1)}));
}

/* -- sequence_mask ------------------------------------------------------------------------------ */

static const op_case mask_cases[] = {
    {"to the longest", {IDS(LIST(2, 0, 3), 3)}, {INT_ATTR("out_dtype", TR_INT64)}, {INT64S(0, 0, 3, 3)}},
    {"wider", {IDS(LIST(2, 0, 3), 3, 1)}, {INT_ATTR("out_dtype", TR_FP32), INT_ATTR("maxlen", 5)},
     {{SIZE(3, 1, 5), TYPED(TR_FP32, 0, 0)}}},
    {"narrower", {IDS(LIST(2, 0, 3), 3)}, {INT_ATTR("out_dtype", TR_UINT8), INT_ATTR("maxlen", 2)}},
    {"lengths of any type", {FLOATS(0, 6, 4)}, {INT_ATTR("out_dtype", TR_FP64), INT_ATTR("maxlen", 4)}},
    {"nothing", {IDS(LIST(0, 0), 2)}, {INT_ATTR("out_dtype", TR_BOOL)}, {{SIZE(2, 0), TYPED(TR_BOOL, 0, 0)}}},
};

static void mask_reference(op_values *v)
{
    const int64_t width = v->out[0].dims[v->out[0].rank - 1];

    for (int64_t i = 0; i < v->out[0].count; i++)
        v->out[0].data[i] = i % width < (int64_t)v->in[0].data[i / width];
}

TEST(mask_matches_reference) { EACH_OF(c, mask_cases) check_forward("sequence_mask", c, mask_reference, 0); }

TEST(mask_mistakes_are_explained)
{
    EXPECT_FAIL(TR_ERANGE, "maxlen must be -1 or greater than 0, got 0",
                infer_shapes("sequence_mask", {INT64S(0, 3, 3)}, {INT_ATTR("out_dtype", TR_INT64), INT_ATTR("maxlen", 0)}));
    EXPECT_FAIL(TR_EINVAL, "out_dtype", infer_shapes("sequence_mask", {INT64S(0, 3, 3)}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(padding_matches_reference),
        cmocka_unit_test(padding_gradient_is_numeric),
        cmocka_unit_test(padding_mistakes_are_explained),
        cmocka_unit_test(unpadding_matches_reference),
        cmocka_unit_test(unpadding_gradient_is_numeric),
        cmocka_unit_test(unpadding_mistakes_are_explained),
        cmocka_unit_test(mask_matches_reference),
        cmocka_unit_test(mask_mistakes_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
