/* depthwise_direct.c - see depthwise_direct.h; the arithmetic is in depthwise_direct_level.h.
 *
 * With a stride of 1 the gradient of the input is a convolution of dout with the turned filter. */
#include "kernels/math/images/depthwise_direct.h"

#include "framework/base/compiler.h"
#include "framework/base/size.h"
#include "framework/threads/threadpool.h"
#include "kernels/math/tools/float_lanes.h"

#include <string.h>

enum {
    MIN_WORK = 200000,                /* multiplications of a slice */
    MAX_LANES = 16,
    MAX_TAPS = 25
};

/* The planes of one convolution: height and width. */
typedef struct planes {
    int64_t in[2], out[2], pad[2];
    int     size, stride;             /* taps of a filter in one direction */
} planes;

typedef struct level {
    int  lanes;
    /* out = start + the convolution of x with w; or out += that */
    void (*convolve)(float *out, const float *x, const float *w, float start, bool add, const planes *g);
    /* sums[tap][lane] += d * x */
    void (*dot)(float *sums, const float *d, const float *x, const planes *g);
} level;

#if defined(__x86_64__) && defined(__GNUC__)
#define INLINE TARGET static inline __attribute__((always_inline))

#define LEVEL(x) x##_avx512
#define TARGET   TR_TARGET_AVX512
#define LANES    16
#include "kernels/math/images/depthwise_direct_level.h"
#undef LEVEL
#undef TARGET
#undef LANES

#define LEVEL(x) x##_avx2
#define TARGET   TR_TARGET_AVX2
#define LANES    8
#include "kernels/math/images/depthwise_direct_level.h"
#undef LEVEL
#undef TARGET
#undef LANES

static const level *levels[] = {[TR_FLOAT_PLAIN] = NULL, [TR_FLOAT_AVX2] = &planes_avx2, [TR_FLOAT_AVX512] = &planes_avx512};

#else

static const level *levels[] = {NULL, NULL, NULL};

#endif

static const level *own_level(void)
{
    return levels[tr__float_level()];
}

static bool wants(const tr_conv_shape *s)
{
    const int64_t size = s->kernel[1], stride = s->stride[1];
    bool          fits = s->kernel[0] == 1 && s->in[0] == 1 && s->out[0] == 1 && s->pad[0] == 0 && (size == 3 || size == 5) &&
                (stride == 1 || stride == 2);

    for (int a = 1; a < 3; a++)
        fits = fits && s->kernel[a] == size && s->stride[a] == stride && s->dilation[a] == 1 && s->in[a] > 0 && s->out[a] > 0;
    return fits && s->groups == s->in_channels && s->groups > 0 && s->batch > 0 && s->out_channels > 0 && own_level() != NULL;
}

static planes planes_of(const tr_conv_shape *s)
{
    return (planes){{s->in[1], s->in[2]}, {s->out[1], s->out[2]}, {s->pad[1], s->pad[2]}, (int)s->kernel[1], (int)s->stride[1]};
}

typedef struct {
    const level *own;
    planes       g;
    int64_t      batch, channels, filters;            /* filters of a channel */
    float       *out;
    const float *x, *filter, *bias, *d;
} job;

static job job_of(const tr_conv_shape *s)
{
    return (job){.own = own_level(), .g = planes_of(s), .batch = s->batch, .channels = s->groups, .filters = s->out_channels / s->groups};
}

static int64_t plane_size(const int64_t extent[2])
{
    return extent[0] * extent[1];
}

/* Planes of the input in a slice, at least. */
static int64_t min_planes(const job *j)
{
    return 1 + MIN_WORK / tr_size_mul(tr_size_mul(j->g.size * j->g.size, plane_size(j->g.out)), j->filters);
}

/* -- forward and the input's gradient ---------------------------------------------------------------------------------- */

static void forward_range(void *payload, int64_t begin, int64_t end)
{
    const job    *j = payload;
    const int64_t in = plane_size(j->g.in), out = plane_size(j->g.out), taps = j->g.size * j->g.size;

    for (int64_t p = begin; p < end; p++)
        for (int64_t i = 0; i < j->filters; i++) {
            const int64_t f = p % j->channels * j->filters + i;
            j->own->convolve(j->out + (p * j->filters + i) * out, j->x + p * in, j->filter + f * taps, j->bias ? j->bias[f] : 0, false, &j->g);
        }
}

bool tr__depthwise_direct(float *out, const float *x, const float *filter, const float *bias, const tr_conv_shape *s)
{
    if (!wants(s))
        return false;
    job j = job_of(s);
    j.out = out;
    j.x = x;
    j.filter = filter;
    j.bias = bias;
    tr_parallel_range(j.batch * j.channels, min_planes(&j), forward_range, &j);
    return true;
}

static void turned_range(void *payload, int64_t begin, int64_t end)
{
    const job    *j = payload;
    const int64_t in = plane_size(j->g.in), out = plane_size(j->g.out), taps = j->g.size * j->g.size;

    for (int64_t p = begin; p < end; p++)
        for (int64_t i = 0; i < j->filters; i++) {
            const float *w = j->filter + (p % j->channels * j->filters + i) * taps;
            float        turned[MAX_TAPS];
            for (int64_t k = 0; k < taps; k++)
                turned[k] = w[taps - 1 - k];
            j->own->convolve(j->out + p * out, j->d + (p * j->filters + i) * in, turned, 0, i > 0, &j->g);
        }
}

bool tr__depthwise_direct_grad_input(float *dx, const float *dout, const float *filter, const tr_conv_shape *s)
{
    if (!wants(s) || s->stride[1] != 1)
        return false;
    job j = job_of(s);
    for (int a = 0; a < 2; a++) {                             /* what the elements of x see of dout */
        j.g.in[a] = s->out[a + 1];
        j.g.out[a] = s->in[a + 1];
        j.g.pad[a] = j.g.size - 1 - s->pad[a + 1];
    }
    j.out = dx;
    j.d = dout;
    j.filter = filter;
    tr_parallel_range(j.batch * j.channels, min_planes(&j), turned_range, &j);
    return true;
}

/* -- the filter's gradient ---------------------------------------------------------------------------------------------- */

static float joined(float *lane, int lanes)
{
    for (int half = lanes / 2; half > 0; half /= 2)
        for (int o = 0; o < half; o++)
            lane[o] += lane[o + half];
    return lane[0];
}

static void filter_range(void *payload, int64_t begin, int64_t end)
{
    const job    *j = payload;
    const int64_t in = plane_size(j->g.in), out = plane_size(j->g.out), taps = j->g.size * j->g.size;

    for (int64_t f = begin * j->filters; f < end * j->filters; f++) {
        const int64_t c = f / j->filters;
        float         sums[MAX_TAPS * MAX_LANES] = {0};
        for (int64_t i = 0; i < j->batch; i++)
            j->own->dot(sums, j->d + (i * j->channels * j->filters + f) * out, j->x + (i * j->channels + c) * in, &j->g);
        for (int64_t k = 0; k < taps; k++)
            j->out[f * taps + k] = joined(sums + k * j->own->lanes, j->own->lanes);
    }
}

bool tr__depthwise_direct_grad_filter(float *dfilter, const float *dout, const float *x, const tr_conv_shape *s)
{
    if (!wants(s))
        return false;
    job j = job_of(s);
    j.out = dfilter;
    j.x = x;
    j.d = dout;
    tr_parallel_range(j.channels, 1 + min_planes(&j) / j.batch, filter_range, &j);
    return true;
}
