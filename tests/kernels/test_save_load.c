/* test_save_load.c - the operators that write variables to files and read them back; feed and fetch. */
#include "tests/support/expect.h"
#include "tests/support/net.h"

#include <math.h>
#include <stdio.h>

static const float values[] = {1, 2, 3, 4, 5, 65536.5f};

/* "overwrite=true file_path=/tmp/.../w" */
static const char *attrs(const char *more, const char *file)
{
    static char text[4][512];
    static unsigned next;
    char *to = text[next++ % 4];
    snprintf(to, sizeof text[0], "%s file_path=%s", more, test_path(file));
    return to;
}

/* A parameter [2, 3] in the scope, with the values above. */
static void set_parameter(net *n, const char *name)
{
    net_parameter(n, name, TR_FP32, 2, 2, 3);
    tr_tensor *tensor = tr_var_tensor(tr_scope_var(n->scope, name));
    EXPECT_OK(tr_tensor_resize(tensor, TR_FP32, 2, (const int64_t[]){2, 3}));
    memcpy(tr_tensor_data(tensor), values, sizeof values);
}

TEST(a_parameter_comes_back)
{
    net n;

    net_init(&n);
    set_parameter(&n, "w");
    net_op(&n, 0, "save", "X=w", "", attrs("", "w"));
    net_run(&n, "");
    net_deinit(&n);

    net_init(&n);
    net_parameter(&n, "w", TR_FP32, 2, 2, 3);
    net_op(&n, 0, "load", "", "Out=w", attrs("", "w"));
    net_op(&n, 0, "scale", "X=w", "Out=y", "scale=2.0");
    net_run(&n, "y");
    assert_true(net_f32(&n, 0)[5] == 131073);
    assert_memory_equal(tr_tensor_data(tr_var_tensor(tr_scope_find(n.scope, "w"))), values, sizeof values);
    net_run(&n, "y");                                     /* again, into memory that is held */
    assert_true(net_f32(&n, 0)[4] == 10);
    net_deinit(&n);
}

TEST(loading_asks_for_no_startup_and_keeps_the_files_shape)
{
    net n;

    net_init(&n);
    net_var(&n, "y", TR_FP32, 2, -1, 3);
    net_op(&n, 0, "load", "", "Out=y", attrs("", "w"));
    net_op(&n, 0, "mean", "X=y", "Out=m", "");
    net_run(&n, "y m");
    assert_int_equal(tr_tensor_rank(n.result[0]), 2);
    assert_int_equal(tr_tensor_dims(n.result[0])[0], 2);
    assert_int_equal(tr_var_desc_dims(tr_block_find_var(tr_program_block(n.program, 0), "y"))[0], -1);
    net_deinit(&n);
}

TEST(an_existing_file_is_left_alone_when_asked)
{
    net n;

    net_init(&n);
    set_parameter(&n, "w");
    net_op(&n, 0, "save", "X=w", "", attrs("overwrite=false", "w"));
    EXPECT_FAIL(TR_EEXIST, "is there already, and attribute 'overwrite' is false", net_try_run(&n, ""));
    tr_op_desc_set_int(tr_block_op_at(tr_program_block(n.program, 0), 0), "overwrite", 1, TR_ATTR_BOOL);
    net_run(&n, "");
    net_deinit(&n);
}

TEST(float16_is_half_the_file)
{
    net n;

    net_init(&n);
    set_parameter(&n, "w");
    net_op(&n, 0, "save", "X=w", "", attrs("save_as_fp16=true", "half"));
    net_run(&n, "");
    net_deinit(&n);
    net_init(&n);
    net_op(&n, 0, "load", "", "Out=h", attrs("", "half"));
    net_op(&n, 0, "load", "", "Out=f", attrs("load_as_fp16=true", "w"));
    net_op(&n, 0, "cast", "X=h", "Out=y", "in_dtype=4 out_dtype=5");
    net_op(&n, 0, "cast", "X=f", "Out=z", "in_dtype=4 out_dtype=5");
    net_run(&n, "y z h");
    assert_int_equal(tr_tensor_dtype(n.result[2]), TR_FP16);
    for (int i = 0; i < 5; i++)
        assert_true(net_f32(&n, 0)[i] == values[i] && net_f32(&n, 1)[i] == values[i]);
    assert_true(isinf(net_f32(&n, 0)[5]));
    net_deinit(&n);
}

static void combine(const char *file)
{
    net n;

    net_init(&n);
    set_parameter(&n, "b");
    net_parameter(&n, "rows", TR_INT64, 2, 100, 1);
    tr_tensor *rows = tr_var_tensor(tr_scope_var(n.scope, "rows"));
    EXPECT_OK(tr_tensor_resize(rows, TR_INT64, 2, (const int64_t[]){2, 1}));
    memcpy(tr_tensor_data(rows), (const int64_t[]){7, 8}, 16);
    EXPECT_OK(tr_tensor_set_rows(rows, 100, 2, (const int64_t[]){99, 3}));
    net_op(&n, 0, "save_combine", "X=b,rows", "", attrs("", file));
    net_run(&n, "");
    net_deinit(&n);
}

TEST(several_variables_share_a_file)
{
    net n;

    combine("all");
    net_init(&n);
    net_parameter(&n, "b", TR_FP32, 2, 2, 3);
    net_parameter(&n, "rows", TR_INT64, 2, 100, 1);
    net_op(&n, 0, "load_combine", "", "Out=b,rows", attrs("", "all"));
    net_run(&n, "");
    tr_tensor *rows = tr_var_tensor(tr_scope_find(n.scope, "rows"));
    assert_int_equal(tr_tensor_height(rows), 100);
    assert_int_equal(tr_tensor_rows(rows)[0], 99);
    assert_int_equal(((int64_t *)tr_tensor_data(rows))[1], 8);
    net_deinit(&n);
}

TEST(a_wrong_number_of_variables_is_explained)
{
    net n;

    combine("all");
    net_init(&n);
    net_op(&n, 0, "load_combine", "", "Out=a", attrs("", "all"));
    EXPECT_FAIL(TR_EFORMAT, "holds more than the 1 variables", net_try_run(&n, "a"));
    net_deinit(&n);
    net_init(&n);
    net_op(&n, 0, "load_combine", "", "Out=a,b,c", attrs("", "all"));
    EXPECT_FAIL(TR_EFORMAT, "variable 'c', which is number 3 of 3", net_try_run(&n, "a b c"));
    net_deinit(&n);
}

TEST(a_combined_file_may_lie_in_memory)
{
    net         n;
    size_t      size;
    const char *out[] = {"b", "rows"};

    combine("all");
    uint8_t *bytes = test_read_file(&size, test_path("all"));
    net_init(&n);
    net_parameter(&n, "b", TR_FP32, 2, 2, 3);
    net_parameter(&n, "rows", TR_INT64, 2, 100, 1);
    tr_op_desc *op = tr_op_desc_new("load_combine");
    tr_op_desc_set_output(op, "Out", 2, out);
    tr_op_desc_set_int(op, "model_from_memory", 1, TR_ATTR_BOOL);
    tr_op_desc_set_string(op, "file_path", (const char *)bytes, size);
    EXPECT_OK(tr_block_insert_op(tr_program_block(n.program, 0), -1, op));
    net_run(&n, "b");
    assert_memory_equal(net_f32(&n, 0), values, sizeof values);
    net_deinit(&n);
    free(bytes);
}

TEST(files_that_cannot_be_are_named)
{
    net n;

    net_init(&n);
    net_var(&n, "y", TR_FP32, 1, -1);
    net_op(&n, 0, "load", "", "Out=y", attrs("", "no-such-file"));
    EXPECT_FAIL(TR_EIO, "no-such-file': No such file", net_try_run(&n, "y"));
    assert_non_null(strstr(tr_error(), "variable 'y'"));
    set_parameter(&n, "w");
    tr_op_desc *op = tr_op_desc_new("save");
    tr_op_desc_set_input(op, "X", 1, (const char *const[]){"w"});
    tr_op_desc_set_string(op, "file_path", "", 0);
    EXPECT_FAIL(TR_EINVAL, "save: attribute 'file_path' must name a file",
              tr_block_insert_op(tr_program_block(n.program, 0), -1, op));
    tr_op_desc_free(op);
    for (int i = 0; i < 2; i++) {
        const char *type = i == 0 ? "load" : "load_combine";
        op = tr_op_desc_new(type);
        tr_op_desc_set_output(op, "Out", 1, &(const char *){"y"});
        tr_op_desc_set_string(op, "file_path", "", 0);
        EXPECT_FAIL(TR_EINVAL, "attribute 'file_path' must name a file", tr_block_insert_op(tr_program_block(n.program, 0), -1, op));
        tr_op_desc_free(op);
    }
    EXPECT_FAIL(TR_EINVAL, "file_path", net_try_op(&n, 0, "save_combine", "X=w", "", ""));
    EXPECT_FAIL(TR_EINVAL, "file_path", net_try_op(&n, 0, "load", "", "Out=y", ""));
    EXPECT_FAIL(TR_EINVAL, "file_path", net_try_op(&n, 0, "load_combine", "", "Out=y", ""));
    net_deinit(&n);
}

TEST(feeds_and_fetches_of_a_saved_program_are_no_steps)
{
    net n;

    net_init(&n);
    tr_block *block = tr_program_block(n.program, 0);
    tr_var_desc_set_kind(tr_block_create_var(block, "feed"), TR_KIND_FEED);
    net_var(&n, "x", TR_FP32, 2, -1, 3);
    net_op(&n, 0, "feed", "X=feed", "Out=x", "col=0");
    net_op(&n, 0, "scale", "X=x", "Out=y", "scale=3.0");
    net_op(&n, 0, "fetch", "X=y", "Out=fetch", "col=0");
    assert_int_equal(tr_var_desc_kind(tr_block_find_var(block, "fetch")), TR_KIND_FETCH);
    net_feed(&n, "x", values, 2, 2, 3);
    net_run(&n, "y");
    assert_true(net_f32(&n, 0)[2] == 9);
    EXPECT_FAIL(TR_ERANGE, "attribute 'col' must be >= 0", net_try_op(&n, 0, "feed", "X=feed", "Out=x", "col=-1"));
    EXPECT_FAIL(TR_ERANGE, "attribute 'col' must be >= 0", net_try_op(&n, 0, "fetch", "X=y", "Out=fetch", "col=-1"));
    net_deinit(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_parameter_comes_back),
        cmocka_unit_test(loading_asks_for_no_startup_and_keeps_the_files_shape),
        cmocka_unit_test(an_existing_file_is_left_alone_when_asked),
        cmocka_unit_test(float16_is_half_the_file),
        cmocka_unit_test(several_variables_share_a_file),
        cmocka_unit_test(a_wrong_number_of_variables_is_explained),
        cmocka_unit_test(a_combined_file_may_lie_in_memory),
        cmocka_unit_test(files_that_cannot_be_are_named),
        cmocka_unit_test(feeds_and_fetches_of_a_saved_program_are_no_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
