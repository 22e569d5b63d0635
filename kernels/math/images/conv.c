/* conv.c - patches as columns, products by BLAS; conv_winograd.c, conv_folded.c, conv_depthwise.c and conv_direct.c are asked first whether they know a shorter way.
 *
 * Of one image and one group, with K = channels/groups * kernel volume and P = output volume:
 *     out     [M, P] = filter [M, K]   columns [K, P]
 *     columns [K, P] = filter^T        dout [M, P]           then col2im
 *     dfilter [M, K] = dout [M, P]     columns^T             summed over images
 * Columns are made for a band of rows of the output at a time, so that they are still in the second cache when they are multiplied.
 * Images are the slices; a single one leaves the pool to its products. Images of the filter's
 * gradient go in runs, as many as the batch alone determines; each sums its images in order, and the runs are added in order. */
#ifndef T
#include "kernels/math/images/conv.h"

#include "framework/base/compiler.h"
#include "framework/base/size.h"
#include "framework/threads/precision.h"
#include "framework/threads/threadpool.h"
#include "kernels/math/images/conv_depthwise.h"
#include "kernels/math/images/conv_direct.h"
#include "kernels/math/images/conv_folded.h"
#include "kernels/math/images/conv_winograd.h"
#include "kernels/math/products/blas.h"

#include <string.h>

enum {
    MIN_WORK = 200000,                /* multiplications of a slice */
    MAX_RUNS = 16,                    /* of images */
    FEW_FILTERS = 8,                  /* of a group */
    BAND_BYTES = 1 << 20              /* of columns; a band packs the filter again */
};

/* A convolution whose columns are the image itself. */
static bool is_pointwise(const tr_conv_shape *s)
{
    bool pointwise = true;
    for (int a = 0; a < 3; a++)
        pointwise = pointwise && s->kernel[a] == 1 && s->stride[a] == 1 && s->pad[a] == 0;
    return pointwise;
}

static int64_t columns_rows(const tr_conv_shape *s)
{
    return tr_size_mul(s->in_channels / s->groups, tr_size_volume(s->kernel));
}

static int64_t images_of_slice(const tr_conv_shape *s)
{
    const int64_t work = tr_size_mul(tr_size_mul(columns_rows(s), tr_size_volume(s->out)), s->out_channels);
    return 1 + MIN_WORK / (work > 0 ? work : 1);
}

/* Outputs o of one axis for which o * stride + offset lies within 0 .. in-1: [begin, end). */
static void inside(int64_t *begin, int64_t *end, int64_t offset, int64_t stride, int64_t in, int64_t out)
{
    const int64_t first = offset >= 0 ? 0 : (-offset + stride - 1) / stride;
    const int64_t last = in - 1 - offset < 0 ? 0 : (in - 1 - offset) / stride + 1;
    *begin = first < out ? first : out;
    *end = last < out ? last : out;
    if (*end < *begin)
        *end = *begin;
}

/* Offset of tap `k` of an axis from output 0. */
static int64_t tap(const tr_conv_shape *s, int axis, int64_t k)
{
    return k * s->dilation[axis] - s->pad[axis];
}

/* The row of the input that tap offsets (dz, dy) of output row (z, y) read; -1: outside. */
static int64_t input_row(const tr_conv_shape *s, int64_t z, int64_t dz, int64_t y, int64_t dy)
{
    const int64_t iz = z * s->stride[0] + dz, iy = y * s->stride[1] + dy;
    return iz < 0 || iz >= s->in[0] || iy < 0 || iy >= s->in[1] ? -1 : iz * s->in[1] + iy;
}

#include "kernels/math/tools/each_float.h"
#else

/* conv_direct.c multiplies in float32. Where that is the finer precision, it goes before columns and products in bfloat16 only
 * where so few filters share the columns that copying and packing these takes longer. */
static bool NAME(may_go_directly)(const tr_conv_shape *s)
{
    return !T_IS_F32 || tr__precision_now() == TR_PRECISION_FLOAT32 || s->out_channels / s->groups < FEW_FILTERS;
}

/* The ways that need no columns: true where one has done it. Winograd's is faster than products in bfloat16, too. */
static bool NAME(short_way)(T *out, const T *x, const T *filter, const T *bias, const tr_conv_shape *s)
{
#if T_IS_F32
    if (tr__winograd(out, x, filter, bias, s) || tr__conv_folded(out, x, filter, bias, s))
        return true;
#endif
    return NAME(tr__conv_depthwise)(out, x, filter, bias, s) ||
           (NAME(may_go_directly)(s) && NAME(tr__conv_direct)(out, x, filter, bias, s));
}

static bool NAME(short_way_input)(T *dx, const T *dout, const T *filter, const tr_conv_shape *s)
{
#if T_IS_F32
    if (tr__winograd_grad_input(dx, dout, filter, s))
        return true;
#endif
    return NAME(tr__conv_depthwise_grad_input)(dx, dout, filter, s) ||
           (NAME(may_go_directly)(s) && NAME(tr__conv_direct_grad_input)(dx, dout, filter, s));
}

static bool NAME(short_way_filter)(T *dfilter, const T *dout, const T *x, const tr_conv_shape *s)
{
#if T_IS_F32
    if (tr__winograd_grad_filter(dfilter, dout, x, s))
        return true;
#endif
    return NAME(tr__conv_depthwise_grad_filter)(dfilter, dout, x, s) ||
           (NAME(may_go_directly)(s) && NAME(tr__conv_direct_grad_filter)(dfilter, dout, x, s));
}

/* -- patches as columns ------------------------------------------------------------------------------------------------------------ */

/* Some rows of the output, counted through the depth. */
typedef struct {
    int64_t first, count;
} NAME(band);

/* One row of the columns: tap (kz, ky, kx) of one channel for the outputs of a band. */
TR_INLINE void NAME(patch_row)(T *out, const T *plane, const tr_conv_shape *s, NAME(band) b, int64_t dz, int64_t dy, int64_t dx)
{
    const int64_t width = s->out[2], stride = s->stride[2];
    int64_t       begin, end;
    inside(&begin, &end, dx, stride, s->in[2], width);
    for (int64_t r = b.first; r < b.first + b.count; r++, out += width) {
        const int64_t row = input_row(s, r / s->out[1], dz, r % s->out[1], dy);
        if (row < 0) {
            memset(out, 0, (size_t)width * sizeof(T));
            continue;
        }
        const T *x = plane + row * s->in[2] + dx;
        for (int64_t o = 0; o < begin; o++)
            out[o] = 0;
        if (stride == 1)
            for (int64_t o = begin; o < end; o++)
                out[o] = x[o];
        else if (stride == 2)
            for (int64_t o = begin; o < end; o++)
                out[o] = x[o * 2];
        else
            for (int64_t o = begin; o < end; o++)
                out[o] = x[o * stride];
        for (int64_t o = end; o < width; o++)
            out[o] = 0;
    }
}

TR_CLONES static void NAME(im2col)(T *columns, const T *image, const tr_conv_shape *s, int64_t channels, NAME(band) b)
{
    for (int64_t c = 0; c < channels; c++, image += tr_size_volume(s->in))
        for (int64_t kz = 0; kz < s->kernel[0]; kz++)
            for (int64_t ky = 0; ky < s->kernel[1]; ky++)
                for (int64_t kx = 0; kx < s->kernel[2]; kx++, columns += b.count * s->out[2])
                    NAME(patch_row)(columns, image, s, b, tap(s, 0, kz), tap(s, 1, ky), tap(s, 2, kx));
}

TR_INLINE void NAME(add_patch_row)(T *plane, const T *in, const tr_conv_shape *s, NAME(band) b, int64_t dz, int64_t dy, int64_t dx)
{
    const int64_t width = s->out[2], stride = s->stride[2];
    int64_t       begin, end;
    inside(&begin, &end, dx, stride, s->in[2], width);
    for (int64_t r = b.first; r < b.first + b.count; r++, in += width) {
        const int64_t row = input_row(s, r / s->out[1], dz, r % s->out[1], dy);
        if (row < 0)
            continue;
        T *x = plane + row * s->in[2] + dx;
        if (stride == 1)
            for (int64_t o = begin; o < end; o++)
                x[o] += in[o];
        else
            for (int64_t o = begin; o < end; o++)
                x[o * stride] += in[o];
    }
}

TR_CLONES static void NAME(col2im)(T *image, const T *columns, const tr_conv_shape *s, int64_t channels, NAME(band) b)
{
    for (int64_t c = 0; c < channels; c++, image += tr_size_volume(s->in))
        for (int64_t kz = 0; kz < s->kernel[0]; kz++)
            for (int64_t ky = 0; ky < s->kernel[1]; ky++)
                for (int64_t kx = 0; kx < s->kernel[2]; kx++, columns += b.count * s->out[2])
                    NAME(add_patch_row)(image, columns, s, b, tap(s, 0, kz), tap(s, 1, ky), tap(s, 2, kx));
}

/* -- jobs over images --------------------------------------------------------------------------------------------------------------- */

typedef struct {
    const tr_conv_shape *s;
    T                   *out, *partial;
    const T             *x, *filter, *bias, *d;
    int64_t              channels, filters, k, p, runs;       /* of one group; K and P */
    int64_t              band;                                /* rows of a band, at most */
    bool                 pointwise;
} NAME(job);

static NAME(job) NAME(job_of)(const tr_conv_shape *s)
{
    NAME(job)     j = {.s = s, .channels = s->in_channels / s->groups, .filters = s->out_channels / s->groups,
                       .k = columns_rows(s), .p = tr_size_volume(s->out), .pointwise = is_pointwise(s), .band = s->out[0] * s->out[1]};
    const int64_t bytes = tr_size_mul(tr_size_mul(j.k, j.p), sizeof(T)), bands = bytes / BAND_BYTES + 1;
    if (!j.pointwise && j.band > 1)
        j.band = bands < j.band ? (j.band + bands - 1) / bands : 1;
    return j;
}

static T *NAME(columns_memory)(const NAME(job) *j)
{
    return j->pointwise ? NULL : tr_thread_scratch(TR_SCRATCH_COLUMNS, (size_t)(j->k * j->band * j->s->out[2]) * sizeof(T));
}

/* The next band, from row `first` on; false: there is none. */
static bool NAME(next_band)(NAME(band) *b, const NAME(job) *j, int64_t first)
{
    const int64_t left = j->s->out[0] * j->s->out[1] - first;
    *b = (NAME(band)){first, left < j->band ? left : j->band};
    return left > 0;
}

#define EACH_BAND(b, j) for (NAME(band) b = {0, 0}; NAME(next_band)(&b, j, b.first + b.count);)

/* The begin of group g of image i in an array of so many channels. */
static int64_t NAME(group_of)(int64_t i, int64_t g, int64_t channels_of_group, int64_t groups, const int64_t extent[3])
{
    return (i * groups + g) * channels_of_group * tr_size_volume(extent);
}

static const T *NAME(columns_of)(const NAME(job) *j, T *memory, int64_t i, int64_t g, NAME(band) b)
{
    const T *image = j->x + NAME(group_of)(i, g, j->channels, j->s->groups, j->s->in);
    if (j->pointwise)
        return image;
    NAME(im2col)(memory, image, j->s, j->channels, b);
    return memory;
}

/* -- forward -------------------------------------------------------------------------------------------------------------------------- */

/* The bias is there before the product adds to it. */
static void NAME(start_rows)(T *out, const T *bias, int64_t rows, int64_t cols)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            out[r * cols + c] = bias[r];
}

static void NAME(conv_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    const int64_t    groups = j->s->groups;
    T               *memory = NAME(columns_memory)(j);
    for (int64_t i = begin; i < end; i++)
        for (int64_t g = 0; g < groups; g++) {
            T *out = j->out + NAME(group_of)(i, g, j->filters, groups, j->s->out);
            if (j->bias)
                NAME(start_rows)(out, j->bias + g * j->filters, j->filters, j->p);
            EACH_BAND(b, j) {
                const int64_t n = b.count * j->s->out[2];
                NAME(tr_gemm)(false, false, j->filters, n, j->k, 1, j->filter + g * j->filters * j->k, j->k,
                              NAME(columns_of)(j, memory, i, g, b), n, j->bias ? 1 : 0, out + b.first * j->s->out[2], j->p);
            }
        }
}

void NAME(tr_conv)(T *out, const T *x, const T *filter, const T *bias, const tr_conv_shape *s)
{
    NAME(job) j = NAME(job_of)(s);
    if (NAME(short_way)(out, x, filter, bias, s))
        return;
    j.out = out;
    j.x = x;
    j.filter = filter;
    j.bias = bias;
    tr_parallel_range(s->batch, images_of_slice(s), NAME(conv_range), &j);
}

/* -- gradient of the input ------------------------------------------------------------------------------------------------------------- */

static void NAME(input_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    const int64_t    groups = j->s->groups;
    T               *memory = NAME(columns_memory)(j);
    for (int64_t i = begin; i < end; i++)
        for (int64_t g = 0; g < groups; g++) {
            const T *d = j->d + NAME(group_of)(i, g, j->filters, groups, j->s->out);
            T       *image = j->out + NAME(group_of)(i, g, j->channels, groups, j->s->in);
            if (!j->pointwise)
                memset(image, 0, (size_t)(j->channels * tr_size_volume(j->s->in)) * sizeof(T));
            EACH_BAND(b, j) {
                const int64_t n = b.count * j->s->out[2];
                NAME(tr_gemm)(true, false, j->k, n, j->filters, 1, j->filter + g * j->filters * j->k, j->k, d + b.first * j->s->out[2],
                              j->p, 0, j->pointwise ? image : memory, n);
                if (!j->pointwise)
                    NAME(col2im)(image, memory, j->s, j->channels, b);
            }
        }
}

void NAME(tr_conv_grad_input)(T *dx, const T *dout, const T *filter, const tr_conv_shape *s)
{
    NAME(job) j = NAME(job_of)(s);
    if (NAME(short_way_input)(dx, dout, filter, s))
        return;
    j.out = dx;
    j.d = dout;
    j.filter = filter;
    tr_parallel_range(s->batch, images_of_slice(s), NAME(input_range), &j);
}

/* -- gradient of the filter -------------------------------------------------------------------------------------------------------------- */

static void NAME(filter_run)(void *payload, int64_t run)
{
    const NAME(job) *j = payload;
    const int64_t    groups = j->s->groups, size = j->filters * j->k;
    T               *memory = NAME(columns_memory)(j), *sum = j->partial + run * groups * size;
    int64_t          begin, end;
    tr_slice_range(&begin, &end, j->s->batch, 1, j->runs, run);
    for (int64_t i = begin; i < end; i++)
        for (int64_t g = 0; g < groups; g++)
            EACH_BAND(b, j) {
                const int64_t n = b.count * j->s->out[2];
                NAME(tr_gemm)(false, true, j->filters, j->k, n, 1,
                              j->d + NAME(group_of)(i, g, j->filters, groups, j->s->out) + b.first * j->s->out[2], j->p,
                              NAME(columns_of)(j, memory, i, g, b), n, i == begin && b.first == 0 ? 0 : 1, sum + g * size, j->k);
            }
}

TR_CLONES static void NAME(add_to)(T *sum, const T *x, int64_t n)
{
    TR_IVDEP
    for (int64_t i = 0; i < n; i++)
        sum[i] += x[i];
}

void NAME(tr_conv_grad_filter)(T *dfilter, const T *dout, const T *x, const tr_conv_shape *s)
{
    NAME(job)     j = NAME(job_of)(s);
    const int64_t size = s->groups * j.filters * j.k, runs = tr_slice_count(s->batch, images_of_slice(s));
    if (NAME(short_way_filter)(dfilter, dout, x, s))
        return;
    j.x = x;
    j.d = dout;
    j.runs = runs < MAX_RUNS ? runs : MAX_RUNS;
    j.partial = dfilter;
    if (s->batch == 0) {
        memset(dfilter, 0, (size_t)size * sizeof(T));
        return;
    }
    if (j.runs > 1)
        j.partial = tr_thread_scratch(TR_SCRATCH_PARTIAL, (size_t)(j.runs * size) * sizeof(T));
    tr_parallel(j.runs, NAME(filter_run), &j);
    if (j.runs > 1)
        memcpy(dfilter, j.partial, (size_t)size * sizeof(T));
    for (int64_t run = 1; run < j.runs; run++)
        NAME(add_to)(dfilter, j.partial + run * size, size);
}

#endif
