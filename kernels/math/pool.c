/* pool.c - the maximum over windows, row by row of the output (pool_rows.h). Planes are the slices. Taps come in row-major order, so the first
 * of equal maxima wins. */
#ifndef T
#include "kernels/math/pool.h"

#include "kernels/math/pool_rows.h"

#include <assert.h>
#include <math.h>

int64_t tr_pool_extent(int64_t in, int64_t kernel, int64_t stride, int64_t pad, bool ceil_mode)
{
    return (in - kernel + 2 * pad + (ceil_mode ? stride - 1 : 0)) / stride + 1;
}

/* Places of the maxima of row r, which were found at taps `from`. */
static void put_places(int32_t *place, const int32_t *from, const layout *l, int64_t r)
{
    const tr_windows *w = &l->phases.w;
    const int64_t     z = r / w->out[1] * w->stride[0] - w->pad[0], y = r % w->out[1] * w->stride[1] - w->pad[1];
    for (int64_t o = 0; o < w->out[2]; o++) {
        const int64_t k = from[o], x = o * w->stride[2] - w->pad[2] + k % w->kernel[2];
        const int64_t dy = k / w->kernel[2] % w->kernel[1], dz = k / w->kernel[2] / w->kernel[1];
        place[o] = k < 0 ? 0 : (int32_t)(((z + dz) * w->in[1] + y + dy) * w->in[2] + x);
    }
}

#define TR_TEMPLATE "kernels/math/pool.c"
#include "kernels/math/each_float.h"
#else


/* -- maximum --------------------------------------------------------------------------------------------------------------------- */

/* NaN wins, so that it is seen. */
TR_INLINE T NAME(winner)(T best, T x)
{
    return (x > best) | (x != x) ? x : best;
}

/* best = the largest of it and `taps` elements, for each output of a row. */
TR_INLINE void NAME(max_taps)(const int taps, T *best, const T *row, const int64_t *tap, int64_t width)
{
    TR_IVDEP
    for (int64_t o = 0; o < width; o++) {
        T x = best[o];
        TR_UNROLL_TAPS
        for (int k = 0; k < taps; k++)
            x = NAME(winner)(x, row[tap[k] + o]);
        best[o] = x;
    }
}

TR_CLONES static void NAME(max_row)(T *best, const T *row, const layout *l)
{
    for (int64_t o = 0; o < l->width; o++)
        best[o] = -(T)INFINITY;
    TR_EACH_TAPS(l->phases.taps, k, NAME(max_taps)(TAPS, best, row, l->tap + k, l->width))
}

/* The same; from[o] is the number of the tap that has won, or -1. */
TR_CLONES static void NAME(max_row_from)(T *best, int32_t *from, const T *row, const layout *l)
{
    for (int64_t o = 0; o < l->width; o++) {
        best[o] = -(T)INFINITY;
        from[o] = -1;
    }
    for (int64_t k = 0; k < l->phases.taps; k++) {
        const T *x = row + l->tap[k];
        TR_IVDEP
        for (int64_t o = 0; o < l->width; o++) {
            const bool wins = (x[o] > best[o]) | (x[o] != x[o]);
            best[o] = wins ? x[o] : best[o];
            from[o] = wins ? (int32_t)k : from[o];
        }
    }
}

/* Where all is -infinity (or padding) the place is 0. */
static void NAME(max_plane)(T *out, int32_t *mask, const T *x, T *best, const layout *l)
{
    const int64_t width = l->phases.w.out[2];
    int32_t      *from = (int32_t *)(best + l->width);
    for (int64_t r = 0; r < l->phases.w.out[0] * l->phases.w.out[1]; r++, out += width) {
        const T *row = x + l->row[r];
        if (mask) {
            NAME(max_row_from)(best, from, row, l);
            put_places(mask + r * width, from, l, r);
        } else {
            NAME(max_row)(best, row, l);
        }
        memcpy(out, best, (size_t)width * sizeof(T));
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
            if (x[i] > best || x[i] != x[i]) {
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
    const NAME(job)     *j = payload;
    const tr_pool_shape *s = j->shape;
    const int64_t        in = volume(s->in), out = volume(s->out);
    layout               l;
    T                   *plane = s->adaptive ? NULL : NAME(memory)(&l, s, -(T)INFINITY, 1, 2);
    for (int64_t p = begin; p < end; p++) {
        int32_t *mask = j->mask ? j->mask + p * out : NULL;
        if (s->adaptive) {
            NAME(max_adaptive)(j->out + p * out, mask, j->x + p * in, s);
            continue;
        }
        NAME(tr_phases_load)(plane, j->x + p * in, &l.phases);
        NAME(max_plane)(j->out + p * out, mask, plane, plane + l.phases.size, &l);
    }
}

void NAME(tr_max_pool)(T *out, int32_t *mask, const T *x, const tr_pool_shape *s)
{
    NAME(job) j = {.shape = s, .out = out, .mask = mask, .x = x};
    assert(!mask || volume(s->in) <= INT32_MAX);
    tr_parallel_range(s->planes, planes_of_slice(s), NAME(max_range), &j);
}

/* `left` is what of the gradient has not found its element yet. */
TR_CLONES static void NAME(max_grad_rows)(T *dx, T *left, const T *x, const T *best, const layout *l, int64_t first, int64_t rows)
{
    for (int64_t k = 0; k < l->phases.taps; k++)
        for (int64_t r = 0; r < rows; r++) {
            const int64_t at = l->row[first + r] + l->tap[k];
            T            *to = dx + at, *rest = left + r * l->width;
            const T      *from = x + at, *largest = best + r * l->width;
            for (int64_t v = 0; v < l->width; v += VECTOR, to += VECTOR, from += VECTOR, largest += VECTOR, rest += VECTOR) {
                TR_IVDEP TR_ONE_VECTOR
                for (int o = 0; o < VECTOR; o++) {
                    const bool found = from[o] == largest[o];
                    to[o] += found ? rest[o] : 0;
                    rest[o] = found ? 0 : rest[o];
                }
            }
        }
}

/* `left` has room for two batches, whose rows are 0 beyond the width. */
static void NAME(max_grad_plane)(T *dx, T *left, const T *d, const T *x, const T *y, const layout *l)
{
    const int64_t width = l->phases.w.out[2], rows = l->phases.w.out[0] * l->phases.w.out[1];
    T            *best = left + BATCH * l->width;
    memset(left, 0, (size_t)(2 * BATCH * l->width) * sizeof(T));
    for (int64_t r = 0; r < rows; r += BATCH) {
        const int64_t count = r + BATCH < rows ? BATCH : rows - r;
        NAME(take_rows)(left, d + r * width, l, count);
        NAME(take_rows)(best, y + r * width, l, count);
        NAME(max_grad_rows)(dx, left, x, best, l, r, count);
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

/* The padding is NaN, which equals nothing. */
static void NAME(max_grad_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job)     *j = payload;
    const tr_pool_shape *s = j->shape;
    const int64_t        in = volume(s->in), out = volume(s->out);
    layout               l;
    T                   *plane = s->adaptive ? NULL : NAME(memory)(&l, s, (T)NAN, 2, 2 * BATCH);
    for (int64_t p = begin; p < end; p++) {
        T *dx = j->out + p * in;
        if (s->adaptive) {
            memset(dx, 0, (size_t)in * sizeof(T));
            NAME(max_grad_adaptive)(dx, j->d + p * out, j->x + p * in, j->y + p * out, s);
            continue;
        }
        T *sums = plane + l.phases.size;
        NAME(tr_phases_load)(plane, j->x + p * in, &l.phases);
        NAME(tr_phases_fill)(sums, 0, &l.phases);
        NAME(max_grad_plane)(sums, sums + l.phases.size, j->d + p * out, plane, j->y + p * out, &l);
        NAME(tr_phases_store)(dx, sums, &l.phases);
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

#endif
