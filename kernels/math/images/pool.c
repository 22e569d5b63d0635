/* pool.c - the maximum over windows, row by row of the output (pool_rows.h). Planes are the slices. Taps come in row-major order, so the first
 * of equal maxima wins. */
#ifndef T
#include "kernels/math/images/pool.h"

#include "kernels/math/images/pool_rows.h"

#include <assert.h>
#include <float.h>
#include <math.h>

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

/* -- the windows of an element, for the gradient of the maximum -------------------------------------------------------- */

/* Outputs lie in rows with a margin of zeros around them, so that every element finds all windows that could see it, whatever its place. Where an
 * element's windows lie depends on its class alone: on its place in the padded plane modulo the strides. Each tap belongs to one class. */
typedef struct shares {
    int64_t *first, *at;              /* of each class the first tap; of each tap the place of the output, from the element's last window on */
    int32_t *tap;
    int64_t  before[2], height, rows; /* rows of zeros in front, along depth and height; rows of a depth; of all */
    int64_t  margin, pitch;           /* zeros in front of a row; from a row to the next */
} shares;

static int64_t whole_vectors(int64_t count)
{
    return (count + VECTOR - 1) / VECTOR * VECTOR;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Rows along one axis: those in front, those of outputs, and what lies behind. */
static int64_t rows_along(int64_t *before, const tr_windows *w, int axis)
{
    *before = (w->kernel[axis] - 1) / w->stride[axis];
    return *before + larger(w->out[axis], (w->pad[axis] + w->in[axis] - 1) / w->stride[axis] + 1);
}

/* The tables take so many bytes. */
static size_t shares_size(const tr_phases *p)
{
    const tr_windows *w = &p->w;
    return (size_t)(w->stride[0] * w->stride[1] * w->stride[2] + 1 + 2 * p->taps) * sizeof(int64_t);
}

static void shares_init(shares *s, const tr_phases *p, int64_t width)
{
    const tr_windows *w = &p->w;
    const int64_t     depth = rows_along(&s->before[0], w, 0);
    s->height = rows_along(&s->before[1], w, 1);
    s->rows = depth * s->height;
    s->margin = whole_vectors((w->kernel[2] - 1) / w->stride[2]);
    s->pitch = s->margin + larger(p->pitch, width);
}

/* The taps class by class. */
static void shares_fill(shares *s, const tr_windows *w, int64_t *memory, int64_t taps)
{
    int64_t count = 0, *first = memory;
    s->first = memory;
    s->at = memory + w->stride[0] * w->stride[1] * w->stride[2] + 1;
    s->tap = (int32_t *)(s->at + taps);
    for (int64_t z = 0; z < w->stride[0]; z++)
        for (int64_t y = 0; y < w->stride[1]; y++)
            for (int64_t x = 0; x < w->stride[2]; x++) {
                *first++ = count;
                for (int64_t kz = z; kz < w->kernel[0]; kz += w->stride[0])
                    for (int64_t ky = y; ky < w->kernel[1]; ky += w->stride[1])
                        for (int64_t kx = x; kx < w->kernel[2]; kx += w->stride[2], count++) {
                            s->at[count] = -(kz / w->stride[0] * s->height + ky / w->stride[1]) * s->pitch - kx / w->stride[2];
                            s->tap[count] = (int32_t)((kz * w->kernel[1] + ky) * w->kernel[2] + kx);
                        }
            }
    *first = count;
}

/* The position of row r of outputs. */
static int64_t shares_row(const shares *s, const tr_windows *w, int64_t r)
{
    return ((r / w->out[1] + s->before[0]) * s->height + r % w->out[1] + s->before[1]) * s->pitch + s->margin;
}

#include "kernels/math/tools/each_float.h"
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

/* In a window of nothing but -infinity (or padding) the index is 0. */
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
    for (int64_t o = 0; o < tr_size_volume(s->out); o++) {
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
    const int64_t        in = tr_size_volume(s->in), out = tr_size_volume(s->out);
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
    assert(!mask || tr_size_volume(s->in) <= INT32_MAX);
    tr_parallel_range(s->planes, planes_of_slice(s), NAME(max_range), &j);
    NAME(fill_blind)(out, -FLT_MAX, s);
}

/* won[o] = the first of these taps that equals the maximum, where none before them has. */
TR_INLINE void NAME(first_taps)(const int taps, int32_t *won, const T *best, const T *row, const int64_t *tap, int32_t first, int64_t width)
{
    TR_IVDEP
    for (int64_t o = 0; o < width; o++) {
        int32_t found = -1;
        TR_UNROLL_TAPS
        for (int k = taps - 1; k >= 0; k--)
            found = row[tap[k] + o] == best[o] ? first + k : found;
        won[o] = won[o] < 0 ? found : won[o];
    }
}

/* `best` has room for a row. */
TR_CLONES static void NAME(find_winners)(int32_t *won, T *best, const T *x, const T *y, const layout *l, const shares *s)
{
    const tr_windows *w = &l->phases.w;
    for (int64_t r = 0; r < w->out[0] * w->out[1]; r++) {
        int32_t *row = won + shares_row(s, w, r);
        memcpy(best, y + r * w->out[2], (size_t)w->out[2] * sizeof(T));
        for (int64_t o = 0; o < l->width; o++)
            row[o] = -1;
        TR_EACH_TAPS(l->phases.taps, k, NAME(first_taps)(TAPS, row, best, x + l->row[r], l->tap + k, (int32_t)k, l->width))
    }
}

/* The shares of some rows of one phase, `step` and `row_step` apart: the elements' first ones, or more of them. */
TR_INLINE void NAME(add_won)(const int taps, T *to, int64_t step, const int32_t *won, const T *d, int64_t row_step, const int64_t *at,
                             const int32_t *tap, bool more, int64_t rows, int64_t n)
{
    for (int64_t r = 0; r < rows; r++, to += step, won += row_step, d += row_step)
        for (int64_t v = 0; v < n; v += VECTOR) {
            TR_IVDEP TR_ONE_VECTOR
            for (int64_t o = v; o < v + VECTOR; o++) {
                T sum = more ? to[o] : 0;
                TR_UNROLL_TAPS
                for (int k = 0; k < taps; k++)
                    sum += won[at[k] + o] == tap[k] ? d[at[k] + o] : 0;
                to[o] = sum;
            }
        }
}

/* Phase x of the rows of depth z, from row y on, each as many below the last as windows are apart. */
TR_CLONES static void NAME(sum_phase)(T *dx, const int32_t *won, const T *d, const tr_phases *p, const shares *s, int64_t z, int64_t y, int64_t x)
{
    const tr_windows *w = &p->w;
    const int64_t     class = (z % w->stride[0] * w->stride[1] + y % w->stride[1]) * w->stride[2] + x;
    const int64_t     row = ((z / w->stride[0] + s->before[0]) * s->height + y / w->stride[1] + s->before[1]) * s->pitch + s->margin;
    const int64_t     first = s->first[class], taps = s->first[class + 1] - first, step = w->stride[1] * p->row;
    const int64_t     rows = (w->pad[1] + w->in[1] - y + w->stride[1] - 1) / w->stride[1];
    T                *to = dx + (z * p->extent[1] + y) * p->row + x * p->pitch;

    for (int64_t r = 0; r < rows && taps == 0; r++)
        memset(to + r * step, 0, (size_t)p->pitch * sizeof(T));
    TR_EACH_TAPS(taps, k, NAME(add_won)(TAPS, to, step, won + row, d + row, s->pitch, s->at + first + k, s->tap + first + k, k > 0, rows, p->pitch))
}

static void NAME(sum_won)(T *dx, const int32_t *won, const T *d, const tr_phases *p, const shares *s)
{
    const tr_windows *w = &p->w;
    for (int64_t z = w->pad[0]; z < w->pad[0] + w->in[0]; z++)
        for (int64_t y = w->pad[1]; y < w->pad[1] + w->stride[1]; y++)
            for (int64_t x = 0; x < w->stride[2]; x++)
                NAME(sum_phase)(dx, won, d, p, s, z, y, x);
}

static void NAME(max_grad_adaptive)(T *dx, const T *d, const T *x, const T *y, const tr_pool_shape *s)
{
    for (int64_t o = 0; o < tr_size_volume(s->out); o++) {
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

static void NAME(max_grad_planes)(const NAME(job) *j, int64_t begin, int64_t end)
{
    const int64_t in = tr_size_volume(j->shape->in), out = tr_size_volume(j->shape->out);
    layout        l;
    shares        s;
    T            *plane = NAME(memory)(&l, j->shape, (T)NAN, 2, 1), *sums = plane + l.phases.size;  /* the padding is NaN, which equals nothing */
    shares_init(&s, &l.phases, l.width);

    const int64_t size = s.rows * s.pitch, width = l.phases.w.out[2];
    T            *d = tr_thread_scratch(TR_SCRATCH_PARTIAL, shares_size(&l.phases) + (size_t)size * (sizeof(T) + sizeof(int32_t)));
    int32_t      *won = (int32_t *)(d + size);
    shares_fill(&s, &l.phases.w, (int64_t *)(won + size), l.phases.taps);
    memset(d, 0, (size_t)size * (sizeof(T) + sizeof(int32_t)));
    memset(sums + l.phases.size, 0, (size_t)l.width * sizeof(T));
    for (int64_t p = begin; p < end; p++) {
        NAME(tr_phases_load)(plane, j->x + p * in, &l.phases);
        for (int64_t r = 0; r < l.phases.w.out[0] * l.phases.w.out[1]; r++)
            memcpy(d + shares_row(&s, &l.phases.w, r), j->d + p * out + r * width, (size_t)width * sizeof(T));
        NAME(find_winners)(won, sums + l.phases.size, plane, j->y + p * out, &l, &s);
        NAME(sum_won)(sums, won, d, &l.phases, &s);
        NAME(tr_phases_store)(j->out + p * in, sums, &l.phases);
    }
}

static void NAME(max_grad_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    const int64_t    in = tr_size_volume(j->shape->in), out = tr_size_volume(j->shape->out);
    if (!j->shape->adaptive) {
        NAME(max_grad_planes)(j, begin, end);
        return;
    }
    for (int64_t p = begin; p < end; p++) {
        memset(j->out + p * in, 0, (size_t)in * sizeof(T));
        NAME(max_grad_adaptive)(j->out + p * in, j->d + p * out, j->x + p * in, j->y + p * out, j->shape);
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
    const int64_t    in = tr_size_volume(j->shape->in), out = tr_size_volume(j->shape->out);
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
