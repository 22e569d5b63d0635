/* pool_avg.c - the average over windows, row by row of the output (pool_rows.h). Planes are the slices. */
#ifndef T
#include "kernels/math/images/pool.h"

#include "kernels/math/arrays/row_sums.h"
#include "kernels/math/images/pool_rows.h"

/* The window is all of the plane. */
static bool is_whole(const tr_pool_shape *s)
{
    bool whole = tr_size_volume(s->out) == 1 && tr_size_volume(s->in) > 0;
    for (int a = 0; a < 3; a++)
        whole = whole && (s->adaptive || (s->kernel[a] == s->in[a] && s->pad[a] == 0));
    return whole;
}

#include "kernels/math/tools/each_float.h"
#else

/* The weight of the windows of one row along the width; beyond it 1. */
static void NAME(widths)(T *width, const tr_pool_shape *s, int64_t count)
{
    int64_t begin, end;
    for (int64_t o = 0; o < count; o++)
        width[o] = o < s->out[2] ? (T)window_of(&begin, &end, s, 2, o) : 1;
}

/* The same along depth and height, of output row r. */
static T NAME(height)(const tr_pool_shape *s, int64_t r)
{
    int64_t begin, end;
    return (T)(window_of(&begin, &end, s, 0, r / s->out[1]) * window_of(&begin, &end, s, 1, r % s->out[1]));
}

/* Of planes of n elements each, where the window is all of the plane. */
static void NAME(means)(T *out, const T *x, int64_t planes, int64_t n)
{
    NAME(tr__row_sums)(out, x, planes, n);
    for (int64_t p = 0; p < planes; p++)
        out[p] /= (T)n;
}

TR_CLONES static void NAME(shares_of)(T *dx, const T *d, int64_t planes, int64_t n)
{
    for (int64_t p = 0; p < planes; p++)
        for (int64_t i = 0; i < n; i++)
            dx[p * n + i] = d[p] / (T)n;
}

TR_INLINE void NAME(sum_taps)(const int taps, T *sum, const T *row, const int64_t *tap, int64_t width)
{
    TR_IVDEP
    for (int64_t o = 0; o < width; o++) {
        T x = sum[o];
        TR_UNROLL_TAPS
        for (int k = 0; k < taps; k++)
            x += row[tap[k] + o];
        sum[o] = x;
    }
}

/* `width` is what NAME(widths) says. */
TR_CLONES static void NAME(avg_row)(T *sum, const T *row, const T *width, T height, const layout *l)
{
    memset(sum, 0, (size_t)l->width * sizeof(T));
    TR_EACH_TAPS(l->phases.taps, k, NAME(sum_taps)(TAPS, sum, row, l->tap + k, l->width))
    TR_IVDEP
    for (int64_t o = 0; o < l->width; o++)
        sum[o] *= 1 / (height * width[o]);
}

static void NAME(avg_plane)(T *out, const T *x, T *sum, const T *width, const tr_pool_shape *s, const layout *l)
{
    for (int64_t r = 0; r < s->out[0] * s->out[1]; r++, out += s->out[2]) {
        NAME(avg_row)(sum, x + l->row[r], width, NAME(height)(s, r), l);
        memcpy(out, sum, (size_t)s->out[2] * sizeof(T));
    }
}

static void NAME(avg_adaptive)(T *out, const T *x, const tr_pool_shape *s)
{
    for (int64_t o = 0; o < tr_size_volume(s->out); o++) {
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
    const int64_t        in = tr_size_volume(s->in), out = tr_size_volume(s->out);
    layout               l;
    if (is_whole(s)) {
        NAME(means)(j->out + begin, j->x + begin * in, end - begin, in);
        return;
    }
    T *plane = s->adaptive ? NULL : NAME(memory)(&l, s, 0, 1, 2), *width = s->adaptive ? NULL : plane + l.phases.size;
    if (width)
        NAME(widths)(width, s, l.width);
    for (int64_t p = begin; p < end; p++)
        if (s->adaptive) {
            NAME(avg_adaptive)(j->out + p * out, j->x + p * in, s);
        } else {
            NAME(tr_phases_load)(plane, j->x + p * in, &l.phases);
            NAME(avg_plane)(j->out + p * out, plane, width + l.width, width, s, &l);
        }
}

void NAME(tr_avg_pool)(T *out, const T *x, const tr_pool_shape *s)
{
    NAME(job) j = {.shape = s, .out = out, .x = x};
    tr_parallel_range(s->planes, planes_of_slice(s), NAME(avg_range), &j);
    NAME(fill_blind)(out, 0, s);
}

TR_CLONES static void NAME(avg_grad_rows)(T *dx, T *share, const T *width, const tr_pool_shape *s, const layout *l, int64_t first, int64_t rows)
{
    for (int64_t r = 0; r < rows; r++) {
        const T height = NAME(height)(s, first + r);
        for (int64_t o = 0; o < l->width; o++)
            share[r * l->width + o] *= 1 / (height * width[o]);
    }
    for (int64_t k = 0; k < l->phases.taps; k++)
        for (int64_t r = 0; r < rows; r++) {
            T       *to = dx + l->row[first + r] + l->tap[k];
            const T *from = share + r * l->width;
            TR_IVDEP
            for (int64_t o = 0; o < l->width; o++)
                to[o] += from[o];
        }
}

/* `share` has room for a batch, whose rows are 0 beyond the width. */
static void NAME(avg_grad_plane)(T *dx, const T *d, T *share, const T *width, const tr_pool_shape *s, const layout *l)
{
    const int64_t rows = s->out[0] * s->out[1];
    memset(share, 0, (size_t)(BATCH * l->width) * sizeof(T));
    for (int64_t r = 0; r < rows; r += BATCH) {
        const int64_t count = r + BATCH < rows ? BATCH : rows - r;
        NAME(take_rows)(share, d + r * s->out[2], l, count);
        NAME(avg_grad_rows)(dx, share, width, s, l, r, count);
    }
}

static void NAME(avg_grad_adaptive)(T *dx, const T *d, const tr_pool_shape *s)
{
    for (int64_t o = 0; o < tr_size_volume(s->out); o++) {
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
    const int64_t        in = tr_size_volume(s->in), out = tr_size_volume(s->out);
    layout               l;
    if (is_whole(s)) {
        NAME(shares_of)(j->out + begin * in, j->d + begin, end - begin, in);
        return;
    }
    T *plane = s->adaptive ? NULL : NAME(memory)(&l, s, 0, 1, 1 + BATCH), *width = s->adaptive ? NULL : plane + l.phases.size;
    if (width)
        NAME(widths)(width, s, l.width);
    for (int64_t p = begin; p < end; p++) {
        if (s->adaptive) {
            memset(j->out + p * in, 0, (size_t)in * sizeof(T));
            NAME(avg_grad_adaptive)(j->out + p * in, j->d + p * out, s);
            continue;
        }
        NAME(tr_phases_fill)(plane, 0, &l.phases);
        NAME(avg_grad_plane)(plane, j->d + p * out, width + l.width, width, s, &l);
        NAME(tr_phases_store)(j->out + p * in, plane, &l.phases);
    }
}

void NAME(tr_avg_pool_grad)(T *dx, const T *dout, const tr_pool_shape *s)
{
    NAME(job) j = {.shape = s, .out = dx, .d = dout};
    tr_parallel_range(s->planes, planes_of_slice(s), NAME(avg_grad_range), &j);
}

#endif
