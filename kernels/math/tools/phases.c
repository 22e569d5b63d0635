/* phases.c - see phases.h. */
#ifndef T
#include "kernels/math/tools/phases.h"

#include "framework/base/compiler.h"
#include "framework/base/size.h"
#include "kernels/math/tools/fetch.h"
#include "kernels/math/tools/window.h"

#include <string.h>

void tr_phases_init(tr_phases *p, const tr_windows *w, int64_t grain)
{
    *p = (tr_phases){.w = *w, .taps = w->kernel[0] * w->kernel[1] * w->kernel[2]};
    for (int a = 0; a < 3; a++)
        p->extent[a] = tr_window_reach(w->in[a], w->dilation[a] * (w->kernel[a] - 1) + 1, w->stride[a], 2 * w->pad[a], w->out[a]);
    if (p->w.stride[2] > p->extent[2])             /* there is one window: no step is made */
        p->w.stride[2] = p->extent[2] > 1 ? p->extent[2] : 1;
    const int64_t step = p->w.stride[2];
    p->pitch = ((p->extent[2] + step - 1) / step + grain - 1) / grain * grain;
    p->row = tr_size_mul(p->pitch, step);
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

/* The begin of the rows of depth z, without the padding in front of them along height and width. */
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

/* Memory that is asked for before it is read or written: the processor's own prefetchers stop at the end of a page. */
enum { AHEAD = 2048 };

TR_INLINE void fetch_row(const void *row, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i += TR_CACHE_LINE)
        tr__fetch_bytes(row, AHEAD + i);
}

/* Call `work` with the widest block that `count` elements fill, a constant. */
#define IN_BLOCKS(work, count, ...) ((count) >= 16 ? work(16, __VA_ARGS__) : (count) >= 4 ? work(4, __VA_ARGS__) : work(1, __VA_ARGS__))

#include "kernels/math/tools/each_float.h"
#else

TR_CLONES void NAME(tr_phases_fill)(T *to, T value, const tr_phases *p)
{
    for (int64_t i = 0; i < p->size; i++)
        to[i] = value;
}

/* -- a row in blocks: the last block overlaps the one before it, so that no rest goes element by element ------------------ */

TR_INLINE void NAME(copy_blocks)(const int block, T *to, const T *from, int64_t count)
{
    for (int64_t begin = 0; begin < count; begin += block) {
        const int64_t at = begin + block <= count ? begin : count - block;
        memcpy(to + at, from + at, (size_t)block * sizeof(T));
    }
}

TR_INLINE void NAME(copy_row)(T *to, const T *from, int64_t count)
{
    IN_BLOCKS(NAME(copy_blocks), count, to, from, count);
}

TR_INLINE void NAME(part_blocks)(const int block, T *even, T *odd, const T *from, int64_t pairs)
{
    for (int64_t begin = 0; begin < pairs; begin += block) {
        const int64_t at = begin + block <= pairs ? begin : pairs - block;
        TR_IVDEP TR_ONE_VECTOR
        for (int i = 0; i < block; i++) {
            even[at + i] = from[2 * at + 2 * i];
            odd[at + i] = from[2 * at + 2 * i + 1];
        }
    }
}

/* Both phases of a stride of 2: elements begin with the one that phase `even` has. */
TR_INLINE void NAME(part)(T *even, T *odd, const T *from, int64_t pairs)
{
    IN_BLOCKS(NAME(part_blocks), pairs, even, odd, from, pairs);
}

TR_INLINE void NAME(join_blocks)(const int block, T *to, const T *even, const T *odd, int64_t pairs)
{
    for (int64_t begin = 0; begin < pairs; begin += block) {
        const int64_t at = begin + block <= pairs ? begin : pairs - block;
        TR_IVDEP TR_ONE_VECTOR
        for (int i = 0; i < block; i++) {
            to[2 * at + 2 * i] = even[at + i];
            to[2 * at + 2 * i + 1] = odd[at + i];
        }
    }
}

TR_INLINE void NAME(join)(T *to, const T *even, const T *odd, int64_t pairs)
{
    IN_BLOCKS(NAME(join_blocks), pairs, to, even, odd, pairs);
}

/* The rows of one depth, where a row is so many phases. */
TR_INLINE void NAME(split)(T *row, const T *from, const tr_phases *p)
{
    const int64_t step = p->w.stride[2];
    for (int64_t k = 0; k < step; k++) {
        const phase f = phase_of(p, k);
        for (int64_t y = 0; y < p->w.in[1]; y++)
            for (int64_t i = 0; i < f.count; i++)
                row[y * p->row + f.at + i] = from[y * p->w.in[2] + f.first + i * step];
    }
}

TR_INLINE void NAME(unite)(T *to, const T *row, const tr_phases *p)
{
    const int64_t step = p->w.stride[2];
    for (int64_t k = 0; k < step; k++) {
        const phase f = phase_of(p, k);
        for (int64_t y = 0; y < p->w.in[1]; y++)
            for (int64_t i = 0; i < f.count; i++)
                to[y * p->w.in[2] + f.first + i * step] = row[y * p->row + f.at + i];
    }
}

TR_INLINE void NAME(split_two)(T *row, const T *from, const tr_phases *p)
{
    const int64_t width = p->w.in[2], pad = p->w.pad[2];
    const phase   even = phase_of(p, pad % 2), odd = phase_of(p, (pad + 1) % 2);
    for (int64_t y = 0; y < p->w.in[1]; y++, from += width, row += p->row) {
        fetch_row(from, width * (int64_t)sizeof(T));
        NAME(part)(row + even.at, row + odd.at, from, width / 2);
        if (width % 2)
            row[even.at + width / 2] = from[width - 1];
    }
}

TR_INLINE void NAME(unite_two)(T *to, const T *row, const tr_phases *p)
{
    const int64_t width = p->w.in[2], pad = p->w.pad[2];
    const phase   even = phase_of(p, pad % 2), odd = phase_of(p, (pad + 1) % 2);
    for (int64_t y = 0; y < p->w.in[1]; y++, to += width, row += p->row) {
        fetch_row(to, width * (int64_t)sizeof(T));
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
                NAME(copy_row)(row + y * p->row + p->w.pad[2], plane + y * width, width);
        else if (step == 2)
            NAME(split_two)(row, plane, p);
        else
            NAME(split)(row, plane, p);
    }
}

TR_CLONES void NAME(tr_phases_store)(T *plane, const T *from, const tr_phases *p)
{
    const int64_t width = p->w.in[2], step = p->w.stride[2];

    for (int64_t z = 0; z < p->w.in[0]; z++, plane += p->w.in[1] * width) {
        const T *row = from + place_of(p, z);
        if (step == 1)
            for (int64_t y = 0; y < p->w.in[1]; y++)
                NAME(copy_row)(plane + y * width, row + y * p->row + p->w.pad[2], width);
        else if (step == 2)
            NAME(unite_two)(plane, row, p);
        else
            NAME(unite)(plane, row, p);
    }
}

#endif
