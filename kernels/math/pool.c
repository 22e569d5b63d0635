/* pool.c - planes are the slices; a window is a loop over at most three ranges. */
#ifndef T
#include "kernels/math/pool.h"

#include "framework/threadpool.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { MIN_ITEMS = 8192 };

int64_t tr_pool_extent(int64_t in, int64_t kernel, int64_t stride, int64_t pad, bool ceil_mode)
{
    return (in - kernel + 2 * pad + (ceil_mode ? stride - 1 : 0)) / stride + 1;
}

/* The part of a window that lies within the plane, and its size for an average. */
typedef struct window {
    int64_t begin[3], end[3], size;
} window;

static void window_of(window *w, const tr_pool_shape *s, const int64_t out[3])
{
    w->size = 1;
    for (int a = 0; a < 3; a++) {
        int64_t begin = out[a] * s->stride[a] - s->pad[a], end = begin + s->kernel[a];
        if (s->adaptive) {
            begin = out[a] * s->in[a] / s->out[a];
            end = ((out[a] + 1) * s->in[a] + s->out[a] - 1) / s->out[a];
        }
        const int64_t padded_end = end < s->in[a] + s->pad[a] ? end : s->in[a] + s->pad[a];
        const int64_t padded = padded_end - begin;
        w->begin[a] = begin > 0 ? begin : 0;
        w->end[a] = end < s->in[a] ? end : s->in[a];
        w->size *= s->exclusive || s->adaptive ? w->end[a] - w->begin[a] : padded;
    }
}

static int64_t volume(const int64_t extent[3])
{
    return extent[0] * extent[1] * extent[2];
}

static int64_t planes_of_slice(const tr_pool_shape *s)
{
    const int64_t size = volume(s->in) + (s->adaptive ? volume(s->in) : volume(s->out) * volume(s->kernel));
    return 1 + MIN_ITEMS / (size > 0 ? size : 1);
}

/* Run the body for each output o of a plane, with its window w. */
#define EACH_WINDOW(s)                                                                        \
    for (int64_t at[3] = {0, 0, 0}, o = 0; at[0] < (s)->out[0]; at[0]++)                      \
        for (at[1] = 0; at[1] < (s)->out[1]; at[1]++)                                         \
            for (at[2] = 0; at[2] < (s)->out[2]; at[2]++, o++)

/* Run the body for each element i of a window. */
#define EACH_ELEMENT(w, s)                                                                    \
    for (int64_t z_ = (w).begin[0]; z_ < (w).end[0]; z_++)                                      \
        for (int64_t y_ = (w).begin[1]; y_ < (w).end[1]; y_++)                                  \
            for (int64_t i = (z_ * (s)->in[1] + y_) * (s)->in[2] + (w).begin[2],                \
                         row_end = i + (w).end[2] - (w).begin[2]; i < row_end; i++)

#define TR_TEMPLATE "kernels/math/pool.c"
#include "kernels/math/each_float.h"
#else

typedef struct {
    const tr_pool_shape *shape;
    T                   *out;
    int32_t             *mask;
    const T             *x, *d, *y;
    const int32_t       *place;
} NAME(job);

/* -- maximum --------------------------------------------------------------------------------------------------------------------- */

/* NaN wins, so that it is seen. An empty window (all padding) gives the smallest number and place 0. */
static void NAME(max_plane)(T *out, int32_t *mask, const T *x, const tr_pool_shape *s)
{
    EACH_WINDOW(s) {
        window  w;
        T       best = -(T)INFINITY;
        int64_t place = -1;
        window_of(&w, s, at);
        EACH_ELEMENT(w, s)
            if (place < 0 || x[i] > best || x[i] != x[i]) {
                best = x[i];
                place = i;
            }
        out[o] = best;
        if (mask)
            mask[o] = place < 0 ? 0 : (int32_t)place;
    }
}

static void NAME(max_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    const int64_t    in = volume(j->shape->in), out = volume(j->shape->out);
    for (int64_t p = begin; p < end; p++)
        NAME(max_plane)(j->out + p * out, j->mask ? j->mask + p * out : NULL, j->x + p * in, j->shape);
}

void NAME(tr_max_pool)(T *out, int32_t *mask, const T *x, const tr_pool_shape *s)
{
    NAME(job) j = {.shape = s, .out = out, .mask = mask, .x = x};
    assert(volume(s->in) <= INT32_MAX);
    tr_parallel_range(s->planes, planes_of_slice(s), NAME(max_range), &j);
}

static void NAME(max_grad_plane)(T *dx, const T *d, const T *x, const T *y, const tr_pool_shape *s)
{
    EACH_WINDOW(s) {
        window  w;
        int64_t place = -1;
        window_of(&w, s, at);
        EACH_ELEMENT(w, s)
            if (place < 0 && x[i] == y[o])
                place = i;
        if (place >= 0)
            dx[place] += d[o];
    }
}

static void NAME(max_grad_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    const int64_t    in = volume(j->shape->in), out = volume(j->shape->out);
    for (int64_t p = begin; p < end; p++) {
        memset(j->out + p * in, 0, (size_t)in * sizeof(T));
        NAME(max_grad_plane)(j->out + p * in, j->d + p * out, j->x + p * in, j->y + p * out, j->shape);
    }
}

void NAME(tr_max_pool_grad)(T *dx, const T *dout, const T *x, const T *out, const tr_pool_shape *s)
{
    NAME(job) j = {.shape = s, .out = dx, .d = dout, .x = x, .y = out};
    tr_parallel_range(s->planes, planes_of_slice(s), NAME(max_grad_range), &j);
}

static void NAME(mask_grad_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    const int64_t    in = volume(j->shape->in), out = volume(j->shape->out);
    for (int64_t p = begin; p < end; p++) {
        memset(j->out + p * in, 0, (size_t)in * sizeof(T));
        for (int64_t o = 0; o < out; o++)
            j->out[p * in + j->place[p * out + o]] += j->d[p * out + o];
    }
}

void NAME(tr_max_pool_mask_grad)(T *dx, const T *dout, const int32_t *mask, const tr_pool_shape *s)
{
    NAME(job) j = {.shape = s, .out = dx, .d = dout, .place = mask};
    tr_parallel_range(s->planes, planes_of_slice(s), NAME(mask_grad_range), &j);
}

/* -- average --------------------------------------------------------------------------------------------------------------------- */

static void NAME(avg_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job)     *j = payload;
    const tr_pool_shape *s = j->shape;
    for (int64_t p = begin; p < end; p++) {
        const T *x = j->x + p * volume(s->in);
        T       *out = j->out + p * volume(s->out);
        EACH_WINDOW(s) {
            window w;
            T      sum = 0;
            window_of(&w, s, at);
            EACH_ELEMENT(w, s)
                sum += x[i];
            out[o] = sum / (T)w.size;
        }
    }
}

void NAME(tr_avg_pool)(T *out, const T *x, const tr_pool_shape *s)
{
    NAME(job) j = {.shape = s, .out = out, .x = x};
    tr_parallel_range(s->planes, planes_of_slice(s), NAME(avg_range), &j);
}

static void NAME(avg_grad_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job)     *j = payload;
    const tr_pool_shape *s = j->shape;
    for (int64_t p = begin; p < end; p++) {
        const T *d = j->d + p * volume(s->out);
        T       *dx = j->out + p * volume(s->in);
        memset(dx, 0, (size_t)volume(s->in) * sizeof(T));
        EACH_WINDOW(s) {
            window w;
            window_of(&w, s, at);
            const T share = d[o] / (T)w.size;
            EACH_ELEMENT(w, s)
                dx[i] += share;
        }
    }
}

void NAME(tr_avg_pool_grad)(T *dx, const T *dout, const tr_pool_shape *s)
{
    NAME(job) j = {.shape = s, .out = dx, .d = dout};
    tr_parallel_range(s->planes, planes_of_slice(s), NAME(avg_grad_range), &j);
}

#endif
