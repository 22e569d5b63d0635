/* float_lanes.h - vectors of floats at two levels of x86-64, for templates that are read once for each.
 *
 * A function f of the level x is f_x: load_avx512, load_avx2. A template defines LEVEL(f) as f_avx512 or f_avx2, and LANES as the
 * floats of a vector. Functions of a level may be called only where the processor has it: ask tr__float_level once. */
#pragma once

typedef enum tr_float_level { TR_FLOAT_PLAIN, TR_FLOAT_AVX2, TR_FLOAT_AVX512 } tr_float_level;

/* The best that this processor has. */
tr_float_level tr__float_level(void);
/* For tests: no better one than this. */
void           tr__float_level_limit(tr_float_level at_most);

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#include <stdint.h>

#include "kernels/math/tools/transpose16.h"

#define TR_TARGET_AVX512 __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,fma")))
#define TR_TARGET_AVX2   __attribute__((target("avx2,fma")))
#define TR_AVX512_INLINE TR_TARGET_AVX512 static inline __attribute__((always_inline))
#define TR_AVX2_INLINE   TR_TARGET_AVX2 static inline __attribute__((always_inline))

/* -- AVX-512 ---------------------------------------------------------------------------------------------------------- */

typedef __m512 vec_avx512;

TR_AVX512_INLINE __m512 zero_avx512(void) { return _mm512_setzero_ps(); }
TR_AVX512_INLINE __m512 all_avx512(float x) { return _mm512_set1_ps(x); }
TR_AVX512_INLINE __m512 load_avx512(const float *from) { return _mm512_loadu_ps(from); }
TR_AVX512_INLINE void store_avx512(float *to, __m512 x) { _mm512_storeu_ps(to, x); }
TR_AVX512_INLINE __m512 add_avx512(__m512 a, __m512 b) { return _mm512_add_ps(a, b); }
TR_AVX512_INLINE __m512 sub_avx512(__m512 a, __m512 b) { return _mm512_sub_ps(a, b); }
TR_AVX512_INLINE __m512 mul_avx512(__m512 a, __m512 b) { return _mm512_mul_ps(a, b); }
TR_AVX512_INLINE __m512 fmadd_avx512(__m512 a, __m512 b, __m512 c) { return _mm512_fmadd_ps(a, b, c); }

typedef __mmask16 mask_avx512;

TR_AVX512_INLINE __mmask16 lanes_avx512(int64_t count)
{
    return count >= 16 ? 0xFFFF : count <= 0 ? 0 : (__mmask16)((1u << count) - 1);
}

/* The first `count` lanes; the others are 0, or not stored. */
TR_AVX512_INLINE __m512 load_some_avx512(const float *from, int64_t count) { return _mm512_maskz_loadu_ps(lanes_avx512(count), from); }
TR_AVX512_INLINE void store_some_avx512(float *to, __m512 x, int64_t count) { _mm512_mask_storeu_ps(to, lanes_avx512(count), x); }

TR_AVX512_INLINE __m512 load_masked_avx512(const float *from, __mmask16 mask) { return _mm512_maskz_loadu_ps(mask, from); }

/* The lanes [begin, end). */
TR_AVX512_INLINE __mmask16 between_avx512(int64_t begin, int64_t end) { return lanes_avx512(end) & (__mmask16)~lanes_avx512(begin); }

/* Every other element of a and the b behind it, from the first or the second on. */
TR_AVX512_INLINE __m512 evens_avx512(__m512 a, __m512 b)
{
    return _mm512_permutex2var_ps(a, _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30), b);
}

TR_AVX512_INLINE __m512 odds_avx512(__m512 a, __m512 b)
{
    return _mm512_permutex2var_ps(a, _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31), b);
}

/* Elements k to k + 15 of a and the b behind it, k = 0 .. 4. */
TR_AVX512_INLINE __m512 shifted_avx512(__m512 a, __m512 b, const int k)
{
    const __m512i low = _mm512_castps_si512(a), high = _mm512_castps_si512(b);
    switch (k) {
    case 0:  return a;
    case 1:  return _mm512_castsi512_ps(_mm512_alignr_epi32(high, low, 1));
    case 2:  return _mm512_castsi512_ps(_mm512_alignr_epi32(high, low, 2));
    case 3:  return _mm512_castsi512_ps(_mm512_alignr_epi32(high, low, 3));
    default: return _mm512_castsi512_ps(_mm512_alignr_epi32(high, low, 4));
    }
}

TR_AVX512_INLINE void transpose_avx512(__m512 r[16]) { tr__transpose16(r); }

/* -- AVX2 -------------------------------------------------------------------------------------------------------------- */

typedef __m256 vec_avx2;

TR_AVX2_INLINE __m256 zero_avx2(void) { return _mm256_setzero_ps(); }
TR_AVX2_INLINE __m256 all_avx2(float x) { return _mm256_set1_ps(x); }
TR_AVX2_INLINE __m256 load_avx2(const float *from) { return _mm256_loadu_ps(from); }
TR_AVX2_INLINE void store_avx2(float *to, __m256 x) { _mm256_storeu_ps(to, x); }
TR_AVX2_INLINE __m256 add_avx2(__m256 a, __m256 b) { return _mm256_add_ps(a, b); }
TR_AVX2_INLINE __m256 sub_avx2(__m256 a, __m256 b) { return _mm256_sub_ps(a, b); }
TR_AVX2_INLINE __m256 mul_avx2(__m256 a, __m256 b) { return _mm256_mul_ps(a, b); }
TR_AVX2_INLINE __m256 fmadd_avx2(__m256 a, __m256 b, __m256 c) { return _mm256_fmadd_ps(a, b, c); }

typedef __m256i mask_avx2;

TR_AVX2_INLINE __m256i lanes_avx2(int64_t count)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(count < 8 ? count : 8)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

TR_AVX2_INLINE __m256 load_some_avx2(const float *from, int64_t count) { return _mm256_maskload_ps(from, lanes_avx2(count)); }
TR_AVX2_INLINE void store_some_avx2(float *to, __m256 x, int64_t count) { _mm256_maskstore_ps(to, lanes_avx2(count), x); }

TR_AVX2_INLINE __m256 load_masked_avx2(const float *from, __m256i mask) { return _mm256_maskload_ps(from, mask); }

TR_AVX2_INLINE __m256i between_avx2(int64_t begin, int64_t end) { return _mm256_andnot_si256(lanes_avx2(begin), lanes_avx2(end)); }

TR_AVX2_INLINE __m256 in_order_avx2(__m256 halves)        /* pairs 0, 2, 1, 3 */
{
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(halves), 0xd8));
}

TR_AVX2_INLINE __m256 evens_avx2(__m256 a, __m256 b) { return in_order_avx2(_mm256_shuffle_ps(a, b, 0x88)); }
TR_AVX2_INLINE __m256 odds_avx2(__m256 a, __m256 b) { return in_order_avx2(_mm256_shuffle_ps(a, b, 0xdd)); }

/* Elements k to k + 7 of a and the b behind it, k = 0 .. 4. */
TR_AVX2_INLINE __m256 shifted_avx2(__m256 a, __m256 b, const int k)
{
    const __m256  middle = _mm256_permute2f128_ps(a, b, 0x21);
    const __m256i low = _mm256_castps_si256(a), high = _mm256_castps_si256(middle);
    switch (k) {
    case 0:  return a;
    case 1:  return _mm256_castsi256_ps(_mm256_alignr_epi8(high, low, 4));
    case 2:  return _mm256_castsi256_ps(_mm256_alignr_epi8(high, low, 8));
    case 3:  return _mm256_castsi256_ps(_mm256_alignr_epi8(high, low, 12));
    default: return middle;
    }
}

/* As tr__transpose16, of 8 x 8. */
TR_AVX2_INLINE void transpose_avx2(__m256 r[8])
{
    __m256 t[8];
    TR_UNROLL for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    TR_UNROLL for (int i = 0; i < 8; i += 4) {                /* half L of r[i + j]: column 4L + j of rows i to i + 3 */
        r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    TR_UNROLL for (int j = 0; j < 4; j++) {
        t[j] = _mm256_permute2f128_ps(r[j], r[4 + j], 0x20);
        t[4 + j] = _mm256_permute2f128_ps(r[j], r[4 + j], 0x31);
    }
    TR_UNROLL for (int j = 0; j < 8; j++)
        r[j] = t[j];
}

#endif
