/* phases.c - see phases.h. */
#ifndef T
#include "kernels/math/phases.h"

#include "framework/compiler.h"
#include "framework/size.h"

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

void tr_phases_init(tr_phases *p, const tr_windows *w)
{
    *p = (tr_phases){.w = *w, .taps = w->kernel[0] * w->kernel[1] * w->kernel[2]};
    for (int a = 0; a < 3; a++)
        p->extent[a] = larger(w->in[a] + 2 * w->pad[a], (w->out[a] - 1) * w->stride[a] + w->dilation[a] * (w->kernel[a] - 1) + 1);
    p->pitch = (p->extent[2] + w->stride[2] - 1) / w->stride[2];
    p->row = p->pitch * w->stride[2];
    p->size = tr_size_add(tr_size_mul(tr_size_mul(p->extent[0], p->extent[1]), p->row), TR_PHASES_ROOM);
}

int64_t tr_phases_row(const tr_phases *p, int64_t r)
{
    const int64_t z = r / p->w.out[1], y = r % p->w.out[1];
    return (z * p->w.stride[0] * p->extent[1] + y * p->w.stride[1]) * p->row;
}

int64_t tr_phases_tap(const tr_phases *p, int64_t k)
{
    const tr_windows *w = &p->w;
    const int64_t     x = k % w->kernel[2] * w->dilation[2], y = k / w->kernel[2] % w->kernel[1] * w->dilation[1];
    const int64_t     z = k / w->kernel[2] / w->kernel[1] * w->dilation[0];
    return (z * p->extent[1] + y) * p->row + x % w->stride[2] * p->pitch + x / w->stride[2];
}

/* Where rows of depth z lie, without the padding in front of them along height and width. */
static int64_t place_of(const tr_phases *p, int64_t z)
{
    return ((z + p->w.pad[0]) * p->extent[1] + p->w.pad[1]) * p->row;
}

/* One phase of a row: elements first, first + step ... lie at `at`. */
typedef struct phase {
    int64_t first, at, count;
} phase;

static phase phase_of(const tr_phases *p, int64_t k)
{
    const int64_t step = p->w.stride[2], first = ((k - p->w.pad[2]) % step + step) % step;
    return (phase){first, k * p->pitch + (first + p->w.pad[2]) / step, first < p->w.in[2] ? (p->w.in[2] - first + step - 1) / step : 0};
}

#define TR_TEMPLATE "kernels/math/phases.c"
#include "kernels/math/each_float.h"
#else

TR_CLONES void NAME(tr_phases_fill)(T *to, T value, const tr_phases *p)
{
    for (int64_t i = 0; i < p->size; i++)
        to[i] = value;
}

/* A constant step becomes vector code. */
TR_INLINE void NAME(gather)(T *to, const T *from, int64_t count, int64_t step)
{
    TR_IVDEP
    for (int64_t i = 0; i < count; i++)
        to[i] = from[i * step];
}

TR_INLINE void NAME(scatter)(T *to, const T *from, int64_t count, int64_t step)
{
    TR_IVDEP
    for (int64_t i = 0; i < count; i++)
        to[i * step] = from[i];
}

/* Both phases of a stride of 2: elements begin with the one that phase `first` has. */
TR_INLINE void NAME(join)(T *to, const T *even, const T *odd, int64_t pairs)
{
    TR_IVDEP
    for (int64_t i = 0; i < pairs; i++) {
        to[2 * i] = even[i];
        to[2 * i + 1] = odd[i];
    }
}

/* The rows of one depth, where a row is so many phases. */
TR_INLINE void NAME(split)(T *row, const T *from, const tr_phases *p, int64_t step)
{
    for (int64_t k = 0; k < step; k++) {
        const phase f = phase_of(p, k);
        for (int64_t y = 0; y < p->w.in[1]; y++)
            NAME(gather)(row + y * p->row + f.at, from + y * p->w.in[2] + f.first, f.count, step);
    }
}

TR_INLINE void NAME(unite)(T *to, const T *row, const tr_phases *p, int64_t step)
{
    for (int64_t k = 0; k < step; k++) {
        const phase f = phase_of(p, k);
        for (int64_t y = 0; y < p->w.in[1]; y++)
            NAME(scatter)(to + y * p->w.in[2] + f.first, row + y * p->row + f.at, f.count, step);
    }
}

TR_INLINE void NAME(unite_two)(T *to, const T *row, const tr_phases *p)
{
    const int64_t width = p->w.in[2], pad = p->w.pad[2];
    const phase   even = phase_of(p, pad % 2), odd = phase_of(p, (pad + 1) % 2);
    for (int64_t y = 0; y < p->w.in[1]; y++, to += width, row += p->row) {
        NAME(join)(to, row + even.at, row + odd.at, width / 2);
        if (width % 2)
            to[width - 1] = row[even.at + width / 2];
    }
}

TR_CLONES void NAME(tr_phases_load)(T *to, const T *plane, const tr_phases *p)
{
    const int64_t width = p->w.in[2], step = p->w.stride[2];

    for (int64_t z = 0; z < p->w.in[0]; z++, plane += p->w.in[1] * width) {
        T *row = to + place_of(p, z);
        if (step == 1)
            for (int64_t y = 0; y < p->w.in[1]; y++)
                NAME(gather)(row + y * p->row + p->w.pad[2], plane + y * width, width, 1);
        else if (step == 2)
            NAME(split)(row, plane, p, 2);
        else
            NAME(split)(row, plane, p, step);
    }
}

TR_CLONES void NAME(tr_phases_store)(T *plane, const T *from, const tr_phases *p)
{
    const int64_t width = p->w.in[2], step = p->w.stride[2];

    for (int64_t z = 0; z < p->w.in[0]; z++, plane += p->w.in[1] * width) {
        const T *row = from + place_of(p, z);
        if (step == 1)
            for (int64_t y = 0; y < p->w.in[1]; y++)
                NAME(gather)(plane + y * width, row + y * p->row + p->w.pad[2], width, 1);
        else if (step == 2)
            NAME(unite_two)(plane, row, p);
        else
            NAME(unite)(plane, row, p, step);
    }
}

#endif
