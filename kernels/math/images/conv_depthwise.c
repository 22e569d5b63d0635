/* conv_depthwise.c - see conv_depthwise.h.
 *
 * Planes are the slices; of the filter's gradient, channels, whose images are summed in order. With a stride of 1 the gradient of the input is a
 * convolution of dout with the turned filter. With others each output's share is added to the places that it has read. */
#ifndef T
#include "kernels/math/images/conv_depthwise.h"

#include "framework/base/compiler.h"
#include "framework/base/size.h"
#include "framework/threads/threadpool.h"
#include "kernels/math/images/depthwise_direct.h"
#include "kernels/math/tools/phases.h"

#include <string.h>

enum {
    MIN_WORK = 200000,                /* multiplications of a slice */
    MAX_FILTERS = 8,                  /* of a channel */
    MAX_SIZE = 1 << 22,               /* elements of a plane */
    BAND = 2048,                      /* elements that are summed together: they stay in the first cache */
    VECTOR = 16
};

/* A convolution of one plane. */
typedef struct geometry {
    tr_phases phases;
    int64_t   channels, filters;      /* filters of a channel */
    int64_t   in, out, taps;          /* elements of a plane; taps of a filter */
    int64_t   rows, band;             /* rows of outputs; at most so many of them are one band, within a depth */
    int64_t  *tap;                    /* place of each tap */
    int64_t   min_planes;             /* of a slice */
} geometry;

static bool is_depthwise(const tr_conv_shape *s)
{
    return s->groups == s->in_channels && s->groups > 0 && s->out_channels / s->groups <= MAX_FILTERS && s->batch > 0 &&
           tr_size_volume(s->kernel) > 1 && tr_size_volume(s->in) > 0 && tr_size_volume(s->out) > 0 && s->out_channels > 0;
}

/* False where the plane is too large. The table of taps is in the calling thread's memory. */
static bool geometry_init(geometry *g, const tr_conv_shape *s, const tr_windows *w)
{
    *g = (geometry){.channels = s->groups, .filters = s->out_channels / s->groups, .in = tr_size_volume(w->in), .out = tr_size_volume(w->out)};
    tr_phases_init(&g->phases, w, 1);
    g->taps = g->phases.taps;
    g->rows = w->out[0] * w->out[1];
    g->band = w->stride[1] == 1 ? 1 + BAND / g->phases.row : 1;
    g->min_planes = 1 + MIN_WORK / tr_size_mul(tr_size_mul(g->taps, g->out), g->filters);
    if (g->phases.size > MAX_SIZE)
        return false;
    g->tap = tr_thread_scratch(TR_SCRATCH_PACK, (size_t)g->taps * sizeof *g->tap);
    for (int64_t k = 0; k < g->taps; k++)
        g->tap[k] = tr_phases_tap(&g->phases, k);
    return true;
}

static tr_windows windows_of(const tr_conv_shape *s)
{
    tr_windows w;
    memcpy(w.in, s->in, sizeof w.in);
    memcpy(w.out, s->out, sizeof w.out);
    memcpy(w.kernel, s->kernel, sizeof w.kernel);
    memcpy(w.stride, s->stride, sizeof w.stride);
    memcpy(w.pad, s->pad, sizeof w.pad);
    memcpy(w.dilation, s->dilation, sizeof w.dilation);
    return w;
}

/* The windows of dout that the elements of x see; false where strides or a wide padding leave none such. */
static bool turned_windows(tr_windows *w, const tr_conv_shape *s)
{
    *w = windows_of(s);
    for (int a = 0; a < 3; a++) {
        w->in[a] = s->out[a];
        w->out[a] = s->in[a];
        w->pad[a] = s->dilation[a] * (s->kernel[a] - 1) - s->pad[a];
        if (s->stride[a] != 1 || w->pad[a] < 0)
            return false;
    }
    return true;
}

/* Rows in the band that begins with row r. */
static int64_t band_rows(const geometry *g, int64_t r)
{
    const int64_t left = g->phases.w.out[1] - r % g->phases.w.out[1];
    return left < g->band ? left : g->band;
}

/* From a row of a band to the next; elements of so many rows, in whole vectors. */
static int64_t band_pitch(const geometry *g)
{
    return g->band > 1 ? g->phases.row : g->phases.w.out[2];
}

static int64_t band_size(const geometry *g, int64_t rows)
{
    return ((rows - 1) * band_pitch(g) + g->phases.w.out[2] + VECTOR - 1) / VECTOR * VECTOR;
}

#include "kernels/math/tools/each_float.h"
#else

typedef struct {
    const geometry *g;
    int64_t         batch;
    T              *out;
    const T        *x, *filter, *bias, *d;
} NAME(job);

/* -- bands: convolutions --------------------------------------------------------------------------------------------- */

TR_INLINE void NAME(add_taps)(const int taps, T *sum, const T *x, const int64_t *tap, const T *w, int64_t n)
{
    TR_IVDEP
    for (int64_t o = 0; o < n; o++) {
        T more = sum[o];
        TR_UNROLL_TAPS
        for (int k = 0; k < taps; k++)
            more += w[k] * x[tap[k] + o];
        sum[o] = more;
    }
}

TR_CLONES static void NAME(add_band)(T *sum, const T *x, const geometry *g, const T *w, int64_t n)
{
    TR_EACH_TAPS(g->taps, k, NAME(add_taps)(TAPS, sum, x, g->tap + k, w + k, n))
}

static void NAME(fill)(T *to, T value, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = value;
}

/* out = start + the sum over `planes` laid out planes, each with its filter. */
static void NAME(convolve)(T *out, const T *x, const T *w, int64_t planes, T start, T *sum, const geometry *g)
{
    const int64_t width = g->phases.w.out[2], pitch = band_pitch(g);

    for (int64_t r = 0, rows; r < g->rows; r += rows) {
        rows = band_rows(g, r);
        const int64_t n = band_size(g, rows);
        NAME(fill)(sum, start, n);
        for (int64_t i = 0; i < planes; i++)
            NAME(add_band)(sum, x + i * g->phases.size + tr_phases_row(&g->phases, r), g, w + i * g->taps, n);
        for (int64_t k = 0; k < rows; k++)
            memcpy(out + (r + k) * width, sum + k * pitch, (size_t)width * sizeof(T));
    }
}

/* `planes` laid out planes of zeros, and after them so many bands. */
static T *NAME(memory)(const geometry *g, int64_t planes, int64_t bands)
{
    T *memory = tr_thread_scratch(TR_SCRATCH_COLUMNS, (size_t)(planes * g->phases.size + bands * band_size(g, g->band)) * sizeof(T));
    for (int64_t i = 0; i < planes; i++)
        NAME(tr_phases_fill)(memory + i * g->phases.size, 0, &g->phases);
    return memory;
}

static void NAME(forward_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    const geometry  *g = j->g;
    T               *plane = NAME(memory)(g, 1, 1);

    for (int64_t p = begin; p < end; p++) {
        NAME(tr_phases_load)(plane, j->x + p * g->in, &g->phases);
        for (int64_t i = 0; i < g->filters; i++) {
            const int64_t f = p % g->channels * g->filters + i;
            NAME(convolve)(j->out + (p * g->filters + i) * g->out, plane, j->filter + f * g->taps, 1, j->bias ? j->bias[f] : 0,
                           plane + g->phases.size, g);
        }
    }
}

bool NAME(tr__conv_depthwise)(T *out, const T *x, const T *filter, const T *bias, const tr_conv_shape *s)
{
    const tr_windows w = windows_of(s);
    geometry         g;

#if T_IS_F32
    if (tr__depthwise_direct(out, x, filter, bias, s))
        return true;
#endif
    if (!is_depthwise(s) || !geometry_init(&g, s, &w))
        return false;
    NAME(job) j = {.g = &g, .out = out, .x = x, .filter = filter, .bias = bias};
    tr_parallel_range(s->batch * g.channels, g.min_planes, NAME(forward_range), &j);
    return true;
}

/* -- gradient of the input ------------------------------------------------------------------------------------------- */

static void NAME(turned_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    const geometry  *g = j->g;
    T               *planes = NAME(memory)(g, g->filters, 2), *sum = planes + g->filters * g->phases.size;
    T               *turned = tr_thread_scratch(TR_SCRATCH_PARTIAL, (size_t)(g->filters * g->taps) * sizeof(T));

    for (int64_t p = begin; p < end; p++) {
        const T *w = j->filter + p % g->channels * g->filters * g->taps;
        for (int64_t i = 0; i < g->filters; i++) {
            NAME(tr_phases_load)(planes + i * g->phases.size, j->d + (p * g->filters + i) * g->in, &g->phases);
            for (int64_t k = 0; k < g->taps; k++)
                turned[i * g->taps + k] = w[i * g->taps + g->taps - 1 - k];
        }
        NAME(convolve)(j->out + p * g->out, planes, turned, g->filters, 0, sum, g);
    }
}

/* Rows of dout, a vector's multiple apart; the rest of each stays 0. */
static void NAME(spread)(T *to, const T *from, int64_t pitch, int64_t width, int64_t rows)
{
    for (int64_t r = 0; r < rows; r++)
        memcpy(to + r * pitch, from + r * width, (size_t)width * sizeof(T));
}

/* Tap after tap, so that no vector is read that has just been written in part. */
TR_CLONES static void NAME(add_shares)(T *dx, const T *d, const T *w, const geometry *g, int64_t pitch)
{
    for (int64_t k = 0; k < g->taps; k++)
        for (int64_t r = 0; r < g->rows; r++) {
            T       *to = dx + tr_phases_row(&g->phases, r) + g->tap[k];
            const T *from = d + r * pitch, by = w[k];
            for (int64_t v = 0; v < pitch; v += VECTOR, to += VECTOR, from += VECTOR) {
                TR_IVDEP TR_ONE_VECTOR
                for (int o = 0; o < VECTOR; o++)
                    to[o] += by * from[o];
            }
        }
}

static void NAME(shares_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    const geometry  *g = j->g;
    const int64_t    width = g->phases.w.out[2], pitch = (width + VECTOR - 1) / VECTOR * VECTOR;
    T               *plane = NAME(memory)(g, 1, 0), *d = tr_thread_scratch(TR_SCRATCH_PARTIAL, (size_t)(g->rows * pitch) * sizeof(T));

    NAME(fill)(d, 0, g->rows * pitch);
    for (int64_t p = begin; p < end; p++) {
        NAME(tr_phases_fill)(plane, 0, &g->phases);
        for (int64_t i = 0; i < g->filters; i++) {
            NAME(spread)(d, j->d + (p * g->filters + i) * g->out, pitch, width, g->rows);
            NAME(add_shares)(plane, d, j->filter + (p % g->channels * g->filters + i) * g->taps, g, pitch);
        }
        NAME(tr_phases_store)(j->out + p * g->in, plane, &g->phases);
    }
}

bool NAME(tr__conv_depthwise_grad_input)(T *dx, const T *dout, const T *filter, const tr_conv_shape *s)
{
    tr_windows w;
    geometry   g;

#if T_IS_F32
    if (tr__depthwise_direct_grad_input(dx, dout, filter, s))
        return true;
#endif
    if (!is_depthwise(s))
        return false;
    const bool turned = turned_windows(&w, s);
    if (!turned)
        w = windows_of(s);
    if (!geometry_init(&g, s, &w))
        return false;
    NAME(job) j = {.g = &g, .out = dx, .d = dout, .filter = filter};
    tr_parallel_range(s->batch * g.channels, g.min_planes, turned ? NAME(turned_range) : NAME(shares_range), &j);
    return true;
}

/* -- gradient of the filter ------------------------------------------------------------------------------------------- */

/* lane[k] += d * x at tap k, for VECTOR places at a time. */
TR_INLINE void NAME(dot_taps)(const int taps, T *lane, const T *d, const T *x, const int64_t *tap, int64_t n)
{
    for (int64_t v = 0; v < n; v += VECTOR)
        for (int k = 0; k < taps; k++) {
            const T *from = x + tap[k] + v;
            TR_IVDEP TR_ONE_VECTOR
            for (int o = 0; o < VECTOR; o++)
                lane[k * VECTOR + o] += d[v + o] * from[o];
        }
}

TR_CLONES static void NAME(dot_band)(T *lane, const T *d, const T *x, const geometry *g, int64_t n)
{
    TR_EACH_TAPS(g->taps, k, NAME(dot_taps)(TAPS, lane + k * VECTOR, d, x, g->tap + k, n))
}

static T NAME(join)(T *lane)
{
    for (int half = VECTOR / 2; half > 0; half /= 2)
        for (int o = 0; o < half; o++)
            lane[o] += lane[o + half];
    return lane[0];
}

/* One filter's sums for one image. `band` is 0 between the rows. */
static void NAME(dot_plane)(T *lane, const T *d, const T *x, T *band, const geometry *g)
{
    const int64_t width = g->phases.w.out[2];

    for (int64_t r = 0, rows; r < g->rows; r += rows) {
        rows = band_rows(g, r);
        NAME(spread)(band, d + r * width, band_pitch(g), width, rows);
        if (rows < g->band)                                /* what the band before has left behind */
            NAME(fill)(band + (rows - 1) * band_pitch(g) + width, 0, band_size(g, g->band) - (rows - 1) * band_pitch(g) - width);
        NAME(dot_band)(lane, band, x + tr_phases_row(&g->phases, r), g, band_size(g, rows));
    }
}

static void NAME(filter_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    const geometry  *g = j->g;
    const int64_t    size = g->filters * g->taps;
    T               *plane = NAME(memory)(g, 1, 1), *band = plane + g->phases.size;
    T               *lane = tr_thread_scratch(TR_SCRATCH_PARTIAL, (size_t)(size * VECTOR) * sizeof(T));

    NAME(fill)(band, 0, band_size(g, g->band));
    for (int64_t c = begin; c < end; c++) {
        NAME(fill)(lane, 0, size * VECTOR);
        for (int64_t i = 0; i < j->batch; i++) {
            const int64_t p = i * g->channels + c;
            NAME(tr_phases_load)(plane, j->x + p * g->in, &g->phases);
            for (int64_t f = 0; f < g->filters; f++)
                NAME(dot_plane)(lane + f * g->taps * VECTOR, j->d + (p * g->filters + f) * g->out, plane, band, g);
        }
        for (int64_t k = 0; k < size; k++)
            j->out[c * size + k] = NAME(join)(lane + k * VECTOR);
    }
}

bool NAME(tr__conv_depthwise_grad_filter)(T *dfilter, const T *dout, const T *x, const tr_conv_shape *s)
{
    const tr_windows w = windows_of(s);
    geometry         g;

#if T_IS_F32
    if (tr__depthwise_direct_grad_filter(dfilter, dout, x, s))
        return true;
#endif
    if (!is_depthwise(s) || !geometry_init(&g, s, &w))
        return false;
    NAME(job) j = {.g = &g, .batch = s->batch, .out = dfilter, .x = x, .d = dout};
    tr_parallel_range(g.channels, 1 + g.min_planes / s->batch, NAME(filter_range), &j);
    return true;
}

#endif
