/* test_plan.c - what a plan leaves out, fuses, shares and remembers; what it says when it cannot run. */
#include "tests/support/net.h"

#include "framework/base/compiler.h"

static const float ones[64] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

/* x -> mul w -> add b -> relu -> mean, with w and b filled by a program of their own. */
static void build_layer(net *n)
{
    net_init(n);
    net_parameter(n, "w", TR_FP32, 2, 4, 3);
    net_parameter(n, "b", TR_FP32, 1, 3);
    net_op(n, 0, "fill_constant", "", "Out=w", "shape=[4,3] value=0.5");
    net_op(n, 0, "fill_constant", "", "Out=b", "shape=[3] value=0.25");
    net_var(n, "x", TR_FP32, 2, -1, 4);
    net_op(n, 0, "mul", "X=x Y=w", "Out=h", "");
    net_op(n, 0, "elementwise_add", "X=h Y=b", "Out=s", "axis=1");
    net_op(n, 0, "relu", "X=s", "Out=r", "");
    net_op(n, 0, "mean", "X=r", "Out=loss", "");
    net_feed(n, "x", ones, 2, 2, 4);
}

TEST(a_layer_becomes_one_step)
{
    net n;
    build_layer(&n);
    net_run(&n, "loss");
    assert_true(net_plan_says(&n, "= fc(Input=x, W=w, Bias=b)"));
    assert_false(net_plan_says(&n, "relu("));
    assert_float_equal(net_f32(&n, 0)[0], 2.25, 1e-6);
    net_deinit(&n);
}

TEST(a_fetched_intermediate_keeps_its_step)
{
    net n;
    build_layer(&n);
    net_run(&n, "loss h");
    assert_false(net_plan_says(&n, "= fc("));
    assert_float_equal(net_f32(&n, 1)[0], 2.0, 1e-6);
    net_run(&n, "loss s");
    assert_true(net_plan_says(&n, "s : float32[2, 3] (fetched) = fc("));
    net_deinit(&n);
}

TEST(a_fused_layer_trains_like_a_plain_one)
{
    net n;
    float fused[12];
    build_layer(&n);
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 0, NULL));
    net_run(&n, "w@GRAD b@GRAD");
    assert_true(net_plan_says(&n, "= fc("));
    memcpy(fused, net_f32(&n, 0), sizeof fused);
    net_run(&n, "w@GRAD b@GRAD h s r");
    assert_false(net_plan_says(&n, "= fc("));
    assert_memory_equal(net_f32(&n, 0), fused, sizeof fused);
    net_deinit(&n);
}

TEST(an_unwanted_operator_is_not_run)
{
    net n;
    build_layer(&n);
    net_op(&n, 0, "exp", "X=r", "Out=unused", "");
    net_run(&n, "loss");
    assert_false(net_plan_says(&n, "exp"));
    net_run(&n, "unused");
    assert_true(net_plan_says(&n, "exp"));
    assert_false(net_plan_says(&n, "mean"));
    net_deinit(&n);
}

TEST(temporaries_share_memory)
{
    net n;
    net_init(&n);
    net_var(&n, "x", TR_FP32, 1, -1);
    net_op(&n, 0, "exp", "X=x", "Out=a", "");
    net_op(&n, 0, "relu", "X=a", "Out=b", "");
    net_op(&n, 0, "sigmoid", "X=b", "Out=c", "");
    net_op(&n, 0, "elementwise_add", "X=c Y=x", "Out=d", "");
    net_feed(&n, "x", ones, 1, 20);
    net_run(&n, "d");
    assert_true(net_plan_says(&n, "arena of 128 bytes"));       /* one of 20 floats, rounded up */
    assert_true(net_plan_says(&n, "b : float32[20] (in place of a)"));
    net_deinit(&n);
}

/* How many sequences there are is not known before the run, and so neither is the shape of what is made of them. But a gradient has the
 * shape of its variable. */
TEST(a_gradient_of_known_shape_has_its_place_behind_steps_of_unknown_shape)
{
    static const int64_t offsets[][3] = {{0, 3, 8}, {0, 7, 8}};
    net                  n;
    net_init(&n);
    net_var(&n, "x", TR_FP32, 2, -1, 4);
    net_op(&n, 0, "scale", "X=x", "Out=h", "scale=3.0");
    net_op(&n, 0, "scale", "X=h", "Out=s", "scale=2.0");
    net_op(&n, 0, "sequence_pool", "X=s", "Out=last MaxIndex=which", "pooltype=LAST");
    net_op(&n, 0, "mean", "X=last", "Out=loss", "");
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 0, NULL));
    for (int batch = 0; batch < 2; batch++) {
        net_feed(&n, "x", ones, 2, 8, 4);
        net_feed_lod(&n, "x", 1, 3, offsets[batch]);
        net_run(&n, "x@GRAD");
        for (int row = 0; row < 8; row++)
            assert_float_equal(net_f32(&n, 0)[row * 4], row == offsets[batch][1] - 1 || row == 7 ? 6.0 / 8 : 0, 1e-6);
    }
    assert_true(net_plan_says(&n, "last@GRAD (own)"));
    assert_true(net_plan_says(&n, "s@GRAD : float32[8, 4] (arena "));
    assert_true(net_plan_says(&n, "h@GRAD : float32[8, 4] (in place of s@GRAD)"));
    net_deinit(&n);
}

TEST(a_value_that_is_read_later_is_not_overwritten)
{
    net n;
    net_init(&n);
    net_var(&n, "x", TR_FP32, 1, -1);
    net_op(&n, 0, "scale", "X=x", "Out=a", "scale=3.0");
    net_op(&n, 0, "scale", "X=a", "Out=b", "scale=2.0");
    net_op(&n, 0, "elementwise_add", "X=a Y=b", "Out=c", "");
    net_feed(&n, "x", ones, 1, 5);
    net_run(&n, "c");
    assert_float_equal(net_f32(&n, 0)[4], 9.0, 1e-6);
    net_deinit(&n);
}

TEST(a_name_written_twice_is_two_variables)
{
    net n;
    net_init(&n);
    net_var(&n, "x", TR_FP32, 1, -1);
    net_op(&n, 0, "scale", "X=x", "Out=a", "scale=3.0");
    net_op(&n, 0, "scale", "X=a", "Out=b", "");
    net_op(&n, 0, "scale", "X=b", "Out=a", "scale=5.0");
    net_op(&n, 0, "elementwise_add", "X=a Y=b", "Out=c", "");
    net_feed(&n, "x", ones, 1, 5);
    net_run(&n, "c");
    assert_float_equal(net_f32(&n, 0)[0], 18.0, 1e-6);
    net_deinit(&n);
}

TEST(a_type_that_is_settled_late_is_refused_when_the_plan_is_built)
{
    static const bool truths[4] = {true};
    net n;
    net_init(&n);
    net_var(&n, "x", TR_DTYPE_NONE, 1, -1);
    net_op(&n, 0, "tanh", "X=x", "Out=y", "");
    tr_var_desc_set_dtype(tr_block_find_var(tr_program_block(n.program, 0), "x"), TR_BOOL);
    net_feed(&n, "x", truths, 1, 4);
    EXPECT_FAIL(TR_EDTYPE, "tanh: input X 'x' is bool, but there are kernels for float16, float32, float64, bfloat16 only",
                net_try_run(&n, "y"));
    net_deinit(&n);
}

TEST(a_repeated_step_allocates_nothing)
{
    net n;
    build_layer(&n);
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 0, NULL));
    for (int i = 0; i < 3; i++)
        net_run(&n, "loss w@GRAD");
    const int64_t before = tr_plan_allocations(n.plan);
    for (int i = 0; i < 50; i++)
        net_run(&n, "loss w@GRAD");
    assert_int_equal(tr_plan_allocations(n.plan), before);
    net_deinit(&n);
}

TEST(batch_sizes_take_turns_without_allocating)
{
    net n;
    build_layer(&n);
    for (int i = 0; i < 8; i++) {
        net_feed(&n, "x", ones, 2, 1 + i % 4, 4);
        net_run(&n, "loss");
    }
    const int64_t before = tr_plan_allocations(n.plan);
    for (int i = 0; i < 40; i++) {
        net_feed(&n, "x", ones, 2, 1 + i % 4, 4);
        net_run(&n, "loss");
        assert_float_equal(net_f32(&n, 0)[0], 2.25, 1e-6);
    }
    assert_int_equal(tr_plan_allocations(n.plan), before);
    net_deinit(&n);
}

TEST(a_fetched_value_survives_the_next_run)
{
    net n;
    tr_tensor *kept = tr_tensor_new();
    float other[4] = {2, 2, 2, 2};
    build_layer(&n);
    net_run(&n, "r");
    tr_tensor_share(kept, n.result[0]);
    net_feed(&n, "x", other, 2, 1, 4);
    net_run(&n, "r");
    assert_float_equal(((const float *)tr_tensor_data(kept))[0], 2.25, 1e-6);
    assert_float_equal(net_f32(&n, 0)[0], 4.25, 1e-6);
    tr_tensor_free(kept);
    net_deinit(&n);
}

TEST(a_plan_is_found_again_until_the_program_changes)
{
    net n;
    build_layer(&n);
    net_run(&n, "loss");
    const tr_plan *first = n.plan;
    net_run(&n, "loss");
    assert_ptr_equal(n.plan, first);
    net_op(&n, 0, "scale", "X=loss", "Out=loss2", "scale=2.0");
    net_run(&n, "loss2");
    assert_float_equal(net_f32(&n, 0)[0], 4.5, 1e-6);
    net_deinit(&n);
}

TEST(a_scope_variable_may_be_replaced_between_runs)
{
    net n;
    net_init(&n);
    net_parameter(&n, "p", TR_FP32, 1, -1);
    net_op(&n, 0, "scale", "X=p", "Out=q", "scale=2.0");
    tr_tensor *p = tr_var_tensor(tr_scope_var(n.scope, "p"));
    for (int64_t size = 1; size < 6; size++) {
        EXPECT_OK(tr_tensor_resize(p, TR_FP32, 1, &size));
        for (int64_t i = 0; i < size; i++)
            ((float *)tr_tensor_data(p))[i] = (float)size;
        net_run(&n, "q");
        assert_int_equal(tr_tensor_numel(n.result[0]), size);
        assert_float_equal(net_f32(&n, 0)[size - 1], 2.0 * (double)size, 1e-6);
    }
    net_deinit(&n);
}

/* Selected rows in the scope: row k of `count` holds its own number, twice. */
static tr_tensor *scope_rows(net *n, const char *name, bool is_declared, int64_t count, const int64_t *numbers)
{
    const int64_t dims[2] = {count, 2};
    tr_tensor    *t = tr_var_tensor(tr_scope_var(n->scope, name));

    net_parameter(n, name, TR_FP32, 2, 9, 2);
    if (is_declared)
        tr_var_desc_set_kind(tr_block_find_var(tr_program_block(n->program, 0), name), TR_KIND_SELECTED_ROWS);
    EXPECT_OK(tr_tensor_resize(t, TR_FP32, 2, dims));
    EXPECT_OK(tr_tensor_set_rows(t, 9, count, numbers));
    for (int64_t i = 0; i < 2 * count; i++)
        ((float *)tr_tensor_data(t))[i] = (float)numbers[i / 2];
    return t;
}

static void expect_rows(const tr_tensor *t, int64_t count, const int64_t *numbers)
{
    assert_int_equal(tr_tensor_numel(t), 2 * count);
    assert_memory_equal(tr_tensor_rows(t), numbers, (size_t)count * sizeof *numbers);
    for (int64_t i = 0; i < 2 * count; i++)
        assert_float_equal(((const float *)tr_tensor_data((tr_tensor *)(uintptr_t)t))[i], (float)numbers[i / 2], 0);
}

TEST(rows_are_joined_into_a_scope_variable_that_is_one_of_them)
{
    static const int64_t a[3] = {7, 3, 8}, b[2] = {1, 5};
    static const struct { const char *inputs; int64_t count, rows[8]; } cases[] = {
        {"X=a,b", 5, {7, 3, 8, 1, 5}}, {"X=b,a", 5, {1, 5, 7, 3, 8}}, {"X=a,b,a", 8, {7, 3, 8, 1, 5, 7, 3, 8}}, {"X=a", 3, {7, 3, 8}},
    };

    for (int i = 0; i < TR_COUNT(cases); i++) {
        net n;
        net_init(&n);
        const tr_tensor *out = scope_rows(&n, "a", true, 3, a);
        scope_rows(&n, "b", true, 2, b);
        net_op(&n, 0, "sum", cases[i].inputs, "Out=a", "");
        net_run(&n, "");
        expect_rows(out, cases[i].count, cases[i].rows);
        net_deinit(&n);
    }
}

TEST(equal_rows_are_merged_where_they_are)
{
    static const int64_t numbers[4] = {7, 3, 7, 3};
    net n;
    net_init(&n);
    const tr_tensor *out = scope_rows(&n, "a", true, 4, numbers);
    net_op(&n, 0, "merge_selected_rows", "X=a", "Out=a", "");
    net_run(&n, "");
    assert_int_equal(tr_tensor_numel(out), 4);
    assert_int_equal(tr_tensor_rows(out)[0], 3);
    assert_float_equal(((const float *)tr_tensor_data((tr_tensor *)(uintptr_t)out))[3], 14, 0);
    net_deinit(&n);
}

/* The program says that they are dense. */
TEST(rows_that_come_as_a_surprise_are_refused_where_they_would_overwrite_an_input)
{
    static const int64_t a[3] = {7, 3, 8}, b[2] = {1, 5};
    net n;
    net_init(&n);
    const tr_tensor *out = scope_rows(&n, "a", false, 3, a);
    scope_rows(&n, "b", false, 2, b);
    net_op(&n, 0, "sum", "X=a,b", "Out=a", "");
    EXPECT_FAIL(TR_ESHAPE, "it reads and writes the same variable, which would become", net_try_run(&n, ""));
    expect_rows(out, 3, a);
    net_deinit(&n);
}

/* -- what it says when it cannot --------------------------------------------------------------- */

/* What is lent holds what was written there, of whatever shape the rest is: a server's successor finds it in shared memory. */
TEST(a_step_of_shapes_not_known_before_writes_to_memory_that_is_lent)
{
    static const int64_t paths[4] = {1, 1, 0, 2}, offsets[2] = {0, 4}, one = 1;
    float      lent = 0;
    net        n;
    net_init(&n);
    net_parameter(&n, "kept", TR_FP32, 1, 1);
    tr_tensor *kept = tr_var_tensor(tr_scope_var(n.scope, "kept"));
    EXPECT_OK(tr_tensor_borrow(kept, TR_FP32, 1, &one, &lent));
    net_var(&n, "path", TR_INT64, 2, -1, 1);
    net_op(&n, 0, "ctc_align", "Input=path", "Output=short", "");
    net_op(&n, 0, "cast", "X=short", "Out=numbers", "in_dtype=3 out_dtype=5");
    net_op(&n, 0, "mean", "X=numbers", "Out=middle", "");
    net_op(&n, 0, "scale", "X=middle", "Out=kept", "scale=2.0");
    net_feed(&n, "path", paths, 2, 4, 1);
    net_feed_lod(&n, "path", 1, 2, offsets);
    for (int run = 0; run < 2; run++) {
        lent = 0;
        net_run(&n, "");
        assert_ptr_equal(tr_tensor_data(kept), &lent);
        assert_float_equal(lent, 3.0, 0);
    }
    net_deinit(&n);
}

TEST(a_missing_feed_is_named)
{
    net n;
    build_layer(&n);
    n.feed_count = 0;
    EXPECT_FAIL(TR_ENOTFOUND, "variable 'x' is used, but it is neither fed nor computed before", net_try_run(&n, "loss"));
    net_deinit(&n);
}

TEST(an_unknown_fetch_is_named)
{
    net n;
    build_layer(&n);
    EXPECT_FAIL(TR_ENOTFOUND, "fetch 'lost'", net_try_run(&n, "lost"));
    net_deinit(&n);
}

TEST(an_unknown_feed_is_named)
{
    net n;
    build_layer(&n);
    net_feed(&n, "y", ones, 1, 3);
    EXPECT_FAIL(TR_ENOTFOUND, "feed 'y': the program has no such variable", net_try_run(&n, "loss"));
    net_deinit(&n);
}

TEST(a_feed_of_the_wrong_shape_is_explained)
{
    net n;
    build_layer(&n);
    net_feed(&n, "x", ones, 2, 2, 5);
    EXPECT_FAIL(TR_ESHAPE, "with feed 'x' of shape [2, 5], which the program declares as [?, 4]", net_try_run(&n, "loss"));
    net_feed(&n, "x", ones, 1, 8);
    EXPECT_FAIL(TR_ESHAPE, "feed 'x': the program declares shape [?, 4], got [8]", net_try_run(&n, "loss"));
    net_deinit(&n);
}

TEST(a_feed_of_the_wrong_type_is_explained)
{
    net n;
    build_layer(&n);
    n.feed[0].dtype = TR_FP64;
    EXPECT_FAIL(TR_EDTYPE, "feed 'x': the program declares float32, got float64", net_try_run(&n, "loss"));
    net_deinit(&n);
}

TEST(an_uninitialised_parameter_is_named)
{
    net n;
    net_init(&n);
    net_parameter(&n, "w", TR_FP32, 1, 3);
    net_op(&n, 0, "relu", "X=w", "Out=y", "");
    EXPECT_FAIL(TR_ENOTFOUND, "variable 'w' has no value yet: run the startup program", net_try_run(&n, "y"));
    assert_non_null(strstr(tr_error(), "operator 'relu' (block 0, operator 0)"));
    net_deinit(&n);
}

TEST(a_value_that_is_not_finite_is_found)
{
    net n;
    const float x[1] = {-1};
    net_init(&n);
    net_var(&n, "x", TR_FP32, 1, -1);
    net_op(&n, 0, "log", "X=x", "Out=y", "");
    net_op(&n, 0, "scale", "X=y", "Out=z", "");
    net_feed(&n, "x", x, 1, 1);
    net_run(&n, "z");
    tr_executor_check_finite(n.executor, true);
    EXPECT_FAIL(TR_ENAN, "variable 'y' has a value that is not finite", net_try_run(&n, "z"));
    assert_non_null(strstr(tr_error(), "operator 'log'"));
    net_deinit(&n);
}

TEST(an_unknown_operator_is_named_and_a_near_one_offered)
{
    net n;
    net_init(&n);
    net_var(&n, "x", TR_FP32, 1, -1);
    EXPECT_FAIL(TR_ENOTFOUND, "there is no operator 'rellu'; did you mean 'relu'", net_try_op(&n, 0, "rellu", "X=x", "Out=y", ""));
    assert_null(tr_block_find_var(tr_program_block(n.program, 0), "y"));
    net_deinit(&n);
}

TEST(an_operator_that_deletes_variables_is_not_run)
{
    static const float values[2] = {1, 2};
    net                n;

    net_init(&n);
    net_var(&n, "x", TR_FP32, 1, 2);
    net_op(&n, 0, "delete_var", "X=x", "", "");
    net_op(&n, 0, "scale", "X=x", "Out=y", "scale=2");
    net_op(&n, 0, "delete_var", "X=x,y", "", "");
    net_feed(&n, "x", values, 1, 2);
    net_run(&n, "y");
    assert_float_equal(net_f32(&n, 0)[1], 4, 0);
    assert_false(net_plan_says(&n, "delete_var"));
    net_deinit(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_layer_becomes_one_step),
        cmocka_unit_test(a_fetched_intermediate_keeps_its_step),
        cmocka_unit_test(a_fused_layer_trains_like_a_plain_one),
        cmocka_unit_test(an_unwanted_operator_is_not_run),
        cmocka_unit_test(temporaries_share_memory),
        cmocka_unit_test(a_gradient_of_known_shape_has_its_place_behind_steps_of_unknown_shape),
        cmocka_unit_test(a_value_that_is_read_later_is_not_overwritten),
        cmocka_unit_test(a_name_written_twice_is_two_variables),
        cmocka_unit_test(a_type_that_is_settled_late_is_refused_when_the_plan_is_built),
        cmocka_unit_test(a_repeated_step_allocates_nothing),
        cmocka_unit_test(batch_sizes_take_turns_without_allocating),
        cmocka_unit_test(a_fetched_value_survives_the_next_run),
        cmocka_unit_test(a_plan_is_found_again_until_the_program_changes),
        cmocka_unit_test(a_scope_variable_may_be_replaced_between_runs),
        cmocka_unit_test(a_step_of_shapes_not_known_before_writes_to_memory_that_is_lent),
        cmocka_unit_test(rows_are_joined_into_a_scope_variable_that_is_one_of_them),
        cmocka_unit_test(equal_rows_are_merged_where_they_are),
        cmocka_unit_test(rows_that_come_as_a_surprise_are_refused_where_they_would_overwrite_an_input),
        cmocka_unit_test(a_missing_feed_is_named),
        cmocka_unit_test(an_unknown_fetch_is_named),
        cmocka_unit_test(an_unknown_feed_is_named),
        cmocka_unit_test(a_feed_of_the_wrong_shape_is_explained),
        cmocka_unit_test(a_feed_of_the_wrong_type_is_explained),
        cmocka_unit_test(an_uninitialised_parameter_is_named),
        cmocka_unit_test(a_value_that_is_not_finite_is_found),
        cmocka_unit_test(an_unknown_operator_is_named_and_a_near_one_offered),
        cmocka_unit_test(an_operator_that_deletes_variables_is_not_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
