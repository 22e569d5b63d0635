/* Sequences of numbers of words: sequence_enumerate, sequence_erase, sequence_scatter. */
#include "tests/support/op_check.h"

#define RAGGED OFFSETS(0, 2, 2, 5, 6)
#define WORDS(dtype_, list, offsets, ...) {SIZE(__VA_ARGS__), TYPED(dtype_, 0, 0), .values = list, .lod = {offsets}}

/* -- sequence_enumerate ------------------------------------------------------------------------- */

static const op_case cases[] = {
    {"pairs", {WORDS(TR_INT64, LIST(1, 2, 3, 4, 5, 6), RAGGED, 6, 1)}, {INT_ATTR("win_size", 2)},
     {{SIZE(6, 2), TYPED(TR_INT64, 0, 0), .lod = {RAGGED}}}},
    {"with a number for none", {WORDS(TR_INT32, LIST(1, 2, 3, 4, 5, 6), RAGGED, 6, 1)},
     {INT_ATTR("win_size", 4), INT_ATTR("pad_value", -1)}},
    {"single words", {WORDS(TR_INT64, LIST(1, 2, 3, 4, 5, 6), RAGGED, 6, 1)}, {INT_ATTR("win_size", 1)}},
    {"no words", {WORDS(TR_INT64, LIST(0), OFFSETS(0, 0), 0, 1)}, {INT_ATTR("win_size", 2)}},
};

static void reference(op_values *v)
{
    const op_offsets *s = op_case_sequences(v->c, 0);
    double           *out = v->out[0].data;

    for (int64_t i = 0; i + 1 < s->count; i++)
        for (int64_t t = s->item[i]; t < s->item[i + 1]; t++)
            for (int64_t k = t; k < t + v->out[0].dims[1]; k++)
                *out++ = k < s->item[i + 1] ? v->in[0].data[k] : op_case_number(v->c, "pad_value", 0);
}

TEST(windows_match_reference) { EACH(c) check_forward("sequence_enumerate", c, reference, 0); }

/* -- sequence_erase ----------------------------------------------------------------------------- */

static const op_case erase_cases[] = {
    {"two words", {WORDS(TR_INT64, LIST(1, 2, 3, 2, 5, 3), RAGGED, 6, 1)}, {INTS_ATTR("tokens", 2, 3)},
     {{SIZE(2, 1), TYPED(TR_INT64, 0, 0), .lod = {OFFSETS(0, 1, 1, 2, 2)}}}},
    {"a word that is not there", {WORDS(TR_INT32, LIST(1, 2, 3, 2, 5, 3), RAGGED, 6, 1)}, {INTS_ATTR("tokens", 9)}},
    {"all words", {WORDS(TR_INT32, LIST(1, 1, 1, 1, 1, 1), RAGGED, 6, 1)}, {INTS_ATTR("tokens", 1)},
     {{SIZE(0, 1), TYPED(TR_INT32, 0, 0), .lod = {OFFSETS(0, 0, 0, 0, 0)}}}},
};

static void erase_reference(op_values *v)
{
    const op_attr *tokens = &v->c->attr[0];
    double        *out = v->out[0].data;

    for (int64_t t = 0; t < v->in[0].count; t++) {
        bool is_token = false;
        for (int i = 0; i < tokens->count; i++)
            is_token = is_token || v->in[0].data[t] == tokens->list[i];
        if (!is_token)
            *out++ = v->in[0].data[t];
    }
}

TEST(erasing_matches_reference) { EACH_OF(c, erase_cases) check_forward("sequence_erase", c, erase_reference, 0); }

TEST(mistakes_are_explained)
{
    EXPECT_FAIL(TR_EINVAL, "sequence_enumerate: X 'x0' has no sequences",
                run_status("sequence_enumerate", {INT64S(0, 5, 4, 1)}, {INT_ATTR("win_size", 2)}));
    EXPECT_FAIL(TR_ERANGE, "win_size", infer_shapes("sequence_enumerate", {INT64S(0, 5, 4, 1)}, {INT_ATTR("win_size", 0)}));
    EXPECT_FAIL(TR_ESHAPE, "X must be [rows, 1], got [4, 2]",
                infer_shapes("sequence_enumerate", {INT64S(0, 5, 4, 2)}, {INT_ATTR("win_size", 2)}));
    EXPECT_FAIL(TR_EDTYPE, "X must be int64", infer_shapes("sequence_erase", {DIMS(4, 1)}, {INTS_ATTR("tokens", 2)}));
    EXPECT_FAIL(TR_EINVAL, "sequence_erase: X 'x0' has no sequences",
                run_status("sequence_erase", {INT64S(0, 5, 4, 1)}, {INTS_ATTR("tokens", 2)}));
}

/* -- sequence_scatter --------------------------------------------------------------------------- */

static const op_case scatter_cases[] = {
    {"some repeated", {DIMS(4, 5), WORDS(TR_INT64, LIST(3, 3, 0, 4, 0, 2), RAGGED, 6, 1), DIMS(6, 1)}, .out = {DIMS(4, 5)}},
    {"vectors", {DIMS(2, 3), WORDS(TR_INT32, LIST(1, 0, 2), OFFSETS(0, 1, 3), 3), DIMS(3)}},
    {"no updates", {DIMS(2, 3), WORDS(TR_INT64, LIST(0), OFFSETS(0, 0, 0), 0, 1), DIMS(0, 1)}},
};

static void scatter_reference(op_values *v)
{
    const op_offsets *s = op_case_sequences(v->c, 1);

    memcpy(v->out[0].data, v->in[0].data, (size_t)v->in[0].count * sizeof(double));
    for (int64_t i = 0; i + 1 < s->count; i++)
        for (int64_t j = s->item[i]; j < s->item[i + 1]; j++)
            v->out[0].data[i * v->in[0].dims[1] + (int64_t)v->in[1].data[j]] += v->in[2].data[j];
}

TEST(scatter_matches_reference)   { EACH_OF(c, scatter_cases) check_forward("sequence_scatter", c, scatter_reference, 1e-6); }
TEST(scatter_gradient_is_numeric) { EACH_OF(c, scatter_cases) check_gradient("sequence_scatter", c, 1e-4, 1e-7); }

TEST(scatter_mistakes_are_explained)
{
    EXPECT_FAIL(TR_ERANGE, "number 5 at position 1 of Ids 'x1' is no column of 'x0' [2, 5]",
                run_status("sequence_scatter", {DIMS(2, 5), WORDS(TR_INT64, LIST(0, 5), OFFSETS(0, 1, 2), 2, 1), DIMS(2, 1)}));
    EXPECT_FAIL(TR_ESHAPE, "X 'x0' has 3 rows, but Ids 'x1' 2 sequences",
                run_status("sequence_scatter", {DIMS(3, 5), WORDS(TR_INT64, LIST(0, 4), OFFSETS(0, 1, 2), 2, 1), DIMS(2, 1)}));
    EXPECT_FAIL(TR_EINVAL, "sequence_scatter: Ids 'x1' has no sequences",
                run_status("sequence_scatter", {DIMS(3, 5), INT64S(0, 5, 2, 1), DIMS(2, 1)}));
    EXPECT_FAIL(TR_ESHAPE, "Ids is [2, 1] and Updates [3, 1]",
                infer_shapes("sequence_scatter", {DIMS(3, 5), INT64S(0, 5, 2, 1), DIMS(3, 1)}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_match_reference),
        cmocka_unit_test(erasing_matches_reference),
        cmocka_unit_test(mistakes_are_explained),
        cmocka_unit_test(scatter_matches_reference),
        cmocka_unit_test(scatter_gradient_is_numeric),
        cmocka_unit_test(scatter_mistakes_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
