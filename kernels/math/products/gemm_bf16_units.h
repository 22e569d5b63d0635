/* gemm_bf16_units.h - the few instructions that the bfloat16 product is made of.
 *
 * There are two implementations of each. With TR_BF16_MODEL defined they are plain C after the manuals' pseudocode, for
 * every CPU: tests compile the product with them. Otherwise they are the instructions of AVX512_BF16 and AMX-BF16.
 *
 * tr_pairs   16 words; a word holds two bfloat16 of neighbouring k, the even one in its low half
 * tr_floats  16 floats
 * tiles      8 of 16 rows of 64 bytes, which belong to the thread between TR_TILES_BEGIN and TR_TILES_END. Their numbers are
 *            literals, hence macros.
 *
 * Both treat numbers below 2^-126 (denormal ones) as 0, operands, products and sums alike, as the instructions do. The order of the two
 * additions of tr_dot_pairs is the manual's; processors may differ in the last bit. */
#pragma once

#include <stdint.h>
#include <string.h>

#include "kernels/math/tools/transpose16.h"

enum { TR_TILE_ROWS = 16, TR_TILE_WORDS = 16 };

#ifdef TR_BF16_MODEL

#include <math.h>

#include "kernels/math/tools/cast.h"

#define TR_BF16_TARGET
#define TR_BF16_INLINE static inline

typedef struct { uint32_t word[16]; } tr_pairs;
typedef struct { float lane[16]; } tr_floats;

static inline float tr__flushed(float x)
{
    return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

static inline uint32_t tr__pair(float even, float odd)
{
    return (uint32_t)tr_bf16_of_f32(tr__flushed(even)) | (uint32_t)tr_bf16_of_f32(tr__flushed(odd)) << 16;
}

/* sum + a * b of the even (0) or odd (1) halves. */
static inline float tr__add_half(float sum, uint32_t a, uint32_t b, int half)
{
    const float x = tr__flushed(tr_f32_of_bf16((uint16_t)(a >> 16 * half))), y = tr__flushed(tr_f32_of_bf16((uint16_t)(b >> 16 * half)));
    return tr__flushed(fmaf(x, y, sum));
}

static inline tr_pairs tr_round_row(const float *from, int64_t count)
{
    tr_pairs out;
    for (int64_t i = 0; i < 16; i++)
        out.word[i] = tr__pair(2 * i < count ? from[2 * i] : 0, 2 * i + 1 < count ? from[2 * i + 1] : 0);
    return out;
}

static inline tr_pairs tr_round_rows(const float *from, int64_t stride, int64_t rows, int64_t count)
{
    tr_pairs out;
    for (int64_t i = 0; i < 16; i++)
        out.word[i] = tr__pair(rows > 0 && i < count ? from[i] : 0, rows > 1 && i < count ? from[stride + i] : 0);
    return out;
}

static inline void tr_transpose_pairs(tr_pairs r[16])
{
    tr_pairs t[16];
    memcpy(t, r, sizeof t);
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j++)
            r[j].word[i] = t[i].word[j];
}

static inline tr_pairs tr_no_pairs(void) { return (tr_pairs){{0}}; }
static inline tr_pairs tr_load_pairs(const uint32_t *from) { tr_pairs x; memcpy(&x, from, sizeof x); return x; }
static inline void tr_store_pairs(uint32_t *to, tr_pairs x) { memcpy(to, &x, sizeof x); }

static inline tr_pairs tr_all_pairs(const uint32_t *from)
{
    tr_pairs out;
    for (int i = 0; i < 16; i++)
        out.word[i] = *from;
    return out;
}

static inline tr_floats tr_dot_pairs(tr_floats sum, tr_pairs a, tr_pairs b)
{
    for (int i = 0; i < 16; i++)
        sum.lane[i] = tr__add_half(tr__add_half(sum.lane[i], a.word[i], b.word[i], 1), a.word[i], b.word[i], 0);
    return sum;
}

static inline tr_floats tr_no_floats(void) { return (tr_floats){{0}}; }

/* to = alpha x [+ beta to], of the first `count` lanes. */
static inline void tr_update(float *to, tr_floats x, float alpha, float beta, int64_t count)
{
    for (int64_t i = 0; i < 16 && i < count; i++)
        to[i] = beta == 1 ? fmaf(alpha, x.lane[i], to[i]) : beta != 0 ? fmaf(beta, to[i], alpha * x.lane[i]) : alpha * x.lane[i];
}

static inline tr_floats tr_load_floats(const float *from, int64_t count)
{
    tr_floats out = {{0}};
    for (int64_t i = 0; i < 16 && i < count; i++)
        out.lane[i] = from[i];
    return out;
}

static inline void tr_store_floats(float *to, tr_floats x) { memcpy(to, &x, sizeof x); }

static _Thread_local uint32_t tr__tile[8][TR_TILE_ROWS][TR_TILE_WORDS];

static inline float tr__sum_of(uint32_t x, float more)
{
    return tr__flushed(tr__f32_of_bits(x) + more);
}

/* TDPBF16PS: the even and the odd products of a row and a column are summed apart, and then together to the sum. */
static inline void tr__tile_dot(int c, int a, int b)
{
    for (int m = 0; m < TR_TILE_ROWS; m++)
        for (int n = 0; n < TR_TILE_WORDS; n++) {
            float even = 0, odd = 0;
            for (int k = 0; k < TR_TILE_WORDS; k++) {
                even = tr__add_half(even, tr__tile[a][m][k], tr__tile[b][k][n], 0);
                odd = tr__add_half(odd, tr__tile[a][m][k], tr__tile[b][k][n], 1);
            }
            tr__tile[c][m][n] = tr__bits_of_f32(tr__sum_of(tr__tile[c][m][n], tr__flushed(even + odd)));
        }
}

static inline void tr__tile_load(int t, const void *from, int64_t stride)
{
    for (int m = 0; m < TR_TILE_ROWS; m++)
        memcpy(tr__tile[t][m], (const char *)from + m * stride, sizeof tr__tile[t][m]);
}

static inline void tr__tile_store(int t, void *to, int64_t stride)
{
    for (int m = 0; m < TR_TILE_ROWS; m++)
        memcpy((char *)to + m * stride, tr__tile[t][m], sizeof tr__tile[t][m]);
}

#define TR_TILES_BEGIN()                memset(tr__tile, 0, sizeof tr__tile)
#define TR_TILES_END()                  memset(tr__tile, 0, sizeof tr__tile)
#define TR_TILE_ZERO(t)                 memset(tr__tile[t], 0, sizeof tr__tile[t])
#define TR_TILE_LOAD(t, from, stride)   tr__tile_load(t, from, stride)
#define TR_TILE_STORE(t, to, stride)    tr__tile_store(t, to, stride)
#define TR_TILE_DOT(c, a, b)            tr__tile_dot(c, a, b)

#else

#define TR_BF16_TARGET __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx512bf16,fma")))
#define TR_BF16_INLINE TR_BF16_TARGET static inline __attribute__((always_inline))

typedef __m512i tr_pairs;
typedef __m512  tr_floats;

TR_BF16_INLINE __mmask16 tr__lanes(int64_t count)
{
    return count >= 16 ? 0xFFFF : count <= 0 ? 0 : (__mmask16)((1u << count) - 1);
}

/* 32 numbers of a row, those from `count` on 0: 16 pairs along k. */
TR_BF16_INLINE tr_pairs tr_round_row(const float *from, int64_t count)
{
    const __m512 low = _mm512_maskz_loadu_ps(tr__lanes(count), from);
    const __m512 high = _mm512_maskz_loadu_ps(tr__lanes(count - 16), from + 16);
    return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

/* 16 columns of two rows, of which `rows` and `count` exist: their pairs. */
TR_BF16_INLINE tr_pairs tr_round_rows(const float *from, int64_t stride, int64_t rows, int64_t count)
{
    const __m512  even = _mm512_maskz_loadu_ps(tr__lanes(rows > 0 ? count : 0), from);
    const __m512  odd = _mm512_maskz_loadu_ps(tr__lanes(rows > 1 ? count : 0), from + stride);
    const __m512i apart = (__m512i)_mm512_cvtne2ps_pbh(odd, even);         /* 16 of the even row, then 16 of the odd one */
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20, 4,
                                           19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_permutexvar_epi16(order, apart);
}

TR_BF16_INLINE void tr_transpose_pairs(tr_pairs r[16])
{
    __m512 t[16];
    TR_UNROLL for (int i = 0; i < 16; i++)
        t[i] = _mm512_castsi512_ps(r[i]);
    tr__transpose16(t);
    TR_UNROLL for (int i = 0; i < 16; i++)
        r[i] = _mm512_castps_si512(t[i]);
}

TR_BF16_INLINE tr_pairs tr_no_pairs(void) { return _mm512_setzero_si512(); }
TR_BF16_INLINE tr_pairs tr_load_pairs(const uint32_t *from) { return _mm512_loadu_si512(from); }
TR_BF16_INLINE void tr_store_pairs(uint32_t *to, tr_pairs x) { _mm512_storeu_si512(to, x); }
TR_BF16_INLINE tr_pairs tr_all_pairs(const uint32_t *from) { return _mm512_set1_epi32((int)*from); }
TR_BF16_INLINE tr_floats tr_dot_pairs(tr_floats sum, tr_pairs a, tr_pairs b) { return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b); }
TR_BF16_INLINE tr_floats tr_no_floats(void) { return _mm512_setzero_ps(); }

/* to = alpha x [+ beta to], of the first `count` lanes. */
TR_BF16_INLINE void tr_update(float *to, tr_floats x, float alpha, float beta, int64_t count)
{
    const __m512 by = _mm512_set1_ps(alpha);
    __m512       out;
    if (beta == 1)
        out = _mm512_fmadd_ps(by, x, _mm512_maskz_loadu_ps(tr__lanes(count), to));
    else if (beta != 0)
        out = _mm512_fmadd_ps(_mm512_set1_ps(beta), _mm512_maskz_loadu_ps(tr__lanes(count), to), _mm512_mul_ps(by, x));
    else
        out = _mm512_mul_ps(by, x);
    _mm512_mask_storeu_ps(to, tr__lanes(count), out);
}

TR_BF16_INLINE tr_floats tr_load_floats(const float *from, int64_t count) { return _mm512_maskz_loadu_ps(tr__lanes(count), from); }
TR_BF16_INLINE void tr_store_floats(float *to, tr_floats x) { _mm512_storeu_ps(to, x); }

/* The compiler's own tile functions do not say that they read and write memory: it may move a store after the load of a tile. */
static const uint8_t tr__tile_shape[64] __attribute__((aligned(64))) = {
    [0] = 1,                                                               /* palette */
    [16] = 64, [18] = 64, [20] = 64, [22] = 64, [24] = 64, [26] = 64, [28] = 64, [30] = 64,      /* bytes of a row, 16 bits each */
    [48] = 16, [49] = 16, [50] = 16, [51] = 16, [52] = 16, [53] = 16, [54] = 16, [55] = 16,      /* rows */
};

#define TR_TILES_BEGIN()              __asm__ volatile("ldtilecfg %0" : : "m"(tr__tile_shape))
#define TR_TILES_END()                __asm__ volatile("tilerelease" : : : "memory")
#define TR_TILE_ZERO(t)               __asm__ volatile("tilezero %%tmm" #t : : :)
#define TR_TILE_LOAD(t, from, stride) \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t : : "r"((const void *)(from)), "r"((int64_t)(stride)) : "memory")
#define TR_TILE_STORE(t, to, stride) \
    __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" : : "r"((void *)(to)), "r"((int64_t)(stride)) : "memory")
#define TR_TILE_DOT(c, a, b)          __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #c : : :)

#endif
