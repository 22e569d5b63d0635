/* weighted_mean.c - three loops over one chunk, which stays in cache between them. Threads have slices of it: each of them the same
 * elements in every loop, which stay in its own cache. */
#include "pserver/core/base/weighted_mean.h"

#include "framework/threads/threadpool.h"

#include <assert.h>
#include <string.h>

/* Elements of a slice: 64 KiB of float32 take some microseconds, and to hand a slice to another thread takes one. */
enum { MIN_ITEMS = 16384 };

typedef void (*loop)(tr_dtype dtype, void *sum, const void *part, int64_t count, double factor);

static void scale_loop(tr_dtype dtype, void *sum, const void *part, int64_t count, double factor)
{
    (void)part;
    if (dtype == TR_FP32) {
        float *restrict s = sum;
        for (int64_t i = 0; i < count; i++)
            s[i] *= (float)factor;
    } else {
        double *restrict s = sum;
        for (int64_t i = 0; i < count; i++)
            s[i] *= factor;
    }
}

static void add_loop(tr_dtype dtype, void *sum, const void *part, int64_t count, double factor)
{
    (void)factor;
    if (dtype == TR_FP32) {
        float *restrict       s = sum;
        const float *restrict p = part;
        for (int64_t i = 0; i < count; i++)
            s[i] += p[i];
    } else {
        double *restrict       s = sum;
        const double *restrict p = part;
        for (int64_t i = 0; i < count; i++)
            s[i] += p[i];
    }
}

static void add_scaled_loop(tr_dtype dtype, void *sum, const void *part, int64_t count, double factor)
{
    if (dtype == TR_FP32) {
        float *restrict       s = sum;
        const float *restrict p = part;
        for (int64_t i = 0; i < count; i++)
            s[i] += (float)factor * p[i];
    } else {
        double *restrict       s = sum;
        const double *restrict p = part;
        for (int64_t i = 0; i < count; i++)
            s[i] += factor * p[i];
    }
}

/* A loop over all elements, which threads share. */
typedef struct work {
    loop        run;
    tr_dtype    dtype;
    char       *sum;
    const char *part;                 /* NULL: there is none */
    double      factor;
} work;

static void run_range(void *payload, int64_t begin, int64_t end)
{
    const work   *w = payload;
    const int64_t at = begin * tr_dtype_size(w->dtype);

    w->run(w->dtype, w->sum + at, w->part ? w->part + at : NULL, end - begin, w->factor);
}

static void share(loop run, tr_dtype dtype, void *sum, const void *part, int64_t count, double factor)
{
    tr_parallel_range(count, MIN_ITEMS, run_range, &(work){run, dtype, sum, part, factor});
}

static void scale(tr_dtype dtype, void *sum, int64_t count, double factor)
{
    share(scale_loop, dtype, sum, NULL, count, factor);
}

static void copy(tr_dtype dtype, void *sum, const void *part, int64_t count)
{
    if (sum != part)
        memcpy(sum, part, (size_t)(count * tr_dtype_size(dtype)));
}

/* From here on each part is multiplied by its own weight. */
static void become_uneven(tr_mean *mean, tr_dtype dtype, void *sum, int64_t count)
{
    if (!mean->is_uneven)
        scale(dtype, sum, count, mean->first);
    mean->is_uneven = true;
}

void tr_mean_note(tr_mean *mean, double weight)
{
    mean->parts++;
    if (weight == 0)
        return;
    if (mean->count == 0)
        mean->first = weight;
    mean->is_uneven |= weight != mean->first;
    mean->total += weight;
    mean->count++;
}

void tr_mean_add(tr_mean *mean, tr_dtype dtype, void *sum, const void *part, int64_t count, double weight)
{
    assert(dtype == TR_FP32 || dtype == TR_FP64);
    assert(mean->count == 0 || sum != part);
    if (weight == 0) {
        tr_mean_note(mean, weight);
        return;
    }
    if (mean->count && weight != mean->first)
        become_uneven(mean, dtype, sum, count);
    if (mean->count == 0)
        copy(dtype, sum, part, count);
    else if (mean->is_uneven)
        share(add_scaled_loop, dtype, sum, part, count, weight);
    else
        share(add_loop, dtype, sum, part, count, 0);
    tr_mean_note(mean, weight);
}

void tr_mean_join(tr_mean *mean, tr_dtype dtype, void *sum, const tr_mean *other, const void *other_sum, int64_t count)
{
    const int parts = mean->parts + other->parts;

    if (mean->count == 0 && other->count == 0) {
        if (other->is_kept)
            tr_mean_keep(mean, dtype, sum, other_sum, count);
    } else if (mean->count == 0) {
        copy(dtype, sum, other_sum, count);
        *mean = *other;
    } else if (other->count) {
        if (other->is_uneven || other->first != mean->first)
            become_uneven(mean, dtype, sum, count);
        if (other->is_uneven || !mean->is_uneven)
            share(add_loop, dtype, sum, other_sum, count, 0);
        else
            share(add_scaled_loop, dtype, sum, other_sum, count, other->first);
        mean->total += other->total;
        mean->count += other->count;
    }
    mean->parts = parts;
}

void tr_mean_keep(tr_mean *mean, tr_dtype dtype, void *sum, const void *part, int64_t count)
{
    if (mean->count || mean->is_kept)
        return;
    copy(dtype, sum, part, count);
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
