/* test_softmax.c - softmax and cross entropy against exact sums; gradients against the formulas and differences. */
#ifndef T
#include "kernels/math/arrays/softmax.h"

#include "tests/kernels/math/check.h"

static const int64_t shapes[][2] = {{0, 4}, {1, 1}, {3, 10}, {64, 10}, {100, 2073}, {500, 65}, {2, 40000}};
enum { CASES = sizeof shapes / sizeof *shapes };

#include "kernels/math/tools/each_float.h"

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(softmax_matches),         BOTH(large_logits_do_not_overflow), BOTH(cross_entropy_of_labels_matches),
        BOTH(soft_labels_match),       BOTH(bad_labels_are_named),         BOTH(cross_entropy_of_probabilities_matches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else

/* log(sum(exp(x))) of a row. */
static double NAME(log_sum)(const T *x, int64_t cols)
{
    double max = -INFINITY, sum = 0;
    for (int64_t k = 0; k < cols; k++)
        max = fmax(max, (double)x[k]);
    for (int64_t k = 0; k < cols; k++)
        sum += exp((double)x[k] - max);
    return max + log(sum);
}

static void NAME(softmax_matches)(void **state)
{
    (void)state;
    for (int c = 0; c < CASES; c++) {
        const int64_t rows = shapes[c][0], cols = shapes[c][1], size = rows * cols;
        T *x = NAME(random)(size, 1, -5, 5), *d = NAME(random)(size, 2, -1, 1);
        T *y = array_new(size, sizeof(T)), *dx = array_new(size, sizeof(T));
        SAME_FOR_ALL_THREADS(y, size * (int64_t)sizeof(T), (void)0, NAME(tr_softmax)(y, x, rows, cols));
        SAME_FOR_ALL_THREADS(dx, size * (int64_t)sizeof(T), (void)0, NAME(tr_softmax_grad)(dx, d, y, rows, cols));
        for (int64_t r = 0; r < rows; r++) {
            const double log_sum = NAME(log_sum)(x + r * cols, cols);
            double       dot = 0;
            for (int64_t k = r * cols; k < (r + 1) * cols; k++) {
                const double want = exp((double)x[k] - log_sum);
                NAME(near)((double)y[k], want, want, 40, "y", k);
                dot += (double)y[k] * (double)d[k];
            }
            for (int64_t k = r * cols; k < (r + 1) * cols; k++)
                NAME(near)((double)dx[k], (double)y[k] * ((double)d[k] - dot), (double)y[k], 16, "dx", k);
        }
        NAME(tr_softmax_grad)(d, d, y, rows, cols);           /* in place */
        NAME(tr_softmax)(x, x, rows, cols);
        assert_memory_equal(d, dx, (size_t)size * sizeof(T));
        assert_memory_equal(x, y, (size_t)size * sizeof(T));
        free(x), free(d), free(y), free(dx);
    }
}

static void NAME(large_logits_do_not_overflow)(void **state)
{
    (void)state;
    const T       x[4] = {1000, 1000, -1000, 999};
    const int64_t label = 2;
    T             y[4], loss;
    assert_int_equal(NAME(tr_softmax_cross_entropy)(y, &loss, x, &label, 1, 4, -100), -1);
    NAME(near)((double)y[0], 1 / (2 + exp(-1)), 1, 4, "y", 0);
    NAME(near)((double)y[2] * 0x1p92, exp(-64) / (2 + exp(-1)) * 0x1p92, 1, 4, "bounded y", 0);
    NAME(near)((double)loss, 2000 + log(2 + exp(-1)), 2000, 4, "loss", 0);
}

static void NAME(cross_entropy_of_labels_matches)(void **state)
{
    (void)state;
    for (int c = 0; c < CASES; c++) {
        const int64_t rows = shapes[c][0], cols = shapes[c][1], size = rows * cols, ignore = -100;
        T *x = NAME(random)(size, 1, -5, 5), *d = NAME(random)(rows, 2, -1, 1), *loss = array_new(rows, sizeof(T));
        T *y = array_new(size, sizeof(T)), *dx = array_new(size, sizeof(T)), *plain = array_new(size, sizeof(T));
        int64_t *label = array_new(rows, sizeof *label);
        for (int64_t r = 0; r < rows; r++)
            label[r] = r % 7 == 3 ? ignore : (r * 31) % cols;
        assert_int_equal(NAME(tr_softmax_cross_entropy)(y, loss, x, label, rows, cols, ignore), -1);
        NAME(tr_softmax)(plain, x, rows, cols);
        assert_memory_equal(y, plain, (size_t)size * sizeof(T));
        SAME_FOR_ALL_THREADS(dx, size * (int64_t)sizeof(T), (void)0,
                             NAME(tr_softmax_cross_entropy_grad)(dx, d, y, label, rows, cols, ignore));
        for (int64_t r = 0; r < rows; r++) {
            const bool   used = label[r] != ignore;
            const double want = used ? NAME(log_sum)(x + r * cols, cols) - (double)x[r * cols + label[r]] : 0;
            NAME(near)((double)loss[r], want, 16, 2, "loss", r);
            for (int64_t k = 0; k < cols; k++)
                NAME(near)((double)dx[r * cols + k], used ? ((double)y[r * cols + k] - (k == label[r])) * (double)d[r] : 0, 1, 2,
                           "dx", r * cols + k);
        }
        free(x), free(d), free(loss), free(y), free(dx), free(plain), free(label);
    }
}

static void NAME(soft_labels_match)(void **state)
{
    (void)state;
    for (int c = 0; c < CASES; c++) {
        const int64_t rows = shapes[c][0], cols = shapes[c][1], size = rows * cols;
        T *x = NAME(random)(size, 1, -5, 5), *d = NAME(random)(rows, 2, -1, 1), *loss = array_new(rows, sizeof(T));
        T *y = array_new(size, sizeof(T)), *dx = array_new(size, sizeof(T)), *label = NAME(random)(size, 3, 0, 1);
        NAME(tr_softmax)(label, label, rows, cols);
        NAME(tr_softmax_cross_entropy_soft)(y, loss, x, label, rows, cols);
        NAME(tr_softmax_cross_entropy_soft_grad)(dx, d, y, label, rows, cols);
        for (int64_t r = 0; r < rows; r++) {
            const double log_sum = NAME(log_sum)(x + r * cols, cols);
            long double  want = 0;
            for (int64_t k = r * cols; k < (r + 1) * cols; k++) {
                want += (long double)label[k] * (log_sum - (double)x[k]);
                NAME(near)((double)dx[k], ((double)y[k] - (double)label[k]) * (double)d[r], 1, 4, "dx", k);
            }
            NAME(near)((double)loss[r], (double)want, 16, 32, "loss", r);
        }
        free(x), free(d), free(loss), free(y), free(dx), free(label);
    }
}

static void NAME(bad_labels_are_named)(void **state)
{
    (void)state;
    enum { ROWS = 3000, COLS = 5 };
    T       *x = NAME(random)(ROWS * COLS, 1, 0, 1), *y = array_new(ROWS * COLS, sizeof(T)), *loss = array_new(ROWS, sizeof(T));
    int64_t *label = calloc(ROWS, sizeof *label);
    label[1234] = COLS;
    label[2345] = -1;
    assert_int_equal(NAME(tr_softmax_cross_entropy)(y, loss, x, label, ROWS, COLS, -100), 1234);
    assert_int_equal(NAME(tr_softmax_cross_entropy_grad)(y, loss, x, label, ROWS, COLS, -100), 1234);
    assert_int_equal(NAME(tr_cross_entropy)(loss, x, label, ROWS, COLS, -100), 1234);
    assert_int_equal(NAME(tr_cross_entropy_grad)(y, loss, x, label, ROWS, COLS, -100), 1234);
    assert_int_equal(NAME(tr_cross_entropy)(loss, x, label, ROWS, COLS, -1), 1234);
    label[1234] = 0;
    assert_int_equal(NAME(tr_cross_entropy)(loss, x, label, ROWS, COLS, -1), -1);
    free(x), free(y), free(loss), free(label);
}

static void NAME(cross_entropy_of_probabilities_matches)(void **state)
{
    (void)state;
    const T       x[6] = {(T)0.5, (T)0.25, (T)0.25, 0, 1, 0}, d[2] = {2, 3}, soft[6] = {1, 0, 1, 0, (T)0.5, 0};
    const int64_t label[2] = {1, 0};
    T             loss[2], dx[6];
    assert_int_equal(NAME(tr_cross_entropy)(loss, x, label, 2, 3, -100), -1);
    NAME(near)((double)loss[0], log(4), 1, 4, "loss", 0);
    NAME(near)((double)loss[1], 1e20, 1e20, 4, "loss", 1);
    assert_int_equal(NAME(tr_cross_entropy_grad)(dx, d, x, label, 1, 3, -100), -1);
    assert_true(dx[0] == 0 && dx[1] == -8 && dx[2] == 0);
    NAME(tr_cross_entropy_soft)(loss, x, soft, 2, 3);
    NAME(near)((double)loss[0], log(2) + log(4), 1, 4, "loss", 0);
    NAME(near)((double)loss[1], 0, 1, 4, "loss", 1);
    NAME(tr_cross_entropy_soft_grad)(dx, d, x, soft, 1, 3);
    assert_true(dx[0] == -4 && dx[1] == 0 && dx[2] == -8);
}

#endif
