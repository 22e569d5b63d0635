/* lanes.h - sums and extremes of one contiguous array in a fixed order.
 *
 * Without -ffast-math the compiler keeps the order of a sum, so the order is written for vectors: TR_LANES chains that are
 * joined pairwise at the end. It is the same at every level of TR_CLONES and for every thread count. NaN makes a sum NaN and
 * is passed over by an extreme. Long sums join chunks of TR_CHUNK elements in a wider type (reduce.c), so that the error
 * does not grow with the length. */
#ifndef TR_MATH_LANES_H
#define TR_MATH_LANES_H

#include "framework/compiler.h"

#include <math.h>
#include <stdint.h>

enum { TR_LANES = 64, TR_CHUNK = 4096 };

#define TR_TEMPLATE "kernels/math/lanes.h"
#include "kernels/math/each_number.h"

#elif defined(T)

TR_INLINE T NAME(tr_lanes_join)(T *lane)
{
    for (int half = TR_LANES / 2; half > 0; half /= 2)
        for (int j = 0; j < half; j++)
            lane[j] += lane[j + half];
    return lane[0];
}

TR_INLINE T NAME(tr_lanes_sum)(const T *x, int64_t n)
{
    T       lane[TR_LANES] = {0}, rest = 0;
    int64_t i = 0;
    for (; i + TR_LANES <= n; i += TR_LANES)
        for (int j = 0; j < TR_LANES; j++)
            lane[j] += x[i + j];
    for (int64_t k = i; k < n; k++)
        rest += x[k];
    return i == 0 ? rest : NAME(tr_lanes_join)(lane) + rest;
}

TR_INLINE T NAME(tr_lanes_dot)(const T *x, const T *y, int64_t n)
{
    T       lane[TR_LANES] = {0}, rest = 0;
    int64_t i = 0;
    for (; i + TR_LANES <= n; i += TR_LANES)
        for (int j = 0; j < TR_LANES; j++)
            lane[j] += x[i + j] * y[i + j];
    for (int64_t k = i; k < n; k++)
        rest += x[k] * y[k];
    return i == 0 ? rest : NAME(tr_lanes_join)(lane) + rest;
}

/* The sum of (x - shift)^2. */
TR_INLINE T NAME(tr_lanes_distance)(const T *x, T shift, int64_t n)
{
    T       lane[TR_LANES] = {0}, rest = 0;
    int64_t i = 0;
    for (; i + TR_LANES <= n; i += TR_LANES)
        for (int j = 0; j < TR_LANES; j++)
            lane[j] += (x[i + j] - shift) * (x[i + j] - shift);
    for (int64_t k = i; k < n; k++)
        rest += (x[k] - shift) * (x[k] - shift);
    return i == 0 ? rest : NAME(tr_lanes_join)(lane) + rest;
}

TR_INLINE T NAME(tr_lanes_prod)(const T *x, int64_t n)
{
    T product = 1;
    for (int64_t i = 0; i < n; i++)
        product *= x[i];
    return product;
}

TR_INLINE T NAME(tr_lanes_max)(const T *x, int64_t n)
{
    T       lane[TR_LANES], best = T_MIN;
    int64_t i = 0;
    for (int j = 0; j < TR_LANES; j++)
        lane[j] = T_MIN;
    for (; i + TR_LANES <= n; i += TR_LANES)
        for (int j = 0; j < TR_LANES; j++)
            lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
    for (int64_t k = i; k < n; k++)
        best = x[k] > best ? x[k] : best;
    for (int j = 0; j < TR_LANES && i > 0; j++)
        best = lane[j] > best ? lane[j] : best;
    return best;
}

TR_INLINE T NAME(tr_lanes_min)(const T *x, int64_t n)
{
    T       lane[TR_LANES], best = T_MAX;
    int64_t i = 0;
    for (int j = 0; j < TR_LANES; j++)
        lane[j] = T_MAX;
    for (; i + TR_LANES <= n; i += TR_LANES)
        for (int j = 0; j < TR_LANES; j++)
            lane[j] = x[i + j] < lane[j] ? x[i + j] : lane[j];
    for (int64_t k = i; k < n; k++)
        best = x[k] < best ? x[k] : best;
    for (int j = 0; j < TR_LANES && i > 0; j++)
        best = lane[j] < best ? lane[j] : best;
    return best;
}

#endif
