/* weighted_mean.c - three loops over one chunk, which stays in cache between them. Threads have slices of it: each of them the same
 * elements in every loop, which stay in its own cache. */
#include "pserver/core/updates/weighted_mean.h"

#include "framework/threads/threadpool.h"

#include <assert.h>
#include <string.h>

/* Elements of a slice: 64 KiB of float32 take some microseconds, and to hand a slice to another thread takes one. */
enum { MIN_ITEMS = 16384 };

typedef struct work {
    void       *sum;
    const void *part;
    double      factor;
} work;

static void scale_f32(void *payload, int64_t begin, int64_t end)
{
    const work     *w = payload;
    float *restrict s = w->sum;

    for (int64_t i = begin; i < end; i++)
        s[i] *= (float)w->factor;
}

static void scale_f64(void *payload, int64_t begin, int64_t end)
{
    const work      *w = payload;
    double *restrict s = w->sum;

    for (int64_t i = begin; i < end; i++)
        s[i] *= w->factor;
}

static void add_f32(void *payload, int64_t begin, int64_t end)
{
    const work           *w = payload;
    float *restrict       s = w->sum;
    const float *restrict p = w->part;

    for (int64_t i = begin; i < end; i++)
        s[i] += p[i];
}

static void add_f64(void *payload, int64_t begin, int64_t end)
{
    const work            *w = payload;
    double *restrict       s = w->sum;
    const double *restrict p = w->part;

    for (int64_t i = begin; i < end; i++)
        s[i] += p[i];
}

static void add_scaled_f32(void *payload, int64_t begin, int64_t end)
{
    const work           *w = payload;
    float *restrict       s = w->sum;
    const float *restrict p = w->part;

    for (int64_t i = begin; i < end; i++)
        s[i] += (float)w->factor * p[i];
}

static void add_scaled_f64(void *payload, int64_t begin, int64_t end)
{
    const work            *w = payload;
    double *restrict       s = w->sum;
    const double *restrict p = w->part;

    for (int64_t i = begin; i < end; i++)
        s[i] += w->factor * p[i];
}

static void scale(tr_dtype dtype, void *sum, int64_t count, double factor)
{
    tr_parallel_range(count, MIN_ITEMS, dtype == TR_FP32 ? scale_f32 : scale_f64, &(work){sum, NULL, factor});
}

static void add(tr_dtype dtype, void *sum, const void *part, int64_t count)
{
    tr_parallel_range(count, MIN_ITEMS, dtype == TR_FP32 ? add_f32 : add_f64, &(work){sum, part, 0});
}

static void add_scaled(tr_dtype dtype, void *sum, const void *part, int64_t count, double factor)
{
    tr_parallel_range(count, MIN_ITEMS, dtype == TR_FP32 ? add_scaled_f32 : add_scaled_f64, &(work){sum, part, factor});
}

void tr_mean_add(tr_mean *mean, tr_dtype dtype, void *sum, const void *part, int64_t count, double weight)
{
    assert(dtype == TR_FP32 || dtype == TR_FP64);
    assert(mean->count == 0 || sum != part);
    mean->parts++;
    if (weight == 0)
        return;
    if (mean->count == 0) {
        if (sum != part)
            memcpy(sum, part, (size_t)(count * tr_dtype_size(dtype)));
        mean->first = weight;
    } else {
        if (!mean->is_uneven && weight != mean->first) {
            scale(dtype, sum, count, mean->first);
            mean->is_uneven = true;
        }
        if (mean->is_uneven)
            add_scaled(dtype, sum, part, count, weight);
        else
            add(dtype, sum, part, count);
    }
    mean->total += weight;
    mean->count++;
}

void tr_mean_keep(tr_mean *mean, tr_dtype dtype, void *sum, const void *part, int64_t count)
{
    if (mean->count || mean->is_kept)
        return;
    if (sum != part)
        memcpy(sum, part, (size_t)(count * tr_dtype_size(dtype)));
    mean->is_kept = true;
}

void tr_mean_finish(tr_mean *mean, tr_dtype dtype, void *sum, int64_t count)
{
    mean->is_whole = true;
    if (mean->total == 0) {                        /* no trainer had a sample */
        if (!mean->is_kept)
            memset(sum, 0, (size_t)(count * tr_dtype_size(dtype)));
    }
    else if (mean->is_uneven)
        scale(dtype, sum, count, 1.0 / mean->total);
    else if (mean->count > 1)
        scale(dtype, sum, count, 1.0 / mean->count);
}
