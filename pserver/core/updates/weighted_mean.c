/* weighted_mean.c - three loops over one chunk, which stays in cache between them. */
#include "pserver/core/updates/weighted_mean.h"

#include <assert.h>
#include <string.h>

static void scale(tr_dtype dtype, void *sum, int64_t count, double factor)
{
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

static void add(tr_dtype dtype, void *sum, const void *part, int64_t count)
{
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

static void add_scaled(tr_dtype dtype, void *sum, const void *part, int64_t count, double factor)
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
