/* transpose16.h - a square of 16 x 16 words in AVX-512 registers, and unrolled loops over registers. */
#pragma once

#if defined(__clang__)
#define TR_UNROLL _Pragma("unroll")
#else
#define TR_UNROLL _Pragma("GCC unroll 16")
#endif

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

/* out[j] of lane i becomes in[i] of lane j. */
__attribute__((target("avx512f"))) static inline __attribute__((always_inline)) void tr__transpose16(__m512 r[16])
{
    __m512 t[16];
    TR_UNROLL for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    TR_UNROLL for (int i = 0; i < 16; i += 4) {                /* lane group L of r[i + j]: column 4L + j of rows i to i + 3 */
        const __m512d low = _mm512_castps_pd(t[i]), high = _mm512_castps_pd(t[i + 1]);
        const __m512d low2 = _mm512_castps_pd(t[i + 2]), high2 = _mm512_castps_pd(t[i + 3]);
        r[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, low2));
        r[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, low2));
        r[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(high, high2));
        r[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(high, high2));
    }
    TR_UNROLL for (int j = 0; j < 4; j++) {                       /* even groups, then odd ones */
        t[j] = _mm512_shuffle_f32x4(r[j], r[4 + j], 0x88);
        t[4 + j] = _mm512_shuffle_f32x4(r[8 + j], r[12 + j], 0x88);
        t[8 + j] = _mm512_shuffle_f32x4(r[j], r[4 + j], 0xdd);
        t[12 + j] = _mm512_shuffle_f32x4(r[8 + j], r[12 + j], 0xdd);
    }
    TR_UNROLL for (int j = 0; j < 4; j++) {
        r[j] = _mm512_shuffle_f32x4(t[j], t[4 + j], 0x88);
        r[4 + j] = _mm512_shuffle_f32x4(t[8 + j], t[12 + j], 0x88);
        r[8 + j] = _mm512_shuffle_f32x4(t[j], t[4 + j], 0xdd);
        r[12 + j] = _mm512_shuffle_f32x4(t[8 + j], t[12 + j], 0xdd);
    }
}

#endif
