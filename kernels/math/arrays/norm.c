/* norm.c - batch normalisation: sums for each channel, then one pass over the elements.
 *
 * With post > 1 a channel is a set of contiguous rows, and channels are the slices. With post = 1 channels are columns; a slice
 * takes STRIP of them at a time down all rows. Channel sums are made in double. */
#ifndef T
#include "kernels/math/arrays/norm.h"

#include "framework/base/compiler.h"
#include "framework/threads/threadpool.h"
#include "kernels/math/tools/lanes.h"

#include <string.h>
#include <tgmath.h>

enum { MIN_ITEMS = 16384, STRIP = 64, BLOCK_ROWS = 128 };

static int64_t items_of_slice(int64_t size)
{
    return 1 + MIN_ITEMS / (size > 0 ? size : 1);
}

#include "kernels/math/tools/each_float.h"
#else

typedef struct {
    const T *x, *dy, *mean, *inv_std, *scale, *bias;
    T       *out, *sum, *product;                            /* sum and product: results for each channel */
    int64_t  pre, channels, post;
    double   count;                                         /* elements that the sums are of */
} NAME(job);

/* -- two sums for each channel --------------------------------------------------------------------------------------------- */

/* Of one row: sum(dy) and sum(dy (x - mean)). */
TR_INLINE void NAME(row_sums)(double *sum, double *product, const T *dy, const T *x, T mean, int64_t n)
{
    T block[TR_CHUNK];
    for (int64_t at = 0; at < n; at += TR_CHUNK) {
        const int64_t size = n - at < TR_CHUNK ? n - at : TR_CHUNK;
        for (int64_t k = 0; k < size; k++)
            block[k] = x[at + k] - mean;
        *sum += NAME(tr_lanes_sum)(dy + at, size);
        *product += NAME(tr_lanes_dot)(dy + at, block, size);
    }
}

/* Of up to STRIP columns and BLOCK_ROWS rows; all three arrays are `stride` wide. */
TR_INLINE void NAME(strip_sums)(double *sum, double *product, const T *dy, const T *x, const T *mean, int64_t rows,
                                int64_t stride, int64_t cols)
{
    T s[STRIP] = {0}, p[STRIP] = {0};
    for (int64_t r = 0; r < rows; r++, dy += stride, x += stride)
        for (int64_t k = 0; k < cols; k++) {
            s[k] += dy[k];
            p[k] += dy[k] * (x[k] - mean[k]);
        }
    for (int64_t k = 0; k < cols; k++) {
        sum[k] += s[k];
        product[k] += p[k];
    }
}

/* sum[c] = the sum of dy, product[c] = the sum of dy (x - mean[c]); STRIP channels at a time, image by image. */
TR_CLONES static void NAME(rows_sums_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    for (int64_t c = begin; c < end; c += STRIP) {
        const int64_t count = end - c < STRIP ? end - c : STRIP;
        double        sum[STRIP] = {0}, product[STRIP] = {0};
        for (int64_t i = 0; i < j->pre; i++)
            for (int64_t k = 0; k < count; k++) {
                const int64_t at = (i * j->channels + c + k) * j->post;
                NAME(row_sums)(&sum[k], &product[k], j->dy + at, j->x + at, j->mean[c + k], j->post);
            }
        for (int64_t k = 0; k < count; k++) {
            j->sum[c + k] = (T)sum[k];
            j->product[c + k] = (T)product[k];
        }
    }
}

TR_CLONES static void NAME(columns_sums_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    for (int64_t c = begin; c < end; c += STRIP) {
        const int64_t cols = end - c < STRIP ? end - c : STRIP;
        double        sum[STRIP] = {0}, product[STRIP] = {0};
        for (int64_t r = 0; r < j->pre; r += BLOCK_ROWS) {
            const int64_t at = r * j->channels + c;
            NAME(strip_sums)(sum, product, j->dy + at, j->x + at, j->mean + c,
                             j->pre - r < BLOCK_ROWS ? j->pre - r : BLOCK_ROWS, j->channels, cols);
        }
        for (int64_t k = 0; k < cols; k++) {
            j->sum[c + k] = (T)sum[k];
            j->product[c + k] = (T)product[k];
        }
    }
}

static void NAME(channel_sums)(NAME(job) *j)
{
    if (j->post > 1)
        tr_parallel_range(j->channels, items_of_slice(j->pre * j->post), NAME(rows_sums_range), j);
    else
        tr_parallel_range(j->channels, items_of_slice(j->pre) > STRIP ? items_of_slice(j->pre) : STRIP,
                          NAME(columns_sums_range), j);
}

/* -- statistics ---------------------------------------------------------------------------------------------------------------- */

/* STRIP channels at a time, image by image: memory is read in its order. */
TR_CLONES static void NAME(rows_stats_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    for (int64_t c = begin; c < end; c += STRIP) {
        const int64_t    count = end - c < STRIP ? end - c : STRIP;
        NAME(tr_moments) m[STRIP] = {{0, 0, 0}};
        for (int64_t i = 0; i < j->pre; i++)
            for (int64_t k = 0; k < count; k++)
                NAME(tr_moments_add)(&m[k], j->x + (i * j->channels + c + k) * j->post, j->post);
        for (int64_t k = 0; k < count; k++) {
            j->sum[c + k] = (T)m[k].mean;
            j->product[c + k] = (T)(m[k].distance / m[k].count);
        }
    }
}

/* total[k] += the sum over rows of (x - mean)^power, power 1 or 2. */
TR_INLINE void NAME(strip_powers)(double *total, const T *x, const T *mean, int power, int64_t rows, int64_t stride,
                                  int64_t cols)
{
    T s[STRIP] = {0};
    for (int64_t r = 0; r < rows; r++, x += stride)
        for (int64_t k = 0; k < cols; k++) {
            const T distance = x[k] - mean[k];
            s[k] += power == 2 ? distance * distance : distance;
        }
    for (int64_t k = 0; k < cols; k++)
        total[k] += s[k];
}

TR_CLONES static void NAME(columns_stats_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    for (int64_t c = begin; c < end; c += STRIP) {
        const int64_t cols = end - c < STRIP ? end - c : STRIP;
        T             mean[STRIP] = {0};
        double        total[STRIP] = {0}, squares[STRIP] = {0};
        for (int64_t r = 0; r < j->pre; r += BLOCK_ROWS)
            NAME(strip_powers)(total, j->x + r * j->channels + c, mean, 1,
                               j->pre - r < BLOCK_ROWS ? j->pre - r : BLOCK_ROWS, j->channels, cols);
        for (int64_t k = 0; k < cols; k++)
            mean[k] = (T)(total[k] / (double)j->pre);
        for (int64_t r = 0; r < j->pre; r += BLOCK_ROWS)
            NAME(strip_powers)(squares, j->x + r * j->channels + c, mean, 2,
                               j->pre - r < BLOCK_ROWS ? j->pre - r : BLOCK_ROWS, j->channels, cols);
        for (int64_t k = 0; k < cols; k++) {
            j->sum[c + k] = mean[k];
            j->product[c + k] = (T)(squares[k] / (double)j->pre);
        }
    }
}

void NAME(tr_channel_stats)(T *mean, T *variance, const T *x, int64_t pre, int64_t channels, int64_t post)
{
    NAME(job) j = {.x = x, .sum = mean, .product = variance, .pre = pre, .channels = channels, .post = post};
    if (post > 1)
        tr_parallel_range(channels, items_of_slice(pre * post), NAME(rows_stats_range), &j);
    else
        tr_parallel_range(channels, items_of_slice(pre) > STRIP ? items_of_slice(pre) : STRIP, NAME(columns_stats_range), &j);
}

TR_CLONES static void NAME(inv_std_loop)(T *inv_std, const T *variance, T epsilon, int64_t n)
{
    TR_IVDEP
    for (int64_t i = 0; i < n; i++)
        inv_std[i] = 1 / sqrt(variance[i] + epsilon);
}

void NAME(tr_inv_std)(T *inv_std, const T *variance, T epsilon, int64_t n)
{
    NAME(inv_std_loop)(inv_std, variance, epsilon, n);
}

/* -- forward: y = (x - mean) factor + bias ----------------------------------------------------------------------------------------- */

TR_CLONES static void NAME(rows_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    for (int64_t r = begin; r < end; r++) {
        const int64_t c = r % j->channels;
        const T       mean = j->mean[c], factor = j->scale ? j->inv_std[c] * j->scale[c] : j->inv_std[c];
        const T       bias = j->bias ? j->bias[c] : 0, *x = j->x + r * j->post;
        T            *y = j->out + r * j->post;
        TR_IVDEP
        for (int64_t k = 0; k < j->post; k++)
            y[k] = (x[k] - mean) * factor + bias;
    }
}

TR_CLONES static void NAME(columns_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    for (int64_t c = 0; c < j->channels; c += STRIP) {
        const int64_t cols = j->channels - c < STRIP ? j->channels - c : STRIP;
        const T      *mean = j->mean + c;
        T             factor[STRIP], bias[STRIP];
        for (int64_t k = 0; k < cols; k++) {
            factor[k] = j->scale ? j->inv_std[c + k] * j->scale[c + k] : j->inv_std[c + k];
            bias[k] = j->bias ? j->bias[c + k] : 0;
        }
        for (int64_t r = begin; r < end; r++) {
            const T *x = j->x + r * j->channels + c;
            T       *y = j->out + r * j->channels + c;
            TR_IVDEP
            for (int64_t k = 0; k < cols; k++)
                y[k] = (x[k] - mean[k]) * factor[k] + bias[k];
        }
    }
}

void NAME(tr_batch_norm)(T *y, const T *x, const T *mean, const T *inv_std, const T *scale, const T *bias, int64_t pre,
                         int64_t channels, int64_t post)
{
    NAME(job) j = {.x = x, .mean = mean, .inv_std = inv_std, .scale = scale, .bias = bias, .out = y,
                   .pre = pre, .channels = channels, .post = post};
    if (post > 1)
        tr_parallel_range(pre * channels, items_of_slice(post), NAME(rows_range), &j);
    else
        tr_parallel_range(pre, items_of_slice(channels), NAME(columns_range), &j);
}

/* -- backward: dx = dy factor + (x - mean) slope + offset ------------------------------------------------------------------------------ */

typedef struct {
    T factor, slope, offset;
} NAME(line);

/* With sums of channel c: the gradient through mean and variance takes both sums out of dy. */
TR_INLINE NAME(line) NAME(line_of)(const NAME(job) *j, int64_t c)
{
    const T    inv = j->inv_std[c], factor = j->scale ? inv * j->scale[c] : inv;
    NAME(line) line = {factor, 0, 0};
    if (j->sum) {
        const T count = (T)j->count;
        line.slope = -factor * inv * inv * j->product[c] / count;
        line.offset = -factor * j->sum[c] / count;
    }
    return line;
}

TR_CLONES static void NAME(rows_grad_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    for (int64_t r = begin; r < end; r++) {
        const int64_t    c = r % j->channels;
        const NAME(line) line = NAME(line_of)(j, c);
        const T         *x = j->x + r * j->post, *dy = j->dy + r * j->post, mean = j->mean[c];
        T               *dx = j->out + r * j->post;
        TR_IVDEP
        for (int64_t k = 0; k < j->post; k++)
            dx[k] = dy[k] * line.factor + (x[k] - mean) * line.slope + line.offset;
    }
}

TR_CLONES static void NAME(columns_grad_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    for (int64_t c = 0; c < j->channels; c += STRIP) {
        const int64_t cols = j->channels - c < STRIP ? j->channels - c : STRIP;
        const T      *mean = j->mean + c;
        T             factor[STRIP], slope[STRIP], offset[STRIP];
        for (int64_t k = 0; k < cols; k++) {
            const NAME(line) line = NAME(line_of)(j, c + k);
            factor[k] = line.factor, slope[k] = line.slope, offset[k] = line.offset;
        }
        for (int64_t r = begin; r < end; r++) {
            const T *x = j->x + r * j->channels + c, *dy = j->dy + r * j->channels + c;
            T       *dx = j->out + r * j->channels + c;
            TR_IVDEP
            for (int64_t k = 0; k < cols; k++)
                dx[k] = dy[k] * factor[k] + (x[k] - mean[k]) * slope[k] + offset[k];
        }
    }
}

static void NAME(apply_grad)(NAME(job) *j)
{
    if (j->post > 1)
        tr_parallel_range(j->pre * j->channels, items_of_slice(j->post), NAME(rows_grad_range), j);
    else
        tr_parallel_range(j->pre, items_of_slice(j->channels), NAME(columns_grad_range), j);
}

static void NAME(store_grads)(const NAME(job) *j, T *dscale, T *dbias)
{
    for (int64_t c = 0; c < j->channels && dscale; c++)
        dscale[c] = j->product[c] * j->inv_std[c];
    if (dbias)
        memcpy(dbias, j->sum, (size_t)j->channels * sizeof(T));
}

static void NAME(norm_grad)(NAME(job) *j, T *dx, T *dscale, T *dbias, bool is_constant)
{
    T *sums = tr_thread_scratch(TR_SCRATCH_PARTIAL, (size_t)(2 * j->channels) * sizeof(T));
    j->out = dx;
    j->sum = sums;
    j->product = sums + j->channels;
    j->count = (double)j->pre * (double)j->post;
    if (j->channels == 0)
        return;
    if (!is_constant || dscale || dbias)
        NAME(channel_sums)(j);
    NAME(store_grads)(j, dscale, dbias);
    if (is_constant)
        j->sum = NULL;
    if (dx)
        NAME(apply_grad)(j);
}

void NAME(tr_batch_norm_grad)(T *dx, T *dscale, T *dbias, const T *dy, const T *x, const T *mean, const T *inv_std,
                              const T *scale, int64_t pre, int64_t channels, int64_t post)
{
    NAME(job) j = {.x = x, .dy = dy, .mean = mean, .inv_std = inv_std, .scale = scale,
                   .pre = pre, .channels = channels, .post = post};
    NAME(norm_grad)(&j, dx, dscale, dbias, false);
}

void NAME(tr_channel_products)(T *sum, T *product, const T *dy, const T *x, const T *mean, int64_t pre, int64_t channels, int64_t post)
{
    NAME(job) j = {.x = x, .dy = dy, .mean = mean, .sum = sum, .product = product, .pre = pre, .channels = channels, .post = post};
    NAME(channel_sums)(&j);
}

void NAME(tr_batch_norm_grad_of_sums)(T *dx, const T *dy, const T *x, const T *mean, const T *inv_std, const T *scale, const T *sum,
                                      const T *product, double count, int64_t pre, int64_t channels, int64_t post)
{
    NAME(job) j = {.x = x, .dy = dy, .mean = mean, .inv_std = inv_std, .scale = scale, .out = dx, .sum = (T *)sum,
                   .product = (T *)product, .pre = pre, .channels = channels, .post = post, .count = count};
    NAME(apply_grad)(&j);
}

void NAME(tr_batch_norm_global_grad)(T *dx, T *dscale, T *dbias, const T *dy, const T *x, const T *mean, const T *inv_std,
                                     const T *scale, int64_t pre, int64_t channels, int64_t post)
{
    NAME(job) j = {.x = x, .dy = dy, .mean = mean, .inv_std = inv_std, .scale = scale,
                   .pre = pre, .channels = channels, .post = post};
    NAME(norm_grad)(&j, dx, dscale, dbias, true);
}

#endif
