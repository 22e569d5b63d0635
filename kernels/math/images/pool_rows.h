/* pool_rows.h - what maximum (pool.c) and average (pool_avg.c) have in common: windows, and planes whose rows are read as vectors.
 *
 * A regular pool lays a plane out in phases (phases.h). Then loops over the outputs of a row, for some taps of their windows at a time, read memory
 * from end to end and have no edges, so that they become vector code. Adaptive windows differ from output to output, and are walked one by one. */
#ifndef TR_MATH_POOL_ROWS_H
#define TR_MATH_POOL_ROWS_H

#include <string.h>

#include "framework/base/compiler.h"
#include "framework/base/size.h"
#include "framework/threads/threadpool.h"
#include "kernels/math/images/pool_shape.h"
#include "kernels/math/tools/phases.h"

static inline int64_t planes_of_slice(const tr_pool_shape *s)
{
    const int64_t read = s->adaptive ? tr_size_volume(s->in) : tr_size_mul(tr_size_volume(s->out), tr_size_volume(s->kernel));
    const int64_t size = tr_size_add(tr_size_volume(s->in), read);
    enum { MIN_ITEMS = 8192 };
    return 1 + MIN_ITEMS / (size > 0 ? size : 1);
}

/* The part of the window of output `o` that lies within the plane, along one axis; returns what it counts for. */
static inline int64_t window_of(int64_t *begin, int64_t *end, const tr_pool_shape *s, int axis, int64_t o)
{
    const int64_t in = s->in[axis], first = o * s->stride[axis] - s->pad[axis], last = first + s->kernel[axis];
    *begin = first > 0 ? first : 0;
    *end = last < in ? last : in;
    if (s->adaptive) {
        *begin = o * in / s->out[axis];
        *end = ((o + 1) * in + s->out[axis] - 1) / s->out[axis];
    }
    return !s->adaptive && !s->exclusive ? s->kernel[axis] : *end > *begin ? *end - *begin : 0;
}

/* How many outputs along an axis have windows that see something of the plane: with ceil_mode the last one may not. */
static inline int64_t seeing(const tr_pool_shape *s, int axis)
{
    if (s->adaptive)
        return s->out[axis];
    const int64_t windows = (s->in[axis] + s->pad[axis] + s->stride[axis] - 1) / s->stride[axis];
    return windows < s->out[axis] ? windows : s->out[axis];
}

/* The layout of a plane, and tables of places in it, in the thread's memory. Loops run over `width` outputs of a row, whole vectors: as phases have room,
 * only rows of outputs need to be copied. */
typedef struct layout {
    tr_phases phases;
    int64_t  *tap, *row, width;       /* of each tap of a window; of each row of outputs; outputs of a row, rounded up */
} layout;

enum {
    VECTOR = 16,
    BATCH = 8                         /* rows that a gradient goes through for one tap before the next one: a vector that a store has just written
                                         in part would have to wait for it */
};

static inline void layout_init(layout *l, const tr_pool_shape *s)
{
    tr_windows w = {.dilation = {1, 1, 1}};
    memcpy(w.in, s->in, sizeof w.in);
    memcpy(w.out, s->out, sizeof w.out);
    memcpy(w.kernel, s->kernel, sizeof w.kernel);
    memcpy(w.stride, s->stride, sizeof w.stride);
    memcpy(w.pad, s->pad, sizeof w.pad);
    tr_phases_init(&l->phases, &w, VECTOR);
    l->width = (s->out[2] + VECTOR - 1) / VECTOR * VECTOR;
    l->tap = tr_thread_scratch(TR_SCRATCH_PACK, (size_t)(l->phases.taps + s->out[0] * s->out[1]) * sizeof *l->tap);
    l->row = l->tap + l->phases.taps;
    for (int64_t k = 0; k < l->phases.taps; k++)
        l->tap[k] = tr_phases_tap(&l->phases, k);
    for (int64_t r = 0; r < s->out[0] * s->out[1]; r++)
        l->row[r] = tr_phases_row(&l->phases, r);
}

/* The body runs for each element i of the window of output o. */
typedef struct window {
    int64_t begin[3], end[3], size;
} window;

static inline void window_at(window *w, const tr_pool_shape *s, int64_t o)
{
    const int64_t at[3] = {o / s->out[2] / s->out[1], o / s->out[2] % s->out[1], o % s->out[2]};
    w->size = 1;
    for (int a = 0; a < 3; a++)
        w->size *= window_of(&w->begin[a], &w->end[a], s, a, at[a]);
}

#define EACH_ELEMENT(w, s)                                                                    \
    for (int64_t z_ = (w).begin[0]; z_ < (w).end[0]; z_++)                                    \
        for (int64_t y_ = (w).begin[1]; y_ < (w).end[1]; y_++)                                \
            for (int64_t i = (z_ * (s)->in[1] + y_) * (s)->in[2] + (w).begin[2],              \
                         row_end = i + (w).end[2] - (w).begin[2]; i < row_end; i++)

#define TR_TEMPLATE "kernels/math/images/pool_rows.h"
#include "kernels/math/tools/each_float.h"

#elif defined(T)

/* Outputs whose windows see padding alone. */
static inline void NAME(fill_blind)(T *out, T value, const tr_pool_shape *s)
{
    const int64_t seen[3] = {seeing(s, 0), seeing(s, 1), seeing(s, 2)};
    if (seen[0] == s->out[0] && seen[1] == s->out[1] && seen[2] == s->out[2])
        return;
    for (int64_t r = 0; r < s->planes * s->out[0] * s->out[1]; r++, out += s->out[2]) {
        const bool sees = r / s->out[1] % s->out[0] < seen[0] && r % s->out[1] < seen[1];
        for (int64_t o = sees ? seen[2] : 0; o < s->out[2]; o++)
            out[o] = value;
    }
}

typedef struct {
    const tr_pool_shape *shape;
    T                   *out;
    int32_t             *mask;
    const T             *x, *d, *y;
    const int32_t       *place;
} NAME(job);

/* Rows of outputs, each at a multiple of the layout's width. */
static inline void NAME(take_rows)(T *to, const T *from, const layout *l, int64_t rows)
{
    for (int64_t r = 0; r < rows; r++)
        memcpy(to + r * l->width, from + r * l->phases.w.out[2], (size_t)l->phases.w.out[2] * sizeof(T));
}

/* A plane laid out, all `value`, and after it `rows` rows of outputs. */
static inline T *NAME(memory)(layout *l, const tr_pool_shape *s, T value, int64_t planes, int64_t rows)
{
    layout_init(l, s);
    T *memory = tr_thread_scratch(TR_SCRATCH_COLUMNS, (size_t)(planes * l->phases.size + rows * l->width) * sizeof(T));
    NAME(tr_phases_fill)(memory, value, &l->phases);
    return memory;
}

#endif
