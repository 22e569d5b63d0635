/* lanes.h - sums and extremes of one contiguous array in a fixed order.
 *
 * Without -ffast-math the compiler keeps the order of a sum, so the order is written for vectors: TR_LANES chains that are
 * joined pairwise at the end. What is left goes through TR_REST chains, and what these leave through one. It is the same at every level of TR_CLONES and for every thread count. NaN makes a sum NaN and
 * is passed over by an extreme. Long sums join chunks of TR_CHUNK elements in a wider type (reduce.c), so that the error
 * does not grow with the length. */
#ifndef TR_MATH_LANES_H
#define TR_MATH_LANES_H

#include "kernels/math/tools/wrap.h"

enum { TR_LANES = 64, TR_REST = 16, TR_CHUNK = 4096 };

#define TR_TEMPLATE "kernels/math/tools/lanes.h"
#include "kernels/math/tools/each_number.h"

#elif defined(T)

/* lane[j] += lane[j + half]: a constant, so that these are a few vectors. */
TR_INLINE void NAME(tr_lanes_fold)(T *lane, const int half)
{
    TR_IVDEP TR_ONE_VECTOR
    for (int j = 0; j < half; j++)
        lane[j] = NAME(tr_plus)(lane[j], lane[j + half]);
}

TR_INLINE T NAME(tr_lanes_join)(T *lane, int count)
{
    if (count > 32)
        NAME(tr_lanes_fold)(lane, 32);
    if (count > 16)
        NAME(tr_lanes_fold)(lane, 16);
    NAME(tr_lanes_fold)(lane, 8);
    NAME(tr_lanes_fold)(lane, 4);
    return NAME(tr_plus)(NAME(tr_plus)(lane[0], lane[2]), NAME(tr_plus)(lane[1], lane[3]));
}

TR_INLINE T NAME(tr_lanes_total)(T *lane, bool has_lanes, T *few, bool has_few, T rest)
{
    if (has_few)
        rest = NAME(tr_plus)(NAME(tr_lanes_join)(few, TR_REST), rest);
    return has_lanes ? NAME(tr_plus)(NAME(tr_lanes_join)(lane, TR_LANES), rest) : rest;
}

TR_INLINE T NAME(tr_lanes_sum)(const T *x, int64_t n)
{
    T       lane[TR_LANES] = {0}, few[TR_REST] = {0}, rest = 0;
    int64_t i = 0;
    for (; i + TR_LANES <= n; i += TR_LANES)
        for (int j = 0; j < TR_LANES; j++)
            lane[j] = NAME(tr_plus)(lane[j], x[i + j]);
    const int64_t joined = i;
    for (; i + TR_REST <= n; i += TR_REST)
        TR_ONE_VECTOR for (int j = 0; j < TR_REST; j++)
            few[j] = NAME(tr_plus)(few[j], x[i + j]);
    for (int64_t k = i; k < n; k++)
        rest = NAME(tr_plus)(rest, x[k]);
    return NAME(tr_lanes_total)(lane, joined > 0, few, i > joined, rest);
}

TR_INLINE T NAME(tr_lanes_dot)(const T *x, const T *y, int64_t n)
{
    T       lane[TR_LANES] = {0}, few[TR_REST] = {0}, rest = 0;
    int64_t i = 0;
    for (; i + TR_LANES <= n; i += TR_LANES)
        for (int j = 0; j < TR_LANES; j++)
            lane[j] += x[i + j] * y[i + j];
    const int64_t joined = i;
    for (; i + TR_REST <= n; i += TR_REST)
        TR_ONE_VECTOR for (int j = 0; j < TR_REST; j++)
            few[j] += x[i + j] * y[i + j];
    for (int64_t k = i; k < n; k++)
        rest += x[k] * y[k];
    return NAME(tr_lanes_total)(lane, joined > 0, few, i > joined, rest);
}

/* The sum of (x - shift)^2. */
TR_INLINE T NAME(tr_lanes_distance)(const T *x, T shift, int64_t n)
{
    T       lane[TR_LANES] = {0}, few[TR_REST] = {0}, rest = 0;
    int64_t i = 0;
    for (; i + TR_LANES <= n; i += TR_LANES)
        for (int j = 0; j < TR_LANES; j++)
            lane[j] += (x[i + j] - shift) * (x[i + j] - shift);
    const int64_t joined = i;
    for (; i + TR_REST <= n; i += TR_REST)
        TR_ONE_VECTOR for (int j = 0; j < TR_REST; j++)
            few[j] += (x[i + j] - shift) * (x[i + j] - shift);
    for (int64_t k = i; k < n; k++)
        rest += (x[k] - shift) * (x[k] - shift);
    return NAME(tr_lanes_total)(lane, joined > 0, few, i > joined, rest);
}

#if T_IS_FLOATING
/* Mean and sum of squared distances of many numbers, chunk by chunk: a chunk is read twice while it is in cache, and its two
 * results are joined with those before it. A large mean costs no digits. */
typedef struct {
    double count, mean, distance;
} NAME(tr_moments);

TR_INLINE void NAME(tr_moments_add)(NAME(tr_moments) *m, const T *x, int64_t n)
{
    for (int64_t at = 0; at < n; at += TR_CHUNK) {
        const int64_t size = n - at < TR_CHUNK ? n - at : TR_CHUNK;
        const T       mean = NAME(tr_lanes_sum)(x + at, size) / (T)size;
        const double  total = m->count + (double)size, apart = (double)mean - m->mean;
        m->distance += (double)NAME(tr_lanes_distance)(x + at, mean, size) + apart * apart * m->count * ((double)size / total);
        m->mean += apart * ((double)size / total);
        m->count = total;
    }
}
#endif

TR_INLINE T NAME(tr_lanes_prod)(const T *x, int64_t n)
{
    T product = 1;
    for (int64_t i = 0; i < n; i++)
        product = NAME(tr_times)(product, x[i]);
    return product;
}

/* The greatest element, or with `least` (a constant) the smallest one. */
TR_INLINE T NAME(tr__lanes_most)(const T *x, int64_t n, const bool least)
{
    const T start = least ? T_MAX : T_MIN;
    T       lane[TR_LANES], best = start;
    int64_t i = 0;
    for (int j = 0; j < TR_LANES; j++)
        lane[j] = start;
    for (; i + TR_LANES <= n; i += TR_LANES)
        for (int j = 0; j < TR_LANES; j++)
            lane[j] = (least ? x[i + j] < lane[j] : x[i + j] > lane[j]) ? x[i + j] : lane[j];
    for (int64_t k = i; k < n; k++)
        best = (least ? x[k] < best : x[k] > best) ? x[k] : best;
    for (int half = TR_LANES / 2; half > 0 && i > 0; half /= 2)
        for (int j = 0; j < half; j++)
            lane[j] = (least ? lane[j + half] < lane[j] : lane[j + half] > lane[j]) ? lane[j + half] : lane[j];
    return (least ? lane[0] < best : lane[0] > best) ? lane[0] : best;
}

TR_INLINE T NAME(tr_lanes_max)(const T *x, int64_t n) { return NAME(tr__lanes_most)(x, n, false); }
TR_INLINE T NAME(tr_lanes_min)(const T *x, int64_t n) { return NAME(tr__lanes_most)(x, n, true); }

#endif
