/* chunk_eval, against all pairs of a first and a last row, and counts made by hand. */
#include "tests/support/op_check.h"

#define TAGS(list, offsets, ...) {SIZE(__VA_ARGS__), TYPED(TR_INT64, 0, 0), .values = list, .lod = {offsets}}
#define DRAWN(to, offsets, ...)  {SIZE(__VA_ARGS__), TYPED(TR_INT64, 0, to), .lod = {offsets}}
#define RAGGED                   OFFSETS(0, 9, 9, 10, 30)
#define TYPES(count)             INT_ATTR("num_chunk_types", count)
#define SCHEME(name_)            STRING_ATTR("chunk_scheme", name_)

/* Of three types: B-0 I-0 O B-1 O, and so on. */
static const op_case cases[] = {
    {"by hand", {TAGS(LIST(0, 1, 6, 4, 5, 5, 6, 2), OFFSETS(0, 5, 8), 8, 1),
                 TAGS(LIST(0, 1, 6, 4, 4, 5, 6, 2), OFFSETS(0, 5, 8), 8, 1)}, {TYPES(3)}, {DIMS(1)}},
    {"IOB", {DRAWN(5, RAGGED, 30, 1), DRAWN(5, RAGGED, 30, 1)}, {TYPES(2), SCHEME("IOB")}},
    {"IOE", {DRAWN(5, RAGGED, 30, 1), DRAWN(5, RAGGED, 30, 1)}, {TYPES(2), SCHEME("IOE")}},
    {"IOBES", {DRAWN(9, RAGGED, 30, 1), DRAWN(9, RAGGED, 30, 1)}, {TYPES(2), SCHEME("IOBES")}},
    {"plain", {DRAWN(3, RAGGED, 30, 1), DRAWN(3, RAGGED, 30, 1)}, {TYPES(2), SCHEME("plain")}},
    {"one excluded", {DRAWN(5, RAGGED, 30, 1), DRAWN(5, RAGGED, 30, 1)}, {TYPES(2), INTS_ATTR("excluded_chunk_types", 0)}},
    {"all excluded", {DRAWN(5, RAGGED, 30, 1), DRAWN(5, RAGGED, 30, 1)}, {TYPES(2), INTS_ATTR("excluded_chunk_types", 1, 0)}},
    {"outside of chunks", {TAGS(LIST(4, 4, 4), OFFSETS(0, 3), 3, 1), TAGS(LIST(4, 4, 4), OFFSETS(0, 3), 3, 1)}, {TYPES(2)}},
    {"no rows", {TAGS(LIST(0), OFFSETS(0, 0), 0, 1), TAGS(LIST(0), OFFSETS(0, 0), 0, 1)}, {TYPES(2)}},
};

/* The letters of each scheme's tags; those of `plain` are all inside. */
static const char *letters_of(const op_case *c)
{
    for (int i = 0; i < OP_MAX_ATTRS && c->attr[i].name; i++)
        if (strcmp(c->attr[i].name, "chunk_scheme") == 0)
            return strcmp(c->attr[i].text, "plain") == 0 ? "I" : strcmp(c->attr[i].text, "IOB") == 0 ? "BI"
                   : strcmp(c->attr[i].text, "IOE") == 0 ? "IE" : "BIES";
    return "BI";
}

static bool is_excluded(const op_case *c, int type)
{
    for (int i = 0; i < OP_MAX_ATTRS && c->attr[i].name; i++)
        for (int k = 0; k < c->attr[i].count; k++)
            if (c->attr[i].list[k] == type)
                return true;
    return type == (int)op_case_number(c, "num_chunk_types", 0);
}

static int  type_of(const double *row, int tags) { return (int)*row / tags; }
static bool is_letter(const double *row, const char *letters, const char *any)
{
    return strchr(any, letters[(int)*row % (int)strlen(letters)]) != NULL;
}

/* Whether the second of two neighbours goes on with the chunk of the first. */
static bool goes_on(const double *row, const char *letters)
{
    const int tags = (int)strlen(letters);
    return type_of(row, tags) == type_of(row + 1, tags) && is_letter(row, letters, "BI") && is_letter(row + 1, letters, "IE");
}

/* Whether the rows first .. last of a sequence are a chunk that counts. */
static bool is_chunk(const op_case *c, const double *row, int64_t rows, int64_t first, int64_t last)
{
    const char *letters = letters_of(c);

    if (is_excluded(c, type_of(row + first, (int)strlen(letters))))
        return false;
    for (int64_t t = first; t < last; t++)
        if (!goes_on(row + t, letters))
            return false;
    return (first == 0 || !goes_on(row + first - 1, letters)) && (last == rows - 1 || !goes_on(row + last, letters));
}

static void reference(op_values *v)
{
    const op_offsets *s = op_case_sequences(v->c, 0);
    const int         tags = (int)strlen(letters_of(v->c));
    double            found = 0, real = 0, right = 0;

    for (int64_t i = 0; i + 1 < s->count; i++) {
        const double *x = v->in[0].data + s->item[i], *y = v->in[1].data + s->item[i];
        const int64_t rows = s->item[i + 1] - s->item[i];
        for (int64_t first = 0; first < rows; first++)
            for (int64_t last = first; last < rows; last++) {
                const bool in_x = is_chunk(v->c, x, rows, first, last), in_y = is_chunk(v->c, y, rows, first, last);
                found += in_x;
                real += in_y;
                right += in_x && in_y && type_of(x + first, tags) == type_of(y + first, tags);
            }
    }
    v->out[0].data[0] = found > 0 ? right / found : 0;
    v->out[1].data[0] = real > 0 ? right / real : 0;
    v->out[2].data[0] = found + real > 0 ? 2 * right / (found + real) : 0;
    v->out[3].data[0] = found;
    v->out[4].data[0] = real;
    v->out[5].data[0] = right;
}

TEST(matches_reference) { EACH(c) check_forward("chunk_eval", c, reference, 1e-6); }

static void expect_counts(const op_case *c, double found, double real, double right)
{
    op_values v = run_op("chunk_eval", c, TR_FP32);

    assert_true(v.out[3].data[0] == found);
    assert_true(v.out[4].data[0] == real);
    assert_true(v.out[5].data[0] == right);
    op_values_free(&v);
}

#define EXPECT_COUNTS(found, real, right, ...) expect_counts(&(const op_case){"", __VA_ARGS__}, found, real, right)
#define SIX(...)                               TAGS(LIST(__VA_ARGS__), OFFSETS(0, 6), 6, 1)

TEST(chunks_are_those_that_one_sees)
{
    EXPECT_COUNTS(4, 5, 3, {cases[0].in[0], cases[0].in[1]}, {TYPES(3)});
    /* B I I O I I, and I I I O B I: without a B, too, a chunk begins after O. */
    EXPECT_COUNTS(2, 2, 2, {SIX(0, 1, 1, 2, 1, 1), SIX(1, 1, 1, 2, 0, 1)}, {TYPES(1)});
    /* I E I E O I, and I I I E O E */
    EXPECT_COUNTS(3, 2, 1, {SIX(0, 1, 0, 1, 2, 0), SIX(0, 0, 0, 1, 2, 1)}, {TYPES(1), SCHEME("IOE")});
    /* B E S S O B, and B I E S O S */
    EXPECT_COUNTS(4, 3, 2, {SIX(0, 2, 3, 3, 4, 0), SIX(0, 1, 2, 3, 4, 3)}, {TYPES(1), SCHEME("IOBES")});
    /* 0 0 1 1 O O, and 0 0 1 1 1 O */
    EXPECT_COUNTS(2, 2, 1, {SIX(0, 0, 1, 1, 2, 2), SIX(0, 0, 1, 1, 1, 2)}, {TYPES(2), SCHEME("plain")});
}

TEST(mistakes_are_explained)
{
    EXPECT_FAIL(TR_ESHAPE, "chunk_eval: Inference 'x0' has 1 sequences, but Label 'x1' has 2",
                run_status("chunk_eval", {DRAWN(5, OFFSETS(0, 4), 4, 1), DRAWN(5, OFFSETS(0, 2, 4), 4, 1)}, {TYPES(2)}));
    EXPECT_FAIL(TR_ESHAPE, "sequence 0 has 1 rows in Inference 'x0', but 2 in Label 'x1'",
                run_status("chunk_eval", {DRAWN(5, OFFSETS(0, 1, 4), 4, 1), DRAWN(5, OFFSETS(0, 2, 4), 4, 1)}, {TYPES(2)}));
    EXPECT_FAIL(TR_ERANGE, "5 in row 1 of 'x1' must be in 0 .. 4; with IOB and 2 types, 4 is outside",
                run_status("chunk_eval", {DRAWN(5, OFFSETS(0, 2), 2, 1), TAGS(LIST(4, 5), OFFSETS(0, 2), 2, 1)}, {TYPES(2)}));
    EXPECT_FAIL(TR_ERANGE, "-1 in row 0 of 'x0'",
                run_status("chunk_eval", {TAGS(LIST(-1, 0), OFFSETS(0, 2), 2, 1), DRAWN(5, OFFSETS(0, 2), 2, 1)}, {TYPES(2)}));
    EXPECT_FAIL(TR_EINVAL, "chunk_eval: Inference 'x0' has no sequences",
                run_status("chunk_eval", {INT64S(0, 5, 4, 1), INT64S(0, 5, 4, 1)}, {TYPES(2)}));
    EXPECT_FAIL(TR_ERANGE, "2 of excluded_chunk_types is none of the 2 types",
                infer_shapes("chunk_eval", {INT64S(0, 5, 4, 1), INT64S(0, 5, 4, 1)},
                             {TYPES(2), INTS_ATTR("excluded_chunk_types", 2)}));
    EXPECT_FAIL(TR_ERANGE, "chunk_scheme",
                infer_shapes("chunk_eval", {INT64S(0, 5, 4, 1), INT64S(0, 5, 4, 1)}, {TYPES(2), SCHEME("BIO")}));
    EXPECT_FAIL(TR_EDTYPE, "Inference must be int64", infer_shapes("chunk_eval", {DIMS(4, 1), INT64S(0, 5, 4, 1)}, {TYPES(2)}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_reference),
        cmocka_unit_test(chunks_are_those_that_one_sees),
        cmocka_unit_test(mistakes_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
