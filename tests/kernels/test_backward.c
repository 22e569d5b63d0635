/* test_backward.c - which gradients a program gets: summed, pruned, stopped, given. */
#include "tests/support/net.h"

static const float x[3] = {1, 2, 3};

static tr_block *global(net *n) { return tr_program_block(n->program, 0); }

static int count_ops(net *n, const char *type)
{
    int count = 0;
    for (int i = 0; i < tr_block_op_count(global(n)); i++)
        count += strcmp(tr_op_desc_type(tr_block_op_at(global(n), i)), type) == 0;
    return count;
}

static void start(net *n)
{
    net_init(n);
    net_var(n, "x", TR_FP32, 1, 3);
    net_feed(n, "x", x, 1, 3);
}

TEST(a_variable_read_often_gets_the_sum)
{
    net n;
    start(&n);
    net_op(&n, 0, "square", "X=x", "Out=a", "");
    net_op(&n, 0, "scale", "X=x", "Out=b", "scale=10.0");
    net_op(&n, 0, "elementwise_mul", "X=x Y=x", "Out=c", "");
    net_op(&n, 0, "sum", "X=a,b,c", "Out=s", "");
    net_op(&n, 0, "reduce_sum", "X=s", "Out=loss", "reduce_all=true");
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 0, NULL));
    net_run(&n, "x@GRAD");
    for (int i = 0; i < 3; i++)
        assert_float_equal(net_f32(&n, 0)[i], 4 * x[i] + 10, 1e-5);
    net_deinit(&n);
}

TEST(operators_that_do_not_reach_the_loss_get_no_gradient_operators)
{
    net n;
    start(&n);
    net_op(&n, 0, "exp", "X=x", "Out=aside", "");
    net_op(&n, 0, "mean", "X=x", "Out=loss", "");
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 0, NULL));
    assert_int_equal(count_ops(&n, "exp_grad"), 0);
    assert_int_equal(count_ops(&n, "mean_grad"), 1);
    net_deinit(&n);
}

TEST(a_stopped_variable_stops_it)
{
    net n;
    const char *const stop[] = {"a"};
    start(&n);
    net_op(&n, 0, "square", "X=x", "Out=a", "");
    net_op(&n, 0, "elementwise_mul", "X=a Y=x", "Out=b", "");
    net_op(&n, 0, "reduce_sum", "X=b", "Out=loss", "reduce_all=true");
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 1, stop));
    assert_int_equal(count_ops(&n, "square_grad"), 0);
    net_run(&n, "x@GRAD");
    for (int i = 0; i < 3; i++)
        assert_float_equal(net_f32(&n, 0)[i], x[i] * x[i], 1e-5);
    net_deinit(&n);
}

TEST(integers_have_no_gradient)
{
    net n;
    start(&n);
    net_op(&n, 0, "cast", "X=x", "Out=k", "in_dtype=5 out_dtype=3");
    net_op(&n, 0, "cast", "X=k", "Out=f", "in_dtype=3 out_dtype=5");
    net_op(&n, 0, "elementwise_mul", "X=f Y=x", "Out=b", "");
    net_op(&n, 0, "reduce_sum", "X=b", "Out=loss", "reduce_all=true");
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 0, NULL));
    net_run(&n, "x@GRAD");
    for (int i = 0; i < 3; i++)
        assert_float_equal(net_f32(&n, 0)[i], x[i], 1e-5);
    assert_null(tr_block_find_var(global(&n), "k@GRAD"));
    net_deinit(&n);
}

TEST(an_output_without_a_gradient_counts_as_zero)
{
    net n;
    start(&n);
    net_op(&n, 0, "split", "X=x", "Out=a,b,c", "num=3 axis=0");
    net_op(&n, 0, "square", "X=b", "Out=s", "");
    net_op(&n, 0, "mean", "X=s", "Out=loss", "");
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 0, NULL));
    net_run(&n, "x@GRAD");
    assert_float_equal(net_f32(&n, 0)[0], 0, 0);
    assert_float_equal(net_f32(&n, 0)[1], 4, 1e-6);
    assert_float_equal(net_f32(&n, 0)[2], 0, 0);
    net_deinit(&n);
}

TEST(a_name_that_is_overwritten_is_differentiated_as_it_was)
{
    net n;
    start(&n);
    net_op(&n, 0, "scale", "X=x", "Out=a", "scale=3.0");
    net_op(&n, 0, "square", "X=a", "Out=b", "");
    net_op(&n, 0, "scale", "X=b", "Out=a", "scale=2.0");
    net_op(&n, 0, "reduce_sum", "X=a", "Out=loss", "reduce_all=true");
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 0, NULL));
    net_run(&n, "x@GRAD");
    for (int i = 0; i < 3; i++)                     /* d(2 (3x)^2) = 36 x */
        assert_float_equal(net_f32(&n, 0)[i], 36 * x[i], 1e-4);
    net_deinit(&n);
}

TEST(target_gradients_may_be_given)
{
    net n;
    const float g[3] = {1, 10, 100};
    const char *const targets[] = {"a"}, *const grads[] = {"g"};
    start(&n);
    net_var(&n, "g", TR_FP32, 1, 3);
    net_feed(&n, "g", g, 1, 3);
    net_op(&n, 0, "square", "X=x", "Out=a", "");
    EXPECT_OK(tr_append_gradients(n.program, 1, targets, grads, 0, NULL, 0, NULL));
    net_run(&n, "x@GRAD");
    for (int i = 0; i < 3; i++)
        assert_float_equal(net_f32(&n, 0)[i], 2 * x[i] * g[i], 1e-4);
    net_deinit(&n);
}

TEST(a_target_of_any_shape_starts_with_ones)
{
    net n;
    const char *const targets[] = {"a"};
    start(&n);
    net_op(&n, 0, "square", "X=x", "Out=a", "");
    EXPECT_OK(tr_append_gradients(n.program, 1, targets, NULL, 0, NULL, 0, NULL));
    net_run(&n, "x@GRAD");
    for (int i = 0; i < 3; i++)
        assert_float_equal(net_f32(&n, 0)[i], 2 * x[i], 1e-5);
    net_deinit(&n);
}

TEST(a_second_gradient_has_another_name)
{
    net n;
    const char *const targets[] = {"a", "b"};
    start(&n);
    net_op(&n, 0, "square", "X=x", "Out=a", "");
    net_op(&n, 0, "scale", "X=x", "Out=b", "scale=5.0");
    tr_var_desc *x_desc = tr_block_find_var(tr_program_block(n.program, 0), "x");
    tr_var_desc *b_desc = tr_block_find_var(tr_program_block(n.program, 0), "b");
    assert_null(tr_var_desc_gradient(x_desc));
    EXPECT_OK(tr_append_gradients(n.program, 1, targets, NULL, 0, NULL, 0, NULL));
    assert_string_equal(tr_var_desc_gradient(x_desc), "x@GRAD");
    assert_null(tr_var_desc_gradient(b_desc));
    EXPECT_OK(tr_append_gradients(n.program, 1, targets + 1, NULL, 0, NULL, 0, NULL));
    assert_string_equal(tr_var_desc_gradient(x_desc), "x@GRAD_0");
    assert_string_equal(tr_var_desc_gradient(b_desc), "b@GRAD");
    EXPECT_OK(tr_append_gradients(n.program, 2, targets, NULL, 0, NULL, 0, NULL));
    assert_string_equal(tr_var_desc_gradient(x_desc), "x@GRAD_1");
    assert_string_equal(tr_var_desc_gradient(b_desc), "b@GRAD_0");
    tr_program *copy = tr_program_clone(n.program);
    assert_string_equal(tr_var_desc_gradient(tr_block_find_var(tr_program_block(copy, 0), "x")), "x@GRAD_1");
    tr_program_free(copy);
    net_run(&n, "x@GRAD x@GRAD_0 x@GRAD_1");
    for (int i = 0; i < 3; i++) {
        assert_float_equal(net_f32(&n, 0)[i], 2 * x[i], 1e-5);
        assert_float_equal(net_f32(&n, 1)[i], 5, 1e-5);
        assert_float_equal(net_f32(&n, 2)[i], 2 * x[i] + 5, 1e-5);
    }
    net_deinit(&n);
}

TEST(a_loss_of_many_elements_is_explained)
{
    net n;
    start(&n);
    net_op(&n, 0, "square", "X=x", "Out=a", "");
    EXPECT_FAIL(TR_ESHAPE, "the loss 'a' must have one element, it is [3]", tr_append_backward(n.program, "a", 0, NULL, 0, NULL));
    EXPECT_FAIL(TR_ENOTFOUND, "there is no variable 'b'", tr_append_backward(n.program, "b", 0, NULL, 0, NULL));
    net_deinit(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_variable_read_often_gets_the_sum),
        cmocka_unit_test(operators_that_do_not_reach_the_loss_get_no_gradient_operators),
        cmocka_unit_test(a_stopped_variable_stops_it),
        cmocka_unit_test(integers_have_no_gradient),
        cmocka_unit_test(an_output_without_a_gradient_counts_as_zero),
        cmocka_unit_test(a_name_that_is_overwritten_is_differentiated_as_it_was),
        cmocka_unit_test(target_gradients_may_be_given),
        cmocka_unit_test(a_target_of_any_shape_starts_with_ones),
        cmocka_unit_test(a_second_gradient_has_another_name),
        cmocka_unit_test(a_loss_of_many_elements_is_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
