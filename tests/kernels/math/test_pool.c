/* test_pool.c - pools and their gradients against loops over every window. */
#ifndef T
#include "kernels/math/images/pool.h"

#include "tests/kernels/math/check.h"

static const tr_pool_shape shapes[] = {
    {.planes = 3, .in = {1, 4, 4}, .out = {1, 2, 2}, .kernel = {1, 2, 2}, .stride = {1, 2, 2}},
    {.planes = 40, .in = {1, 24, 24}, .out = {1, 12, 12}, .kernel = {1, 2, 2}, .stride = {1, 2, 2}, .exclusive = true},
    {.planes = 2, .in = {1, 7, 5}, .out = {1, 4, 3}, .kernel = {1, 3, 3}, .stride = {1, 2, 2}, .pad = {0, 1, 1}, .exclusive = true},
    {.planes = 2, .in = {1, 7, 5}, .out = {1, 4, 3}, .kernel = {1, 3, 3}, .stride = {1, 2, 2}, .pad = {0, 1, 1}},
    {.planes = 2, .in = {1, 8, 8}, .out = {1, 4, 4}, .kernel = {1, 3, 3}, .stride = {1, 2, 2}},          /* last window hangs over */
    {.planes = 5, .in = {1, 6, 9}, .out = {1, 1, 1}, .kernel = {1, 6, 9}, .stride = {1, 1, 1}},
    {.planes = 2, .in = {5, 6, 7}, .out = {3, 3, 4}, .kernel = {3, 2, 2}, .stride = {2, 2, 2}, .pad = {1, 0, 1}},
    {.planes = 3, .in = {1, 7, 10}, .out = {1, 3, 4}, .adaptive = true},
    {.planes = 2, .in = {4, 5, 6}, .out = {2, 3, 5}, .adaptive = true},
    {.planes = 0, .in = {1, 4, 4}, .out = {1, 2, 2}, .kernel = {1, 2, 2}, .stride = {1, 2, 2}},
    {.planes = 2, .in = {1, 10, 101}, .out = {1, 3, 34}, .kernel = {1, 4, 2}, .stride = {1, 3, 3}, .pad = {0, 1, 1}, .exclusive = true},
    {.planes = 300, .in = {1, 13, 11}, .out = {1, 13, 11}, .kernel = {1, 3, 3}, .stride = {1, 1, 1}, .pad = {0, 1, 1}},
    {.planes = 2, .in = {1, 9, 56}, .out = {1, 5, 28}, .kernel = {1, 3, 3}, .stride = {1, 2, 2}, .pad = {0, 1, 1}, .exclusive = true},
    {.planes = 2, .in = {1, 9, 37}, .out = {1, 5, 19}, .kernel = {1, 3, 3}, .stride = {1, 2, 2}, .pad = {0, 1, 1}},
    {.planes = 2, .in = {1, 9, 37}, .out = {1, 9, 37}, .kernel = {1, 5, 5}, .stride = {1, 1, 1}, .pad = {0, 2, 2}},
    {.planes = 2, .in = {1, 2, 8}, .out = {1, 1, 2}, .kernel = {1, 2, 1}, .stride = {1, 4, 4}},          /* elements that no window sees */
};
enum { CASES = sizeof shapes / sizeof *shapes };

static int64_t volume(const int64_t extent[3])
{
    return extent[0] * extent[1] * extent[2];
}

/* Is element `at` of the plane in the window of output `o`? */
static bool holds(const tr_pool_shape *s, int64_t o, int64_t at)
{
    const int64_t out[3] = {o / s->out[2] / s->out[1], o / s->out[2] % s->out[1], o % s->out[2]};
    const int64_t in[3] = {at / s->in[2] / s->in[1], at / s->in[2] % s->in[1], at % s->in[2]};
    for (int a = 0; a < 3; a++) {
        int64_t first = out[a] * s->stride[a] - s->pad[a], last = first + s->kernel[a] - 1;
        if (s->adaptive) {
            first = (int64_t)floor((double)(out[a] * s->in[a]) / (double)s->out[a]);
            last = (int64_t)ceil((double)((out[a] + 1) * s->in[a]) / (double)s->out[a]) - 1;
        }
        if (in[a] < first || in[a] > last)
            return false;
    }
    return true;
}

/* What the window counts for: its elements, or all of it. */
static double size_of(const tr_pool_shape *s, int64_t o)
{
    double elements = 0, padded = 1;
    for (int64_t i = 0; i < volume(s->in); i++)
        elements += holds(s, o, i);
    if (s->adaptive || s->exclusive)
        return elements;
    for (int a = 0; a < 3; a++)
        padded *= (double)s->kernel[a];
    return padded;
}

#include "kernels/math/tools/each_float.h"

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(maxima_match), BOTH(averages_match), BOTH(a_nan_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else

static void NAME(check_max)(const tr_pool_shape *s)
{
    const int64_t in = volume(s->in), out = volume(s->out);
    T *x = NAME(random)(s->planes * in, 1, -1, 1), *d = NAME(random)(s->planes * out, 2, -1, 1);
    T *y = array_new(s->planes * out, sizeof(T)), *dx = array_new(s->planes * in, sizeof(T));
    T *y2 = array_new(s->planes * out, sizeof(T)), *dx2 = array_new(s->planes * in, sizeof(T));
    int32_t *mask = array_new(s->planes * out, sizeof *mask);
    double  *want = calloc((size_t)(s->planes * in) + 1, sizeof *want);
    for (int64_t i = 0; i < s->planes * in; i++)
        x[i] = (T)floor((double)x[i] * 4);                    /* many are equal: the first must win */
    SAME_FOR_ALL_THREADS(y, s->planes * out * (int64_t)sizeof(T), (void)0, NAME(tr_max_pool)(y, mask, x, s));
    NAME(tr_max_pool)(y2, NULL, x, s);
    assert_memory_equal(y, y2, (size_t)(s->planes * out) * sizeof(T));
    for (int64_t p = 0; p < s->planes; p++)
        for (int64_t o = 0; o < out; o++) {
            int64_t best = -1;
            for (int64_t i = 0; i < in; i++)
                if (holds(s, o, i) && (best < 0 || x[p * in + i] > x[p * in + best]))
                    best = i;
            assert_int_equal(mask[p * out + o], best);
            assert_true(y[p * out + o] == x[p * in + best]);
            want[p * in + best] += (double)d[p * out + o];
        }
    SAME_FOR_ALL_THREADS(dx, s->planes * in * (int64_t)sizeof(T), (void)0, NAME(tr_max_pool_grad)(dx, d, x, y, s));
    NAME(tr_max_pool_mask_grad)(dx2, d, mask, s);
    for (int64_t i = 0; i < s->planes * in; i++) {
        NAME(near)((double)dx[i], want[i], 9, 1, "dx", i);
        NAME(near)((double)dx2[i], want[i], 9, 1, "dx by mask", i);
    }
    free(x), free(d), free(y), free(dx), free(y2), free(dx2), free(mask), free(want);
}

static void NAME(maxima_match)(void **state)
{
    (void)state;
    for (int c = 0; c < CASES; c++)
        NAME(check_max)(&shapes[c]);
}

static void NAME(averages_match)(void **state)
{
    (void)state;
    for (int c = 0; c < CASES; c++) {
        const tr_pool_shape *s = &shapes[c];
        const int64_t        in = volume(s->in), out = volume(s->out);
        T *x = NAME(random)(s->planes * in, 1, -1, 1), *d = NAME(random)(s->planes * out, 2, -1, 1);
        T *y = array_new(s->planes * out, sizeof(T)), *dx = array_new(s->planes * in, sizeof(T));
        double *want = calloc((size_t)(s->planes * in) + 1, sizeof *want);
        SAME_FOR_ALL_THREADS(y, s->planes * out * (int64_t)sizeof(T), (void)0, NAME(tr_avg_pool)(y, x, s));
        SAME_FOR_ALL_THREADS(dx, s->planes * in * (int64_t)sizeof(T), (void)0, NAME(tr_avg_pool_grad)(dx, d, s));
        for (int64_t p = 0; p < s->planes; p++)
            for (int64_t o = 0; o < out; o++) {
                double sum = 0;
                for (int64_t i = 0; i < in; i++)
                    if (holds(s, o, i)) {
                        sum += (double)x[p * in + i];
                        want[p * in + i] += (double)d[p * out + o] / size_of(s, o);
                    }
                NAME(near)((double)y[p * out + o], sum / size_of(s, o), 1, 8, "y", p * out + o);
            }
        for (int64_t i = 0; i < s->planes * in; i++)
            NAME(near)((double)dx[i], want[i], 1, 8, "dx", i);
        free(x), free(d), free(y), free(dx), free(want);
    }
}

static void NAME(a_nan_is_seen)(void **state)
{
    (void)state;
    T x[16], y[4];
    for (int i = 0; i < 16; i++)
        x[i] = (T)i;
    x[0] = (T)NAN;
    NAME(tr_max_pool)(y, NULL, x, &(tr_pool_shape){.planes = 1, .in = {1, 4, 4}, .out = {1, 2, 2}, .kernel = {1, 2, 2},
                                                   .stride = {1, 2, 2}});
    assert_true(isnan(y[0]) && y[1] == 7 && y[2] == 13 && y[3] == 15);
}

#endif
