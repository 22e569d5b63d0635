/* pool.c - planes are the slices; windows are taken row by row of the output.
 *
 * A regular pool runs over the taps of the window; for each, over the outputs of a row whose tap lies within the plane: long
 * loops without branches, which become vector code. Taps come in row-major order, so the first of equal maxima wins. Adaptive
 * windows differ from output to output, and are walked one by one. */
#ifndef T
#include "kernels/math/pool.h"

#include "framework/compiler.h"
#include "framework/size.h"
#include "framework/threadpool.h"
#include "kernels/math/lanes.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { MIN_ITEMS = 8192 };

int64_t tr_pool_extent(int64_t in, int64_t kernel, int64_t stride, int64_t pad, bool ceil_mode)
{
    return (in - kernel + 2 * pad + (ceil_mode ? stride - 1 : 0)) / stride + 1;
}

/* Of no plane at all it may be anything. */
static int64_t volume(const int64_t extent[3])
{
    return tr_size_mul(tr_size_mul(extent[0], extent[1]), extent[2]);
}

static int64_t planes_of_slice(const tr_pool_shape *s)
{
    const int64_t read = s->adaptive ? volume(s->in) : tr_size_mul(volume(s->out), volume(s->kernel));
    const int64_t size = tr_size_add(volume(s->in), read);
    return 1 + MIN_ITEMS / (size > 0 ? size : 1);
}

/* The part of the window of output `o` that lies within the plane, along one axis; returns what it counts for. */
static int64_t window_of(int64_t *begin, int64_t *end, const tr_pool_shape *s, int axis, int64_t o)
{
    const int64_t in = s->in[axis], first = o * s->stride[axis] - s->pad[axis], last = first + s->kernel[axis];
    *begin = first > 0 ? first : 0;
    *end = last < in ? last : in;
    if (s->adaptive) {
        *begin = o * in / s->out[axis];
        *end = ((o + 1) * in + s->out[axis] - 1) / s->out[axis];
    }
    if (s->adaptive || s->exclusive)
        return *end - *begin;
    return (last < in + s->pad[axis] ? last : in + s->pad[axis]) - first;
}

/* The window is all of the plane. */
static bool is_whole(const tr_pool_shape *s)
{
    bool whole = volume(s->out) == 1 && volume(s->in) > 0;
    for (int a = 0; a < 3; a++)
        whole = whole && (s->adaptive || (s->kernel[a] == s->in[a] && s->pad[a] == 0));
    return whole;
}

/* One tap of the window for one row of outputs: the outputs [begin, end) read x[base + o * stride]. */
typedef struct tap {
    int64_t begin, end, base, stride;
} tap;

static void set_tap(tap *t, const tr_pool_shape *s, int64_t row, int64_t k)
{
    const int64_t offset = k - s->pad[2], stride = s->stride[2], in = s->in[2], out = s->out[2];
    const int64_t first = offset >= 0 ? 0 : (-offset + stride - 1) / stride;
    const int64_t last = in - 1 - offset < 0 ? 0 : (in - 1 - offset) / stride + 1;
    t->begin = first < out ? first : out;
    t->end = last < out ? last : out;
    t->base = row * in + offset;
    t->stride = stride;
}

/* The body runs for each row r of outputs and each tap t of its windows. */
#define EACH_TAP(s, r, t)                                                                                     \
    for (int64_t z0_, z1_, y0_, y1_, once_ = 1; once_; once_ = 0)                                             \
        for (window_of(&z0_, &z1_, s, 0, (r) / (s)->out[1]), window_of(&y0_, &y1_, s, 1, (r) % (s)->out[1]);  \
             z0_ < z1_; z0_++)                                                                                \
            for (int64_t y_ = y0_; y_ < y1_; y_++)                                                            \
                for (int64_t k_ = 0; k_ < (s)->kernel[2] && (set_tap(&t, s, z0_ * (s)->in[1] + y_, k_), true); k_++)

/* The body runs for each element i of the window of output o. */
typedef struct window {
    int64_t begin[3], end[3], size;
} window;

static void window_at(window *w, const tr_pool_shape *s, int64_t o)
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

/* NaN wins, so that it is seen. */
TR_INLINE bool NAME(beats)(T x, T best)
{
    return (x > best) | (x != x);
}

TR_INLINE void NAME(max_tap)(T *out, const T *x, const tap *t)
{
    TR_IVDEP
    for (int64_t o = t->begin; o < t->end; o++) {
        const T v = x[t->base + o * t->stride];
        out[o] = NAME(beats)(v, out[o]) ? v : out[o];
    }
}

TR_INLINE void NAME(max_mask_tap)(T *out, int32_t *mask, const T *x, const tap *t)
{
    const int32_t base = (int32_t)t->base, stride = (int32_t)t->stride;
    TR_IVDEP
    for (int64_t o = t->begin; o < t->end; o++) {
        const T    v = x[t->base + o * t->stride];
        const bool wins = NAME(beats)(v, out[o]);
        out[o] = wins ? v : out[o];
        mask[o] = wins ? base + (int32_t)o * stride : mask[o];
    }
}

/* Where all is -infinity (or padding) the place is 0. */
TR_CLONES static void NAME(max_plane)(T *out, int32_t *mask, const T *x, const tr_pool_shape *s)
{
    const int64_t width = s->out[2];
    tap           t;
    for (int64_t r = 0; r < s->out[0] * s->out[1]; r++, out += width, mask += mask ? width : 0) {
        for (int64_t o = 0; o < width; o++)
            out[o] = -(T)INFINITY;
        if (mask)
            memset(mask, 0, (size_t)width * sizeof *mask);
        EACH_TAP(s, r, t)
            if (mask)
                NAME(max_mask_tap)(out, mask, x, &t);
            else
                NAME(max_tap)(out, x, &t);
    }
}

static void NAME(max_adaptive)(T *out, int32_t *mask, const T *x, const tr_pool_shape *s)
{
    for (int64_t o = 0; o < volume(s->out); o++) {
        window  w;
        T       best = -(T)INFINITY;
        int64_t place = 0;
        window_at(&w, s, o);
        EACH_ELEMENT(w, s)
            if (NAME(beats)(x[i], best)) {
                best = x[i];
                place = i;
            }
        out[o] = best;
        if (mask)
            mask[o] = (int32_t)place;
    }
}

static void NAME(max_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    const int64_t    in = volume(j->shape->in), out = volume(j->shape->out);
    for (int64_t p = begin; p < end; p++) {
        int32_t *mask = j->mask ? j->mask + p * out : NULL;
        if (j->shape->adaptive)
            NAME(max_adaptive)(j->out + p * out, mask, j->x + p * in, j->shape);
        else
            NAME(max_plane)(j->out + p * out, mask, j->x + p * in, j->shape);
    }
}

void NAME(tr_max_pool)(T *out, int32_t *mask, const T *x, const tr_pool_shape *s)
{
    NAME(job) j = {.shape = s, .out = out, .mask = mask, .x = x};
    assert(!mask || volume(s->in) <= INT32_MAX);
    tr_parallel_range(s->planes, planes_of_slice(s), NAME(max_range), &j);
}

/* `left` is what of the gradient has not found its element yet. */
TR_INLINE void NAME(max_grad_tap)(T *dx, T *left, const T *x, const T *y, const tap *t)
{
    TR_IVDEP
    for (int64_t o = t->begin; o < t->end; o++) {
        const int64_t i = t->base + o * t->stride;
        const bool    found = x[i] == y[o];
        dx[i] += found ? left[o] : 0;
        left[o] = found ? 0 : left[o];
    }
}

TR_CLONES static void NAME(max_grad_plane)(T *dx, T *left, const T *d, const T *x, const T *y, const tr_pool_shape *s)
{
    const int64_t width = s->out[2];
    tap           t;
    for (int64_t r = 0; r < s->out[0] * s->out[1]; r++, d += width, y += width) {
        memcpy(left, d, (size_t)width * sizeof(T));
        EACH_TAP(s, r, t)
            NAME(max_grad_tap)(dx, left, x, y, &t);
    }
}

static void NAME(max_grad_adaptive)(T *dx, const T *d, const T *x, const T *y, const tr_pool_shape *s)
{
    for (int64_t o = 0; o < volume(s->out); o++) {
        window w;
        T      left = d[o];
        window_at(&w, s, o);
        EACH_ELEMENT(w, s)
            if (x[i] == y[o]) {
                dx[i] += left;
                left = 0;
            }
    }
}

static void NAME(max_grad_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job)     *j = payload;
    const tr_pool_shape *s = j->shape;
    const int64_t        in = volume(s->in), out = volume(s->out);
    T                   *left = tr_thread_scratch(TR_SCRATCH_COLUMNS, (size_t)s->out[2] * sizeof(T));
    for (int64_t p = begin; p < end; p++) {
        T *dx = j->out + p * in;
        memset(dx, 0, (size_t)in * sizeof(T));
        if (s->adaptive)
            NAME(max_grad_adaptive)(dx, j->d + p * out, j->x + p * in, j->y + p * out, s);
        else
            NAME(max_grad_plane)(dx, left, j->d + p * out, j->x + p * in, j->y + p * out, s);
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

/* share[o] = 1 / the size of the window of output o of row r. */
static void NAME(shares)(T *share, const tr_pool_shape *s, int64_t r)
{
    int64_t       begin, end;
    const int64_t depth = window_of(&begin, &end, s, 0, r / s->out[1]), height = window_of(&begin, &end, s, 1, r % s->out[1]);
    for (int64_t o = 0; o < s->out[2]; o++)
        share[o] = 1 / (T)(depth * height * window_of(&begin, &end, s, 2, o));
}

/* Of planes of n elements each, where the window is all of the plane. */
TR_CLONES static void NAME(means)(T *out, const T *x, int64_t planes, int64_t n)
{
    for (int64_t p = 0; p < planes; p++)
        out[p] = NAME(tr_lanes_sum)(x + p * n, n) / (T)n;
}

TR_CLONES static void NAME(shares_of)(T *dx, const T *d, int64_t planes, int64_t n)
{
    for (int64_t p = 0; p < planes; p++)
        for (int64_t i = 0; i < n; i++)
            dx[p * n + i] = d[p] / (T)n;
}

TR_CLONES static void NAME(avg_plane)(T *out, const T *x, T *share, const tr_pool_shape *s)
{
    const int64_t width = s->out[2];
    tap           t;
    for (int64_t r = 0; r < s->out[0] * s->out[1]; r++, out += width) {
        memset(out, 0, (size_t)width * sizeof(T));
        EACH_TAP(s, r, t) {
            TR_IVDEP
            for (int64_t o = t.begin; o < t.end; o++)
                out[o] += x[t.base + o * t.stride];
        }
        NAME(shares)(share, s, r);
        for (int64_t o = 0; o < width; o++)
            out[o] *= share[o];
    }
}

static void NAME(avg_adaptive)(T *out, const T *x, const tr_pool_shape *s)
{
    for (int64_t o = 0; o < volume(s->out); o++) {
        window w;
        T      sum = 0;
        window_at(&w, s, o);
        EACH_ELEMENT(w, s)
            sum += x[i];
        out[o] = sum / (T)w.size;
    }
}

static void NAME(avg_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job)     *j = payload;
    const tr_pool_shape *s = j->shape;
    const int64_t        in = volume(s->in), out = volume(s->out);
    T                   *share = tr_thread_scratch(TR_SCRATCH_COLUMNS, (size_t)s->out[2] * sizeof(T));
    if (is_whole(s)) {
        NAME(means)(j->out + begin, j->x + begin * in, end - begin, in);
        return;
    }
    for (int64_t p = begin; p < end; p++)
        if (s->adaptive)
            NAME(avg_adaptive)(j->out + p * out, j->x + p * in, s);
        else
            NAME(avg_plane)(j->out + p * out, j->x + p * in, share, s);
}

void NAME(tr_avg_pool)(T *out, const T *x, const tr_pool_shape *s)
{
    NAME(job) j = {.shape = s, .out = out, .x = x};
    tr_parallel_range(s->planes, planes_of_slice(s), NAME(avg_range), &j);
}

TR_CLONES static void NAME(avg_grad_plane)(T *dx, const T *d, T *share, const tr_pool_shape *s)
{
    const int64_t width = s->out[2];
    tap           t;
    for (int64_t r = 0; r < s->out[0] * s->out[1]; r++, d += width) {
        NAME(shares)(share, s, r);
        for (int64_t o = 0; o < width; o++)
            share[o] *= d[o];
        EACH_TAP(s, r, t) {
            TR_IVDEP
            for (int64_t o = t.begin; o < t.end; o++)
                dx[t.base + o * t.stride] += share[o];
        }
    }
}

static void NAME(avg_grad_adaptive)(T *dx, const T *d, const tr_pool_shape *s)
{
    for (int64_t o = 0; o < volume(s->out); o++) {
        window w;
        window_at(&w, s, o);
        const T share = d[o] / (T)w.size;
        EACH_ELEMENT(w, s)
            dx[i] += share;
    }
}

static void NAME(avg_grad_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job)     *j = payload;
    const tr_pool_shape *s = j->shape;
    const int64_t        in = volume(s->in), out = volume(s->out);
    T                   *share = tr_thread_scratch(TR_SCRATCH_COLUMNS, (size_t)s->out[2] * sizeof(T));
    if (is_whole(s)) {
        NAME(shares_of)(j->out + begin * in, j->d + begin, end - begin, in);
        return;
    }
    for (int64_t p = begin; p < end; p++) {
        memset(j->out + p * in, 0, (size_t)in * sizeof(T));
        if (s->adaptive)
            NAME(avg_grad_adaptive)(j->out + p * in, j->d + p * out, s);
        else
            NAME(avg_grad_plane)(j->out + p * in, j->d + p * out, share, s);
    }
}

void NAME(tr_avg_pool_grad)(T *dx, const T *dout, const tr_pool_shape *s)
{
    NAME(job) j = {.shape = s, .out = dx, .d = dout};
    tr_parallel_range(s->planes, planes_of_slice(s), NAME(avg_grad_range), &j);
}

#endif
