/* norm_rows.c - layer and group normalisation: each row has its own statistics. */
#ifndef T
#include "kernels/math/arrays/norm.h"

#include "framework/base/compiler.h"
#include "framework/threads/threadpool.h"
#include "kernels/math/tools/lanes.h"

#include <string.h>
#include <tgmath.h>

enum { MIN_ITEMS = 8192, MAX_GROUPS = 16 };

static int64_t items_of_slice(int64_t size)
{
    return 1 + MIN_ITEMS / (size > 0 ? size : 1);
}

#include "kernels/math/tools/each_float.h"
#else

typedef struct {
    const T *x, *dy, *mean, *variance, *scale, *bias;
    T       *out, *mean_out, *variance_out, *partial;
    T        epsilon;
    int64_t  rows, cols;                                     /* of layer normalisation */
    int64_t  channels, inner, groups;                        /* of group normalisation: channels of one group */
} NAME(job);

TR_INLINE void NAME(row_stats)(T *mean, T *variance, const T *x, int64_t n)
{
    NAME(tr_moments) m = {0, 0, 0};
    NAME(tr_moments_add)(&m, x, n);
    *mean = (T)m.mean;
    *variance = (T)(m.distance / (double)n);
}

/* -- layer normalisation ------------------------------------------------------------------------------------------------------ */

TR_INLINE void NAME(layer_row)(T *y, const T *x, T mean, T inv, const T *scale, const T *bias, int64_t n)
{
    if (scale && bias) {
        TR_IVDEP
        for (int64_t k = 0; k < n; k++)
            y[k] = (x[k] - mean) * inv * scale[k] + bias[k];
        return;
    }
    TR_IVDEP
    for (int64_t k = 0; k < n; k++)
        y[k] = (x[k] - mean) * inv;
    for (int64_t k = 0; k < n && scale; k++)
        y[k] *= scale[k];
    for (int64_t k = 0; k < n && bias; k++)
        y[k] += bias[k];
}

TR_CLONES static void NAME(layer_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    for (int64_t r = begin; r < end; r++) {
        const T *x = j->x + r * j->cols;
        T       *y = j->out + r * j->cols;
        NAME(row_stats)(j->mean_out + r, j->variance_out + r, x, j->cols);
        const T mean = j->mean_out[r], inv = 1 / sqrt(j->variance_out[r] + j->epsilon);
        NAME(layer_row)(y, x, mean, inv, j->scale, j->bias, j->cols);
    }
}

void NAME(tr_layer_norm)(T *y, T *mean, T *variance, const T *x, const T *scale, const T *bias, T epsilon, int64_t rows,
                         int64_t cols)
{
    NAME(job) j = {.x = x, .scale = scale, .bias = bias, .out = y, .mean_out = mean, .variance_out = variance,
                   .epsilon = epsilon, .rows = rows, .cols = cols};
    tr_parallel_range(rows, items_of_slice(cols), NAME(layer_range), &j);
}

/* Group g of the rows: partial[g][0] = the sum of dy xhat, partial[g][1] = the sum of dy. */
TR_CLONES static void NAME(layer_sums_slice)(void *payload, int64_t g)
{
    const NAME(job) *j = payload;
    T               *ds = j->partial + 2 * g * j->cols, *db = ds + j->cols;
    int64_t          begin, end;
    tr_slice_range(&begin, &end, j->rows, 1, j->groups, g);
    memset(ds, 0, (size_t)(2 * j->cols) * sizeof(T));
    for (int64_t r = begin; r < end; r++) {
        const T *x = j->x + r * j->cols, *dy = j->dy + r * j->cols;
        const T  mean = j->mean[r], inv = 1 / sqrt(j->variance[r] + j->epsilon);
        TR_IVDEP
        for (int64_t k = 0; k < j->cols; k++) {
            ds[k] += dy[k] * ((x[k] - mean) * inv);
            db[k] += dy[k];
        }
    }
}

static void NAME(layer_sums)(NAME(job) *j, T *dscale, T *dbias)
{
    const int64_t groups = tr_slice_count(j->rows, items_of_slice(j->cols));
    j->groups = groups < MAX_GROUPS ? groups : MAX_GROUPS;
    j->partial = tr_thread_scratch(TR_SCRATCH_PARTIAL, (size_t)(2 * j->groups * j->cols) * sizeof(T));
    tr_parallel(j->groups, NAME(layer_sums_slice), j);
    for (int64_t k = 0; k < j->cols; k++) {
        T ds = 0, db = 0;
        for (int64_t g = 0; g < j->groups; g++) {
            ds += j->partial[2 * g * j->cols + k];
            db += j->partial[(2 * g + 1) * j->cols + k];
        }
        if (dscale)
            dscale[k] = ds;
        if (dbias)
            dbias[k] = db;
    }
}

/* dx = inv (g - mean(g) - xhat mean(g xhat)) with g = dy scale. */
TR_CLONES static void NAME(layer_grad_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    T               *g = tr_thread_scratch(TR_SCRATCH_COLUMNS, (size_t)(2 * j->cols) * sizeof(T)), *xhat = g + j->cols;
    for (int64_t r = begin; r < end; r++) {
        const T *x = j->x + r * j->cols, *dy = j->dy + r * j->cols;
        const T  mean = j->mean[r], inv = 1 / sqrt(j->variance[r] + j->epsilon);
        T       *dx = j->out + r * j->cols;
        TR_IVDEP
        for (int64_t k = 0; k < j->cols; k++) {
            g[k] = dy[k];
            xhat[k] = (x[k] - mean) * inv;
        }
        if (j->scale)
            for (int64_t k = 0; k < j->cols; k++)
                g[k] *= j->scale[k];
        const T m1 = NAME(tr_lanes_sum)(g, j->cols) / (T)j->cols, m2 = NAME(tr_lanes_dot)(g, xhat, j->cols) / (T)j->cols;
        TR_IVDEP
        for (int64_t k = 0; k < j->cols; k++)
            dx[k] = inv * (g[k] - m1 - xhat[k] * m2);
    }
}

void NAME(tr_layer_norm_grad)(T *dx, T *dscale, T *dbias, const T *dy, const T *x, const T *mean, const T *variance,
                              const T *scale, T epsilon, int64_t rows, int64_t cols)
{
    NAME(job) j = {.x = x, .dy = dy, .mean = mean, .variance = variance, .scale = scale, .out = dx, .epsilon = epsilon,
                   .rows = rows, .cols = cols};
    if (dscale || dbias)                                      /* first, because dx may be dy */
        NAME(layer_sums)(&j, dscale, dbias);
    if (dx)
        tr_parallel_range(rows, items_of_slice(cols), NAME(layer_grad_range), &j);
}

/* -- group normalisation: rows are (image, group) ----------------------------------------------------------------------------------- */

TR_CLONES static void NAME(group_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    const int64_t    size = j->channels * j->inner;
    for (int64_t r = begin; r < end; r++) {
        NAME(row_stats)(j->mean_out + r, j->variance_out + r, j->x + r * size, size);
        const T mean = j->mean_out[r], inv = 1 / sqrt(j->variance_out[r] + j->epsilon);
        for (int64_t c = 0; c < j->channels; c++) {
            const int64_t channel = r % j->groups * j->channels + c, at = r * size + c * j->inner;
            const T       factor = j->scale ? inv * j->scale[channel] : inv, bias = j->bias ? j->bias[channel] : 0;
            const T      *x = j->x + at;
            T            *y = j->out + at;
            TR_IVDEP
            for (int64_t k = 0; k < j->inner; k++)
                y[k] = (x[k] - mean) * factor + bias;
        }
    }
}

void NAME(tr_group_norm)(T *y, T *mean, T *variance, const T *x, const T *scale, const T *bias, T epsilon, int64_t batch,
                         int64_t channels, int64_t inner, int64_t groups)
{
    NAME(job) j = {.x = x, .scale = scale, .bias = bias, .out = y, .mean_out = mean, .variance_out = variance,
                   .epsilon = epsilon, .channels = channels / groups, .inner = inner, .groups = groups};
    tr_parallel_range(batch * groups, items_of_slice(j.channels * inner), NAME(group_range), &j);
}

/* partial[row][c] = (the sum of dy xhat, the sum of dy); dx from both, weighted by the scales. */
TR_CLONES static void NAME(group_grad_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    const int64_t    size = j->channels * j->inner;
    T               *xhat = tr_thread_scratch(TR_SCRATCH_COLUMNS, (size_t)j->inner * sizeof(T));
    for (int64_t r = begin; r < end; r++) {
        const T  mean = j->mean[r], inv = 1 / sqrt(j->variance[r] + j->epsilon);
        const T *scale = j->scale ? j->scale + r % j->groups * j->channels : NULL;
        T       *sums = j->partial + 2 * r * j->channels, m1 = 0, m2 = 0;
        for (int64_t c = 0; c < j->channels; c++) {
            const T *x = j->x + r * size + c * j->inner, *dy = j->dy + r * size + c * j->inner;
            for (int64_t k = 0; k < j->inner; k++)
                xhat[k] = (x[k] - mean) * inv;
            sums[2 * c] = NAME(tr_lanes_dot)(dy, xhat, j->inner);
            sums[2 * c + 1] = NAME(tr_lanes_sum)(dy, j->inner);
            m2 += sums[2 * c] * (scale ? scale[c] : 1);
            m1 += sums[2 * c + 1] * (scale ? scale[c] : 1);
        }
        m1 /= (T)size;
        m2 /= (T)size;
        for (int64_t c = 0; c < j->channels && j->out; c++) {
            const T *x = j->x + r * size + c * j->inner, *dy = j->dy + r * size + c * j->inner, s = scale ? scale[c] : 1;
            T       *dx = j->out + r * size + c * j->inner;
            TR_IVDEP
            for (int64_t k = 0; k < j->inner; k++)
                dx[k] = inv * (dy[k] * s - m1 - (x[k] - mean) * inv * m2);
        }
    }
}

void NAME(tr_group_norm_grad)(T *dx, T *dscale, T *dbias, const T *dy, const T *x, const T *mean, const T *variance,
                              const T *scale, T epsilon, int64_t batch, int64_t channels, int64_t inner, int64_t groups)
{
    NAME(job) j = {.x = x, .dy = dy, .mean = mean, .variance = variance, .scale = scale, .out = dx, .epsilon = epsilon,
                   .channels = channels / groups, .inner = inner, .groups = groups};
    j.partial = tr_thread_scratch(TR_SCRATCH_PARTIAL, (size_t)(2 * batch * channels) * sizeof(T));
    tr_parallel_range(batch * groups, items_of_slice(j.channels * inner), NAME(group_grad_range), &j);
    for (int64_t c = 0; c < channels; c++) {
        T ds = 0, db = 0;
        for (int64_t i = 0; i < batch; i++) {
            ds += j.partial[2 * (i * channels + c)];
            db += j.partial[2 * (i * channels + c) + 1];
        }
        if (dscale)
            dscale[c] = ds;
        if (dbias)
            dbias[c] = db;
    }
}

#endif
