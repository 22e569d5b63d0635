/* test_split_ids.c - rows shared out, found and put together: split_ids, merge_ids, split_selected_rows, split_byref, lookups in selected rows. */
#include "tests/support/op_check.h"
#include "tests/support/op_rig.h"

#define IDS(list, n) {SIZE(n, 1), .values = list, .is_typed = true, .dtype = TR_INT64}
#define MORE_IDS(list, n) {SIZE(n, 1), .values = list, .is_typed = true, .dtype = TR_INT64, .is_more = true}

/* -- split_ids ---------------------------------------------------------------------------------------------- */

static const op_case id_cases[] = {
    {"two parts", {IDS(LIST(7, 0, 4, 7, 3, 2, 0), 7)}, {}, {}, {2}},
    {"two lists", {IDS(LIST(7, 0, 4), 3), MORE_IDS(LIST(5, 4, 1), 3)}, {}, {}, {3}},
    {"nothing", {{SIZE(0, 1), TYPED(TR_INT64, 0, 9)}}, {}, {}, {2}},
};
static const op_case row_case = {"rows", {ROWS(10, OFFSETS(7, 3, 4, 7), 4, 2)}, {}, {}, {2}};
static const op_case section_case = {"sections", {ROWS(10, OFFSETS(7, 3, 9, 0), 4, 2)}, {LONGS_ATTR("height_sections", 3, 5, 2)}, {}, {3}};

static void id_reference(op_values *v)
{
    for (int k = 0; k < v->out_count; k++) {
        int64_t at = 0;
        for (int64_t id = 0; id < 100; id++) {
            bool found = false;
            for (int s = 0; s < v->in_count; s++)
                for (int64_t i = 0; i < v->in[s].count; i++)
                    found |= (int64_t)v->in[s].data[i] == id;
            if (found && id % v->out_count == k)
                v->out[k].data[at++] = (double)id;
        }
        assert_int_equal(at, v->out[k].count);
    }
}

/* Rows go where `part` says, with the number that it gives them. */
static void check_parts(op_values *v, int64_t (*part)(int64_t *number, int64_t row))
{
    int64_t at[3] = {0};

    for (int64_t i = 0; i < v->c->in[0].rows.count; i++) {
        int64_t       number;
        const int64_t k = part(&number, v->c->in[0].rows.item[i]), to = at[k]++;
        assert_int_equal(v->out[k].rows[to], number);
        for (int64_t j = 0; j < 2; j++)
            v->out[k].data[to * 2 + j] = v->in[0].data[i * 2 + j];
    }
    for (int k = 0; k < v->out_count; k++)
        assert_int_equal(at[k], v->out[k].row_count);
}

static int64_t by_remainder(int64_t *number, int64_t row) { *number = row; return row % 2; }

static int64_t by_section(int64_t *number, int64_t row)
{
    *number = row - (row < 3 ? 0 : row < 8 ? 3 : 8);
    return row < 3 ? 0 : row < 8 ? 1 : 2;
}

static void row_reference(op_values *v)     { check_parts(v, by_remainder); }
static void section_reference(op_values *v) { check_parts(v, by_section); }

TEST(ids_are_shared_out)      { EACH_OF(c, id_cases) check_forward("split_ids", c, id_reference, 0); }
TEST(rows_are_shared_out)     { check_forward("split_ids", &row_case, row_reference, 0); }
TEST(sections_are_cut)        { check_forward("split_selected_rows", &section_case, section_reference, 0); }

/* -- their gradients ------------------------------------------------------------------------------------------ */

#define MORE_ROWS(full_height, numbers, ...) {SIZE(__VA_ARGS__), .height = (full_height), .rows = numbers, .is_more = true}

static const op_case joined_rows = {"rows", {ROWS(3, OFFSETS(2, 0), 2, 2), MORE_ROWS(5, OFFSETS(4, 4, 1), 3, 2)}, {LONGS_ATTR("height_sections", 3, 5)},
                                    {ROWS(8, OFFSETS(2, 0, 7, 7, 4), 5, 2)}};
static const op_case joined_dense = {"dense", {DIMS(3, 2), MORE_ROWS(5, OFFSETS(4, 4, 1), 3, 2), MORE(1, 2)}, {LONGS_ATTR("height_sections", 3, 5, 1)},
                                     {DIMS(9, 2)}};
static const op_case joined_ids = {"rows of each remainder", {ROWS(10, OFFSETS(4, 0, 3), 3, 2), MORE_ROWS(10, OFFSETS(3, 3, 2, 9), 4, 2)}, {},
                                   {ROWS(10, OFFSETS(4, 0, 3, 3, 9), 5, 2)}};
static const op_case dense_ids = {"dense", {ROWS(5, OFFSETS(4, 0, 3), 3, 2), MORE(5, 2)}, {}, {DIMS(5, 2)}};

/* Gradients of slices are added to the rows where `row` says that they lie; -1: nowhere. */
static void join(op_values *v, int64_t (*row)(int k, int64_t number))
{
    const op_array *out = &v->out[0];
    int64_t         at = 0;

    memset(out->data, 0, (size_t)out->count * sizeof *out->data);
    for (int k = 0; k < v->in_count; k++)
        for (int64_t i = 0; i < v->in[k].dims[0]; i++) {
            const int64_t to = row(k, v->c->in[k].height > 0 ? v->c->in[k].rows.item[i] : i);
            if (to < 0)
                continue;
            for (int64_t j = 0; j < 2; j++)
                out->data[(v->c->out[0].height > 0 ? at : to) * 2 + j] += v->in[k].data[i * 2 + j];
            at++;
        }
}

static int64_t in_sections(int k, int64_t number) { return number + (k == 0 ? 0 : k == 1 ? 3 : 8); }
static int64_t of_remainder(int k, int64_t number) { return number % 2 == k ? number : -1; }
static void    section_join(op_values *v) { join(v, in_sections); }
static void    remainder_join(op_values *v) { join(v, of_remainder); }

TEST(gradients_of_sections_are_joined)
{
    check_forward("split_selected_rows_grad", &joined_rows, section_join, 0);
    check_forward("split_selected_rows_grad", &joined_dense, section_join, 1e-6);
}

TEST(gradients_of_remainders_are_joined)
{
    check_forward("split_ids_grad", &joined_ids, remainder_join, 0);
    check_forward("split_ids_grad", &dense_ids, remainder_join, 0);
}

/* -- merge_ids -------------------------------------------------------------------------------------------------- */

static const op_case merge_cases[] = {
    {"two parts", {IDS(LIST(3, 0, 4, 3), 4), MORE_IDS(LIST(2, 1), 2), IDS(LIST(0, 2, 4), 3), MORE_IDS(LIST(1, 3), 2), DIMS(3, 2), MORE(2, 2)}, {}, {}, {2}},
    {"an empty list", {IDS(LIST(3, 0), 2), {SIZE(0, 1), TYPED(TR_INT64, 0, 9), .is_more = true}, IDS(LIST(0), 1), MORE_IDS(LIST(3), 1), DIMS(1, 2), MORE(1, 2)}, {}, {}, {2}},
};

static void merge_reference(op_values *v)
{
    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; i < v->in[k].count; i++)
            for (int part = 0; part < 2; part++)
                for (int64_t row = 0; row < v->in[2 + part].count; row++)
                    for (int64_t j = 0; j < 2 && v->in[2 + part].data[row] == v->in[k].data[i]; j++)
                        v->out[k].data[i * 2 + j] = v->in[4 + part].data[row * 2 + j];
}

TEST(parts_are_put_together) { EACH_OF(c, merge_cases) check_forward("merge_ids", c, merge_reference, 0); }

/* -- split_byref -------------------------------------------------------------------------------------------------- */

static const op_case byref_cases[] = {
    {"sections", {DIMS(5, 3)}, {INTS_ATTR("sections", 2, 3)}, {DIMS(2, 3), DIMS(3, 3)}, {2}}, {"as many", {DIMS(6, 2)}, {}, {}, {3}},
    {"an empty piece", {DIMS(2, 3)}, {INTS_ATTR("sections", 2, 0)}, {DIMS(2, 3), DIMS(0, 3)}, {2}}, {"no rows", {DIMS(0, 3)}, {}, {}, {2}},
};

static void byref_reference(op_values *v)
{
    for (int64_t k = 0, at = 0; k < v->out_count; at += v->out[k++].count)
        memcpy(v->out[k].data, v->in[0].data + at, (size_t)v->out[k].count * sizeof(double));
}

TEST(pieces_match_reference)      { EACH_OF(c, byref_cases) check_forward("split_byref", c, byref_reference, 0); }
TEST(pieces_gradient_is_numeric)  { EACH_OF(c, byref_cases) check_gradient("split_byref", c, 1e-5, 1e-7); }
TEST(pieces_are_their_parts)      { EACH_OF(c, byref_cases) check_expansion("split_byref", c); }

/* -- lookups in selected rows ------------------------------------------------------------------------------------------ */

static const op_case held_cases[] = {
    {"held", {ROWS(10, OFFSETS(7, 3, 9, 0), 4, 2), IDS(LIST(9, 0, 9, 7), 4)}, {}, {DIMS(4, 2)}},
    {"no ids", {ROWS(10, OFFSETS(7, 3), 2, 3), {SIZE(0, 1), TYPED(TR_INT64, 0, 9)}}, {}, {DIMS(0, 3)}},
    {"padding", {ROWS(10, OFFSETS(7, 3), 2, 3), IDS(LIST(3, 5, 7), 3)}, {LONG_ATTR("padding_idx", 5)}, {DIMS(3, 3)}},
};

static void held_reference(op_values *v)
{
    const int64_t width = v->in[0].dims[1];

    for (int64_t i = 0; i < v->out[0].count; i++) {
        v->out[0].data[i] = 0;
        for (int64_t row = 0; row < v->c->in[0].rows.count; row++)
            if (v->c->in[0].rows.item[row] == (int64_t)v->in[1].data[i / width])
                v->out[0].data[i] = v->in[0].data[row * width + i % width];
    }
}

TEST(held_rows_are_found) { EACH_OF(c, held_cases) check_forward("lookup_table", c, held_reference, 0); }

/* -- mistakes ------------------------------------------------------------------------------------------------------------ */

TEST(mistakes_are_explained)
{
    EXPECT_FAIL(TR_ERANGE, "id -3 is negative", run_status("split_ids", {IDS(LIST(-3), 1)}));
    EXPECT_FAIL(TR_EINVAL, "X must be selected rows", infer_shapes("split_selected_rows", {DIMS(3, 2)}, {LONGS_ATTR("height_sections", 3)}));
    EXPECT_FAIL(TR_ERANGE, "there are 2 height_sections, but 1 outputs",
                infer_shapes("split_selected_rows", {ROWS(10, OFFSETS(7), 1, 2)}, {LONGS_ATTR("height_sections", 3, 7)}));
    EXPECT_FAIL(TR_ERANGE, "row 7 of", run_status("split_selected_rows", {ROWS(10, OFFSETS(7), 1, 2)}, {LONGS_ATTR("height_sections", 3)}));
    EXPECT_FAIL(TR_ERANGE, "there are 2 height_sections, but 1 of Out@GRAD",
                infer_shapes("split_selected_rows_grad", {ROWS(10, OFFSETS(7), 1, 2)}, {LONGS_ATTR("height_sections", 3, 7)}));
    EXPECT_FAIL(TR_ESHAPE, "Out@GRAD[1] must be [7, 2], got [6, 2]",
                infer_shapes("split_selected_rows_grad", {DIMS(3, 2), MORE(6, 2)}, {LONGS_ATTR("height_sections", 3, 7)}));
    EXPECT_FAIL(TR_ERANGE, "has row 4, but the part whose gradient it is has 3 rows",
                run_status("split_selected_rows_grad", {ROWS(10, OFFSETS(4), 1, 2)}, {LONGS_ATTR("height_sections", 3)}));
    EXPECT_FAIL(TR_ERANGE, "they must be as many", infer_shapes("merge_ids", {IDS(LIST(1), 1), MORE_IDS(LIST(1), 1), IDS(LIST(1), 1), DIMS(1, 2)}));
    EXPECT_FAIL(TR_ENOTFOUND, "id 4 at position 1", run_status("merge_ids", {IDS(LIST(1, 4), 2), IDS(LIST(1), 1), DIMS(1, 2)}));
    EXPECT_FAIL(TR_ERANGE, "there are 1 outputs, but 2 pieces", infer_shapes("split_byref", {DIMS(4, 2)}, {INTS_ATTR("sections", 2, 2)}));
    EXPECT_FAIL(TR_ESHAPE, "the sections add up to 3 rows", infer_shapes("split_byref", {DIMS(4, 2)}, {INTS_ATTR("sections", 3)}));
    EXPECT_FAIL(TR_ERANGE, "is none of the 1 rows", run_status("lookup_table", {ROWS(10, OFFSETS(7), 1, 2), IDS(LIST(1), 1)}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_shared_out),     cmocka_unit_test(rows_are_shared_out),        cmocka_unit_test(sections_are_cut),
        cmocka_unit_test(gradients_of_sections_are_joined), cmocka_unit_test(gradients_of_remainders_are_joined),
        cmocka_unit_test(parts_are_put_together), cmocka_unit_test(pieces_match_reference),     cmocka_unit_test(pieces_gradient_is_numeric),
        cmocka_unit_test(pieces_are_their_parts), cmocka_unit_test(held_rows_are_found),        cmocka_unit_test(mistakes_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
