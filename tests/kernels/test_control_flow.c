/* test_control_flow.c - loops and branches: values, gradients against numeric ones, memory. */
#include "tests/support/net.h"

#include <math.h>
#include <signal.h>
#include <sys/time.h>

enum { ROWS = 2, SIZE = 3 };

static double x[ROWS * SIZE] = {0.3, -0.7, 0.9, -0.2, 0.5, 0.1};
static double w[SIZE * SIZE] = {0.4, -0.3, 0.2, 0.8, 0.1, -0.6, -0.5, 0.7, 0.3};

static double sum_of_run(net *n)
{
    net_run(n, "loss");
    return net_f64(n, 0)[0];
}

/* h = x; for (i = 0; i < n; i++) h = 1.5 * tanh(h w) * h;  loss = sum(h).  h is carried from step to step. */
static void build_loop(net *n)
{
    net_init(n);
    net_var(n, "x", TR_FP64, 2, -1, SIZE);
    net_var(n, "w", TR_FP64, 2, SIZE, SIZE);
    net_var(n, "n", TR_INT64, 1, 1);
    net_op(n, 0, "scale", "X=x", "Out=h", "");
    net_op(n, 0, "fill_constant", "", "Out=i", "shape=[1] dtype=3");
    net_op(n, 0, "less_than", "X=i Y=n", "Out=c", "");
    const int body = net_block(n, 0);
    net_op(n, body, "mul", "X=h Y=w", "Out=t", "");
    net_op(n, body, "tanh", "X=t", "Out=u", "");
    net_op(n, body, "elementwise_mul", "X=u Y=h", "Out=v", "");
    net_op(n, body, "scale", "X=v", "Out=h", "scale=1.5");
    net_op(n, body, "increment", "X=i", "Out=i", "");
    net_op(n, body, "less_than", "X=i Y=n", "Out=c", "");
    net_op(n, 0, "while", "X=h,w,i,n Condition=c", "Out=h,i,c StepScopes=steps", "sub_block=block:1");
    net_op(n, 0, "reduce_sum", "X=h", "Out=loss", "reduce_all=true");
    net_feed(n, "x", x, 2, ROWS, SIZE);
    net_feed(n, "w", w, 2, SIZE, SIZE);
}

static double loop_by_hand(int64_t steps)
{
    double h[ROWS * SIZE], sum = 0;
    memcpy(h, x, sizeof h);
    for (; steps > 0; steps--)
        for (int r = 0; r < ROWS; r++) {
            double next[SIZE];
            for (int j = 0; j < SIZE; j++) {
                double t = 0;
                for (int k = 0; k < SIZE; k++)
                    t += h[r * SIZE + k] * w[k * SIZE + j];
                next[j] = 1.5 * tanh(t) * h[r * SIZE + j];
            }
            memcpy(h + r * SIZE, next, sizeof next);
        }
    for (int i = 0; i < ROWS * SIZE; i++)
        sum += h[i];
    return sum;
}

TEST(a_loop_computes_what_the_same_loop_by_hand_does)
{
    net n;
    build_loop(&n);
    for (int64_t steps = 0; steps < 6; steps++) {
        net_feed(&n, "n", &steps, 1, 1);
        assert_float_equal(sum_of_run(&n), loop_by_hand(steps), 1e-12);
    }
    net_deinit(&n);
}

TEST(a_loop_has_the_numeric_gradient_for_any_number_of_steps)
{
    net n;
    build_loop(&n);
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 0, NULL));
    for (int64_t steps = 0; steps < 5; steps++) {
        net_feed(&n, "n", &steps, 1, 1);
        net_check_gradient(&n, "x", x, ROWS * SIZE, 1e-7);
        net_check_gradient(&n, "w", w, SIZE * SIZE, 1e-7);
    }
    net_deinit(&n);
}

TEST(a_loop_without_backward_keeps_one_frame)
{
    net n;
    int64_t steps = 3;
    build_loop(&n);
    net_feed(&n, "n", &steps, 1, 1);
    sum_of_run(&n);
    const int64_t before = tr_plan_allocations(n.plan);
    steps = 2000;
    sum_of_run(&n);
    assert_in_range(tr_plan_allocations(n.plan) - before, 0, 2);
    net_deinit(&n);
}

static void interrupt_now(int number)
{
    (void)number;
    tr_interrupt();
}

/* Backward keeps a frame of each iteration: an abandoned run leaves many of them. */
TEST(an_interrupted_loop_leaves_nothing_that_the_next_run_meets)
{
    const struct itimerval soon = {.it_value = {.tv_usec = 20000}};
    net     n;
    int64_t steps = INT64_MAX;

    build_loop(&n);
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 0, NULL));
    net_feed(&n, "n", &steps, 1, 1);
    signal(SIGALRM, interrupt_now);
    for (int i = 0; i < 2; i++) {
        setitimer(ITIMER_REAL, &soon, NULL);
        EXPECT_FAIL(TR_EINTR, "while running operator 'while'", net_try_run(&n, "loss w@GRAD"));
    }
    steps = 3;
    assert_float_equal(sum_of_run(&n), loop_by_hand(3), 1e-12);
    net_check_gradient(&n, "w", w, SIZE * SIZE, 1e-7);
    net_deinit(&n);
}

/* A loop in a loop: for i < 2: for j < 3: h = sin(h w) + h. */
TEST(nested_loops_differentiate)
{
    net n;
    int64_t two = 2, three = 3;
    net_init(&n);
    net_var(&n, "x", TR_FP64, 2, -1, SIZE);
    net_var(&n, "w", TR_FP64, 2, SIZE, SIZE);
    net_var(&n, "n", TR_INT64, 1, 1);
    net_var(&n, "m", TR_INT64, 1, 1);
    net_op(&n, 0, "scale", "X=x", "Out=h", "");
    net_op(&n, 0, "fill_constant", "", "Out=i", "shape=[1] dtype=3");
    net_op(&n, 0, "less_than", "X=i Y=n", "Out=c", "");
    const int outer = net_block(&n, 0), inner = net_block(&n, outer);
    net_op(&n, outer, "fill_constant", "", "Out=j", "shape=[1] dtype=3");
    net_op(&n, outer, "less_than", "X=j Y=m", "Out=d", "");
    net_op(&n, inner, "mul", "X=h Y=w", "Out=t", "");
    net_op(&n, inner, "sin", "X=t", "Out=u", "");
    net_op(&n, inner, "elementwise_add", "X=u Y=h", "Out=h", "");
    net_op(&n, inner, "increment", "X=j", "Out=j", "");
    net_op(&n, inner, "less_than", "X=j Y=m", "Out=d", "");
    net_op(&n, outer, "while", "X=h,w,j,m Condition=d", "Out=h,j,d StepScopes=inner_steps", "sub_block=block:2");
    net_op(&n, outer, "scale", "X=h", "Out=h", "scale=0.5");
    net_op(&n, outer, "increment", "X=i", "Out=i", "");
    net_op(&n, outer, "less_than", "X=i Y=n", "Out=c", "");
    net_op(&n, 0, "while", "X=h,w,i,n,m Condition=c", "Out=h,i,c StepScopes=steps", "sub_block=block:1");
    net_op(&n, 0, "reduce_sum", "X=h", "Out=loss", "reduce_all=true");
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 0, NULL));
    net_feed(&n, "x", x, 2, ROWS, SIZE);
    net_feed(&n, "w", w, 2, SIZE, SIZE);
    net_feed(&n, "n", &two, 1, 1);
    net_feed(&n, "m", &three, 1, 1);
    net_check_gradient(&n, "x", x, ROWS * SIZE, 1e-7);
    net_check_gradient(&n, "w", w, SIZE * SIZE, 1e-7);
    net_deinit(&n);
}

/* for (i = 0; i < n; i++) { if (flag) y = y * sin(h);  h = 1.5 h; }: the branch reads what the loop overwrites. */
TEST(a_branch_in_a_loop_reads_what_the_loop_overwrites_behind_it)
{
    net n;
    int64_t    steps = 3;
    const bool flag = true;
    net_init(&n);
    net_var(&n, "x", TR_FP64, 2, -1, SIZE);
    net_var(&n, "n", TR_INT64, 1, 1);
    net_var(&n, "flag", TR_BOOL, 1, 1);
    net_op(&n, 0, "scale", "X=x", "Out=h", "");
    net_op(&n, 0, "scale", "X=x", "Out=y", "");
    net_op(&n, 0, "fill_constant", "", "Out=i", "shape=[1] dtype=3");
    net_op(&n, 0, "less_than", "X=i Y=n", "Out=c", "");
    const int body = net_block(&n, 0), then = net_block(&n, body);
    net_op(&n, then, "sin", "X=h", "Out=s", "");
    net_op(&n, then, "elementwise_mul", "X=y Y=s", "Out=y", "");
    net_op(&n, body, "conditional_block", "Cond=flag Input=y,h", "Out=y Scope=kept",
           "sub_block=block:2 is_scalar_condition=true");
    net_op(&n, body, "scale", "X=h", "Out=h", "scale=1.5");
    net_op(&n, body, "increment", "X=i", "Out=i", "");
    net_op(&n, body, "less_than", "X=i Y=n", "Out=c", "");
    net_op(&n, 0, "while", "X=h,y,i,n,flag Condition=c", "Out=h,y,i,c StepScopes=steps", "sub_block=block:1");
    net_op(&n, 0, "reduce_sum", "X=y", "Out=loss", "reduce_all=true");
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 0, NULL));
    net_feed(&n, "x", x, 2, ROWS, SIZE);
    net_feed(&n, "n", &steps, 1, 1);
    net_feed(&n, "flag", &flag, 1, 1);
    net_check_gradient(&n, "x", x, ROWS * SIZE, 1e-7);
    net_deinit(&n);
}

/* y = 2x; if (flag) y = y * y + x;  loss = sum(y). */
static void build_branch(net *n)
{
    net_init(n);
    net_var(n, "x", TR_FP64, 2, -1, SIZE);
    net_var(n, "flag", TR_BOOL, 1, 1);
    net_op(n, 0, "scale", "X=x", "Out=y", "scale=2.0");
    const int then = net_block(n, 0);
    net_op(n, then, "elementwise_mul", "X=y Y=y", "Out=square", "");
    net_op(n, then, "elementwise_add", "X=square Y=x", "Out=y", "");
    net_op(n, 0, "conditional_block", "Cond=flag Input=x,y", "Out=y Scope=kept",
           "sub_block=block:1 is_scalar_condition=true");
    net_op(n, 0, "reduce_sum", "X=y", "Out=loss", "reduce_all=true");
    EXPECT_OK(tr_append_backward(n->program, "loss", 0, NULL, 0, NULL));
    net_feed(n, "x", x, 2, ROWS, SIZE);
}

TEST(a_branch_runs_and_differentiates_when_taken)
{
    net n;
    const bool flag = true;
    double expected = 0;
    build_branch(&n);
    net_feed(&n, "flag", &flag, 1, 1);
    for (int i = 0; i < ROWS * SIZE; i++)
        expected += 4 * x[i] * x[i] + x[i];
    assert_float_equal(sum_of_run(&n), expected, 1e-12);
    net_check_gradient(&n, "x", x, ROWS * SIZE, 1e-7);
    net_deinit(&n);
}

/* h = 3x; if (h is not empty) y = h * x;  loss = sum(y). Input does not name h, as in programs of Fluid. */
TEST(a_condition_that_its_block_reads_has_a_gradient)
{
    net n;
    net_init(&n);
    net_var(&n, "x", TR_FP64, 2, -1, SIZE);
    net_op(&n, 0, "scale", "X=x", "Out=h", "scale=3.0");
    net_op(&n, 0, "scale", "X=x", "Out=y", "");
    const int then = net_block(&n, 0);
    net_op(&n, then, "elementwise_mul", "X=h Y=x", "Out=y", "");
    net_op(&n, 0, "conditional_block", "Cond=h Input=x", "Out=y Scope=kept", "sub_block=block:1");
    net_op(&n, 0, "reduce_sum", "X=y", "Out=loss", "reduce_all=true");
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 0, NULL));
    net_feed(&n, "x", x, 2, ROWS, SIZE);
    net_check_gradient(&n, "x", x, ROWS * SIZE, 1e-7);
    net_deinit(&n);
}

TEST(a_branch_that_is_not_taken_lets_the_gradient_pass)
{
    net n;
    const bool flag = false;
    build_branch(&n);
    net_feed(&n, "flag", &flag, 1, 1);
    net_run(&n, "x@GRAD");
    for (int i = 0; i < ROWS * SIZE; i++)
        assert_float_equal(net_f64(&n, 0)[i], 2.0, 1e-12);
    net_deinit(&n);
}

/* t = h w; then the loop overwrites h; y = t + b. mul and elementwise_add would fuse, after the loop. */
TEST(a_value_that_a_loop_overwrites_is_read_before_it)
{
    net n;
    int64_t steps = 2;
    double b[SIZE] = {0.1, 0.2, 0.3}, expected[ROWS * SIZE];
    build_loop(&n);
    net_var(&n, "b", TR_FP64, 1, SIZE);
    net_feed(&n, "b", b, 1, SIZE);
    net_feed(&n, "n", &steps, 1, 1);
    net_op(&n, 0, "scale", "X=h", "Out=g", "");
    net_op(&n, 0, "mul", "X=g Y=w", "Out=t", "");
    net_op(&n, 0, "fill_constant", "", "Out=i", "shape=[1] dtype=3");
    net_op(&n, 0, "less_than", "X=i Y=n", "Out=c", "");
    const int body = net_block(&n, 0);
    net_op(&n, body, "scale", "X=g", "Out=g", "scale=7.0");
    net_op(&n, body, "increment", "X=i", "Out=i", "");
    net_op(&n, body, "less_than", "X=i Y=n", "Out=c", "");
    net_op(&n, 0, "while", "X=g,i,n Condition=c", "Out=g,i,c StepScopes=more_steps", "sub_block=block:2");
    net_op(&n, 0, "elementwise_add", "X=t Y=b", "Out=y", "");
    net_run(&n, "h y g");
    for (int r = 0; r < ROWS; r++)
        for (int j = 0; j < SIZE; j++) {
            expected[r * SIZE + j] = b[j];
            for (int k = 0; k < SIZE; k++)
                expected[r * SIZE + j] += net_f64(&n, 0)[r * SIZE + k] * w[k * SIZE + j];
        }
    for (int i = 0; i < ROWS * SIZE; i++) {
        assert_float_equal(net_f64(&n, 1)[i], expected[i], 1e-12);
        assert_float_equal(net_f64(&n, 2)[i], 49 * net_f64(&n, 0)[i], 1e-12);
    }
    net_deinit(&n);
}

TEST(a_value_that_the_backward_loop_reads_again_is_unchanged)
{
    net n;
    int64_t steps = 2;
    build_loop(&n);
    net_feed(&n, "n", &steps, 1, 1);
    net_run(&n, "i h");
    assert_int_equal(net_i64(&n, 0)[0], 2);
    assert_int_equal(steps, 2);
    net_deinit(&n);
}

TEST(a_condition_that_is_no_truth_value_is_explained)
{
    net n;
    net_init(&n);
    net_var(&n, "c", TR_FP32, 1, 1);
    net_block(&n, 0);
    EXPECT_FAIL(TR_EDTYPE, "while: the condition must be bool, got float32",
              net_try_op(&n, 0, "while", "Condition=c", "StepScopes=s", "sub_block=block:1"));
    EXPECT_FAIL(TR_EDTYPE, "conditional_block: the condition must be bool, got float32",
                net_try_op(&n, 0, "conditional_block", "Cond=c", "Scope=s", "sub_block=block:1 is_scalar_condition=true"));
    net_deinit(&n);
}

TEST(a_block_that_is_not_there_is_explained)
{
    net n;
    const bool flag = true;
    net_init(&n);
    net_var(&n, "c", TR_BOOL, 1, 1);
    net_feed(&n, "c", &flag, 1, 1);
    net_op(&n, 0, "fill_constant", "", "Out=y", "shape=[1]");
    net_op(&n, 0, "while", "Condition=c", "Out=y StepScopes=s", "sub_block=block:7");
    EXPECT_FAIL(TR_EFORMAT, "sub_block names no block", net_try_run(&n, "y"));
    net_deinit(&n);
}

TEST(a_gradient_block_of_another_block_is_explained_and_loses_no_frame)
{
    net n;
    int64_t steps = 2;
    build_loop(&n);
    net_feed(&n, "n", &steps, 1, 1);
    net_block(&n, 0);
    net_op(&n, 0, "while_grad", "X=w X@GRAD@IN=@EMPTY@ StepScopes=steps", "X@GRAD=w@GRAD", "sub_block=block:2");
    EXPECT_FAIL(TR_EFORMAT, "its block 2 belongs to block 0, but the frame that it is given is of block 1",
                net_try_run(&n, "w@GRAD"));
    net_deinit(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loop_computes_what_the_same_loop_by_hand_does),
        cmocka_unit_test(a_loop_has_the_numeric_gradient_for_any_number_of_steps),
        cmocka_unit_test(a_loop_without_backward_keeps_one_frame),
        cmocka_unit_test(an_interrupted_loop_leaves_nothing_that_the_next_run_meets),
        cmocka_unit_test(nested_loops_differentiate),
        cmocka_unit_test(a_branch_in_a_loop_reads_what_the_loop_overwrites_behind_it),
        cmocka_unit_test(a_branch_runs_and_differentiates_when_taken),
        cmocka_unit_test(a_condition_that_its_block_reads_has_a_gradient),
        cmocka_unit_test(a_branch_that_is_not_taken_lets_the_gradient_pass),
        cmocka_unit_test(a_value_that_a_loop_overwrites_is_read_before_it),
        cmocka_unit_test(a_value_that_the_backward_loop_reads_again_is_unchanged),
        cmocka_unit_test(a_condition_that_is_no_truth_value_is_explained),
        cmocka_unit_test(a_block_that_is_not_there_is_explained),
        cmocka_unit_test(a_gradient_block_of_another_block_is_explained_and_loses_no_frame),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
