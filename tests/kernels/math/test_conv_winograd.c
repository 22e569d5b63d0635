/* Winograd's convolutions stay within the error that their header states, at each level of instructions, with the same bits on any
 * number of threads; the switch brings the other ways back. */
#include "framework/threads/precision.h"
#include "kernels/math/images/conv.h"
#include "kernels/math/images/conv_folded.h"
#include "kernels/math/images/conv_winograd.h"
#include "kernels/math/products/blas.h"
#include "kernels/math/tools/float_lanes.h"
#include "kernels/math/tools/window.h"
#include "tests/kernels/math/check.h"

static const struct {
    const char *name;
    int64_t     batch, inputs, outputs, height, width, taps, pad[2];
    int64_t     stride;                     /* 0: 1 */
} cases[] = {
    {"residual, 8x8", 9, 64, 64, 8, 8, 3, {1, 1}},
    {"residual, 16x16", 3, 32, 32, 16, 16, 3, {1, 1}},
    {"residual, 32x32", 2, 16, 16, 32, 32, 3, {1, 1}},
    {"LeNet's second", 19, 20, 50, 12, 12, 5, {0, 0}},
    {"padded 5x5", 3, 8, 24, 14, 9, 5, {2, 2}},
    {"ragged", 2, 13, 37, 11, 23, 3, {1, 1}},
    {"no padding", 2, 17, 9, 13, 10, 3, {0, 0}},
    {"all the padding", 3, 9, 33, 7, 7, 3, {2, 2}},
    {"uneven padding", 2, 10, 18, 9, 12, 3, {2, 0}},
    {"a wide image", 1, 8, 8, 4, 700, 3, {1, 1}},
    {"one more than a tile", 5, 48, 8, 6, 6, 3, {1, 1}},
    {"stride 2", 3, 32, 32, 28, 28, 3, {1, 1}, 2},
    {"stride 2, odd sizes", 2, 17, 33, 31, 19, 3, {0, 1}, 2},
    {"stride 2, all the padding", 2, 20, 48, 16, 29, 3, {2, 2}, 2},
    {"stride 2, a last row that no filter reads", 2, 16, 16, 30, 28, 3, {0, 0}, 2},
    {"stride 2, 5x5", 3, 24, 40, 15, 22, 5, {2, 2}, 2},
    {"stride 2, 5x5, uneven padding", 2, 16, 18, 19, 16, 5, {0, 4}, 2},
    {"2x2", 2, 9, 17, 11, 16, 2, {0, 1}},
    {"4x4", 3, 18, 8, 14, 9, 4, {2, 1}},
    {"few channels, 7x7", 3, 3, 21, 38, 29, 7, {3, 3}, 2},
    {"few channels, 8x8", 2, 2, 8, 17, 40, 8, {1, 0}, 2},
    {"few channels, 5x5", 2, 8, 16, 21, 22, 5, {4, 2}, 2},
    {"few channels, 6x6, a last row that no filter reads", 2, 4, 16, 23, 22, 6, {0, 1}, 2},
};

typedef struct results {
    float *out, *dx, *dw;
} results;

typedef struct terms {
    double *exact, *size;                   /* of each element: its value, and the sum of the sizes of the weights that make it */
} terms;

static tr_conv_shape shape_of(int i)
{
    tr_conv_shape s = {.batch = cases[i].batch, .in_channels = cases[i].inputs, .out_channels = cases[i].outputs, .groups = 1,
                       .in = {1, cases[i].height, cases[i].width}, .kernel = {1, cases[i].taps, cases[i].taps},
                       .stride = {1, cases[i].stride > 0 ? cases[i].stride : 1, cases[i].stride > 0 ? cases[i].stride : 1},
                       .pad = {0, cases[i].pad[0], cases[i].pad[1]}, .dilation = {1, 1, 1}};
    for (int a = 0; a < 3; a++)
        s.out[a] = tr_window_places(s.in[a], s.kernel[a], s.stride[a], 2 * s.pad[a], false);
    return s;
}

static int64_t inputs_of(const tr_conv_shape *s) { return s->batch * s->in_channels * s->in[1] * s->in[2]; }
static int64_t outputs_of(const tr_conv_shape *s) { return s->batch * s->out_channels * s->out[1] * s->out[2]; }
static int64_t weights_of(const tr_conv_shape *s) { return s->out_channels * s->in_channels * s->kernel[1] * s->kernel[2]; }

static terms terms_new(int64_t n)
{
    return (terms){calloc((size_t)n, sizeof(double)), calloc((size_t)n, sizeof(double))};
}

static void add(const terms *t, int64_t at, float by, float other)
{
    t->exact[at] += (double)by * (double)other;
    t->size[at] += fabs((double)by);
}

/* All three products, by definition. Inputs are at most 1 in size, so that the weights alone are the bound. */
static void reference(const terms *out, const terms *dx, const terms *dw, const float *x, const float *w, const float *d,
                      const tr_conv_shape *s)
{
    const int64_t taps = s->kernel[1], in = s->in[1] * s->in[2];
    for (int64_t o = 0; o < outputs_of(s); o++) {
        const int64_t px = o % s->out[2], py = o / s->out[2] % s->out[1], image = o / s->out[2] / s->out[1] / s->out_channels;
        const int64_t filter = o / s->out[2] / s->out[1] % s->out_channels;
        for (int64_t c = 0; c < s->in_channels; c++)
            for (int64_t k = 0; k < taps * taps; k++) {
                const int64_t y = py * s->stride[1] - s->pad[1] + k / taps, z = px * s->stride[2] - s->pad[2] + k % taps;
                const int64_t v = (filter * s->in_channels + c) * taps * taps + k;
                if (y < 0 || z < 0 || y >= s->in[1] || z >= s->in[2])
                    continue;
                const int64_t i = (image * s->in_channels + c) * in + y * s->in[2] + z;
                add(out, o, w[v], x[i]);
                add(dx, i, w[v], d[o]);
                add(dw, v, d[o], x[i]);
            }
    }
}

static void run(const results *r, const float *x, const float *w, const float *d, const tr_conv_shape *s)
{
    tr_conv_f32(r->out, x, w, NULL, s);
    tr_conv_grad_input_f32(r->dx, d, w, s);
    tr_conv_grad_filter_f32(r->dw, d, x, s);
}

/* The largest error as a multiple of what is 1 in the bound. At borders the bound counts all of a filter, so the largest size stands for
 * all. */
static double worst(const float *got, const terms *t, int64_t n)
{
    double size = 0, error = 0;
    for (int64_t i = 0; i < n; i++)
        size = t->size[i] > size ? t->size[i] : size;
    for (int64_t i = 0; i < n; i++)
        error = fabs((double)got[i] - t->exact[i]) > error ? fabs((double)got[i] - t->exact[i]) : error;
    return error / size * 0x1p24;
}

static void check_case(int i)
{
    const tr_conv_shape s = shape_of(i);
    const int64_t       nx = inputs_of(&s), ny = outputs_of(&s), nw = weights_of(&s);
    float              *x = random_f32(nx, 1, -1, 1), *w = random_f32(nw, 2, -1, 1), *d = random_f32(ny, 3, -1, 1);
    float              *all = array_new(ny + nx + nw, sizeof *all);
    const results       r = {all, all + ny, all + ny + nx};
    const terms         out = terms_new(ny), dx = terms_new(nx), dw = terms_new(nw);
    const int           promised = s.stride[1] == 1 ? TR_WINOGRAD_ERROR : TR_WINOGRAD_ERROR_STRIDED;

    reference(&out, &dx, &dw, x, w, d, &s);
    for (int level = TR_FLOAT_AVX2; level <= TR_FLOAT_AVX512; level++) {
        tr__float_level_limit((tr_float_level)level);
        SAME_FOR_ALL_THREADS(all, (ny + nx + nw) * 4, memset(all, 0xff, (size_t)(ny + nx + nw) * 4), run(&r, x, w, d, &s));
        assert_true(tr__winograd(r.out, x, w, NULL, &s) || tr__conv_folded(r.out, x, w, NULL, &s));
        const double errors[3] = {worst(r.out, &out, ny), worst(r.dx, &dx, nx), worst(r.dw, &dw, nw)};
        for (int e = 0; e < 3; e++)
            if (!(errors[e] <= promised))
                fail_msg("%s: the error of result %d is %.1f times the unit, at most %d are promised", cases[i].name, e, errors[e],
                         promised);
    }
    free(x), free(w), free(d), free(all);
    free(out.exact), free(out.size), free(dx.exact), free(dx.size), free(dw.exact), free(dw.size);
}

static void errors_stay_within_the_bound(void **state)
{
    (void)state;
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++)
        check_case(i);
    tr__float_level_limit(TR_FLOAT_AVX512);
}

static void a_bias_is_added_once(void **state)
{
    const tr_conv_shape s = shape_of(5);
    const int64_t       nx = inputs_of(&s), ny = outputs_of(&s), plane = s.out[1] * s.out[2];
    float *x = random_f32(nx, 1, -1, 1), *w = random_f32(weights_of(&s), 2, -1, 1), *bias = random_f32(s.out_channels, 3, -1, 1);
    float *without = array_new(ny, sizeof *x), *with = array_new(ny, sizeof *x);

    (void)state;
    tr_conv_f32(without, x, w, NULL, &s);
    tr_conv_f32(with, x, w, bias, &s);
    for (int64_t i = 0; i < ny; i++)
        near_f32((double)with[i], (double)without[i] + (double)bias[i / plane % s.out_channels], 8, 2, "with bias", i);
    free(x), free(w), free(bias), free(without), free(with);
}

/* What is not finite in an input stays within the tiles that read it. */
static void infinities_stay_in_their_tiles(void **state)
{
    const tr_conv_shape s = shape_of(1);
    const int64_t       nx = inputs_of(&s), ny = outputs_of(&s);
    float *x = random_f32(nx, 1, -1, 1), *w = random_f32(weights_of(&s), 2, -1, 1), *y = array_new(ny, sizeof *x);

    (void)state;
    x[0] = INFINITY;
    tr_conv_f32(y, x, w, NULL, &s);
    assert_false(isfinite(y[0]));
    for (int64_t i = 0; i < ny; i++)
        if (i / s.out[2] % s.out[1] >= 8 || i >= ny / s.batch)
            assert_true(isfinite(y[i]));
    free(x), free(w), free(y);
}

static void the_switch_brings_the_other_way_back(void **state)
{
    const tr_conv_shape s = shape_of(0);
    const int64_t       nx = inputs_of(&s), ny = outputs_of(&s);
    float *x = random_f32(nx, 1, -1, 1), *w = random_f32(weights_of(&s), 2, -1, 1), *y = array_new(ny, sizeof *x);

    (void)state;
    assert_true(tr_winograd());
    tr_set_winograd(false);
    assert_false(tr_winograd());
    assert_false(tr__winograd(y, x, w, NULL, &s));
    assert_false(tr__winograd_grad_input(x, y, w, &s));
    assert_false(tr__winograd_grad_filter(w, y, x, &s));
    tr_set_winograd(true);
    assert_true(tr__winograd(y, x, w, NULL, &s) || tr__float_level() == TR_FLOAT_PLAIN);
    free(x), free(w), free(y);
}

/* A run that multiplies in bfloat16 goes this way, too, with factors that are not rounded. */
static void bfloat16_changes_no_bit(void **state)
{
    const tr_conv_shape s = shape_of(3);
    const int64_t       nx = inputs_of(&s), ny = outputs_of(&s), nw = weights_of(&s);
    float *x = random_f32(nx, 1, -1, 1), *w = random_f32(nw, 2, -1, 1), *d = random_f32(ny, 3, -1, 1);
    float *out[2] = {array_new(ny, sizeof *x), array_new(ny, sizeof *x)}, *dw[2] = {array_new(nw, sizeof *x), array_new(nw, sizeof *x)};

    (void)state;
    for (int i = 0; i < 2; i++) {
        const tr_precision before = tr__precision_enter(i ? TR_PRECISION_BFLOAT16 : TR_PRECISION_FLOAT32);
        tr_conv_f32(out[i], x, w, NULL, &s);
        tr_conv_grad_filter_f32(dw[i], d, x, &s);
        tr__precision_enter(before);
    }
    if (tr__float_level() != TR_FLOAT_PLAIN) {
        assert_memory_equal(out[0], out[1], (size_t)ny * sizeof *x);
        assert_memory_equal(dw[0], dw[1], (size_t)nw * sizeof *x);
    }
    for (int i = 0; i < 2; i++)
        free(out[i]), free(dw[i]);
    free(x), free(w), free(d);
}

static void other_shapes_are_left_alone(void **state)
{
    tr_conv_shape strided = shape_of(0), grouped = shape_of(0), thin = shape_of(0), dilated = shape_of(0);

    (void)state;
    strided.stride[1] = 2;
    grouped.groups = 2;
    thin.in_channels = 3;
    dilated.dilation[2] = 2;
    assert_false(tr__winograd(NULL, NULL, NULL, NULL, &strided));
    assert_false(tr__winograd(NULL, NULL, NULL, NULL, &grouped));
    assert_false(tr__winograd(NULL, NULL, NULL, NULL, &thin));
    assert_false(tr__winograd(NULL, NULL, NULL, NULL, &dilated));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_stay_within_the_bound),         cmocka_unit_test(a_bias_is_added_once),
        cmocka_unit_test(infinities_stay_in_their_tiles),       cmocka_unit_test(the_switch_brings_the_other_way_back),
        cmocka_unit_test(other_shapes_are_left_alone),          cmocka_unit_test(bfloat16_changes_no_bit),
    };
    if (tr_blas_init() != TR_OK)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
