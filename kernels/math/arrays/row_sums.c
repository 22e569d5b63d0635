/* row_sums.c - see row_sums.h. */
#ifndef T
#include "kernels/math/arrays/row_sums.h"

#include "framework/base/compiler.h"
#include "kernels/math/tools/fetch.h"
#include "kernels/math/tools/float_lanes.h"
#include "kernels/math/tools/lanes.h"

enum {
    TOGETHER = 16,                    /* rows whose lanes are joined together */
    AHEAD = 512                       /* floats that are asked for before they are read */
};

#if defined(__x86_64__) && defined(__GNUC__)

/* The TR_LANES lanes of one row, folded to 16, and its TR_REST lanes. */
TR_AVX512_INLINE void fill_lanes(float *lane, float *few, float *rest, const float *x, int64_t n)
{
    __m512  sum[4] = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps()}, less = _mm512_setzero_ps();
    int64_t i = 0;

    for (; i + TR_LANES <= n; i += TR_LANES)
        TR_UNROLL for (int j = 0; j < 4; j++) {
            tr__fetch(x, i + j * 16 + AHEAD);
            sum[j] = _mm512_add_ps(sum[j], _mm512_loadu_ps(x + i + j * 16));
        }
    for (; i + TR_REST <= n; i += TR_REST) {
        tr__fetch(x, i + AHEAD);
        less = _mm512_add_ps(less, _mm512_loadu_ps(x + i));
    }
    *rest = 0;
    for (; i < n; i++)
        *rest += x[i];
    _mm512_storeu_ps(lane, _mm512_add_ps(_mm512_add_ps(sum[0], sum[2]), _mm512_add_ps(sum[1], sum[3])));
    _mm512_storeu_ps(few, less);
}

/* Folds the halves, quarters and so on of two vectors' blocks into one vector. */
TR_AVX512_INLINE __m512 fold_halves(__m512 a, __m512 b)
{
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
}

TR_AVX512_INLINE __m512 fold_quarters(__m512 a, __m512 b)
{
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
}

TR_AVX512_INLINE __m512 fold_pairs(__m512 a, __m512 b)
{
    const __m512d x = _mm512_castps_pd(a), y = _mm512_castps_pd(b);
    return _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(x, y)), _mm512_castpd_ps(_mm512_unpackhi_pd(x, y)));
}

TR_AVX512_INLINE __m512 fold_last(__m512 a, __m512 b)
{
    return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd));
}

/* Lane i = the lanes of row i joined as tr_lanes_join does: i + 8, then i + 4, i + 2, i + 1. */
TR_AVX512_INLINE __m512 join_rows(const float *lanes)
{
    __m512 r[TOGETHER];

    TR_UNROLL for (int i = 0; i < TOGETHER; i++)
        r[i] = _mm512_loadu_ps(lanes + i * 16);
    TR_UNROLL for (int i = 0; i < 8; i++)
        r[i] = fold_halves(r[2 * i], r[2 * i + 1]);
    TR_UNROLL for (int i = 0; i < 4; i++)
        r[i] = fold_quarters(r[2 * i], r[2 * i + 1]);          /* rows 4i .. 4i + 3, one in each block of four */
    r[0] = fold_pairs(r[0], r[1]);
    r[1] = fold_pairs(r[2], r[3]);
    const __m512 blocks = fold_last(r[0], r[1]);               /* block b: rows b, b + 4, b + 8, b + 12 */
    return _mm512_permutexvar_ps(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), blocks);
}

/* Rows in groups of TOGETHER; returns how many that were. */
TR_TARGET_AVX512 static int64_t sums_together(float *sums, const float *x, int64_t rows, int64_t n)
{
    float   lane[TOGETHER * 16], few[TOGETHER * 16], rest[TOGETHER];
    int64_t i = 0;

    for (; i + TOGETHER <= rows; i += TOGETHER) {
        for (int r = 0; r < TOGETHER; r++)
            fill_lanes(lane + r * 16, few + r * 16, rest + r, x + (i + r) * n, n);
        __m512 total = _mm512_loadu_ps(rest);
        if (n % TR_LANES >= TR_REST)
            total = _mm512_add_ps(join_rows(few), total);
        if (n >= TR_LANES)
            total = _mm512_add_ps(join_rows(lane), total);
        _mm512_storeu_ps(sums + i, total);
    }
    return i;
}

#else

static int64_t sums_together(float *sums, const float *x, int64_t rows, int64_t n)
{
    (void)sums, (void)x, (void)rows, (void)n;
    return 0;
}

#endif

#include "kernels/math/tools/each_number.h"
#else

/* A row is often a page, at whose end the processor's own prefetchers stop. */
TR_CLONES static void NAME(sums_each)(T *sums, const T *x, int64_t rows, int64_t n)
{
    enum { LINES = 16 };
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t line = 0; line < LINES && line * TR_CACHE_LINE < n * (int64_t)sizeof(T); line++)
            tr__fetch_bytes(x + (i + 1) * n, line * TR_CACHE_LINE);
        sums[i] = NAME(tr_lanes_sum)(x + i * n, n);
    }
}

void NAME(tr__row_sums)(T *sums, const T *x, int64_t rows, int64_t n)
{
    const bool    together = T_IS_FLOATING && sizeof(T) == sizeof(float) && n >= TR_REST && tr__float_level() == TR_FLOAT_AVX512;
    const int64_t done = together ? sums_together((void *)sums, (const void *)x, rows, n) : 0;
    NAME(sums_each)(sums + done, x + done * n, rows - done, n);
}

#endif
