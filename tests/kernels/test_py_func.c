/* test_py_func.c - an operator that calls a function of the process; here the function is C. */
#include <stdio.h>

#include "tests/support/expect.h"
#include "tests/support/net.h"

enum { ROWS = 2, COLUMNS = 3, COUNT = ROWS * COLUMNS };

/* Function 0 squares; function 1 is its gradient: it gets x, y and dy. Others misbehave. */
enum { SQUARE, SQUARE_GRAD, WRONG_SHAPE, WRONG_TYPE, NOTHING, FAILS, LOOKS };

static int looked;

static tr_status fill(tr_call *call, tr_dtype dtype, int rank, const int64_t *dims, tr_tensor **out)
{
    return tr_call_output(out, call, 0, dtype, rank, dims);
}

static tr_status square(tr_call *call, bool is_gradient)
{
    const tr_tensor *x = tr_call_input(call, 0), *dy = is_gradient ? tr_call_input(call, 2) : NULL;
    tr_tensor       *out;
    const tr_status  status = fill(call, TR_FP64, tr_tensor_rank(x), tr_tensor_dims(x), &out);

    for (int64_t i = 0; status == TR_OK && i < tr_tensor_numel(x); i++) {
        const double value = ((const double *)tr_tensor_data((tr_tensor *)x))[i];
        ((double *)tr_tensor_data(out))[i] = is_gradient ? 2 * value * ((const double *)tr_tensor_data((tr_tensor *)dy))[i] : value * value;
    }
    return status;
}

static tr_status call(tr_call *call)
{
    static const int64_t flat[1] = {COUNT}, table[2] = {ROWS, COLUMNS};
    tr_tensor *out;

    switch (tr_call_number(call)) {
    case SQUARE:      return square(call, false);
    case SQUARE_GRAD: assert_int_equal(tr_call_input_count(call), 3); return square(call, true);
    case WRONG_SHAPE: return fill(call, TR_FP64, 1, flat, &out);
    case WRONG_TYPE:  return fill(call, TR_FP32, 2, table, &out);
    case FAILS:       return tr_call_fail("the function is tired");
    case LOOKS:       looked++; assert_int_equal(tr_call_output_count(call), 0); return TR_OK;
    default:          return TR_OK;
    }
}

/* y = function(x) of [rows, 3], loss = mean(y). */
static void build(net *n, int function, int rows)
{
    char attrs[64];

    net_init(n);
    tr_set_call_fn(call);
    net_var(n, "x", TR_FP64, 2, rows, COLUMNS);
    net_var(n, "y", TR_FP64, 2, rows, COLUMNS);
    snprintf(attrs, sizeof attrs, "forward_callable_id=%d backward_callable_id=%d", function, SQUARE_GRAD);
    net_op(n, 0, "py_func", "X=x", "Out=y", attrs);
    net_op(n, 0, "mean", "X=y", "Out=loss", "");
}

static double x[COUNT] = {1, -2, 3, 0.5, 4, -1};

TEST(the_function_fills_the_outputs)
{
    for (int rows = -1; rows <= ROWS; rows += ROWS + 1) {
        net n;
        build(&n, SQUARE, rows);
        net_feed(&n, "x", x, 2, ROWS, COLUMNS);
        for (int round = 0; round < 3; round++) {
            net_run(&n, "y");
            for (int i = 0; i < COUNT; i++)
                assert_true(net_f64(&n, 0)[i] == x[i] * x[i]);
        }
        net_deinit(&n);
    }
}

TEST(the_gradient_calls_the_other_function)
{
    net n;

    build(&n, SQUARE, -1);
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 0, NULL));
    net_feed(&n, "x", x, 2, ROWS, COLUMNS);
    net_check_gradient(&n, "x", x, COUNT, 1e-7);
    net_deinit(&n);
}

TEST(a_function_without_outputs_is_called_each_time)
{
    net n;

    net_init(&n);
    tr_set_call_fn(call);
    net_var(&n, "x", TR_FP64, 2, -1, COLUMNS);
    net_op(&n, 0, "py_func", "X=x", "", "forward_callable_id=6");
    net_feed(&n, "x", x, 2, ROWS, COLUMNS);
    looked = 0;
    net_run(&n, "");
    net_run(&n, "");
    assert_int_equal(looked, 2);
    net_deinit(&n);
}

static void expect_refused(int function, tr_status status, const char *text)
{
    net n;

    build(&n, function, -1);
    net_feed(&n, "x", x, 2, ROWS, COLUMNS);
    EXPECT_FAIL(status, text, net_try_run(&n, "y"));
    net_deinit(&n);
}

TEST(a_result_of_another_type_or_shape_is_refused)
{
    expect_refused(WRONG_SHAPE, TR_ESHAPE,
                   "py_func: output 0 ('y') must be [?, 3], as the program declares it; the function has returned [6]");
    expect_refused(WRONG_TYPE, TR_EDTYPE,
                   "output 0 ('y') must be float64, as the program declares it; the function has returned float32 [2, 3]");
    expect_refused(NOTHING, TR_EINVAL, "py_func: the function has returned nothing for output 0 ('y')");
    expect_refused(FAILS, TR_EINVAL, "the function is tired\n  ");
}

TEST(a_process_without_functions_says_so)
{
    net n;

    build(&n, SQUARE, -1);
    tr_set_call_fn(NULL);
    net_feed(&n, "x", x, 2, ROWS, COLUMNS);
    EXPECT_FAIL(TR_EUNSUPPORTED, "it calls function 0 of the process that has made the program; this process has none",
                net_try_run(&n, "y"));
    net_deinit(&n);
}

TEST(no_file_may_hold_it)
{
    net n;

    build(&n, SQUARE, -1);
    EXPECT_FAIL(TR_EUNSUPPORTED,
                "block 0, operator 0 (py_func) calls a function of the process that has made the program, and no file holds",
                tr_program_check_io(n.program, TR_IO_ALL));
    EXPECT_OK(tr_program_check_io(n.program, TR_IO_CODE));
    net_deinit(&n);
}

TEST(an_output_must_be_declared)
{
    net n;

    net_init(&n);
    net_var(&n, "x", TR_FP64, 2, -1, COLUMNS);
    EXPECT_FAIL(TR_ESHAPE, "py_func: output 0 has no declared type and shape, which only the function knows",
                net_try_op(&n, 0, "py_func", "X=x", "Out=y", "forward_callable_id=0"));
    net_deinit(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_function_without_outputs_is_called_each_time),
        cmocka_unit_test(the_function_fills_the_outputs),
        cmocka_unit_test(the_gradient_calls_the_other_function),
        cmocka_unit_test(a_result_of_another_type_or_shape_is_refused),
        cmocka_unit_test(a_process_without_functions_says_so),
        cmocka_unit_test(no_file_may_hold_it),
        cmocka_unit_test(an_output_must_be_declared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
