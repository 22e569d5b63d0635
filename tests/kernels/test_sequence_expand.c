/* Sequences moved about: sequence_expand, sequence_expand_as, sequence_concat, sequence_slice, sequence_reverse,
 * sequence_reshape, lod_reset. */
#include "tests/support/op_check.h"

#define RAGGED OFFSETS(0, 2, 2, 5, 6)
#define IDS(list, ...) {SIZE(__VA_ARGS__), TYPED(TR_INT64, 0, 0), .values = list}
/* Only its sequences are read. */
#define LIKE(offsets, rows)          {SIZE(rows, 1), TYPED(TR_INT64, 0, 1), .lod = {offsets}}
#define LIKE2(groups, offsets, rows) {SIZE(rows, 1), TYPED(TR_INT64, 0, 1), .lod = {groups, offsets}}

static int64_t width_of(const op_array *x)
{
    int64_t width = 1;

    for (int d = 1; d < x->rank; d++)
        width *= x->dims[d];
    return width;
}

/* Append `rows` rows of x, from `from` on, to where *out points. */
static void append(double **out, const op_array *x, int64_t from, int64_t rows)
{
    const int64_t width = width_of(x);

    for (int64_t i = 0; i < rows * width; i++)
        *(*out)++ = x->data[from * width + i];
}

/* -- sequence_expand ---------------------------------------------------------------------------- */

static const op_case cases[] = {
    {"rows", {DIMS(4, 3), LIKE(RAGGED, 6)}, .out = {DIMS(6, 3)}},
    {"sequences", {SEQUENCES(OFFSETS(0, 2, 3, 3, 4), 4, 2), LIKE(RAGGED, 6)},
     .out = {SEQUENCES(OFFSETS(0, 2, 4, 4, 4, 4, 5), 5, 2)}},
    {"by the outer level", {SEQUENCES(OFFSETS(0, 1, 3), 3, 2), LIKE2(OFFSETS(0, 3, 3), OFFSETS(0, 1, 1, 4), 4)},
     {INT_ATTR("ref_level", 0)}, {SEQUENCES(OFFSETS(0, 1, 2, 3), 3, 2)}},
    {"rows by the inner level", {DIMS(3, 1), LIKE2(OFFSETS(0, 1, 3), OFFSETS(0, 2, 3, 6), 6)}, .out = {DIMS(6, 1)}},
    {"whole numbers", {INT64S(0, 9, 2, 2), LIKE(OFFSETS(0, 3, 4), 4)}},
    {"nothing is left", {DIMS(2, 3), LIKE(OFFSETS(0, 0, 0), 0)}, .out = {DIMS(0, 3)}},
};

static const op_offsets *reference_level(const op_case *c)
{
    const int level = (int)op_case_number(c, "ref_level", -1);
    return level < 0 ? op_case_sequences(c, 1) : &c->in[1].lod[level];
}

static void reference(op_values *v)
{
    const op_offsets *ref = reference_level(v->c), *x = op_case_sequences(v->c, 0);
    double           *out = v->out[0].data;

    for (int64_t i = 0; i + 1 < ref->count; i++)
        for (int64_t n = ref->item[i]; n < ref->item[i + 1]; n++)
            append(&out, &v->in[0], x->count ? x->item[i] : i, x->count ? x->item[i + 1] - x->item[i] : 1);
}

TEST(expansion_matches_reference) { EACH(c) check_forward("sequence_expand", c, reference, 0); }
TEST(expansion_gradient_is_numeric)
{
    EACH(c)
        if (!c->in[0].is_typed)
            check_gradient("sequence_expand", c, 1e-4, 1e-7);
}

TEST(expansion_mistakes_are_explained)
{
    EXPECT_FAIL(TR_EINVAL, "sequence_expand: Y 'x1' has no sequences (LoD)",
                run_status("sequence_expand", {DIMS(4, 3), INT64S(0, 1, 6, 1)}));
    EXPECT_FAIL(TR_ESHAPE, "X 'x0' has 3 rows, but Y 'x1' has 4 sequences",
                run_status("sequence_expand", {DIMS(3, 3), LIKE(RAGGED, 6)}));
    EXPECT_FAIL(TR_ESHAPE, "X 'x0' has 2 sequences, but Y 'x1' has 4",
                run_status("sequence_expand", {SEQUENCES(OFFSETS(0, 1, 3), 3, 3), LIKE(RAGGED, 6)}));
    EXPECT_FAIL(TR_ERANGE, "level 1 of Y 'x1', which has 1",
                run_status("sequence_expand", {DIMS(4, 3), LIKE(RAGGED, 6)}, {INT_ATTR("ref_level", 1)}));
    EXPECT_FAIL(TR_EUNSUPPORTED, "X 'x0' has 2 levels",
                run_status("sequence_expand", {NESTED(OFFSETS(0, 2), OFFSETS(0, 1, 3), 3, 3), LIKE(OFFSETS(0, 2, 3), 3)}));
}

/* -- sequence_expand_as ------------------------------------------------------------------------- */

static const op_case as_cases[] = {
    {"ragged", {DIMS(4, 3), LIKE(RAGGED, 6)}, .out = {SEQUENCES(RAGGED, 6, 3)}},
    {"two levels", {DIMS(3, 1, 2), LIKE2(OFFSETS(0, 1, 3), OFFSETS(0, 2, 3, 6), 6)},
     .out = {NESTED(OFFSETS(0, 1, 3), OFFSETS(0, 2, 3, 6), 6, 1, 2)}},
    {"nothing", {DIMS(1, 3), LIKE(OFFSETS(0, 0), 0)}},
};

TEST(expansion_as_matches_reference)   { EACH_OF(c, as_cases) check_forward("sequence_expand_as", c, reference, 0); }
TEST(expansion_as_gradient_is_numeric) { EACH_OF(c, as_cases) check_gradient("sequence_expand_as", c, 1e-4, 1e-7); }

TEST(expansion_as_mistakes_are_explained)
{
    EXPECT_FAIL(TR_EINVAL, "sequence_expand_as: Y 'x1' has no sequences",
                run_status("sequence_expand_as", {DIMS(4, 3), INT64S(0, 1, 6, 1)}));
    EXPECT_FAIL(TR_ESHAPE, "X 'x0' has 3 rows, but Y 'x1' 4 sequences",
                run_status("sequence_expand_as", {DIMS(3, 3), LIKE(RAGGED, 6)}));
}

/* -- sequence_concat ---------------------------------------------------------------------------- */

#define MORE_SEQUENCES(offsets, ...) {SIZE(__VA_ARGS__), .lod = {offsets}, .is_more = true}

static const op_case concat_cases[] = {
    {"two", {SEQUENCES(RAGGED, 6, 2), MORE_SEQUENCES(OFFSETS(0, 1, 3, 3, 4), 4, 2)},
     .out = {SEQUENCES(OFFSETS(0, 3, 5, 8, 10), 10, 2)}},
    {"three", {SEQUENCES(OFFSETS(0, 1, 2), 2, 3, 2), MORE_SEQUENCES(OFFSETS(0, 0, 0), 0, 3, 2),
               MORE_SEQUENCES(OFFSETS(0, 2, 2), 2, 3, 2)}, .out = {SEQUENCES(OFFSETS(0, 3, 4), 4, 3, 2)}},
    {"one", {SEQUENCES(RAGGED, 6, 2)}, .out = {SEQUENCES(RAGGED, 6, 2)}},
};

static void concat_reference(op_values *v)
{
    double *out = v->out[0].data;

    for (int64_t i = 0; i + 1 < op_case_sequences(v->c, 0)->count; i++)
        for (int k = 0; k < v->in_count; k++) {
            const int64_t *offset = op_case_sequences(v->c, k)->item;
            append(&out, &v->in[k], offset[i], offset[i + 1] - offset[i]);
        }
}

TEST(concat_matches_reference)   { EACH_OF(c, concat_cases) check_forward("sequence_concat", c, concat_reference, 0); }
TEST(concat_gradient_is_numeric) { EACH_OF(c, concat_cases) check_gradient("sequence_concat", c, 1e-4, 1e-7); }

TEST(concat_mistakes_are_explained)
{
    EXPECT_FAIL(TR_EINVAL, "sequence_concat: X 'x1' has no sequences",
                run_status("sequence_concat", {SEQUENCES(RAGGED, 6, 2), MORE(4, 2)}));
    EXPECT_FAIL(TR_ESHAPE, "'x1' has 2 sequences, 'x0' has 4",
                run_status("sequence_concat", {SEQUENCES(RAGGED, 6, 2), MORE_SEQUENCES(OFFSETS(0, 1, 4), 4, 2)}));
    EXPECT_FAIL(TR_ESHAPE, "X[1] is [4, 3] and X[0] [6, 2]", infer_shapes("sequence_concat", {DIMS(6, 2), MORE(4, 3)}));
}

/* -- sequence_slice ----------------------------------------------------------------------------- */

static const op_case slice_cases[] = {
    {"some", {SEQUENCES(RAGGED, 6, 2), IDS(LIST(1, 0, 0, 0), 4, 1), IDS(LIST(1, 0, 2, 1), 4, 1)},
     .out = {SEQUENCES(OFFSETS(0, 1, 1, 3, 4), 4, 2)}},
    {"all", {SEQUENCES(RAGGED, 6, 2), IDS(LIST(0, 0, 0, 0), 4, 1), IDS(LIST(2, 0, 3, 1), 4, 1)}},
    {"none", {SEQUENCES(RAGGED, 6, 2), IDS(LIST(2, 0, 3, 1), 4, 1), IDS(LIST(0, 0, 0, 0), 4, 1)}, .out = {DIMS(0, 2)}},
    {"two levels", {NESTED(OFFSETS(0, 1, 2), OFFSETS(0, 2, 5), 5, 1), IDS(LIST(1, 1), 2, 1), IDS(LIST(1, 2), 2, 1)},
     .out = {NESTED(OFFSETS(0, 1, 2), OFFSETS(0, 1, 3), 3, 1)}},
};

static void slice_reference(op_values *v)
{
    const op_offsets *s = op_case_sequences(v->c, 0);
    double           *out = v->out[0].data;

    for (int64_t i = 0; i + 1 < s->count; i++)
        append(&out, &v->in[0], s->item[i] + (int64_t)v->in[1].data[i], (int64_t)v->in[2].data[i]);
}

TEST(slice_matches_reference)   { EACH_OF(c, slice_cases) check_forward("sequence_slice", c, slice_reference, 0); }
TEST(slice_gradient_is_numeric) { EACH_OF(c, slice_cases) check_gradient("sequence_slice", c, 1e-4, 1e-7); }

TEST(slice_mistakes_are_explained)
{
    EXPECT_FAIL(TR_ERANGE, "2 rows from row 1 on are asked of sequence 0 of 'x0', which has 2",
                run_status("sequence_slice", {SEQUENCES(OFFSETS(0, 2), 2, 2), IDS(LIST(1), 1, 1), IDS(LIST(2), 1, 1)}));
    EXPECT_FAIL(TR_ERANGE, "from row -1 on",
                run_status("sequence_slice", {SEQUENCES(OFFSETS(0, 2), 2, 2), IDS(LIST(-1), 1, 1), IDS(LIST(1), 1, 1)}));
    EXPECT_FAIL(TR_ESHAPE, "'x1' has 2 numbers, but X 'x0' 1 sequences",
                run_status("sequence_slice", {SEQUENCES(OFFSETS(0, 2), 2, 2), IDS(LIST(0, 0), 2, 1), IDS(LIST(1), 1, 1)}));
    EXPECT_FAIL(TR_EDTYPE, "Offset must be int64", infer_shapes("sequence_slice", {DIMS(2, 2), DIMS(1, 1), INT64S(0, 1, 1, 1)}));
}

/* -- sequence_reverse --------------------------------------------------------------------------- */

static const op_case reverse_cases[] = {
    {"ragged", {SEQUENCES(RAGGED, 6, 3)}, .out = {SEQUENCES(RAGGED, 6, 3)}},
    {"two levels", {NESTED(OFFSETS(0, 1, 2), OFFSETS(0, 2, 5), 5, 1)},
     .out = {NESTED(OFFSETS(0, 1, 2), OFFSETS(0, 2, 5), 5, 1)}},
    {"bytes", {{SIZE(6, 2), TYPED(TR_UINT8, 0, 200), .lod = {RAGGED}}}},
    {"nothing", {SEQUENCES(OFFSETS(0, 0), 0, 3)}},
};

static void reverse_reference(op_values *v)
{
    const op_offsets *s = op_case_sequences(v->c, 0);
    double           *out = v->out[0].data;

    for (int64_t i = 0; i + 1 < s->count; i++)
        for (int64_t t = s->item[i + 1] - 1; t >= s->item[i]; t--)
            append(&out, &v->in[0], t, 1);
}

TEST(reverse_matches_reference) { EACH_OF(c, reverse_cases) check_forward("sequence_reverse", c, reverse_reference, 0); }
TEST(reverse_gradient_is_numeric)
{
    EACH_OF(c, reverse_cases)
        if (!c->in[0].is_typed)
            check_gradient("sequence_reverse", c, 1e-4, 1e-7);
}

TEST(reverse_mistakes_are_explained)
{
    EXPECT_FAIL(TR_EINVAL, "sequence_reverse: X 'x0' has no sequences", run_status("sequence_reverse", {DIMS(4, 3)}));
}

/* -- sequence_reshape and lod_reset ------------------------------------------------------------- */

static const op_case reshape_cases[] = {
    {"wider", {SEQUENCES(OFFSETS(0, 2, 2, 6), 6, 2)}, {INT_ATTR("new_dim", 4)}, {SEQUENCES(OFFSETS(0, 1, 1, 3), 3, 4)}},
    {"narrower", {SEQUENCES(RAGGED, 6, 4)}, {INT_ATTR("new_dim", 2)}, {SEQUENCES(OFFSETS(0, 4, 4, 10, 12), 12, 2)}},
    {"two levels", {NESTED(OFFSETS(0, 1, 2), OFFSETS(0, 2, 4), 4, 3)}, {INT_ATTR("new_dim", 6)},
     {NESTED(OFFSETS(0, 1, 2), OFFSETS(0, 1, 2), 2, 6)}},
};

static const op_case reset_cases[] = {
    {"offsets", {SEQUENCES(RAGGED, 6, 2)}, {INTS_ATTR("target_lod", 0, 4, 6)}, {SEQUENCES(OFFSETS(0, 4, 6), 6, 2)}},
    {"a tensor that had none", {DIMS(6, 2)}, {INTS_ATTR("target_lod", 0, 6)}, {SEQUENCES(OFFSETS(0, 6), 6, 2)}},
    {"another's sequences", {DIMS(6, 2), LIKE(RAGGED, 6)}, .out = {SEQUENCES(RAGGED, 6, 2)}},
    {"another's two levels", {DIMS(4, 2), LIKE2(OFFSETS(0, 1, 2), OFFSETS(0, 3, 4), 4)},
     .out = {NESTED(OFFSETS(0, 1, 2), OFFSETS(0, 3, 4), 4, 2)}},
    {"another's numbers", {DIMS(6, 2), IDS(LIST(0, 1, 6), 3)}, .out = {SEQUENCES(OFFSETS(0, 1, 6), 6, 2)}},
};

static void same(op_values *v)
{
    memcpy(v->out[0].data, v->in[0].data, (size_t)v->in[0].count * sizeof(double));
}

TEST(reshape_keeps_the_numbers)  { EACH_OF(c, reshape_cases) check_forward("sequence_reshape", c, same, 0); }
TEST(reshape_gradient_is_numeric) { EACH_OF(c, reshape_cases) check_gradient("sequence_reshape", c, 1e-4, 1e-7); }
TEST(reset_keeps_the_numbers)    { EACH_OF(c, reset_cases) check_forward("lod_reset", c, same, 0); }
TEST(reset_gradient_is_numeric)  { EACH_OF(c, reset_cases) check_gradient("lod_reset", c, 1e-4, 1e-7); }

TEST(reshape_and_reset_mistakes_are_explained)
{
    EXPECT_FAIL(TR_ESHAPE, "sequence 1 of 'x0' has 3 rows of 2 numbers, which do not make rows of 4",
                run_status("sequence_reshape", {SEQUENCES(OFFSETS(0, 2, 5, 6), 6, 2)}, {INT_ATTR("new_dim", 4)}));
    EXPECT_FAIL(TR_ESHAPE, "X [3, 2] cannot be written in rows of 4",
                infer_shapes("sequence_reshape", {DIMS(3, 2)}, {INT_ATTR("new_dim", 4)}));
    EXPECT_FAIL(TR_EINVAL, "sequence_reshape: X 'x0' has no sequences",
                run_status("sequence_reshape", {DIMS(4, 2)}, {INT_ATTR("new_dim", 4)}));
    EXPECT_FAIL(TR_EINVAL, "either Y or target_lod must be given", infer_shapes("lod_reset", {DIMS(3, 2)}));
    EXPECT_FAIL(TR_EINVAL, "LoD level 0 ends at 4, but there are 3 rows",
                run_status("lod_reset", {DIMS(3, 2)}, {INTS_ATTR("target_lod", 0, 4)}));
    EXPECT_FAIL(TR_ESHAPE, "the sequences of Y 'x1' have 6 rows, X 'x0' is [3, 2]",
                run_status("lod_reset", {DIMS(3, 2), LIKE(RAGGED, 6)}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expansion_matches_reference),
        cmocka_unit_test(expansion_gradient_is_numeric),
        cmocka_unit_test(expansion_mistakes_are_explained),
        cmocka_unit_test(expansion_as_matches_reference),
        cmocka_unit_test(expansion_as_gradient_is_numeric),
        cmocka_unit_test(expansion_as_mistakes_are_explained),
        cmocka_unit_test(concat_matches_reference),
        cmocka_unit_test(concat_gradient_is_numeric),
        cmocka_unit_test(concat_mistakes_are_explained),
        cmocka_unit_test(slice_matches_reference),
        cmocka_unit_test(slice_gradient_is_numeric),
        cmocka_unit_test(slice_mistakes_are_explained),
        cmocka_unit_test(reverse_matches_reference),
        cmocka_unit_test(reverse_gradient_is_numeric),
        cmocka_unit_test(reverse_mistakes_are_explained),
        cmocka_unit_test(reshape_keeps_the_numbers),
        cmocka_unit_test(reshape_gradient_is_numeric),
        cmocka_unit_test(reset_keeps_the_numbers),
        cmocka_unit_test(reset_gradient_is_numeric),
        cmocka_unit_test(reshape_and_reset_mistakes_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
