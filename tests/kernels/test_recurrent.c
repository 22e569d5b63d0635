/* test_recurrent.c - the operator recurrent: values, gradients against numeric ones, memory, mistakes. */
#include "tests/support/net.h"

#include <math.h>
#include <stdio.h>

enum { STEPS = 4, BATCH = 2, SIZE = 3 };

static double x[STEPS * BATCH * SIZE], h0[BATCH * SIZE] = {0.3, -0.7, 0.9, -0.2, 0.5, 0.1};
static double w[SIZE * SIZE] = {0.4, -0.3, 0.2, 0.8, 0.1, -0.6, -0.5, 0.7, 0.3};

/* h = tanh(h w + x[t]) for each t; out[t] = h;  loss = sum(out * out) */
static void build(net *n, const char *attrs)
{
    char text[256];

    for (int i = 0; i < STEPS * BATCH * SIZE; i++)
        x[i] = sin(1.7 * i);
    net_init(n);
    net_var(n, "x", TR_FP64, 3, -1, BATCH, SIZE);
    net_var(n, "h0", TR_FP64, 2, BATCH, SIZE);
    net_var(n, "w", TR_FP64, 2, SIZE, SIZE);
    const int body = net_block(n, 0);
    net_var_in(n, body, "x", TR_FP64, 2, BATCH, SIZE);
    net_var_in(n, body, "before", TR_FP64, 2, BATCH, SIZE);
    net_op(n, body, "mul", "X=before Y=w", "Out=hw", "");
    net_op(n, body, "elementwise_add", "X=hw Y=x", "Out=sum", "");
    net_op(n, body, "tanh", "X=sum", "Out=h", "");
    net_op(n, body, "rnn_memory_helper", "X=h", "Out=after", "dtype=6");
    net_var_in(n, body, "out", TR_FP64, 2, BATCH, SIZE);
    net_op(n, body, "rnn_memory_helper", "X=h", "Out=out", "dtype=6");
    net_var(n, "out", TR_FP64, 3, -1, BATCH, SIZE);
    snprintf(text, sizeof text, "sub_block=block:1 has_states=true ex_states={before} states={after} %s", attrs);
    net_op(n, 0, "recurrent", "inputs=x initial_states=h0 parameters=w", "outputs=out step_scopes=steps", text);
    net_op(n, 0, "elementwise_mul", "X=out Y=out", "Out=square", "");
    net_op(n, 0, "reduce_sum", "X=square", "Out=loss", "reduce_all=true");
    net_feed(n, "x", x, 3, STEPS, BATCH, SIZE);
    net_feed(n, "h0", h0, 2, BATCH, SIZE);
    net_feed(n, "w", w, 2, SIZE, SIZE);
}

static void by_hand(double *out, int steps, bool reverse)
{
    double h[BATCH * SIZE];

    memcpy(h, h0, sizeof h);
    for (int n = 0; n < steps; n++) {
        const int t = reverse ? steps - 1 - n : n;
        double   *next = out + t * BATCH * SIZE;
        for (int r = 0; r < BATCH; r++)
            for (int j = 0; j < SIZE; j++) {
                double sum = x[(t * BATCH + r) * SIZE + j];
                for (int k = 0; k < SIZE; k++)
                    sum += h[r * SIZE + k] * w[k * SIZE + j];
                next[r * SIZE + j] = tanh(sum);
            }
        memcpy(h, next, sizeof h);
    }
}

static void check_values(net *n, int steps, bool reverse)
{
    double expected[STEPS * BATCH * SIZE];

    by_hand(expected, steps, reverse);
    net_feed(n, "x", x, 3, steps, BATCH, SIZE);
    net_run(n, "out");
    assert_int_equal(tr_tensor_dims(n->result[0])[0], steps);
    for (int i = 0; i < steps * BATCH * SIZE; i++)
        assert_float_equal(net_f64(n, 0)[i], expected[i], 1e-12);
}

TEST(a_net_computes_what_the_same_net_by_hand_does)
{
    net n;
    build(&n, "");
    for (int steps = STEPS; steps >= 0; steps--)
        check_values(&n, steps, false);
    net_deinit(&n);
}

TEST(a_net_in_reverse_starts_at_the_last_step)
{
    net n;
    build(&n, "reverse=true");
    check_values(&n, STEPS, true);
    net_deinit(&n);
}

static void check_gradients(const char *attrs)
{
    net n;

    build(&n, attrs);
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 0, NULL));
    for (int steps = 1; steps <= STEPS; steps += 3) {
        net_feed(&n, "x", x, 3, steps, BATCH, SIZE);
        net_check_gradient(&n, "x", x, steps * BATCH * SIZE, 1e-7);
        net_check_gradient(&n, "h0", h0, BATCH * SIZE, 1e-7);
        net_check_gradient(&n, "w", w, SIZE * SIZE, 1e-7);
    }
    net_deinit(&n);
}

TEST(a_net_has_the_numeric_gradient)            { check_gradients(""); }
TEST(a_net_in_reverse_has_the_numeric_gradient) { check_gradients("reverse=true"); }

TEST(a_net_without_steps_has_gradients_of_zero)
{
    net n;
    build(&n, "");
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 0, NULL));
    net_feed(&n, "x", x, 3, 0, BATCH, SIZE);
    net_run(&n, "w@GRAD h0@GRAD x@GRAD");
    for (int i = 0; i < SIZE * SIZE; i++)
        assert_float_equal(net_f64(&n, 0)[i], 0, 0);
    for (int i = 0; i < BATCH * SIZE; i++)
        assert_float_equal(net_f64(&n, 1)[i], 0, 0);
    assert_int_equal(tr_tensor_numel(n.result[2]), 0);
    net_deinit(&n);
}

TEST(a_trained_net_allocates_nothing_for_steps_that_it_has_seen)
{
    net n;
    build(&n, "");
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 0, NULL));
    for (int i = 0; i < 4; i++)
        net_run(&n, "w@GRAD x@GRAD");
    const int64_t before = tr_plan_allocations(n.plan);
    for (int i = 0; i < 5; i++)
        net_run(&n, "w@GRAD x@GRAD");
    assert_int_equal(tr_plan_allocations(n.plan), before);
    net_deinit(&n);
}

TEST(a_net_in_inference_runs_in_one_frame)
{
    enum { MANY = 400 };
    static double long_x[MANY * BATCH * SIZE];
    net n;
    build(&n, "");
    net_run(&n, "loss");
    const int64_t before = tr_plan_allocations(n.plan);
    net_feed(&n, "x", long_x, 3, MANY, BATCH, SIZE);
    net_run(&n, "loss");
    assert_in_range(tr_plan_allocations(n.plan) - before, 0, 12);
    net_deinit(&n);
}

TEST(a_gradient_that_is_not_asked_for_is_not_computed)
{
    net n;
    const char *const no_grad[] = {"x", "h0"};
    build(&n, "");
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 2, no_grad));
    net_check_gradient(&n, "w", w, SIZE * SIZE, 1e-7);
    EXPECT_FAIL(TR_ENOTFOUND, "fetch 'x@GRAD'", net_try_run(&n, "x@GRAD"));
    net_deinit(&n);
}

TEST(mistakes_are_explained)
{
    net n;
    build(&n, "");
    net_var(&n, "y", TR_FP64, 3, 5, BATCH, SIZE);
    net_var(&n, "z", TR_FP64, 3, 4, BATCH, SIZE);
    EXPECT_FAIL(TR_ESHAPE, "inputs must have as many steps each; inputs[1] is [4, 2, 3], but another one has 5",
                net_try_op(&n, 0, "recurrent", "inputs=y,z initial_states=h0", "outputs=other step_scopes=s",
                           "sub_block=block:1 ex_states={a} states={b}"));
    EXPECT_FAIL(TR_EINVAL, "1 initial_states, 2 ex_states and 1 states",
                net_try_op(&n, 0, "recurrent", "inputs=y initial_states=h0", "outputs=other step_scopes=s",
                           "sub_block=block:1 ex_states={a,c} states={b}"));
    net_op(&n, 0, "recurrent", "inputs=x initial_states=h0 parameters=w", "outputs=nothing step_scopes=s",
           "sub_block=block:1 ex_states={before} states={after}");
    EXPECT_FAIL(TR_ENOTFOUND, "the step block computes no output 'nothing'", net_try_run(&n, "nothing"));
    net_op(&n, 0, "recurrent", "inputs=x initial_states=h0 parameters=w", "outputs=out step_scopes=s",
           "sub_block=block:1 ex_states={before} states={elsewhere}");
    EXPECT_FAIL(TR_ENOTFOUND, "the step block computes no state 'elsewhere'", net_try_run(&n, "out"));
    net_deinit(&n);
}

TEST(a_block_that_would_see_the_whole_input_is_explained)
{
    net n;
    net_init(&n);
    net_var(&n, "x", TR_FP64, 2, -1, SIZE);
    const int body = net_block(&n, 0);
    net_op(&n, body, "scale", "X=x", "Out=y", "");
    net_op(&n, 0, "recurrent", "inputs=x", "outputs=y step_scopes=s", "sub_block=block:1 ex_states={} states={}");
    net_feed(&n, "x", x, 2, 2, SIZE);
    for (int i = 0; i < 2; i++)
        EXPECT_FAIL(TR_EFORMAT, "block 1 reads 'x', but does not declare it", net_try_run(&n, "y"));
    net_deinit(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_net_computes_what_the_same_net_by_hand_does),
        cmocka_unit_test(a_net_in_reverse_starts_at_the_last_step),
        cmocka_unit_test(a_net_has_the_numeric_gradient),
        cmocka_unit_test(a_net_in_reverse_has_the_numeric_gradient),
        cmocka_unit_test(a_net_without_steps_has_gradients_of_zero),
        cmocka_unit_test(a_trained_net_allocates_nothing_for_steps_that_it_has_seen),
        cmocka_unit_test(a_net_in_inference_runs_in_one_frame),
        cmocka_unit_test(a_gradient_that_is_not_asked_for_is_not_computed),
        cmocka_unit_test(mistakes_are_explained),
        cmocka_unit_test(a_block_that_would_see_the_whole_input_is_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
