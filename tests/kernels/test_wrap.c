/* test_wrap.c - sums and products of integers that do not fit wrap round, wherever they are computed.
 *
 * The sanitizer of undefined behaviour watches; the numbers are those of unsigned arithmetic. */
#include "tests/support/net.h"

static const int64_t ends[4] = {INT64_MAX, INT64_MIN, INT64_MAX / 3 * 2, -5};
static const int32_t short_ends[4] = {INT32_MAX, INT32_MIN, INT32_MAX / 3 * 2, -5};

static uint64_t u(int64_t x) { return (uint64_t)x; }

/* out of `op`, run on x = [ends] and y, as [2, 2]. */
static void run(net *n, const char *op, const char *inputs, const char *attrs)
{
    net_init(n);
    net_var(n, "x", TR_INT64, 2, 2, 2);
    net_var(n, "y", TR_INT64, 2, 2, 2);
    net_op(n, 0, op, inputs, "Out=out", attrs);
    net_feed(n, "x", ends, 2, 2, 2);
    net_feed(n, "y", ends, 2, 2, 2);
    net_run(n, "out");
}

TEST(elements_wrap)
{
    static const char *const ops[] = {"elementwise_add", "elementwise_mul", "sum"};
    for (int o = 0; o < 3; o++) {
        net n;
        run(&n, ops[o], o == 2 ? "X=x,y" : "X=x Y=y", "");
        for (int i = 0; i < 4; i++)
            assert_true(u(net_i64(&n, 0)[i]) == (o == 1 ? u(ends[i]) * u(ends[i]) : 2 * u(ends[i])));
        net_deinit(&n);
    }
}

TEST(differences_wrap)
{
    net n;
    net_init(&n);
    net_var(&n, "x", TR_INT64, 1, 4);
    net_op(&n, 0, "fill_zeros_like", "X=x", "Out=zeros", "");
    net_op(&n, 0, "elementwise_sub", "X=zeros Y=x", "Out=out", "");
    net_op(&n, 0, "fill_constant", "", "Out=minus_one", "shape=[1] dtype=3 value=-1.0");
    net_op(&n, 0, "elementwise_div", "X=x Y=minus_one", "Out=quotient", "");
    net_feed(&n, "x", ends, 1, 4);
    net_run(&n, "out quotient");
    for (int i = 0; i < 4; i++) {
        assert_true(u(net_i64(&n, 0)[i]) == 0 - u(ends[i]));
        assert_true(net_i64(&n, 1)[i] == net_i64(&n, 0)[i]);
    }
    net_deinit(&n);
}

TEST(numbers_that_scale_wrap)
{
    net n;
    run(&n, "scale", "X=x", "scale=3.0 bias=7.0");
    for (int i = 0; i < 4; i++)
        assert_true(u(net_i64(&n, 0)[i]) == u(ends[i]) * 3 + 7);
    net_deinit(&n);
    run(&n, "scale", "X=x", "scale=1099511627776.0 bias=1099511627776.0 bias_after_scale=false");
    for (int i = 0; i < 4; i++)
        assert_true(u(net_i64(&n, 0)[i]) == (u(ends[i]) << 40));
    net_deinit(&n);
}

TEST(reductions_wrap)
{
    for (int columns = 0; columns < 2; columns++)
        for (int product = 0; product < 2; product++) {
            net n;
            run(&n, product ? "reduce_prod" : "reduce_sum", "X=x", columns ? "dim=[0]" : "dim=[1]");
            for (int i = 0; i < 2; i++) {
                const uint64_t a = u(ends[columns ? i : 2 * i]), b = u(ends[columns ? i + 2 : 2 * i + 1]);
                assert_true(u(net_i64(&n, 0)[i]) == (product ? a * b : a + b));
            }
            net_deinit(&n);
        }
}

/* Long rows are joined of chunks, in 64 bits. */
TEST(long_reductions_wrap)
{
    enum { COUNT = 10000 };
    static int64_t many[COUNT];
    net n;

    for (int i = 0; i < COUNT; i++)
        many[i] = INT64_MAX;
    net_init(&n);
    net_var(&n, "x", TR_INT64, 1, COUNT);
    net_op(&n, 0, "reduce_sum", "X=x", "Out=sum", "reduce_all=true");
    net_op(&n, 0, "reduce_prod", "X=x", "Out=product", "reduce_all=true");
    net_feed(&n, "x", many, 1, COUNT);
    net_run(&n, "sum product");
    assert_true(u(net_i64(&n, 0)[0]) == u(INT64_MAX) * COUNT);
    assert_true(u(net_i64(&n, 1)[0]) == 1);              /* (2^63 - 1)^2 = 1 */
    net_deinit(&n);
}

TEST(short_integers_wrap)
{
    net n;
    net_init(&n);
    net_var(&n, "x", TR_INT32, 1, 4);
    net_op(&n, 0, "elementwise_mul", "X=x Y=x", "Out=out", "");
    net_op(&n, 0, "cast", "X=out", "Out=wide", "in_dtype=2 out_dtype=3");
    net_feed(&n, "x", short_ends, 1, 4);
    net_run(&n, "wide");
    for (int i = 0; i < 4; i++)
        assert_true((uint32_t)net_i64(&n, 0)[i] == (uint32_t)short_ends[i] * (uint32_t)short_ends[i]);
    net_deinit(&n);
}

TEST(counters_wrap)
{
    static const int64_t last = INT64_MAX, first = INT64_MIN, step = INT64_MAX / 2;
    net n;
    net_init(&n);
    net_var(&n, "start", TR_INT64, 1, 1);
    net_var(&n, "end", TR_INT64, 1, 1);
    net_var(&n, "step", TR_INT64, 1, 1);
    net_op(&n, 0, "increment", "X=end", "Out=next", "");
    net_op(&n, 0, "range", "Start=start End=end Step=step", "Out=range", "");
    net_feed(&n, "start", &first, 1, 1);
    net_feed(&n, "end", &last, 1, 1);
    net_feed(&n, "step", &step, 1, 1);
    net_run(&n, "next range");
    assert_true(net_i64(&n, 0)[0] == INT64_MIN);
    for (int i = 0; i < tr_tensor_numel(n.result[1]); i++)
        assert_true(u(net_i64(&n, 1)[i]) == u(first) + u(i) * u(step));
    net_deinit(&n);
}

TEST(scattered_sums_wrap)
{
    static const int64_t places[] = {0, 0}, offsets[] = {0, 1, 2};
    net n;
    net_init(&n);
    net_var(&n, "x", TR_INT64, 2, 2, 2);
    net_var(&n, "ids", TR_INT64, 2, -1, 1);
    net_var(&n, "updates", TR_INT64, 2, -1, 1);
    net_op(&n, 0, "sequence_scatter", "X=x Ids=ids Updates=updates", "Out=out", "");
    net_feed(&n, "x", ends, 2, 2, 2);
    net_feed(&n, "ids", places, 2, 2, 1);
    net_feed_lod(&n, "ids", 1, 3, offsets);
    net_feed(&n, "updates", ends, 2, 2, 1);
    net_feed_lod(&n, "updates", 1, 3, offsets);
    net_run(&n, "out");
    assert_true(u(net_i64(&n, 0)[0]) == 2 * u(ends[0]));
    net_deinit(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_wrap),
        cmocka_unit_test(differences_wrap),
        cmocka_unit_test(numbers_that_scale_wrap),
        cmocka_unit_test(reductions_wrap),
        cmocka_unit_test(long_reductions_wrap),
        cmocka_unit_test(short_integers_wrap),
        cmocka_unit_test(counters_wrap),
        cmocka_unit_test(scattered_sums_wrap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
