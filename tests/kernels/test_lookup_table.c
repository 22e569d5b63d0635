/* lookup_table and gather: rows by number, and both kinds of gradient. */
#include "tests/support/op_check.h"
#include "tests/support/op_rig.h"

#define IDS(list, ...)   {SIZE(__VA_ARGS__), TYPED(TR_INT64, 0, 0), .values = list}
#define IDS32(list, ...) {SIZE(__VA_ARGS__), TYPED(TR_INT32, 0, 0), .values = list}

/* -- lookup_table ------------------------------------------------------------------------------------ */

static const op_case cases[] = {
    {"one row", {DIMS(1, 1), IDS(LIST(0), 1, 1)}},
    {"some repeated", {DIMS(10, 3), IDS(LIST(7, 0, 7, 9, 7), 5, 1)}, .out = {DIMS(5, 3)}},
    {"three dimensions", {DIMS(6, 5), INT64S(0, 6, 2, 3, 1)}, .out = {DIMS(2, 3, 5)}},
    {"padding", {DIMS(6, 4), IDS(LIST(2, 5, 2, 1), 4, 1)}, {LONG_ATTR("padding_idx", 2)}},
    {"wide rows", {DIMS(9, 130), INT64S(0, 9, 20, 1)}},
    {"as many ids as rows", {DIMS(4, 3), IDS(LIST(3, 0, 3, 1), 4, 1)}},
    {"no ids", {DIMS(4, 3), INT64S(0, 4, 0, 1)}},
};

static void reference(op_values *v)
{
    const int64_t width = v->in[0].dims[1];

    for (int64_t i = 0; i < v->in[1].count; i++)
        for (int64_t j = 0; j < width; j++) {
            const int64_t id = (int64_t)v->in[1].data[i];
            v->out[0].data[i * width + j] = id == op_case_number(v->c, "padding_idx", -1) ? 0
                                                                                          : v->in[0].data[id * width + j];
        }
}

TEST(matches_reference)   { EACH(c) check_forward("lookup_table", c, reference, 0); }
TEST(gradient_is_numeric) { EACH(c) check_gradient("lookup_table", c, 1e-4, 1e-7); }

/* The sparse gradient of W, fetched. */
static op_array sparse_gradient(const op_case *c)
{
    op_values plain = run_op("lookup_table", c, TR_FP64);
    op_rig    rig;

    assert_int_equal(op_rig_init(&rig, "lookup_table", c, TR_FP64, OP_PLAIN), TR_OK);
    assert_int_equal(op_rig_add_gradients(&rig, plain.out, -1), TR_OK);
    op_rig_fetch(&rig, "x%d@GRAD", 0);
    if (op_rig_run(&rig) != TR_OK)
        fail_msg("%s", tr_error());
    op_array gradient = op_array_of_tensor(rig.result[0]);
    for (int64_t i = 0; i < gradient.count; i++) {          /* the output's gradients, but for padding */
        const int64_t id = gradient.rows[i / gradient.dims[1]];
        assert_true(gradient.data[i] == (id == op_case_number(c, "padding_idx", -1) ? 0 : rig.weight[0].data[i]));
    }
    op_rig_deinit(&rig);
    op_values_free(&plain);
    return gradient;
}

TEST(sparse_gradient_is_one_row_for_each_id)
{
    const op_case c = {"sparse", {DIMS(10, 3), IDS(LIST(7, 0, 7, 9), 4, 1)}, {BOOL_ATTR("is_sparse", 1)}};
    op_array      gradient = sparse_gradient(&c);

    assert_int_equal(gradient.height, 10);
    assert_memory_equal(gradient.rows, ((int64_t[]){7, 0, 7, 9}), 4 * sizeof(int64_t));
    op_array_free(&gradient);
}

TEST(sparse_gradient_of_padding_is_zero)
{
    const op_case c = {"sparse", {DIMS(10, 3), IDS(LIST(7, 0, 7, 9), 4, 1)},
                       {BOOL_ATTR("is_sparse", 1), LONG_ATTR("padding_idx", 7)}};
    op_array      gradient = sparse_gradient(&c);

    op_array_free(&gradient);
}

TEST(mistakes_are_explained)
{
    EXPECT_FAIL(TR_ERANGE, "id 10 at position 2 of 'x1' is no row of 'x0', which has 10",
                run_status("lookup_table", {DIMS(10, 3), IDS(LIST(0, 9, 10), 3, 1)}));
    EXPECT_FAIL(TR_ERANGE, "id -1 at position 0",
                run_status("lookup_table", {DIMS(10, 3), IDS(LIST(-1, 9), 2, 1)}, {LONG_ATTR("padding_idx", 3)}));
    EXPECT_FAIL(TR_ESHAPE, "last dimension of Ids must be 1", infer_shapes("lookup_table", {DIMS(10, 3), INT64S(0, 9, 3, 2)}));
    EXPECT_FAIL(TR_EDTYPE, "Ids must be int64", infer_shapes("lookup_table", {DIMS(10, 3), DIMS(3, 1)}));
    EXPECT_FAIL(TR_ESHAPE, "W must have rank 2", infer_shapes("lookup_table", {DIMS(10), INT64S(0, 9, 3, 1)}));
}

/* -- gather -------------------------------------------------------------------------------------------- */

static const op_case gather_cases[] = {
    {"some repeated", {DIMS(7, 3), IDS(LIST(6, 0, 6), 3)}, .out = {DIMS(3, 3)}},
    {"a column of int32", {DIMS(7, 2, 2), IDS32(LIST(1, 5, 2, 5), 4, 1)}, .out = {DIMS(4, 2, 2)}},
    {"of a vector", {DIMS(5), IDS32(LIST(4, 4), 2)}},
    {"whole numbers", {INT64S(-5, 5, 4, 3), IDS(LIST(3, 1), 2)}},
    {"nothing", {DIMS(5, 2), INT64S(0, 5, 0)}},
};

static void gather_reference(op_values *v)
{
    const int64_t width = v->in[0].count / v->in[0].dims[0];

    for (int64_t i = 0; i < v->in[1].count; i++)
        for (int64_t j = 0; j < width; j++)
            v->out[0].data[i * width + j] = v->in[0].data[(int64_t)v->in[1].data[i] * width + j];
}

TEST(gather_matches_reference) { EACH_OF(c, gather_cases) check_forward("gather", c, gather_reference, 0); }

TEST(gather_gradient_is_numeric)
{
    EACH_OF(c, gather_cases)
        if (!c->in[0].is_typed)
            check_gradient("gather", c, 1e-4, 1e-7);
}

TEST(gather_mistakes_are_explained)
{
    EXPECT_FAIL(TR_ERANGE, "number 5 at position 1 of 'x1'", run_status("gather", {DIMS(5, 2), IDS(LIST(0, 5), 2)}));
    EXPECT_FAIL(TR_ESHAPE, "Index must be [m] or [m, 1]", infer_shapes("gather", {DIMS(5, 2), INT64S(0, 5, 2, 2)}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_reference),
        cmocka_unit_test(gradient_is_numeric),
        cmocka_unit_test(sparse_gradient_is_one_row_for_each_id),
        cmocka_unit_test(sparse_gradient_of_padding_is_zero),
        cmocka_unit_test(mistakes_are_explained),
        cmocka_unit_test(gather_matches_reference),
        cmocka_unit_test(gather_gradient_is_numeric),
        cmocka_unit_test(gather_mistakes_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
