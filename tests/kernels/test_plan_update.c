/* test_plan_update.c - an optimizer that runs with the product that makes its gradient: when, and with which bits. */
#include "tests/support/net.h"

#include "framework/tensors/random.h"

enum { ROWS = 48, INNER = 80, COLS = 96, LONG = 1100 };      /* LONG rows: their sum is made in parts, in float32 and in bfloat16 */

static float numbers[LONG * INNER];

static float *fill(float *to, int count, uint64_t key)
{
    tr_random_uniform_f32(to, count, key, 0, -1, 1);
    return to;
}

/* x w -> square -> mean, and SGD for w. */
static void build(net *n, int rows)
{
    net_init(n);
    net_var(n, "x", TR_FP32, 2, -1, INNER);
    net_parameter(n, "w", TR_FP32, 2, INNER, COLS);
    net_parameter(n, "lr", TR_FP32, 1, 1);
    net_op(n, 0, "mul", "X=x Y=w", "Out=h", "");
    net_op(n, 0, "square", "X=h", "Out=s", "");
    net_op(n, 0, "mean", "X=s", "Out=loss", "");
    net_feed(n, "x", fill(numbers, rows * INNER, 3), 2, rows, INNER);
}

static void add_update(net *n)
{
    EXPECT_OK(tr_append_backward(n->program, "loss", 0, NULL, 0, NULL));
    net_op(n, 0, "sgd", "Param=w Grad=w@GRAD LearningRate=lr", "ParamOut=w", "");
}

static float *in_scope(net *n, const char *name, int rank, int rows, int cols)
{
    const int64_t dims[] = {rows, cols};
    tr_tensor    *tensor = tr_var_tensor(tr_scope_var(n->scope, name));
    EXPECT_OK(tr_tensor_resize(tensor, TR_FP32, rank, dims));
    return tr_tensor_data(tensor);
}

/* The parameter, as it is before training. */
static float *begin(net *n)
{
    in_scope(n, "lr", 1, 1, 1)[0] = 0.37f;
    return fill(in_scope(n, "w", 2, INNER, COLS), INNER * COLS, 5);
}

static void check_bits(int rows, const char *precision)
{
    static float apart[INNER * COLS];
    net          n;

    build(&n, rows);
    add_update(&n);
    EXPECT_OK(tr_executor_set_matmul_precision(n.executor, precision));
    float *w = begin(&n);
    net_run(&n, "loss w@GRAD");
    assert_true(net_plan_says(&n, "= sgd("));
    memcpy(apart, w, sizeof apart);
    begin(&n);
    net_run(&n, "loss");
    assert_true(net_plan_says(&n, "= mul_grad_sgd("));
    assert_false(net_plan_says(&n, "= sgd("));
    assert_memory_equal(w, apart, sizeof apart);
    net_deinit(&n);
}

TEST(an_update_with_its_product_has_the_bits_of_both_apart)
{
    static const int sizes[] = {1, ROWS, LONG};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        check_bits(sizes[i], "float32");
        check_bits(sizes[i], "bfloat16");
    }
}

static void expect_apart(net *n, const char *fetches)
{
    begin(n);
    net_run(n, fetches);
    assert_true(net_plan_says(n, "= sgd("));
    assert_false(net_plan_says(n, "mul_grad_sgd("));
}

TEST(a_parameter_that_is_read_before_its_update_is_not_updated_early)
{
    net n;
    build(&n, ROWS);
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 0, NULL));
    net_op(&n, 0, "mean", "X=w", "Out=size", "");
    net_op(&n, 0, "sgd", "Param=w Grad=w@GRAD LearningRate=lr", "ParamOut=w", "");
    expect_apart(&n, "loss size");
    net_deinit(&n);
}

TEST(a_learning_rate_that_is_made_after_the_gradient_is_waited_for)
{
    net n;
    build(&n, ROWS);
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 0, NULL));
    net_op(&n, 0, "scale", "X=lr", "Out=half", "scale=0.5");
    net_op(&n, 0, "sgd", "Param=w Grad=w@GRAD LearningRate=half", "ParamOut=w", "");
    expect_apart(&n, "loss");
    net_deinit(&n);
}

static void check_passing(const char *op, const char *in, const char *out, const char *attrs, bool passes)
{
    net n;
    build(&n, ROWS);
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 0, NULL));
    net_op(&n, 0, op, in, out, attrs);
    net_op(&n, 0, "sgd", "Param=w Grad=w@GRAD LearningRate=lr", "ParamOut=w", "");
    begin(&n);
    net_run(&n, "loss size");
    assert_int_equal(net_plan_says(&n, "mul_grad_sgd("), passes);
    net_deinit(&n);
}

TEST(an_update_moves_over_operators_of_the_training_part_that_cannot_fail)
{
    check_passing("mean", "X=x", "Out=size", "op_role=1", true);
    check_passing("mean", "X=x", "Out=size", "op_role=2", true);
    check_passing("mean", "X=x", "Out=size", "", false);                /* may find what no operator has checked before */
    check_passing("print", "In=x", "Out=size", "op_role=1", false);     /* does more than write outputs */
}

TEST(a_gradient_with_two_readers_is_kept)
{
    net n;
    build(&n, ROWS);
    add_update(&n);
    net_op(&n, 0, "mean", "X=w@GRAD", "Out=slope", "");
    expect_apart(&n, "loss slope");
    net_deinit(&n);
}

TEST(a_search_for_nan_sees_the_gradient_before_the_parameter_changes)
{
    net n;
    build(&n, ROWS);
    add_update(&n);
    tr_executor_check_finite(n.executor, true);
    expect_apart(&n, "loss");
    net_deinit(&n);
}

TEST(two_layers_are_updated_from_the_last_to_the_first)
{
    net n;
    net_init(&n);
    net_var(&n, "x", TR_FP32, 2, -1, INNER);
    net_parameter(&n, "w", TR_FP32, 2, INNER, COLS);
    net_parameter(&n, "u", TR_FP32, 2, COLS, 1);
    net_parameter(&n, "lr", TR_FP32, 1, 1);
    net_op(&n, 0, "mul", "X=x Y=w", "Out=h", "");
    net_op(&n, 0, "mul", "X=h Y=u", "Out=o", "");
    net_op(&n, 0, "mean", "X=o", "Out=loss", "");
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 0, NULL));
    net_op(&n, 0, "sgd", "Param=w Grad=w@GRAD LearningRate=lr", "ParamOut=w", "");
    net_op(&n, 0, "sgd", "Param=u Grad=u@GRAD LearningRate=lr", "ParamOut=u", "");
    net_feed(&n, "x", fill(numbers, ROWS * INNER, 3), 2, ROWS, INNER);
    static float before[COLS], after[COLS], w[INNER * COLS];
    for (int apart = 0; apart < 2; apart++) {
        float *now = begin(&n), *u = fill(in_scope(&n, "u", 2, COLS, 1), COLS, 7);
        memcpy(before, u, sizeof before);
        net_run(&n, apart ? "loss w@GRAD u@GRAD" : "loss");
        assert_int_equal(net_plan_says(&n, "= sgd("), apart);
        if (apart) {
            assert_memory_equal(u, after, sizeof after);
            assert_memory_equal(now, w, sizeof w);
        }
        memcpy(after, u, sizeof after);
        memcpy(w, now, sizeof w);
        assert_memory_not_equal(before, after, sizeof after);
    }
    net_deinit(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_update_with_its_product_has_the_bits_of_both_apart),
        cmocka_unit_test(a_parameter_that_is_read_before_its_update_is_not_updated_early),
        cmocka_unit_test(a_learning_rate_that_is_made_after_the_gradient_is_waited_for),
        cmocka_unit_test(an_update_moves_over_operators_of_the_training_part_that_cannot_fail),
        cmocka_unit_test(a_gradient_with_two_readers_is_kept),
        cmocka_unit_test(a_search_for_nan_sees_the_gradient_before_the_parameter_changes),
        cmocka_unit_test(two_layers_are_updated_from_the_last_to_the_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
