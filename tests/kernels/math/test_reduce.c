/* test_reduce.c - reductions over pre, n and post, their gradients, positions and whole sums. */
#ifndef T
#include "kernels/math/arrays/reduce.h"

#include "framework/tensors/half.h"
#include "kernels/math/arrays/row_sums.h"
#include "tests/kernels/math/check.h"

static const int64_t counts[][3] = {                          /* pre, n, post */
    {1, 0, 1}, {0, 3, 1}, {3, 0, 2},  {1, 1, 1},   {5, 7, 1},      {3, 4, 5},       {1, 64, 10},  {1, 100000, 1},
    {2, 70000, 1}, {9, 5000, 1}, {1, 3000, 300}, {20, 130, 31}, {1, 20000, 3}, {300, 129, 1},
    {37, 49, 1}, {35, 196, 1}, {33, 15, 1}, {19, 64, 1}, {17, 16, 1}, {3, 140000, 1}, {20, 17000, 1}, {2, 3, 40000},
};
enum { CASES = sizeof counts / sizeof *counts };

static void flags_reduce(void **state)
{
    (void)state;
    const uint8_t x[] = {1, 1, 0, 1, 0, 0};                   /* [2][3][1] and [1][2][3] */
    uint8_t       out[3];
    tr_reduce_all(out, x, 2, 3, 1);
    assert_memory_equal(out, ((uint8_t[]){0, 0}), 2);
    tr_reduce_any(out, x, 2, 3, 1);
    assert_memory_equal(out, ((uint8_t[]){1, 1}), 2);
    tr_reduce_all(out, x, 1, 2, 3);
    assert_memory_equal(out, ((uint8_t[]){1, 0, 0}), 3);
    tr_reduce_any(out, x, 1, 2, 3);
    assert_memory_equal(out, ((uint8_t[]){1, 1, 0}), 3);
    tr_reduce_all(out, x, 1, 0, 1);
    assert_int_equal(out[0], 1);
    tr_reduce_any(out, x, 1, 0, 1);
    assert_int_equal(out[0], 0);
}

static void integers_reduce_exactly(void **state)
{
    (void)state;
    enum { N = 1000 };
    int64_t x[N], out[10], sum = 0;
    int32_t y[N], small[10];
    for (int i = 0; i < N; i++) {
        x[i] = (int64_t)1 << (i % 50);
        y[i] = (i * 7919) % 1000 - 500;
        sum += x[i];
    }
    tr_reduce_apply_i64(TR_REDUCE_SUM, out, x, 1, N, 1);
    assert_true(out[0] == sum);
    tr_reduce_apply_i64(TR_REDUCE_MAX, out, x, 10, 100, 1);
    assert_true(out[0] == (int64_t)1 << 49);
    tr_reduce_apply_i32(TR_REDUCE_MIN, small, y, 1, 100, 10);
    for (int k = 0; k < 10; k++)
        for (int j = 0; j < 100; j++)
            assert_true(small[k] <= y[j * 10 + k]);
    tr_reduce_apply_i32(TR_REDUCE_MEAN, small, (int32_t[]){7, 8, 9, 9}, 1, 4, 1);
    assert_int_equal(small[0], 8);
}

#include "kernels/math/tools/each_float.h"

static void columns_of_16_bits_have_the_sums_of_the_same_floats(void **state)
{
    static const int64_t sizes[][2] = {{0, 3}, {1, 5}, {127, 17}, {130, 256}, {3000, 300}, {20000, 3}};      /* rows, columns */

    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (tr_dtype half = TR_FP16; half <= TR_BF16; half += TR_BF16 - TR_FP16) {
            const int64_t rows = sizes[s][0], cols = sizes[s][1], n = rows * cols;
            float        *x = random_f32(n + 1, 1, -1, 1), *sums = random_f32(2 * cols, 1, -1, 1);
            uint16_t     *bits = malloc((size_t)(n + 1) * sizeof *bits);
            tr__half_of_floats(bits, x, half, n);
            tr__floats_of_half(x, bits, half, n);
            tr_reduce_apply_f32(TR_REDUCE_SUM, sums, x, 1, rows, cols);
            tr_sum_columns_of_half(sums + cols, bits, half, rows, cols);
            assert_memory_equal(sums, sums + cols, (size_t)cols * sizeof *sums);
            free(bits);
            free(sums);
            free(x);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flags_reduce),   cmocka_unit_test(integers_reduce_exactly), BOTH(reductions_match),
        BOTH(gradients_match),            BOTH(positions_are_those_of_the_first),    BOTH(top_k_sorts),
        BOTH(whole_sums_match),           BOTH(large_sums_keep_their_digits),       BOTH(rows_have_the_same_sums_together_and_alone),
        cmocka_unit_test(columns_of_16_bits_have_the_sums_of_the_same_floats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else

static double NAME(reference)(tr_reduce op, const T *x, int64_t n, int64_t post)
{
    long double r = op == TR_REDUCE_MAX ? -INFINITY : op == TR_REDUCE_MIN ? INFINITY : op == TR_REDUCE_PROD;
    for (int64_t j = 0; j < n; j++) {
        const double v = (double)x[j * post];
        r = op == TR_REDUCE_MAX ? fmaxl(r, v) : op == TR_REDUCE_MIN ? fminl(r, v) : op == TR_REDUCE_PROD ? r * v : r + v;
    }
    return (double)(op == TR_REDUCE_MEAN ? r / (long double)n : r);
}

static void NAME(reductions_match)(void **state)
{
    (void)state;
    for (int c = 0; c < CASES; c++)
        for (int op = 0; op < TR_REDUCE_COUNT; op++) {
            const int64_t pre = counts[c][0], n = counts[c][1], post = counts[c][2];
            const bool    is_product = op == TR_REDUCE_PROD;
            T *x = NAME(random)(pre * n * post, 1, is_product ? (T)0.999 : -1, is_product ? (T)1.001 : 1);
            T *out = array_new(pre * post, sizeof(T));
            SAME_FOR_ALL_THREADS(out, pre * post * (int64_t)sizeof(T), (void)0, NAME(tr_reduce_apply)(op, out, x, pre, n, post));
            for (int64_t i = 0; i < pre * post; i++) {
                const double want = NAME(reference)(op, x + i / post * n * post + i % post, n, post);
                const double size = op == TR_REDUCE_MEAN ? 1 : is_product ? sqrt((double)n) * want : 4 * sqrt((double)n);
                NAME(near)((double)out[i], want, size, 8, "out", i);
            }
            free(x), free(out);
        }
}

static void NAME(gradients_match)(void **state)
{
    (void)state;
    for (int c = 0; c < CASES; c++)
        for (int op = 0; op < TR_REDUCE_COUNT; op++) {
            const int64_t pre = counts[c][0], n = counts[c][1], post = counts[c][2], size = pre * n * post;
            T *x = NAME(random)(size, 1, (T)0.99, (T)1.01), *d = NAME(random)(pre * post, 2, -1, 1);
            T *out = array_new(pre * post, sizeof(T)), *dx = array_new(size, sizeof(T));
            NAME(tr_reduce_apply)(op, out, x, pre, n, post);
            SAME_FOR_ALL_THREADS(dx, size * (int64_t)sizeof(T), (void)0, NAME(tr_reduce_grad)(op, dx, d, x, out, pre, n, post));
            for (int64_t i = 0; i < size; i++) {
                const int64_t o = i / post / n * post + i % post;
                const double  g = (double)d[o], v = (double)x[i], y = (double)out[o];
                const double  want = op == TR_REDUCE_SUM ? g : op == TR_REDUCE_MEAN ? g / (double)n
                                   : op == TR_REDUCE_PROD ? g * y / v : v == y ? g : 0;
                NAME(near)((double)dx[i], want, fabs(want), 4, "dx", i);
            }
            free(x), free(d), free(out), free(dx);
        }
}

static void NAME(positions_are_those_of_the_first)(void **state)
{
    (void)state;
    const T x[] = {3, 1, 3, 0, 2, 0};
    int64_t at[3];
    NAME(tr_arg_max)(at, x, 1, 6, 1);
    assert_int_equal(at[0], 0);
    NAME(tr_arg_min)(at, x, 1, 6, 1);
    assert_int_equal(at[0], 3);
    NAME(tr_arg_max)(at, x, 1, 2, 3);
    assert_memory_equal(at, ((int64_t[]){0, 1, 0}), sizeof at);
    NAME(tr_arg_min)(at, x, 2, 3, 1);
    assert_int_equal(at[0], 1);
    assert_int_equal(at[1], 0);
}

static void NAME(top_k_sorts)(void **state)
{
    (void)state;
    enum { ROWS = 50, COLS = 77 };
    T *x = NAME(random)(ROWS * COLS, 1, 0, 20), value[ROWS * COLS];
    static int64_t index[ROWS * COLS];
    for (int i = 0; i < ROWS * COLS; i++)
        x[i] = (T)floor((double)x[i]);
    for (int64_t k = 1; k <= COLS; k += 19) {
        NAME(tr_top_k)(value, index, x, ROWS, COLS, k);
        for (int64_t r = 0; r < ROWS; r++)
            for (int64_t j = 0; j < k; j++) {
                const int64_t at = index[r * k + j];
                int64_t       before = 0;
                for (int64_t i = 0; i < COLS; i++)
                    before += x[r * COLS + i] > x[r * COLS + at] || (x[r * COLS + i] == x[r * COLS + at] && i < at);
                assert_int_equal(before, j);
                assert_true(value[r * k + j] == x[r * COLS + at]);
            }
    }
    free(x);
}

static void NAME(whole_sums_match)(void **state)
{
    (void)state;
    const int64_t sizes[] = {0, 1, 63, 64, 1000, 4097, 100000};
    for (int s = 0; s < 7; s++) {
        const int64_t n = sizes[s];
        T     *x = NAME(random)(n, 1, -1, 1), *y = NAME(random)(n, 2, -1, 1);
        long double sum = 0, squares = 0, absolute = 0, dot = 0;
        double      got[4];
        for (int64_t i = 0; i < n; i++) {
            sum += (long double)x[i];
            squares += (long double)x[i] * (long double)x[i];
            absolute += fabsl((long double)x[i]);
            dot += (long double)x[i] * (long double)y[i];
        }
        SAME_FOR_ALL_THREADS(got, sizeof got, (void)0,
                             (got[0] = NAME(tr_sum)(x, n), got[1] = NAME(tr_sum_squares)(x, n),
                              got[2] = NAME(tr_sum_abs)(x, n), got[3] = NAME(tr_dot)(x, y, n)));
        const double want[] = {(double)sum, (double)squares, (double)absolute, (double)dot};
        for (int i = 0; i < 4; i++)
            NAME(near)(got[i], want[i], sqrt((double)n) + (double)absolute, 4, "sum", i);
        free(x), free(y);
    }
}

static void NAME(large_sums_keep_their_digits)(void **state)
{
    (void)state;
    enum { N = 1 << 22 };
    T *x = array_new(N, sizeof(T)), out;
    for (int i = 0; i < N; i++)
        x[i] = (T)0.1;
    NAME(tr_reduce_apply)(TR_REDUCE_SUM, &out, x, 1, N, 1);
    NAME(near)((double)out, (double)(T)0.1 * N, N * 0.1, sizeof(T) == 4 ? 16 : 100, "sum", 0);
    free(x);
}

/* The sum of nothing but -0 is 0, as one row at a time has it. */
static void NAME(rows_have_the_same_sums_together_and_alone)(void **state)
{
    static const int64_t lengths[] = {0, 1, 15, 16, 17, 49, 63, 64, 65, 80, 95, 196, 1000, 4096};
    enum { ROWS = 37 };

    (void)state;
    for (int c = 0; c < (int)(sizeof lengths / sizeof *lengths); c++) {
        const int64_t n = lengths[c];
        T *x = NAME(random)(ROWS * n, 1, -1, 1), together[ROWS], alone[ROWS];
        for (int64_t i = 0; i < n; i++)
            x[3 * n + i] = -(T)0;
        NAME(tr__row_sums)(together, x, ROWS, n);
        for (int64_t r = 0; r < ROWS; r++)
            NAME(tr__row_sums)(alone + r, x + r * n, 1, n);
        assert_memory_equal(together, alone, sizeof alone);
        free(x);
    }
}

#endif
