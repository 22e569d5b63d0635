/* test_plan_replicas.c - plans that run at the same time: one result for any number of threads, failures in their order; plans that
 * meet. */
#include "framework/threads/threadpool.h"
#include "tests/support/expect.h"
#include "tests/support/net.h"

enum { COUNT = 3, ROWS = 4 };

typedef struct side {
    tr_executor *executor;
    tr_plan     *plan;
    tr_tensor   *result;
    tr_feed      feed;
} side;

static const int64_t dims[2] = {ROWS, 2};

static void build(net *n)
{
    net_init(n);
    net_var(n, "x", TR_FP32, 2, -1, 2);
    net_op(n, 0, "scale", "X=x", "Out=y", "scale=3");
    net_op(n, 0, "mean", "X=y", "Out=m", "");
}

static void prepare(side *sides, net *n, const float (*data)[ROWS * 2])
{
    static const char *const feeds[] = {"x"}, *const fetches[] = {"m"};

    for (int i = 0; i < COUNT; i++) {
        sides[i] = (side){.executor = tr_executor_new(), .result = tr_tensor_new()};
        sides[i].feed = (tr_feed){.name = "x", .dtype = TR_FP32, .rank = 2, .dims = dims, .data = data[i]};
        EXPECT_OK(tr_executor_prepare(&sides[i].plan, sides[i].executor, n->program, n->scope, 1, feeds, 1, fetches));
    }
}

static tr_status run(side *sides)
{
    tr_plan          *plans[COUNT];
    const tr_feed    *feeds[COUNT];
    tr_tensor *const *fetches[COUNT];

    for (int i = 0; i < COUNT; i++) {
        plans[i] = sides[i].plan;
        feeds[i] = &sides[i].feed;
        fetches[i] = &sides[i].result;
    }
    return tr_plans_run(COUNT, plans, feeds, fetches);
}

static void release(side *sides)
{
    for (int i = 0; i < COUNT; i++) {
        tr_tensor_free(sides[i].result);
        tr_executor_free(sides[i].executor);
    }
}

TEST(each_plan_has_its_feeds_and_fetches)
{
    static const float data[COUNT][ROWS * 2] = {{1, 1, 1, 1, 1, 1, 1, 1}, {2, 2, 2, 2, 2, 2, 2, 2}, {0, 8}};
    net  n;
    side sides[COUNT];

    build(&n);
    prepare(sides, &n, data);
    for (int threads = 1; threads <= 4; threads++) {
        tr_set_num_threads(threads);
        for (int round = 0; round < 50; round++) {
            EXPECT_OK(run(sides));
            for (int i = 0; i < COUNT; i++)
                assert_float_equal(*(const float *)tr_tensor_data(sides[i].result), i == 1 ? 6 : 3, 0);
        }
    }
    tr_set_num_threads(0);
    release(sides);
    net_deinit(&n);
}

TEST(the_first_failure_counts_and_the_others_run)
{
    static const float data[COUNT][ROWS * 2] = {{1, 1, 1, 1, 1, 1, 1, 1}};
    static const int64_t flat[1] = {ROWS * 2};
    net  n;
    side sides[COUNT];

    build(&n);
    prepare(sides, &n, data);
    for (int i = 1; i < COUNT; i++) {
        sides[i].feed.rank = 1;
        sides[i].feed.dims = flat;
    }
    EXPECT_FAIL(TR_ESHAPE, "feed 'x': the program declares shape [?, 2], got [8]\n  in ", run(sides));
    assert_non_null(strstr(tr_error(), "in replica 1 of 3"));
    assert_float_equal(*(const float *)tr_tensor_data(sides[0].result), 3, 0);
    release(sides);
    net_deinit(&n);
}

TEST(plans_of_one_executor_are_refused)
{
    static const float data[COUNT][ROWS * 2] = {{1}};
    net      n;
    side     sides[COUNT];
    tr_plan *second;

    build(&n);
    prepare(sides, &n, data);
    second = sides[2].plan;
    sides[2].plan = sides[0].plan;
    EXPECT_FAIL(TR_EINVAL, "plans 0 and 2 are of one executor", run(sides));
    sides[2].plan = second;
    EXPECT_FAIL(TR_EINVAL, "257 plans; 0 to 256 are possible", tr_plans_run(257, NULL, NULL, NULL));
    release(sides);
    net_deinit(&n);
}

/* -- plans that meet ---------------------------------------------------------------------------------------- */

/* sync_batch_norm of x, with mean 0 and variance 1 as running statistics that stay. */
static void build_norm(net *n)
{
    net_init(n);
    net_var(n, "x", TR_FP32, 2, -1, 2);
    net_op(n, 0, "fill_constant", "", "Out=one", "shape=[2] value=1.0");
    net_op(n, 0, "fill_constant", "", "Out=zero", "shape=[2] value=0.0");
    net_op(n, 0, "sync_batch_norm", "X=x Scale=one Bias=zero Mean=zero Variance=one",
           "Y=y MeanOut=mean_out VarianceOut=variance_out SavedMean=m SavedVariance=inv", "");
}

TEST(plans_meet_on_any_number_of_threads)
{
    static const float data[COUNT][ROWS * 2] = {{1, 0, 2, 0, 3, 0, 4, 0}, {5, 0, 6, 0, 7, 0, 8, 0}, {9, 0, 10, 0, 11, 0, 12, 3}};
    net  n;
    side sides[COUNT];

    build_norm(&n);
    prepare(sides, &n, data);
    for (int threads = 1; threads <= 4; threads++) {
        tr_set_num_threads(threads);
        for (int round = 0; round < 20; round++) {
            EXPECT_OK(run(sides));
            for (int i = 0; i < COUNT; i++) {
                assert_float_equal(((const float *)tr_tensor_data(sides[i].result))[0], 6.5, 0);
                assert_float_equal(((const float *)tr_tensor_data(sides[i].result))[1], 0.25, 1e-7);
            }
        }
    }
    tr_set_num_threads(0);
    release(sides);
    net_deinit(&n);
}

TEST(a_plan_that_ends_lets_no_other_one_wait)
{
    static const float data[COUNT][ROWS * 2] = {{1, 1, 1, 1, 1, 1, 1, 1}};
    static const int64_t flat[1] = {ROWS * 2};
    net  n;
    side sides[COUNT];

    build_norm(&n);
    prepare(sides, &n, data);
    sides[2].feed.rank = 1;
    sides[2].feed.dims = flat;
    EXPECT_FAIL(TR_ESHAPE, "feed 'x': the program declares shape [?, 2], got [8]\n  in ", run(sides));
    assert_non_null(strstr(tr_error(), "in replica 2 of 3"));
    sides[2].feed.rank = 2;                            /* and the next run is as ever */
    sides[2].feed.dims = dims;
    EXPECT_OK(run(sides));
    release(sides);
    net_deinit(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_plan_has_its_feeds_and_fetches),
        cmocka_unit_test(the_first_failure_counts_and_the_others_run),
        cmocka_unit_test(plans_of_one_executor_are_refused),
        cmocka_unit_test(plans_meet_on_any_number_of_threads),
        cmocka_unit_test(a_plan_that_ends_lets_no_other_one_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
