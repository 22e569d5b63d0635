/* test_conv.c - convolutions and their gradients against seven nested loops. */
#ifndef T
#include "kernels/math/images/conv.h"

#include "kernels/math/images/depthwise_direct.h"
#include "kernels/math/products/blas.h"
#include "kernels/math/tools/float_lanes.h"
#include "kernels/math/tools/window.h"
#include "tests/kernels/math/check.h"

#define CONV(b, ic, oc, g, ...) {.batch = b, .in_channels = ic, .out_channels = oc, .groups = g, __VA_ARGS__}
static tr_conv_shape shapes[] = {
    CONV(2, 1, 3, 1, .in = {1, 5, 5}, .kernel = {1, 3, 3}, .stride = {1, 1, 1}, .dilation = {1, 1, 1}),
    CONV(3, 4, 6, 2, .in = {1, 7, 6}, .kernel = {1, 3, 2}, .stride = {1, 2, 1}, .pad = {0, 1, 1}, .dilation = {1, 1, 2}),
    CONV(2, 6, 6, 6, .in = {1, 9, 8}, .kernel = {1, 3, 3}, .stride = {1, 1, 2}, .pad = {0, 1, 1}, .dilation = {1, 1, 1}),
    CONV(4, 5, 7, 1, .in = {1, 6, 6}, .kernel = {1, 1, 1}, .stride = {1, 1, 1}, .dilation = {1, 1, 1}),
    CONV(2, 3, 4, 1, .in = {1, 6, 6}, .kernel = {1, 1, 1}, .stride = {1, 2, 2}, .dilation = {1, 1, 1}),
    CONV(2, 2, 3, 1, .in = {4, 5, 6}, .kernel = {2, 3, 2}, .stride = {1, 2, 1}, .pad = {1, 1, 0}, .dilation = {2, 1, 1}),
    CONV(0, 2, 3, 1, .in = {1, 5, 5}, .kernel = {1, 3, 3}, .stride = {1, 1, 1}, .dilation = {1, 1, 1}),
    CONV(1, 8, 16, 1, .in = {1, 30, 30}, .kernel = {1, 5, 5}, .stride = {1, 1, 1}, .pad = {0, 2, 2}, .dilation = {1, 1, 1}),
    CONV(9, 1, 20, 1, .in = {1, 28, 28}, .kernel = {1, 5, 5}, .stride = {1, 1, 1}, .dilation = {1, 1, 1}),
    CONV(3, 5, 10, 5, .in = {1, 9, 8}, .kernel = {1, 3, 3}, .stride = {1, 1, 1}, .pad = {0, 1, 1}, .dilation = {1, 1, 1}),
    CONV(2, 4, 4, 4, .in = {1, 11, 37}, .kernel = {1, 5, 3}, .stride = {1, 1, 1}, .pad = {0, 2, 1}, .dilation = {1, 1, 2}),
    CONV(2, 3, 6, 3, .in = {1, 10, 41}, .kernel = {1, 3, 3}, .stride = {1, 2, 2}, .pad = {0, 1, 1}, .dilation = {1, 1, 1}),
    CONV(2, 3, 3, 3, .in = {3, 6, 7}, .kernel = {2, 3, 3}, .stride = {1, 1, 1}, .pad = {1, 1, 1}, .dilation = {1, 2, 1}),
    CONV(1, 2, 2, 2, .in = {1, 5, 5}, .kernel = {1, 3, 3}, .stride = {1, 3, 3}, .pad = {0, 4, 4}, .dilation = {1, 1, 1}),
    CONV(2, 2, 2, 2, .in = {1, 80, 70}, .kernel = {1, 3, 3}, .stride = {1, 1, 1}, .pad = {0, 1, 1}, .dilation = {1, 1, 1}),   /* bands */
    CONV(2, 3, 4, 1, .in = {1, 200, 90}, .kernel = {1, 7, 7}, .stride = {1, 2, 2}, .pad = {0, 3, 3}, .dilation = {1, 1, 1}),   /* bands */
    CONV(1, 1, 1, 1, .in = {1, 3, 3}, .kernel = {1, 3, 3}, .stride = {1, 1, 1}, .pad = {0, 4, 4}, .dilation = {1, 1, 1}),
    /* straight from the planes: one vector and two, ends that overlap, more filters than channels, no padding and much, strides */
    CONV(2, 3, 6, 3, .in = {1, 28, 28}, .kernel = {1, 3, 3}, .stride = {1, 1, 1}, .pad = {0, 1, 1}, .dilation = {1, 1, 1}),
    CONV(1, 3, 3, 3, .in = {1, 7, 7}, .kernel = {1, 3, 3}, .stride = {1, 1, 1}, .pad = {0, 1, 1}, .dilation = {1, 1, 1}),
    CONV(3, 2, 2, 2, .in = {1, 13, 70}, .kernel = {1, 3, 3}, .stride = {1, 1, 1}, .pad = {0, 0, 2}, .dilation = {1, 1, 1}),
    CONV(2, 2, 6, 2, .in = {1, 6, 43}, .kernel = {1, 5, 5}, .stride = {1, 1, 1}, .pad = {0, 2, 2}, .dilation = {1, 1, 1}),
    CONV(2, 3, 3, 3, .in = {1, 9, 11}, .kernel = {1, 5, 5}, .stride = {1, 1, 1}, .pad = {0, 4, 1}, .dilation = {1, 1, 1}),
    CONV(2, 2, 4, 2, .in = {1, 15, 36}, .kernel = {1, 3, 3}, .stride = {1, 2, 2}, .pad = {0, 1, 1}, .dilation = {1, 1, 1}),
    CONV(2, 2, 2, 2, .in = {1, 22, 75}, .kernel = {1, 5, 5}, .stride = {1, 2, 2}, .pad = {0, 2, 2}, .dilation = {1, 1, 1}),
    CONV(2, 2, 2, 2, .in = {1, 5, 5}, .kernel = {1, 3, 3}, .stride = {1, 1, 1}, .pad = {0, 3, 3}, .dilation = {1, 1, 1}),
    /* windows that are larger than the padded image */
    CONV(3, 3, 3, 3, .in = {1, 2, 2}, .kernel = {1, 3, 3}, .stride = {1, 2, 2}, .dilation = {1, 1, 1}),
    CONV(2, 2, 4, 2, .in = {1, 4, 70}, .kernel = {1, 5, 5}, .stride = {1, 2, 2}, .dilation = {1, 1, 1}),
    CONV(2, 2, 4, 2, .in = {1, 2, 11}, .kernel = {1, 5, 5}, .stride = {1, 2, 2}, .pad = {0, 1, 1}, .dilation = {1, 1, 1}),
    CONV(2, 3, 12, 1, .in = {1, 6, 19}, .kernel = {1, 7, 7}, .stride = {1, 2, 2}, .dilation = {1, 1, 1}),
    CONV(2, 3, 12, 1, .in = {1, 6, 6}, .kernel = {1, 7, 7}, .stride = {1, 2, 2}, .dilation = {1, 1, 1}),
    CONV(2, 4, 9, 1, .in = {1, 1, 1}, .kernel = {1, 1, 2}, .stride = {1, 1, 2}, .dilation = {1, 1, 1}),
    CONV(2, 4, 6, 2, .in = {3, 3, 4}, .kernel = {3, 2, 3}, .stride = {3, 5, 4}, .pad = {0, 0, 1}, .dilation = {2, 3, 4}),
};
enum { CASES = sizeof shapes / sizeof *shapes };

static int64_t volume(const int64_t extent[3])
{
    return extent[0] * extent[1] * extent[2];
}

static int set_up(void **state)
{
    (void)state;
    for (int c = 0; c < CASES; c++)
        for (int a = 0; a < 3; a++)
            shapes[c].out[a] = tr_window_places(shapes[c].in[a], shapes[c].dilation[a] * (shapes[c].kernel[a] - 1) + 1, shapes[c].stride[a],
                                                2 * shapes[c].pad[a], false);
    return tr_blas_init() == TR_OK ? 0 : -1;
}

/* The place in the plane that tap k of output o reads, or -1. */
static int64_t place(const tr_conv_shape *s, int64_t o, int64_t k)
{
    const int64_t out[3] = {o / s->out[2] / s->out[1], o / s->out[2] % s->out[1], o % s->out[2]};
    const int64_t tap[3] = {k / s->kernel[2] / s->kernel[1], k / s->kernel[2] % s->kernel[1], k % s->kernel[2]};
    int64_t       at = 0;
    for (int a = 0; a < 3; a++) {
        const int64_t in = out[a] * s->stride[a] - s->pad[a] + tap[a] * s->dilation[a];
        if (in < 0 || in >= s->in[a])
            return -1;
        at = at * s->in[a] + in;
    }
    return at;
}

static void windows_have_fluids_places(void **state)
{
    (void)state;
    assert_int_equal(tr_window_places(28, 5, 1, 0, false), 24);
    assert_int_equal(tr_window_places(32, 3, 2, 2, false), 16);
    assert_int_equal(tr_window_places(8, 3, 2, 0, true), 4);
    assert_int_equal(tr_window_places(6, 7, 2, 0, false), 1);
    assert_int_equal(tr_window_places(5, 7, 2, 0, false), 0);
    assert_int_equal(tr_window_places(4, 7, 3, 0, true), 1);
    assert_int_equal(tr_window_reach(6, 7, 2, 0, 1), 7);
    assert_int_equal(tr_window_reach(7, 3, 2, 2, 4), 9);
}

#include "kernels/math/tools/each_float.h"

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_have_fluids_places), BOTH(convolutions_match),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
#else

/* All three products of one pass over (image, filter, channel, output, tap). */
static void NAME(reference)(double *out, double *dx, double *dw, const T *x, const T *w, const T *d, const tr_conv_shape *s)
{
    const int64_t in = volume(s->in), outs = volume(s->out), taps = volume(s->kernel);
    const int64_t channels = s->in_channels / s->groups, filters = s->out_channels / s->groups;
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t f = 0; f < s->out_channels; f++)
            for (int64_t c = 0; c < channels; c++)
                for (int64_t o = 0; o < outs; o++)
                    for (int64_t k = 0; k < taps; k++) {
                        const int64_t at = place(s, o, k), y = (b * s->out_channels + f) * outs + o;
                        const int64_t i = (b * s->in_channels + f / filters * channels + c) * in + at;
                        const int64_t v = (f * channels + c) * taps + k;
                        if (at < 0)
                            continue;
                        out[y] += (double)x[i] * (double)w[v];
                        dx[i] += (double)d[y] * (double)w[v];
                        dw[v] += (double)d[y] * (double)x[i];
                    }
}

static void NAME(check_conv)(const tr_conv_shape *s)
{
    const int64_t xs = s->batch * s->in_channels * volume(s->in), ys = s->batch * s->out_channels * volume(s->out);
    const int64_t ws = s->out_channels * s->in_channels / s->groups * volume(s->kernel), plane = volume(s->out);
    T *x = NAME(random)(xs, 1, -1, 1), *w = NAME(random)(ws, 2, -1, 1), *d = NAME(random)(ys, 3, -1, 1);
    T *bias = NAME(random)(s->out_channels, 4, -1, 1);
    T *y = array_new(ys, sizeof(T)), *dx = array_new(xs, sizeof(T)), *dw = array_new(ws, sizeof(T));
    double *out = calloc((size_t)ys + 1, 8), *dx0 = calloc((size_t)xs + 1, 8), *dw0 = calloc((size_t)ws + 1, 8);
    NAME(reference)(out, dx0, dw0, x, w, d, s);
    SAME_FOR_ALL_THREADS(y, ys * (int64_t)sizeof(T), (void)0, NAME(tr_conv)(y, x, w, NULL, s));
    for (int64_t i = 0; i < ys; i++)
        NAME(near)((double)y[i], out[i], 20, 16, "y", i);
    NAME(tr_conv)(y, x, w, bias, s);
    for (int64_t i = 0; i < ys; i++)
        NAME(near)((double)y[i], out[i] + (double)bias[i / plane % s->out_channels], 20, 16, "y with bias", i);
    SAME_FOR_ALL_THREADS(dx, xs * (int64_t)sizeof(T), (void)0, NAME(tr_conv_grad_input)(dx, d, w, s));
    for (int64_t i = 0; i < xs; i++)
        NAME(near)((double)dx[i], dx0[i], 20, 16, "dx", i);
    SAME_FOR_ALL_THREADS(dw, ws * (int64_t)sizeof(T), (void)0, NAME(tr_conv_grad_filter)(dw, d, x, s));
    for (int64_t i = 0; i < ws; i++)
        NAME(near)((double)dw[i], dw0[i], 400, 16, "dw", i);
    free(x), free(w), free(d), free(bias), free(y), free(dx), free(dw), free(out), free(dx0), free(dw0);
}

static void NAME(convolutions_match)(void **state)
{
    (void)state;
    for (int c = 0; c < CASES; c++)
        for (int level = shapes[c].groups > 1 ? TR_FLOAT_PLAIN : TR_FLOAT_AVX512; level <= TR_FLOAT_AVX512; level++) {
            tr__float_level_limit((tr_float_level)level);
            NAME(check_conv)(&shapes[c]);
        }
}

#endif
