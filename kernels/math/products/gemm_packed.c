/* gemm_packed.c - see gemm_packed.h.
 *
 * A block of B (KC rows) is copied to panels of NR columns, a block of A to panels of up to MR rows, both in the order in which
 * the innermost loop reads them. That loop keeps a tile of rows x 2 vectors of sums in registers and reads memory only
 * for one panel of each: 28 of the 32 registers of AVX-512 hold sums, 12 of the 16 of AVX2. Rows are spread evenly over the panels of a
 * block (13 and 13, not 14 and 12), so that nothing is computed that is not wanted. The packed block of A and some panels of B stay in
 * the second level cache.
 *
 * Copying hides behind multiplications where it can. An A that is not transposed is read where it is, each row by itself. Where all rows
 * are in one block, the first tile of a panel of B reads its rows from B and stores them in the panel.
 *
 * This file is its own template: the part under `#else` is read for each level of instructions, in terms of
 *   LEVEL(x)    x_avx512, x_avx2
 *   TARGET      the attribute of functions of the level
 *   LANES, MR   floats of a vector, rows of a tile
 *   KC          rows of a block of B */
#ifndef LEVEL
#include "kernels/math/products/gemm_packed.h"

#include "framework/base/compiler.h"
#include "framework/threads/threadpool.h"
#include "kernels/math/tools/fetch.h"
#include "kernels/math/tools/float_lanes.h"

#include <stddef.h>

enum { BLOCK_PANELS = 20, BLOCK_COLS = 1024, MIN_INNER = 8 };

typedef struct {
    bool         trans_a, trans_b;
    int64_t      lda, ldb, ldc;
    float        alpha, beta;
    const float *a, *b;
    float       *c;
    float       *packed_a, *packed_b; /* packed_a NULL: A is read where it is */
    int64_t      step;                /* from a panel of B to the next */
    int64_t      loose;               /* columns of B's block that are packed by the first tiles that read them: whole panels */
} product;

/* Read when the sums are done: in registers they would push out sums. */
typedef struct {
    float alpha, beta;
} factors;

typedef struct {
    int64_t min_side;                                         /* thinner products, and those of fewer multiplications, are the library's */
    double  min_work;
    int64_t depth;                                            /* KC */
    void (*gemm)(int64_t m, int64_t n, int64_t k, product g);
    void (*pack_panels)(float *panels, bool trans_b, int64_t n, int64_t k, const float *b, int64_t ldb);
    void (*panels)(int64_t m, int64_t n, int64_t k, product g, const float *panels, int64_t left, int64_t cols);
} level;

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t panels_width(int64_t n)
{
    return (n + TR_PANEL_COLS - 1) / TR_PANEL_COLS * TR_PANEL_COLS;
}

#if defined(__x86_64__) && defined(__GNUC__)
#define INLINE TARGET static inline __attribute__((always_inline))

enum {
    AHEAD = 4, AHEAD_B = 12,          /* rows that are asked for before they are packed */
    FAR = 1 << 17,                    /* floats of a B that may be in no near cache */
    KC_AVX512 = 256, KC_AVX2 = 400
};

/* `size` in equal blocks of at most `most`: the size of one. */
static int64_t even_block(int64_t size, int64_t most)
{
    const int64_t blocks = (size + most - 1) / most;
    return (size + blocks - 1) / blocks;
}

/* The first row of panel i of `count`, when `rows` rows are spread evenly. */
static int64_t panel_begin(int64_t rows, int64_t count, int64_t i)
{
    return rows * i / count;
}

#define LEVEL(x) x##_avx512
#define TARGET   TR_TARGET_AVX512
#define LANES    16
#define MR       14
#define KC       KC_AVX512
#include "kernels/math/products/gemm_packed.c"
#undef LEVEL
#undef TARGET
#undef LANES
#undef MR
#undef KC

#define LEVEL(x) x##_avx2
#define TARGET   TR_TARGET_AVX2
#define LANES    8
#define MR       6
#define KC       KC_AVX2
#include "kernels/math/products/gemm_packed.c"
#undef LEVEL
#undef TARGET
#undef LANES
#undef MR
#undef KC

/* The best that this CPU has; NULL: none. */
static const level *own_level(void)
{
    static const level avx512 = {24, 2.5e5, KC_AVX512, gemm_avx512, pack_panels_avx512, panels_avx512};
    static const level avx2 = {64, 12e6, KC_AVX2, gemm_avx2, pack_panels_avx2, panels_avx2};

    switch (tr__float_level()) {
    case TR_FLOAT_AVX512: return &avx512;
    case TR_FLOAT_AVX2:   return &avx2;
    default:              return NULL;
    }
}

#else

static const level *own_level(void)
{
    return NULL;
}

#endif

/* -- for the CPU at hand ---------------------------------------------------------------------------------------------- */

bool tr__gemm_packed_wants(int64_t m, int64_t n, int64_t k)
{
    const level *own = own_level();

    return own && least(m, n) >= own->min_side && k >= MIN_INNER && (double)m * (double)n * (double)k >= own->min_work;
}

int64_t tr__gemm_packed_depth(void)
{
    return own_level()->depth;
}

void tr__gemm_packed(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
                     const float *b, int64_t ldb, float beta, float *c, int64_t ldc)
{
    own_level()->gemm(m, n, k, (product){trans_a, trans_b, lda, ldb, ldc, alpha, beta, a, b, c, NULL, NULL, 0, 0});
}

bool tr__gemm_panels_wants(int64_t n, int64_t k)
{
    const level *own = own_level();

    return own && n >= own->min_side && k >= MIN_INNER;
}

int64_t tr__gemm_panels_size(int64_t n, int64_t k)
{
    return panels_width(n) * k;
}

void tr__gemm_panels_pack(float *panels, bool trans_b, int64_t n, int64_t k, const float *b, int64_t ldb)
{
    own_level()->pack_panels(panels, trans_b, n, k, b, ldb);
}

void tr__gemm_panels(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *panels, int64_t left,
                     int64_t cols, float beta, float *c, int64_t ldc)
{
    own_level()->panels(m, n, k, (product){.lda = lda, .ldc = ldc, .alpha = 1, .beta = beta, .a = a, .c = c}, panels, left, cols);
}

#else /* for each level */

#define NR (2 * LANES)

/* -- packing ------------------------------------------------------------------------------------------------------------ */

/* to[p * step + i] = from[i * stride + p] for up to LANES rows i; lanes beyond `rows` become 0. Stores are whole vectors: where
 * step < LANES each overwrites the end of the one before, and the last goes LANES - step beyond. */
INLINE void LEVEL(pack_across)(float *to, int64_t step, const float *from, int64_t stride, int64_t rows, int64_t k)
{
    for (int64_t p = 0; p < k; p += LANES) {
        const int64_t count = least(LANES, k - p);
        LEVEL(vec)    r[LANES];
        TR_UNROLL for (int i = 0; i < LANES; i++) {
            tr__fetch(from, (i + LANES) * stride + p);
            r[i] = i < rows ? LEVEL(load_some)(from + i * stride + p, count) : LEVEL(zero)();
        }
        LEVEL(transpose)(r);
        if (count == LANES) {
            TR_UNROLL for (int i = 0; i < LANES; i++)
                LEVEL(store)(to + (p + i) * step, r[i]);
        } else {
            float last[LANES][LANES];
            TR_UNROLL for (int i = 0; i < LANES; i++)
                LEVEL(store)(last[i], r[i]);
            for (int i = 0; i < count; i++)
                LEVEL(store)(to + (p + i) * step, LEVEL(load)(last[i]));
        }
    }
}

/* to[p * step + i] = from[p * stride + i], i below `count`, otherwise as above. */
INLINE void LEVEL(pack_along)(float *to, int64_t step, const float *from, int64_t stride, int64_t count, int64_t k)
{
    for (int64_t p = 0; p < k; p++) {
        tr__fetch(from, (p + AHEAD) * stride);
        LEVEL(store)(to + p * step, LEVEL(load_some)(from + p * stride, count));
    }
}

static int64_t LEVEL(panels_of)(int64_t rows)
{
    return (rows + MR - 1) / MR;
}

TARGET static void LEVEL(pack_a)(const product *g, int64_t i0, int64_t rows, int64_t p0, int64_t k)
{
    const int64_t panels = LEVEL(panels_of)(rows);
    for (int64_t q = 0; q < panels; q++) {
        const int64_t i = panel_begin(rows, panels, q), height = panel_begin(rows, panels, q + 1) - i;
        float        *to = g->packed_a + i * k;
        if (g->trans_a)
            LEVEL(pack_along)(to, height, g->a + p0 * g->lda + i0 + i, g->lda, height, k);
        else
            LEVEL(pack_across)(to, height, g->a + (i0 + i) * g->lda + p0, g->lda, height, k);
    }
}

/* Rows of B are read from end to end, which is what memory does best. */
INLINE void LEVEL(pack_b_row)(float *to, int64_t step, const float *from, int64_t ahead, int64_t cols)
{
    int64_t j = 0;
    for (; j + NR <= cols; j += NR, to += step) {
        tr__fetch(from, ahead + j);
        tr__fetch(from, ahead + j + LANES);
        LEVEL(store)(to, LEVEL(load)(from + j));
        LEVEL(store)(to + LANES, LEVEL(load)(from + j + LANES));
    }
    for (int64_t half = 0; half < NR && j < cols; half += LANES)
        LEVEL(store)(to + half, LEVEL(load_some)(from + j + half, cols - j - half));
}

/* Columns j0 .., rows p0 .., into panel number `panel` and those behind it. */
TARGET static void LEVEL(pack_b)(const product *g, int64_t j0, int64_t cols, int64_t p0, int64_t k, int64_t panel)
{
    float *to = g->packed_b + panel * g->step;

    if (!g->trans_b) {
        for (int64_t p = 0; p < k; p++)
            LEVEL(pack_b_row)(to + p * NR, g->step, g->b + (p0 + p) * g->ldb + j0, AHEAD * g->ldb, cols);
        return;
    }
    for (int64_t j = 0; j < cols; j += LANES)
        LEVEL(pack_across)(to + j / NR * g->step + j % NR, NR, g->b + (j0 + j) * g->ldb + p0, g->ldb, cols - j, k);
}

/* -- the innermost loop --------------------------------------------------------------------------------------------------- */

INLINE void LEVEL(update)(float *c, LEVEL(vec) sum, const factors *by, int64_t count)
{
    const LEVEL(vec) alpha = LEVEL(all)(by->alpha);
    LEVEL(vec)       out;
    if (by->beta == 1)
        out = LEVEL(fmadd)(alpha, sum, LEVEL(load_some)(c, count));
    else if (by->beta != 0)
        out = LEVEL(fmadd)(LEVEL(all)(by->beta), LEVEL(load_some)(c, count), LEVEL(mul)(alpha, sum));
    else
        out = LEVEL(mul)(alpha, sum);
    if (count >= LANES)
        LEVEL(store)(c, out);
    else
        LEVEL(store_some)(c, out, count);
}

/* Rows of A lie `lda` apart, or with lda = 0 they are a packed panel. B is a packed panel, or it becomes one: of rows of B from `from` on. `next`: one line of
 * each of these rows, which a later tile reads, is asked for; NULL: none. */
INLINE void LEVEL(tile)(int rows, int vectors, int64_t k, const float *a, int64_t lda, float *b, const float *from, const float *next,
                        int64_t ldb, float *c, int64_t ldc, const factors *by, int64_t cols)
{
    LEVEL(vec)   sum[MR][2];
    const float *third[(MR + 2) / 3];                      /* every third row of A: addresses have room for twice a distance */
    TR_UNROLL for (int i = 0; i < rows; i += 3)
        third[i / 3] = a + i * lda;
    TR_UNROLL for (int i = 0; i < rows; i++) {
        sum[i][0] = sum[i][1] = LEVEL(zero)();
        tr__fetch(c, i * ldc);                             /* it is read or written when the sums are done */
        tr__fetch(c, i * ldc + 16);
    }
    for (int64_t p = 0; p < k; p++, a += rows, b += NR) {
        const float     *row = from ? from : b;
        const LEVEL(vec) b0 = LEVEL(load)(row), b1 = vectors > 1 ? LEVEL(load)(row + LANES) : b0;
        if (from) {
            tr__fetch(from, AHEAD_B * ldb);
            tr__fetch(from, AHEAD_B * ldb + 16);
            LEVEL(store)(b, b0);
            LEVEL(store)(b + LANES, b1);
            from += ldb;
        } else if (next) {
            tr__fetch(next, 0);
            next += ldb;
        }
        TR_UNROLL for (int i = 0; i < rows; i++) {
            const LEVEL(vec) x = LEVEL(all)(lda > 0 ? third[i / 3][i % 3 * lda] : a[i]);
            sum[i][0] = LEVEL(fmadd)(x, b0, sum[i][0]);
            if (vectors > 1)
                sum[i][1] = LEVEL(fmadd)(x, b1, sum[i][1]);
        }
        TR_UNROLL for (int i = 0; i < rows && lda > 0; i += 3) {
            third[i / 3]++;
            __asm__("" : "+r"(third[i / 3]));
        }
    }
    TR_UNROLL for (int i = 0; i < rows; i++, c += ldc) {
        LEVEL(update)(c, sum[i][0], by, cols);
        if (vectors > 1)
            LEVEL(update)(c + LANES, sum[i][1], by, cols - LANES);
    }
}

/* `from` and `next` as above; they may be NULL, and are where there is no whole panel. */
TARGET static void LEVEL(any_tile)(int64_t rows, int64_t k, const float *a, int64_t lda, float *b, const float *from, const float *next,
                                   int64_t ldb, float *c, int64_t ldc, const factors *by, int64_t cols)
{
#define CASE(rows_)                                                                     \
    case rows_:                                                                         \
        if (cols <= LANES)                                                              \
            LEVEL(tile)(rows_, 1, k, a, lda, b, NULL, NULL, 0, c, ldc, by, cols);       \
        else if (from && lda > 0)                                                       \
            LEVEL(tile)(rows_, 2, k, a, lda, b, from, NULL, ldb, c, ldc, by, cols);     \
        else if (from)                                                                  \
            LEVEL(tile)(rows_, 2, k, a, 0, b, from, NULL, ldb, c, ldc, by, cols);       \
        else if (next && lda > 0)                                                       \
            LEVEL(tile)(rows_, 2, k, a, lda, b, NULL, next, ldb, c, ldc, by, cols);     \
        else if (lda > 0)                                                               \
            LEVEL(tile)(rows_, 2, k, a, lda, b, NULL, NULL, 0, c, ldc, by, cols);       \
        else                                                                            \
            LEVEL(tile)(rows_, 2, k, a, 0, b, NULL, NULL, 0, c, ldc, by, cols);         \
        break
    switch (rows) {
#if MR == 14
        CASE(14); CASE(13); CASE(12); CASE(11); CASE(10); CASE(9); CASE(8); CASE(7);
#endif
        CASE(6); CASE(5); CASE(4); CASE(3); CASE(2); CASE(1);
    }
#undef CASE
}

/* -- blocks ------------------------------------------------------------------------------------------------------------------ */

/* Rows i0 .. of C, columns j0 .., of the sums the part of k from p0 on. */
static void LEVEL(multiply_block)(const product *g, int64_t i0, int64_t rows, int64_t j0, int64_t cols, int64_t p0, int64_t k, float beta)
{
    const int64_t panels = LEVEL(panels_of)(rows), lda = g->packed_a ? 0 : g->lda;
    const factors by = {g->alpha, beta};
    const int64_t ahead = i0 == 0 && k * g->loose >= FAR ? g->loose - NR : 0;      /* panels that begin before it are followed by one that is asked for */
    for (int64_t j = 0; j < cols; j += NR)
        for (int64_t q = 0; q < panels; q++) {
            const int64_t i = panel_begin(rows, panels, q);
            const float  *row = g->b + p0 * g->ldb + j0 + j, *from = i0 + q == 0 && j < g->loose ? row : NULL;
            const float  *next = (q == 1 || q == 2) && j < ahead ? row + NR + (q - 1) * LANES : NULL;
            LEVEL(any_tile)(panel_begin(rows, panels, q + 1) - i, k, lda > 0 ? g->a + (i0 + i) * lda + p0 : g->packed_a + i * k, lda,
                            g->packed_b + j / NR * g->step, from, next, g->ldb, g->c + (i0 + i) * g->ldc + j0 + j, g->ldc, &by, least(cols - j, NR));
        }
}

/* Does the innermost loop read A where it is? Not where its rows would all be in one set of the first cache. */
static bool LEVEL(reads_a)(const product *g)
{
    enum { WAY_BYTES = 4096 };
    return !g->trans_a && g->lda * (int64_t)sizeof(float) % WAY_BYTES != 0;
}

static void LEVEL(gemm)(int64_t m, int64_t n, int64_t k, product g)
{
    const int64_t kc = even_block(k, KC), mc = even_block(m, BLOCK_PANELS * MR), nc = least(n, BLOCK_COLS);
    const int64_t size_a = (mc * kc + 2 * LANES - 1) / LANES * LANES, size_b = (nc + NR - 1) / NR * (NR * kc + LANES);

    g.step = NR * kc + LANES;         /* panels that are written side by side do not share sets of the cache */
    g.packed_b = tr_thread_scratch(TR_SCRATCH_PACK, (size_t)(size_a + size_b) * sizeof(float));
    g.packed_a = LEVEL(reads_a)(&g) ? NULL : g.packed_b + size_b;
    for (int64_t j = 0; j < n; j += nc)
        for (int64_t p = 0; p < k; p += kc) {
            const int64_t depth = least(kc, k - p);
            g.loose = m <= mc && !g.trans_b ? least(nc, n - j) / NR * NR : 0;
            LEVEL(pack_b)(&g, j + g.loose, least(nc, n - j) - g.loose, p, depth, g.loose / NR);
            for (int64_t i = 0; i < m; i += mc) {
                if (g.packed_a)
                    LEVEL(pack_a)(&g, i, least(mc, m - i), p, depth);
                LEVEL(multiply_block)(&g, i, least(mc, m - i), j, least(nc, n - j), p, depth, p == 0 ? g.beta : 1);
            }
        }
}

/* -- a B that many products share --------------------------------------------------------------------------------------------- */

static void LEVEL(pack_panels)(float *panels, bool trans_b, int64_t n, int64_t k, const float *b, int64_t ldb)
{
    const int64_t kc = even_block(k, KC);

    for (int64_t p = 0; p < k; p += kc) {
        const product g = {.trans_b = trans_b, .ldb = ldb, .b = b, .packed_b = panels + p * panels_width(n),
                           .step = NR * least(kc, k - p)};
        LEVEL(pack_b)(&g, 0, n, p, least(kc, k - p), 0);
    }
}

static void LEVEL(panels)(int64_t m, int64_t n, int64_t k, product g, const float *panels, int64_t left, int64_t cols)
{
    const int64_t kc = even_block(k, KC), mc = even_block(m, BLOCK_PANELS * MR);

    g.packed_a = LEVEL(reads_a)(&g) ? NULL : tr_thread_scratch(TR_SCRATCH_PACK, (size_t)(mc * kc + LANES) * sizeof(float));
    for (int64_t p = 0; p < k; p += kc) {
        const int64_t depth = least(kc, k - p);
        g.packed_b = (float *)panels + p * panels_width(n) + left * depth;
        g.step = NR * depth;
        for (int64_t i = 0; i < m; i += mc) {
            if (g.packed_a)
                LEVEL(pack_a)(&g, i, least(mc, m - i), p, depth);
            LEVEL(multiply_block)(&g, i, least(mc, m - i), left, cols, p, depth, p == 0 ? g.beta : 1);
        }
    }
}

#undef NR
#endif
