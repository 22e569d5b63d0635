/* gemm_packed.c - see gemm_packed.h.
 *
 * A block of B (KC rows) is copied to panels of NR columns, a block of A to panels of up to MR rows, both in the order in which
 * the innermost loop reads them. That loop keeps a tile of rows x 2 vectors of sums in registers and reads memory only
 * for one panel of each: 28 of the 32 registers hold sums. Rows are spread evenly over the panels of a block (13 and 13, not
 * 14 and 12), so that nothing is computed that is not wanted. The packed block of A and some panels of B stay in the second
 * level cache. */
#include "kernels/math/gemm_packed.h"

#include "framework/compiler.h"
#include "framework/threadpool.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define AVX512 __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,fma")))
#define AVX512_INLINE AVX512 static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

enum { LANES = 16, MR = 14, NR = TR_PANEL_COLS, KC = 256, MC = 20 * MR, NC = 32 * NR };
enum { MIN_SIDE = 24, MIN_INNER = 8 };
static const double MIN_WORK = 2.5e5;                         /* multiplications */

typedef struct {
    bool         trans_a, trans_b;
    int64_t      lda, ldb, ldc;
    float        alpha, beta;
    const float *a, *b;
    float       *c;
    float       *packed_a, *packed_b;
} product;

static bool is_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl");
}

bool tr__gemm_packed_wants(int64_t m, int64_t n, int64_t k)
{
    return m >= MIN_SIDE && n >= MIN_SIDE && k >= MIN_INNER && (double)m * (double)n * (double)k >= MIN_WORK && is_avx512();
}

/* -- packing ------------------------------------------------------------------------------------------------------------ */

/* The first `count` lanes. */
AVX512_INLINE __mmask16 lanes(int64_t count)
{
    return count >= LANES ? 0xFFFF : count <= 0 ? 0 : (__mmask16)((1u << count) - 1);
}

/* out[j] of lane i becomes in[i] of lane j. */
AVX512_INLINE void transpose(__m512 r[LANES])
{
    __m512 t[LANES];
    UNROLL for (int i = 0; i < LANES; i += 2) {
        t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    UNROLL for (int i = 0; i < LANES; i += 4) {                /* lane group L of r[i + j]: column 4L + j of rows i to i + 3 */
        const __m512d low = _mm512_castps_pd(t[i]), high = _mm512_castps_pd(t[i + 1]);
        const __m512d low2 = _mm512_castps_pd(t[i + 2]), high2 = _mm512_castps_pd(t[i + 3]);
        r[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, low2));
        r[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, low2));
        r[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(high, high2));
        r[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(high, high2));
    }
    UNROLL for (int j = 0; j < 4; j++) {                       /* even groups, then odd ones */
        t[j] = _mm512_shuffle_f32x4(r[j], r[4 + j], 0x88);
        t[4 + j] = _mm512_shuffle_f32x4(r[8 + j], r[12 + j], 0x88);
        t[8 + j] = _mm512_shuffle_f32x4(r[j], r[4 + j], 0xdd);
        t[12 + j] = _mm512_shuffle_f32x4(r[8 + j], r[12 + j], 0xdd);
    }
    UNROLL for (int j = 0; j < 4; j++) {
        r[j] = _mm512_shuffle_f32x4(t[j], t[4 + j], 0x88);
        r[4 + j] = _mm512_shuffle_f32x4(t[8 + j], t[12 + j], 0x88);
        r[8 + j] = _mm512_shuffle_f32x4(t[j], t[4 + j], 0xdd);
        r[12 + j] = _mm512_shuffle_f32x4(t[8 + j], t[12 + j], 0xdd);
    }
}

/* to[p * step + i] = from[i * stride + p] for up to LANES rows i; lanes beyond `rows` become 0. Stores are whole vectors: where
 * step < LANES each overwrites the end of the one before, and the last goes LANES - step beyond. */
AVX512_INLINE void pack_across(float *to, int64_t step, const float *from, int64_t stride, int64_t rows, int64_t k)
{
    for (int64_t p = 0; p < k; p += LANES) {
        const int64_t   count = k - p < LANES ? k - p : LANES;
        const __mmask16 mask = lanes(count);
        __m512          r[LANES];
        UNROLL for (int i = 0; i < LANES; i++)
            r[i] = i < rows ? _mm512_maskz_loadu_ps(mask, from + i * stride + p) : _mm512_setzero_ps();
        transpose(r);
        if (count == LANES) {
            UNROLL for (int i = 0; i < LANES; i++)
                _mm512_storeu_ps(to + (p + i) * step, r[i]);
        } else {
            float last[LANES][LANES];
            UNROLL for (int i = 0; i < LANES; i++)
                _mm512_storeu_ps(last[i], r[i]);
            for (int i = 0; i < count; i++)
                _mm512_storeu_ps(to + (p + i) * step, _mm512_loadu_ps(last[i]));
        }
    }
}

/* to[p * step + i] = from[p * stride + i], i below `count`, otherwise as above. */
AVX512_INLINE void pack_along(float *to, int64_t step, const float *from, int64_t stride, int64_t count, int64_t k)
{
    const __mmask16 mask = lanes(count);
    for (int64_t p = 0; p < k; p++)
        _mm512_storeu_ps(to + p * step, _mm512_maskz_loadu_ps(mask, from + p * stride));
}

/* Where panel i of `count` begins, when `rows` rows are spread evenly. */
static inline int64_t panel_begin(int64_t rows, int64_t count, int64_t i)
{
    return rows * i / count;
}

static inline int64_t panels_of(int64_t rows)
{
    return (rows + MR - 1) / MR;
}

AVX512 static void pack_a(const product *g, int64_t i0, int64_t rows, int64_t p0, int64_t k)
{
    const int64_t panels = panels_of(rows);
    for (int64_t q = 0; q < panels; q++) {
        const int64_t i = panel_begin(rows, panels, q), height = panel_begin(rows, panels, q + 1) - i;
        float        *to = g->packed_a + i * k;
        if (g->trans_a)
            pack_along(to, height, g->a + p0 * g->lda + i0 + i, g->lda, height, k);
        else
            pack_across(to, height, g->a + (i0 + i) * g->lda + p0, g->lda, height, k);
    }
}

/* Rows of B are read from end to end, which is what memory does best. */
AVX512_INLINE void pack_b_row(float *to, int64_t step, const float *from, int64_t cols)
{
    int64_t j = 0;
    for (; j + NR <= cols; j += NR, to += step) {
        _mm512_storeu_ps(to, _mm512_loadu_ps(from + j));
        _mm512_storeu_ps(to + LANES, _mm512_loadu_ps(from + j + LANES));
    }
    for (int64_t half = 0; half < NR && j < cols; half += LANES)
        _mm512_storeu_ps(to + half, _mm512_maskz_loadu_ps(lanes(cols - j - half), from + j + half));
}

AVX512 static void pack_b(const product *g, int64_t j0, int64_t cols, int64_t p0, int64_t k)
{
    if (!g->trans_b) {
        for (int64_t p = 0; p < k; p++)
            pack_b_row(g->packed_b + p * NR, NR * k, g->b + (p0 + p) * g->ldb + j0, cols);
        return;
    }
    for (int64_t j = 0; j < cols; j += LANES)
        pack_across(g->packed_b + j / NR * NR * k + j % NR, NR, g->b + (j0 + j) * g->ldb + p0, g->ldb, cols - j, k);
}

/* -- the innermost loop --------------------------------------------------------------------------------------------------- */

AVX512_INLINE void update(float *c, __m512 sum, float alpha, float beta, __mmask16 mask)
{
    __m512 out = _mm512_mul_ps(_mm512_set1_ps(alpha), sum);
    if (beta != 0)
        out = _mm512_fmadd_ps(_mm512_set1_ps(beta), _mm512_maskz_loadu_ps(mask, c), out);
    if (mask == 0xFFFF)
        _mm512_storeu_ps(c, out);
    else
        _mm512_mask_storeu_ps(c, mask, out);
}

AVX512_INLINE void tile(int rows, int vectors, int64_t k, const float *a, const float *b, float *c, int64_t ldc, float alpha,
                        float beta, int64_t cols)
{
    __m512 sum[MR][2];
    UNROLL for (int i = 0; i < rows; i++)
        sum[i][0] = sum[i][1] = _mm512_setzero_ps();
    for (int64_t p = 0; p < k; p++, a += rows, b += NR) {
        const __m512 b0 = _mm512_loadu_ps(b), b1 = vectors > 1 ? _mm512_loadu_ps(b + LANES) : b0;
        UNROLL for (int i = 0; i < rows; i++) {
            const __m512 x = _mm512_set1_ps(a[i]);
            sum[i][0] = _mm512_fmadd_ps(x, b0, sum[i][0]);
            if (vectors > 1)
                sum[i][1] = _mm512_fmadd_ps(x, b1, sum[i][1]);
        }
    }
    UNROLL for (int i = 0; i < rows; i++, c += ldc) {
        update(c, sum[i][0], alpha, beta, lanes(cols));
        if (vectors > 1)
            update(c + LANES, sum[i][1], alpha, beta, lanes(cols - LANES));
    }
}

AVX512 static void any_tile(int64_t rows, int64_t k, const float *a, const float *b, float *c, int64_t ldc, float alpha,
                            float beta, int64_t cols)
{
#define CASE(rows_)                                                       \
    case rows_:                                                           \
        if (cols > LANES)                                                 \
            tile(rows_, 2, k, a, b, c, ldc, alpha, beta, cols);           \
        else                                                              \
            tile(rows_, 1, k, a, b, c, ldc, alpha, beta, cols);           \
        break
    switch (rows) {
        CASE(14); CASE(13); CASE(12); CASE(11); CASE(10); CASE(9); CASE(8);
        CASE(7); CASE(6); CASE(5); CASE(4); CASE(3); CASE(2); CASE(1);
    }
#undef CASE
}

/* -- blocks ------------------------------------------------------------------------------------------------------------------ */

static void multiply_block(const product *g, int64_t i0, int64_t rows, int64_t j0, int64_t cols, int64_t k, float beta)
{
    const int64_t panels = panels_of(rows);
    for (int64_t j = 0; j < cols; j += NR)
        for (int64_t q = 0; q < panels; q++) {
            const int64_t i = panel_begin(rows, panels, q);
            any_tile(panel_begin(rows, panels, q + 1) - i, k, g->packed_a + i * k, g->packed_b + j * k,
                     g->c + (i0 + i) * g->ldc + j0 + j, g->ldc, g->alpha, beta, cols - j < NR ? cols - j : NR);
        }
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* `size` in equal blocks of at most `most`: the size of one. */
static int64_t even_block(int64_t size, int64_t most)
{
    const int64_t blocks = (size + most - 1) / most;
    return (size + blocks - 1) / blocks;
}

void tr__gemm_packed(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
                     const float *b, int64_t ldb, float beta, float *c, int64_t ldc)
{
    const int64_t kc = even_block(k, KC), mc = even_block(m, MC), nc = least(n, NC);
    const int64_t size_a = (mc * kc + 2 * LANES - 1) / LANES * LANES, size_b = (nc + NR - 1) / NR * NR * kc;
    float        *memory = tr_thread_scratch(TR_SCRATCH_PACK, (size_t)(size_a + size_b) * sizeof(float));
    const product g = {trans_a, trans_b, lda, ldb, ldc, alpha, beta, a, b, c, memory + size_b, memory};

    for (int64_t j = 0; j < n; j += nc)
        for (int64_t p = 0; p < k; p += kc) {
            const int64_t depth = least(kc, k - p);
            pack_b(&g, j, least(nc, n - j), p, depth);
            for (int64_t i = 0; i < m; i += mc) {
                pack_a(&g, i, least(mc, m - i), p, depth);
                multiply_block(&g, i, least(mc, m - i), j, least(nc, n - j), depth, p == 0 ? beta : 1);
            }
        }
}

/* -- a B that many products share --------------------------------------------------------------------------------------------- */

bool tr__gemm_panels_wants(int64_t n, int64_t k)
{
    return n >= MIN_SIDE && k >= MIN_INNER && is_avx512();
}

static int64_t panels_width(int64_t n)
{
    return (n + NR - 1) / NR * NR;
}

int64_t tr__gemm_panels_size(int64_t n, int64_t k)
{
    return panels_width(n) * k;
}

void tr__gemm_panels_pack(float *panels, bool trans_b, int64_t n, int64_t k, const float *b, int64_t ldb)
{
    const int64_t kc = even_block(k, KC);

    for (int64_t p = 0; p < k; p += kc) {
        const product g = {.trans_b = trans_b, .ldb = ldb, .b = b, .packed_b = panels + p * panels_width(n)};
        pack_b(&g, 0, n, p, least(kc, k - p));
    }
}

void tr__gemm_panels(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *panels, int64_t left,
                     int64_t cols, float beta, float *c, int64_t ldc)
{
    const int64_t kc = even_block(k, KC), mc = even_block(m, MC);
    product       g = {.lda = lda, .ldc = ldc, .alpha = 1, .a = a, .c = c};

    g.packed_a = tr_thread_scratch(TR_SCRATCH_PACK, (size_t)(mc * kc + LANES) * sizeof(float));
    for (int64_t p = 0; p < k; p += kc) {
        const int64_t depth = least(kc, k - p);
        g.packed_b = (float *)panels + p * panels_width(n) + left * depth;
        for (int64_t i = 0; i < m; i += mc) {
            pack_a(&g, i, least(mc, m - i), p, depth);
            multiply_block(&g, i, least(mc, m - i), left, cols, depth, p == 0 ? beta : 1);
        }
    }
}

#else

bool tr__gemm_panels_wants(int64_t n, int64_t k)
{
    (void)n, (void)k;
    return false;
}

int64_t tr__gemm_panels_size(int64_t n, int64_t k)
{
    (void)n, (void)k;
    return 0;
}

void tr__gemm_panels_pack(float *panels, bool trans_b, int64_t n, int64_t k, const float *b, int64_t ldb)
{
    (void)panels, (void)trans_b, (void)n, (void)k, (void)b, (void)ldb;
}

void tr__gemm_panels(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *panels, int64_t left,
                     int64_t cols, float beta, float *c, int64_t ldc)
{
    (void)m, (void)n, (void)k, (void)a, (void)lda, (void)panels, (void)left, (void)cols, (void)beta, (void)c, (void)ldc;
}

bool tr__gemm_packed_wants(int64_t m, int64_t n, int64_t k)
{
    (void)m, (void)n, (void)k;
    return false;
}

void tr__gemm_packed(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
                     const float *b, int64_t ldb, float beta, float *c, int64_t ldc)
{
    (void)trans_a, (void)trans_b, (void)m, (void)n, (void)k, (void)alpha, (void)a, (void)lda, (void)b, (void)ldb, (void)beta;
    (void)c, (void)ldc;
}

#endif
