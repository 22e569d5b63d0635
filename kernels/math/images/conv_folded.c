/* conv_folded.c - see conv_folded.h. */
#include "kernels/math/images/conv_folded.h"

#include "framework/base/compiler.h"
#include "framework/threads/threadpool.h"
#include "kernels/math/images/conv_winograd.h"

#include <string.h>

enum {
    PHASES = 4,
    MIN_SIZE = 5,                     /* of a filter: with 3x3 taps the way to the points and back takes longer than what it saves */
    MAX_CHANNELS = 8,                 /* more fill vectors by themselves */
    MIN_ELEMENTS = 65536,             /* of a slice */
    GROUP_FLOATS = 1 << 21            /* of the folded images that are convolved together, about */
};

static bool is_foldable(const tr_conv_shape *s)
{
    const int64_t size = s->kernel[1];
    bool          fits = s->kernel[0] == 1 && s->in[0] == 1 && s->out[0] == 1 && size >= MIN_SIZE && size <= 8;

    for (int a = 1; a < 3; a++)
        fits = fits && s->kernel[a] == size && s->stride[a] == 2 && s->dilation[a] == 1;
    return fits && s->groups == 1 && s->batch > 0 && s->in_channels <= MAX_CHANNELS;
}

/* The convolution of the phases. */
static tr_conv_shape folded_shape(const tr_conv_shape *s)
{
    tr_conv_shape f = *s;
    f.in_channels = PHASES * s->in_channels;
    for (int a = 1; a < 3; a++) {
        f.kernel[a] = (s->kernel[a] + 1) / 2;
        f.in[a] = s->out[a] + f.kernel[a] - 1;
        f.stride[a] = 1;
        f.pad[a] = 0;
    }
    return f;
}

typedef struct {
    const tr_conv_shape *s, *f;
    const float         *x;
    float               *folded;
} job;

/* to[i] = row[2 i + first], 0 beyond the row's ends. */
TR_INLINE void fold_row(float *to, int64_t count, const float *row, int64_t width, int64_t first)
{
    const int64_t begin = first < 0 ? (1 - first) / 2 : 0, past = width <= first ? 0 : (width - first + 1) / 2, end = past < count ? past : count;

    for (int64_t i = 0; i < begin && i < count; i++)
        to[i] = 0;
    for (int64_t i = begin; i < end; i++)
        to[i] = row[2 * i + first];
    for (int64_t i = end > begin ? end : begin; i < count; i++)
        to[i] = 0;
}

/* Planes of the folded images. */
TR_CLONES static void fold_planes(const job *j, int64_t begin, int64_t end)
{
    const tr_conv_shape *s = j->s, *f = j->f;

    for (int64_t p = begin; p < end; p++) {
        const int64_t phase = p % PHASES, plane = p / PHASES;
        const float  *from = j->x + plane * s->in[1] * s->in[2];
        float        *to = j->folded + p * f->in[1] * f->in[2];
        for (int64_t i = 0; i < f->in[1]; i++, to += f->in[2]) {
            const int64_t row = 2 * i - s->pad[1] + phase / 2;
            if (row < 0 || row >= s->in[1])
                memset(to, 0, (size_t)f->in[2] * sizeof *to);
            else
                fold_row(to, f->in[2], from + row * s->in[2], s->in[2], phase % 2 - s->pad[2]);
        }
    }
}

static void planes_range(void *payload, int64_t begin, int64_t end)
{
    fold_planes(payload, begin, end);
}

/* A phase's taps are every other one of the filter; where the filter ends before, they are 0. */
static void fold_filters(float *to, const float *filter, const tr_conv_shape *s, int64_t taps)
{
    const int64_t size = s->kernel[1];

    for (int64_t i = 0; i < s->out_channels * s->in_channels; i++, filter += size * size)
        for (int64_t phase = 0; phase < PHASES; phase++)
            for (int64_t t = 0; t < taps * taps; t++) {
                const int64_t y = t / taps * 2 + phase / 2, x = t % taps * 2 + phase % 2;
                *to++ = y < size && x < size ? filter[y * size + x] : 0;
            }
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

bool tr__conv_folded(float *out, const float *x, const float *filter, const float *bias, const tr_conv_shape *s)
{
    tr_conv_shape f = folded_shape(s);
    const int64_t plane = f.in[1] * f.in[2], image = f.in_channels * plane, taps = f.kernel[1];
    const int64_t x_image = s->in_channels * s->in[1] * s->in[2], out_image = s->out_channels * s->out[1] * s->out[2];

    if (!is_foldable(s) || !tr__winograd_takes(&f))
        return false;
    const int64_t group = least(1 + GROUP_FLOATS / image, s->batch);
    float *folded = tr_thread_scratch(TR_SCRATCH_PARTIAL, (size_t)(group * image + s->out_channels * f.in_channels * taps * taps) * sizeof *folded);
    float *filters = folded + group * image;
    fold_filters(filters, filter, s, taps);
    for (int64_t i = 0; i < s->batch; i += group) {
        job j = {s, &f, x + i * x_image, folded};
        f.batch = least(group, s->batch - i);
        tr_parallel_range(f.batch * f.in_channels, 1 + MIN_ELEMENTS / plane, planes_range, &j);
        tr__winograd(out + i * out_image, folded, filters, bias, &f);
    }
    return true;
}
