/* test_norm.c - batch, layer and group normalisation against their definitions, gradients against exact formulas. */
#ifndef T
#include "kernels/math/arrays/norm.h"

#include "tests/kernels/math/check.h"

static const int64_t batches[][3] = {                         /* pre, channels, post */
    {1, 1, 1}, {2, 3, 5}, {8, 16, 49}, {70, 9, 1}, {300, 130, 1}, {4, 2, 6000}, {3, 0, 4}, {64, 20, 144},
};
static const int64_t layers[][2] = {{0, 4}, {1, 1}, {3, 10}, {200, 128}, {5, 9000}};

#include "kernels/math/tools/each_float.h"

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(batch_norm_matches), BOTH(global_statistics_are_constants), BOTH(layer_norm_matches), BOTH(group_norm_matches),
        BOTH(a_large_mean_costs_no_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else

/* The gradient of y = (x - mean(x)) / sqrt(var(x) + e) of `n` numbers, from g = the gradient of y, in double. */
static void NAME(exact_grad)(double *dx, const double *g, const double *x, int64_t n, double epsilon, bool is_constant)
{
    long double mean = 0, variance = 0, sum = 0, product = 0;
    for (int64_t i = 0; i < n; i++)
        mean += x[i] / (double)n;
    for (int64_t i = 0; i < n; i++)
        variance += (x[i] - mean) * (x[i] - mean) / (double)n;
    const double inv = 1 / sqrt((double)variance + epsilon);
    for (int64_t i = 0; i < n; i++) {
        sum += g[i];
        product += g[i] * (x[i] - mean) * inv;
    }
    for (int64_t i = 0; i < n; i++)
        dx[i] = is_constant ? inv * g[i] : (double)(inv * (g[i] - sum / n - (x[i] - mean) * inv * product / n));
}

/* Element i of channel c among pre * post. */
static int64_t NAME(at)(int64_t c, int64_t i, int64_t channels, int64_t post)
{
    return (i / post * channels + c) * post + i % post;
}

static void NAME(check_batch)(int64_t pre, int64_t channels, int64_t post, bool is_constant)
{
    const int64_t size = pre * channels * post, n = pre * post;
    const T       epsilon = (T)1e-5;
    T *x = NAME(random)(size, 1, -1, 3), *dy = NAME(random)(size, 2, -1, 1), *scale = NAME(random)(channels, 3, (T)0.5, 2);
    T *bias = NAME(random)(channels, 4, -1, 1), *mean = array_new(channels, sizeof(T)), *variance = array_new(channels, sizeof(T));
    T *inv = array_new(channels, sizeof(T)), *y = array_new(size, sizeof(T)), *dx = array_new(size, sizeof(T));
    T *ds = array_new(channels, sizeof(T)), *db = array_new(channels, sizeof(T));
    double *one = array_new(n, 8), *g = array_new(n, 8), *want = array_new(n, 8);

    SAME_FOR_ALL_THREADS(variance, channels * (int64_t)sizeof(T), (void)0,
                         NAME(tr_channel_stats)(mean, variance, x, pre, channels, post));
    NAME(tr_inv_std)(inv, variance, epsilon, channels);
    SAME_FOR_ALL_THREADS(y, size * (int64_t)sizeof(T), (void)0,
                         NAME(tr_batch_norm)(y, x, mean, inv, scale, bias, pre, channels, post));
    if (is_constant)
        SAME_FOR_ALL_THREADS(dx, size * (int64_t)sizeof(T), (void)0,
                             NAME(tr_batch_norm_global_grad)(dx, ds, db, dy, x, mean, inv, scale, pre, channels, post));
    else
        SAME_FOR_ALL_THREADS(dx, size * (int64_t)sizeof(T), (void)0,
                             NAME(tr_batch_norm_grad)(dx, ds, db, dy, x, mean, inv, scale, pre, channels, post));
    for (int64_t c = 0; c < channels; c++) {
        long double m = 0, v = 0, sum = 0, product = 0;
        for (int64_t i = 0; i < n; i++)
            m += (double)x[NAME(at)(c, i, channels, post)] / (double)n;
        for (int64_t i = 0; i < n; i++) {
            const int64_t k = NAME(at)(c, i, channels, post);
            one[i] = (double)x[k];
            g[i] = (double)dy[k] * (double)scale[c];
            v += (one[i] - m) * (one[i] - m) / (double)n;
        }
        NAME(near)((double)mean[c], (double)m, 2, 4, "mean", c);
        NAME(near)((double)variance[c], (double)v, 2, 16, "variance", c);
        NAME(exact_grad)(want, g, one, n, (double)epsilon, is_constant);
        const double root = 1 / sqrt((double)v + (double)epsilon);
        for (int64_t i = 0; i < n; i++) {
            const int64_t k = NAME(at)(c, i, channels, post);
            NAME(near)((double)y[k], (one[i] - (double)m) * root * (double)scale[c] + (double)bias[c], 2 * root, 16, "y", k);
            NAME(near)((double)dx[k], want[i], 4 * root, 64, "dx", k);
            sum += (double)dy[k];
            product += (double)dy[k] * (one[i] - m) * root;
        }
        NAME(near)((double)db[c], (double)sum, 4 * sqrt((double)n), 8, "dbias", c);
        NAME(near)((double)ds[c], (double)product, 4 * root * sqrt((double)n), 32, "dscale", c);
    }
    free(x), free(dy), free(scale), free(bias), free(mean), free(variance), free(inv), free(y), free(dx), free(ds), free(db);
    free(one), free(g), free(want);
}

static void NAME(batch_norm_matches)(void **state)
{
    (void)state;
    for (size_t b = 0; b < sizeof batches / sizeof *batches; b++)
        NAME(check_batch)(batches[b][0], batches[b][1], batches[b][2], false);
}

static void NAME(global_statistics_are_constants)(void **state)
{
    (void)state;
    for (size_t b = 0; b < sizeof batches / sizeof *batches; b++)
        NAME(check_batch)(batches[b][0], batches[b][1], batches[b][2], true);
}

/* Rows of `size` numbers, whose element k has scale and bias number channel_of(k) = row_channels * ... + k / inner. */
static void NAME(check_rows)(int64_t rows, int64_t size, int64_t groups, int64_t inner, bool is_layer)
{
    const int64_t channels = is_layer ? size : groups * size / inner, batch = is_layer ? rows : rows / groups;
    const T       epsilon = (T)1e-5;
    T *x = NAME(random)(rows * size, 1, -1, 3), *dy = NAME(random)(rows * size, 2, -1, 1), *y = array_new(rows * size, sizeof(T));
    T *scale = NAME(random)(channels, 3, (T)0.5, 2), *bias = NAME(random)(channels, 4, -1, 1), *dx = array_new(rows * size, sizeof(T));
    T *mean = array_new(rows, sizeof(T)), *variance = array_new(rows, sizeof(T));
    T *ds = array_new(channels, sizeof(T)), *db = array_new(channels, sizeof(T));
    double *g = array_new(size, 8), *one = array_new(size, 8), *want = array_new(size, 8);
    double *ds0 = calloc((size_t)channels + 1, 8), *db0 = calloc((size_t)channels + 1, 8);

    if (is_layer) {
        SAME_FOR_ALL_THREADS(y, rows * size * (int64_t)sizeof(T), (void)0,
                             NAME(tr_layer_norm)(y, mean, variance, x, scale, bias, epsilon, rows, size));
        SAME_FOR_ALL_THREADS(ds, channels * (int64_t)sizeof(T), (void)0,
                             NAME(tr_layer_norm_grad)(dx, ds, db, dy, x, mean, variance, scale, epsilon, rows, size));
    } else {
        SAME_FOR_ALL_THREADS(y, rows * size * (int64_t)sizeof(T), (void)0,
                             NAME(tr_group_norm)(y, mean, variance, x, scale, bias, epsilon, batch, channels, inner, groups));
        SAME_FOR_ALL_THREADS(ds, channels * (int64_t)sizeof(T), (void)0,
                             NAME(tr_group_norm_grad)(dx, ds, db, dy, x, mean, variance, scale, epsilon, batch, channels, inner,
                                                      groups));
    }
    for (int64_t r = 0; r < rows; r++) {
        long double m = 0, v = 0;
        for (int64_t k = 0; k < size; k++)
            m += (double)x[r * size + k] / (double)size;
        for (int64_t k = 0; k < size; k++)
            v += ((double)x[r * size + k] - m) * ((double)x[r * size + k] - m) / (double)size;
        const double root = 1 / sqrt((double)v + (double)epsilon);
        NAME(near)((double)mean[r], (double)m, 2, 4, "mean", r);
        NAME(near)((double)variance[r], (double)v, 2, 16, "variance", r);
        for (int64_t k = 0; k < size; k++) {
            const int64_t i = r * size + k, c = is_layer ? k : (r % groups * size + k) / inner;
            const double  xhat = ((double)x[i] - (double)m) * root;
            NAME(near)((double)y[i], xhat * (double)scale[c] + (double)bias[c], 2 * root, 16, "y", i);
            one[k] = (double)x[i];
            g[k] = (double)dy[i] * (double)scale[c];
            ds0[c] += (double)dy[i] * xhat;
            db0[c] += (double)dy[i];
        }
        NAME(exact_grad)(want, g, one, size, (double)epsilon, false);
        for (int64_t k = 0; k < size; k++)
            NAME(near)((double)dx[r * size + k], want[k], 4 * root, 64, "dx", r * size + k);
    }
    for (int64_t c = 0; c < channels; c++) {
        const double terms = (double)(rows * size) / (double)channels;
        NAME(near)((double)ds[c], ds0[c], 8 * sqrt(terms), 16, "dscale", c);
        NAME(near)((double)db[c], db0[c], 8 * sqrt(terms), 16, "dbias", c);
    }
    free(x), free(dy), free(y), free(scale), free(bias), free(dx), free(mean), free(variance), free(ds), free(db);
    free(g), free(one), free(want), free(ds0), free(db0);
}

static void NAME(layer_norm_matches)(void **state)
{
    (void)state;
    for (size_t l = 0; l < sizeof layers / sizeof *layers; l++)
        NAME(check_rows)(layers[l][0], layers[l][1], 1, 1, true);
}

static void NAME(group_norm_matches)(void **state)
{
    (void)state;
    NAME(check_rows)(6, 12, 3, 4, false);                     /* 2 images, 3 groups of 3 channels of 4 */
    NAME(check_rows)(64, 4 * 100, 2, 100, false);
    NAME(check_rows)(5, 7, 1, 7, false);
}

static void NAME(a_large_mean_costs_no_digits)(void **state)
{
    (void)state;
    enum { N = 10000 };
    T *x = array_new(N, sizeof(T)), mean, variance;
    for (int i = 0; i < N; i++)
        x[i] = (T)(10000 + i % 2);
    NAME(tr_channel_stats)(&mean, &variance, x, 1, 1, N);
    assert_true(fabs((double)variance - 0.25) < 1e-3);
    NAME(tr_channel_stats)(&mean, &variance, x, N, 1, 1);
    assert_true(fabs((double)variance - 0.25) < 1e-3);
    free(x);
}

#endif
