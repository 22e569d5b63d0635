/* test_arrays.c - tensor arrays: elements, their gradients, sequences taken apart into steps and put together. */
#include "tests/support/net.h"

#include <stdio.h>

enum { ROWS = 6, SIZE = 2 };

static double x[ROWS * SIZE] = {0.3, -0.7, 0.9, -0.2, 0.5, 0.1, 1.4, -1.1, 0.6, 0.8, -0.4, 0.2};
static double y[ROWS * SIZE] = {1.0, 0.5, -0.5, 0.25, 0.75, -1.0, 0.1, 0.2, 0.3, -0.6, 0.9, -0.8};

static void index_constant(net *n, const char *name, int value)
{
    char attrs[64], out[64];

    snprintf(attrs, sizeof attrs, "shape=[1] dtype=3 value=%d.0", value);
    snprintf(out, sizeof out, "Out=%s", name);
    net_op(n, 0, "fill_constant", "", out, attrs);
}

static void begin(net *n)
{
    net_init(n);
    net_var(n, "x", TR_FP64, 2, -1, SIZE);
    net_var(n, "y", TR_FP64, 2, -1, SIZE);
    index_constant(n, "zero", 0);
    index_constant(n, "two", 2);
    net_feed(n, "x", x, 2, ROWS, SIZE);
    net_feed(n, "y", y, 2, ROWS, SIZE);
}

/* array[2] = x, array[0] = y; a = array[0], b = array[2], which is read a second time */
static void build_elements(net *n)
{
    begin(n);
    net_op(n, 0, "write_to_array", "X=x I=two", "Out=array", "");
    net_op(n, 0, "write_to_array", "X=y I=zero", "Out=array", "");
    net_op(n, 0, "read_from_array", "X=array I=zero", "Out=a", "");
    net_op(n, 0, "read_from_array", "X=array I=two", "Out=b", "");
    net_op(n, 0, "lod_array_length", "X=array", "Out=length", "");
    net_op(n, 0, "read_from_array", "X=array I=two", "Out=again", "");
    net_op(n, 0, "elementwise_mul", "X=a Y=b", "Out=ab", "");
    net_op(n, 0, "elementwise_mul", "X=ab Y=again", "Out=abb", "");
    net_op(n, 0, "reduce_sum", "X=abb", "Out=loss", "reduce_all=true");
}

/* -- elements -------------------------------------------------------------------------------------- */

TEST(an_element_of_an_array_keeps_its_sequences)
{
    net n;
    const int64_t offsets[] = {0, 2, 2, 6};
    build_elements(&n);
    net_feed_lod(&n, "x", 1, 4, offsets);
    net_run(&n, "a b length");
    assert_memory_equal(net_f64(&n, 0), y, sizeof y);
    assert_memory_equal(net_f64(&n, 1), x, sizeof x);
    assert_int_equal(net_i64(&n, 2)[0], 3);
    assert_int_equal(tr_tensor_lod_levels(n.result[0]), 0);
    assert_memory_equal(tr_tensor_lod_offsets(n.result[1], 0), offsets, sizeof offsets);
    assert_int_equal(tr_tensor_dtype(net_array_item(&n, "array", 1)), TR_DTYPE_NONE);
    net_deinit(&n);
}

TEST(elements_have_the_numeric_gradient)
{
    net n;
    build_elements(&n);
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 0, NULL));
    net_check_gradient(&n, "x", x, ROWS * SIZE, 1e-7);
    net_check_gradient(&n, "y", y, ROWS * SIZE, 1e-7);
    net_deinit(&n);
}

TEST(an_element_that_nobody_reads_has_no_gradient)
{
    net n;
    begin(&n);
    net_op(&n, 0, "scale", "X=y", "Out=z", "scale=2.0");
    net_op(&n, 0, "write_to_array", "X=x I=zero", "Out=array", "");
    net_op(&n, 0, "write_to_array", "X=z I=two", "Out=array", "");
    net_op(&n, 0, "read_from_array", "X=array I=zero", "Out=a", "");
    net_op(&n, 0, "reduce_sum", "X=a", "Out=loss", "reduce_all=true");
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 0, NULL));
    net_run(&n, "y@GRAD x@GRAD");
    for (int i = 0; i < ROWS * SIZE; i++) {
        assert_float_equal(net_f64(&n, 0)[i], 0.0, 0);
        assert_float_equal(net_f64(&n, 1)[i], 1.0, 0);
    }
    net_deinit(&n);
}

TEST(a_second_run_starts_with_empty_arrays_and_allocates_nothing)
{
    net n;
    build_elements(&n);
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 0, NULL));
    double first[ROWS * SIZE];
    net_run(&n, "x@GRAD");
    memcpy(first, net_f64(&n, 0), sizeof first);
    for (int i = 0; i < 3; i++)
        net_run(&n, "x@GRAD");
    const int64_t before = tr_plan_allocations(n.plan);
    for (int i = 0; i < 5; i++)
        net_run(&n, "x@GRAD");
    assert_int_equal(tr_plan_allocations(n.plan), before);
    assert_memory_equal(net_f64(&n, 0), first, sizeof first);
    net_deinit(&n);
}

TEST(mistakes_with_elements_are_explained)
{
    net n;
    begin(&n);
    net_op(&n, 0, "write_to_array", "X=x I=two", "Out=array", "");
    EXPECT_FAIL(TR_EINVAL, "read_from_array: X must be a tensor array, got a tensor",
                net_try_op(&n, 0, "read_from_array", "X=x I=zero", "Out=a", ""));
    EXPECT_FAIL(TR_EINVAL, "write_to_array: Out must be a tensor array, got a tensor",
                net_try_op(&n, 0, "write_to_array", "X=x I=zero", "Out=y", ""));
    EXPECT_FAIL(TR_EDTYPE, "Out is an array of float64, so X must be, too; got int64",
                net_try_op(&n, 0, "write_to_array", "X=two I=zero", "Out=array", ""));
    net_op(&n, 0, "fill_constant", "", "Out=pair", "shape=[2] dtype=3");
    EXPECT_FAIL(TR_ESHAPE, "I must hold one element, got [2]",
                net_try_op(&n, 0, "write_to_array", "X=x I=pair", "Out=other", ""));
    index_constant(&n, "five", 5);
    index_constant(&n, "before", -1);
    net_op(&n, 0, "read_from_array", "X=array I=zero", "Out=unwritten", "");
    net_op(&n, 0, "read_from_array", "X=array I=five", "Out=beyond", "");
    net_op(&n, 0, "read_from_array", "X=array I=before", "Out=negative", "");
    EXPECT_FAIL(TR_ENOTFOUND, "element 0 of array 'array' was never written", net_try_run(&n, "unwritten"));
    EXPECT_FAIL(TR_ERANGE, "array 'array' has 3 elements, there is no element 5", net_try_run(&n, "beyond"));
    EXPECT_FAIL(TR_ERANGE, "'before' must be in [0, 2^31), got -1", net_try_run(&n, "negative"));
    net_deinit(&n);
}

static void build_joined(net *n, const char *axis)
{
    begin(n);
    net_op(n, 0, "elementwise_mul", "X=x Y=y", "Out=xy", "");
    net_op(n, 0, "fill_constant", "", "Out=one", "shape=[1] dtype=3 value=1.0");
    net_op(n, 0, "write_to_array", "X=xy I=zero", "Out=array", "");
    net_op(n, 0, "write_to_array", "X=x I=one", "Out=array", "");
    net_op(n, 0, "read_from_array", "X=array I=one", "Out=again", "");
    net_op(n, 0, "tensor_array_to_tensor", "X=array", "Out=joined OutIndex=sizes", axis);
    net_op(n, 0, "elementwise_mul", "X=joined Y=joined", "Out=square", "");
    net_op(n, 0, "reduce_sum", "X=square", "Out=s", "reduce_all=true");
    net_op(n, 0, "reduce_sum", "X=again", "Out=r", "reduce_all=true");
    net_op(n, 0, "sum", "X=s,r", "Out=loss", "");
}

TEST(elements_are_joined_along_an_axis)
{
    net n;
    build_joined(&n, "axis=1");
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 0, NULL));
    net_run(&n, "joined sizes");
    assert_int_equal(tr_tensor_dims(n.result[0])[1], 2 * SIZE);
    for (int i = 0; i < ROWS * SIZE; i++) {
        const double *row = net_f64(&n, 0) + i / SIZE * 2 * SIZE;
        assert_float_equal(row[i % SIZE], x[i] * y[i], 0);
        assert_float_equal(row[SIZE + i % SIZE], x[i], 0);
    }
    assert_int_equal(((int32_t *)tr_tensor_data(n.result[1]))[1], SIZE);
    net_check_gradient(&n, "x", x, ROWS * SIZE, 1e-7);
    net_check_gradient(&n, "y", y, ROWS * SIZE, 1e-7);
    net_deinit(&n);
}

TEST(elements_that_cannot_be_joined_are_explained)
{
    net n;
    build_joined(&n, "axis=1");
    net_op(&n, 0, "fill_constant", "", "Out=three", "shape=[1,3] dtype=6");
    net_op(&n, 0, "write_to_array", "X=three I=two", "Out=array", "");
    net_op(&n, 0, "tensor_array_to_tensor", "X=array", "Out=wrong OutIndex=sizes", "axis=1");
    EXPECT_FAIL(TR_ESHAPE, "element 2 of 'array' is [1, 3] and element 0 [6, 2]", net_try_run(&n, "wrong"));
    EXPECT_FAIL(TR_ERANGE, "axis is 2", net_try_op(&n, 0, "tensor_array_to_tensor", "X=array", "Out=o OutIndex=s", "axis=2"));
    net_deinit(&n);
}

/* -- arrays in loops ------------------------------------------------------------------------------- */

/* s[0] = x; for (i = 0; i < n; i++) s[i + 1] = sin(s[i] y) + s[i];  loss = sum(s[n] s[1]) */
static void build_loop(net *n)
{
    begin(n);
    net_var(n, "n", TR_INT64, 1, 1);
    index_constant(n, "i", 0);
    index_constant(n, "one", 1);
    net_op(n, 0, "write_to_array", "X=x I=zero", "Out=s", "");
    net_op(n, 0, "less_than", "X=i Y=n", "Out=c", "");
    const int body = net_block(n, 0);
    net_op(n, body, "read_from_array", "X=s I=i", "Out=h", "");
    net_op(n, body, "elementwise_mul", "X=h Y=y", "Out=hy", "");
    net_op(n, body, "sin", "X=hy", "Out=sine", "");
    net_op(n, body, "elementwise_add", "X=sine Y=h", "Out=next", "");
    net_op(n, body, "increment", "X=i", "Out=i", "");
    net_op(n, body, "write_to_array", "X=next I=i", "Out=s", "");
    net_op(n, body, "less_than", "X=i Y=n", "Out=c", "");
    net_op(n, 0, "while", "X=s,y,i,n Condition=c", "Out=s,i,c StepScopes=steps", "sub_block=block:1");
    net_op(n, 0, "read_from_array", "X=s I=n", "Out=last", "");
    net_op(n, 0, "read_from_array", "X=s I=one", "Out=first", "");
    net_op(n, 0, "elementwise_mul", "X=last Y=first", "Out=product", "");
    net_op(n, 0, "reduce_sum", "X=product", "Out=loss", "reduce_all=true");
}

TEST(a_loop_over_an_array_has_the_numeric_gradient)
{
    net n;
    build_loop(&n);
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 0, NULL));
    for (int64_t steps = 1; steps < 5; steps++) {
        net_feed(&n, "n", &steps, 1, 1);
        net_check_gradient(&n, "x", x, ROWS * SIZE, 1e-7);
        net_check_gradient(&n, "y", y, ROWS * SIZE, 1e-7);
    }
    net_deinit(&n);
}

TEST(a_trained_loop_allocates_nothing_for_numbers_of_steps_that_it_has_seen)
{
    net n;
    int64_t steps = 9;
    build_loop(&n);
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 0, NULL));
    net_feed(&n, "n", &steps, 1, 1);
    for (int i = 0; i < 4; i++)
        net_run(&n, "x@GRAD");
    const int64_t before = tr_plan_allocations(n.plan);
    for (steps = 1; steps < 10; steps++)
        net_run(&n, "x@GRAD");
    assert_int_equal(tr_plan_allocations(n.plan), before);
    net_deinit(&n);
}

TEST(a_loop_in_inference_allocates_what_it_writes_into_arrays)
{
    net n;
    int64_t steps = 10;
    build_loop(&n);
    net_feed(&n, "n", &steps, 1, 1);
    net_run(&n, "loss");
    const int64_t before = tr_plan_allocations(n.plan);
    steps = 300;
    net_run(&n, "loss");
    assert_in_range(tr_plan_allocations(n.plan) - before, 290, 2 * 290 + 8);      /* a buffer is two pieces */
    net_deinit(&n);
}

/* -- sequences as arrays of steps ------------------------------------------------------------------- */

static const int64_t ragged[] = {0, 1, 1, 4, 6};          /* lengths 1, 0, 3, 2: ranked 2, 3, 0, 1 */

static void build_steps(net *n, const char *level)
{
    begin(n);
    net_op(n, 0, "lod_rank_table", "X=x", "Out=table", level);
    net_op(n, 0, "lod_tensor_to_array", "X=x RankTable=table", "Out=array", "");
    net_op(n, 0, "array_to_lod_tensor", "X=array RankTable=table", "Out=back", "");
    net_op(n, 0, "elementwise_mul", "X=back Y=y", "Out=product", "");
    net_op(n, 0, "read_from_array", "X=array I=zero", "Out=a", "");
    net_op(n, 0, "elementwise_mul", "X=a Y=a", "Out=square", "");
    net_op(n, 0, "reduce_sum", "X=product", "Out=one", "reduce_all=true");
    net_op(n, 0, "reduce_sum", "X=square", "Out=other", "reduce_all=true");
    net_op(n, 0, "sum", "X=one,other", "Out=loss", "");
}

static void expect_rows(tr_tensor *item, int count, const int *rows)
{
    assert_int_equal(tr_tensor_dims(item)[0], count);
    for (int r = 0; r < count; r++)
        assert_memory_equal((double *)tr_tensor_data(item) + r * SIZE, x + rows[r] * SIZE, SIZE * sizeof *x);
}

TEST(steps_hold_the_sequences_that_go_on_longest_first)
{
    net n;
    build_steps(&n, "");
    net_feed_lod(&n, "x", 1, 5, ragged);
    net_run(&n, "back loss");
    expect_rows(net_array_item(&n, "array", 0), 3, (const int[]){1, 4, 0});
    expect_rows(net_array_item(&n, "array", 1), 2, (const int[]){2, 5});
    expect_rows(net_array_item(&n, "array", 2), 1, (const int[]){3});
    assert_null(net_array_item(&n, "array", 3));
    assert_memory_equal(net_f64(&n, 0), x, sizeof x);
    assert_memory_equal(tr_tensor_lod_offsets(n.result[0], 0), ragged, sizeof ragged);
    net_deinit(&n);
}

TEST(steps_have_the_numeric_gradient)
{
    net n;
    build_steps(&n, "");
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 0, NULL));
    net_feed_lod(&n, "x", 1, 5, ragged);
    net_check_gradient(&n, "x", x, ROWS * SIZE, 1e-7);
    net_deinit(&n);
}

static const int64_t upper[] = {0, 2, 2, 4}, lower[] = {0, 1, 1, 4, 6};

TEST(steps_of_the_upper_level_are_sequences)
{
    net n;
    build_steps(&n, "");
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 0, NULL));
    net_feed_lod(&n, "x", 2, 4, upper, 5, lower);
    net_run(&n, "back loss");
    tr_tensor *first = net_array_item(&n, "array", 0), *second = net_array_item(&n, "array", 1);
    expect_rows(first, 4, (const int[]){0, 1, 2, 3});      /* sub-sequences 0 and 2 */
    assert_memory_equal(tr_tensor_lod_offsets(first, 0), ((const int64_t[]){0, 1, 4}), 3 * sizeof(int64_t));
    expect_rows(second, 2, (const int[]){4, 5});           /* 1, which is empty, and 3 */
    assert_memory_equal(tr_tensor_lod_offsets(second, 0), ((const int64_t[]){0, 0, 2}), 3 * sizeof(int64_t));
    assert_int_equal(tr_tensor_lod_levels(n.result[0]), 2);
    assert_memory_equal(tr_tensor_lod_offsets(n.result[0], 0), upper, sizeof upper);
    assert_memory_equal(tr_tensor_lod_offsets(n.result[0], 1), lower, sizeof lower);
    net_check_gradient(&n, "x", x, ROWS * SIZE, 1e-7);
    net_deinit(&n);
}

TEST(steps_of_the_lower_level_keep_the_level_above)
{
    net n;
    build_steps(&n, "level=1");
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 0, NULL));
    net_feed_lod(&n, "x", 2, 4, upper, 5, lower);
    net_run(&n, "back loss");
    expect_rows(net_array_item(&n, "array", 0), 3, (const int[]){1, 4, 0});
    assert_int_equal(tr_tensor_lod_levels(n.result[0]), 2);
    assert_memory_equal(tr_tensor_lod_offsets(n.result[0], 0), upper, sizeof upper);
    assert_memory_equal(net_f64(&n, 0), x, sizeof x);
    net_check_gradient(&n, "x", x, ROWS * SIZE, 1e-7);
    net_deinit(&n);
}

TEST(sequences_without_rows_make_one_step_without_rows)
{
    net n;
    const int64_t none[] = {0, 0, 0};
    build_steps(&n, "");
    net_feed(&n, "x", x, 2, 0, SIZE);
    net_feed(&n, "y", y, 2, 0, SIZE);
    net_feed_lod(&n, "x", 1, 3, none);
    net_run(&n, "back loss");
    assert_int_equal(tr_tensor_dims(n.result[0])[0], 0);
    assert_int_equal(tr_tensor_dims(n.result[0])[1], SIZE);
    assert_memory_equal(tr_tensor_lod_offsets(n.result[0], 0), none, sizeof none);
    net_deinit(&n);
}

TEST(an_array_that_does_not_fit_the_table_is_explained)
{
    net n;
    begin(&n);
    net_op(&n, 0, "lod_rank_table", "X=x", "Out=table", "");
    net_op(&n, 0, "write_to_array", "X=y I=zero", "Out=array", "");
    net_op(&n, 0, "array_to_lod_tensor", "X=array RankTable=table", "Out=back", "");
    net_op(&n, 0, "lod_tensor_to_array", "X=y RankTable=table", "Out=steps", "");
    net_op(&n, 0, "lod_array_length", "X=steps", "Out=length", "");
    net_feed_lod(&n, "x", 1, 5, ragged);
    EXPECT_FAIL(TR_ESHAPE, "element 0 of 'array' has 6 rows, but 3 sequences are longer", net_try_run(&n, "back"));
    EXPECT_FAIL(TR_ESHAPE, "the sequences of 'y' are not those that 'table' ranks", net_try_run(&n, "length"));
    EXPECT_FAIL(TR_EINVAL, "array_to_lod_tensor: RankTable must come from lod_rank_table",
                net_try_op(&n, 0, "array_to_lod_tensor", "X=array RankTable=x", "Out=z", ""));
    net_deinit(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_element_of_an_array_keeps_its_sequences),
        cmocka_unit_test(elements_have_the_numeric_gradient),
        cmocka_unit_test(an_element_that_nobody_reads_has_no_gradient),
        cmocka_unit_test(a_second_run_starts_with_empty_arrays_and_allocates_nothing),
        cmocka_unit_test(mistakes_with_elements_are_explained),
        cmocka_unit_test(elements_are_joined_along_an_axis),
        cmocka_unit_test(elements_that_cannot_be_joined_are_explained),
        cmocka_unit_test(a_loop_over_an_array_has_the_numeric_gradient),
        cmocka_unit_test(a_trained_loop_allocates_nothing_for_numbers_of_steps_that_it_has_seen),
        cmocka_unit_test(a_loop_in_inference_allocates_what_it_writes_into_arrays),
        cmocka_unit_test(steps_hold_the_sequences_that_go_on_longest_first),
        cmocka_unit_test(steps_have_the_numeric_gradient),
        cmocka_unit_test(steps_of_the_upper_level_are_sequences),
        cmocka_unit_test(steps_of_the_lower_level_keep_the_level_above),
        cmocka_unit_test(sequences_without_rows_make_one_step_without_rows),
        cmocka_unit_test(an_array_that_does_not_fit_the_table_is_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
