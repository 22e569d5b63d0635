/* blas.c - cutting products, and who computes the pieces. */
#ifndef T
#include "kernels/math/products/blas.h"

#include "framework/base/compiler.h"
#include "framework/threads/precision.h"
#include "framework/threads/threadpool.h"
#include "kernels/math/products/gemm_bf16.h"
#include "kernels/math/products/gemm_packed.h"

#include <assert.h>
#include <limits.h>

/* -- cutting ------------------------------------------------------------------------------------------------------ */

/* More tiles use more cores and balance them better, but each packs its parts of A and B again: measured on one thread, 2
 * tiles cost nothing, 4 about 2 %, 8 about 5 %. So the number grows with the work, from two tiles on at a work of 3e6 (some 40
 * microseconds). */
static int64_t tiles_of(double work)
{
    static const double least[] = {3e6, 48e6, 400e6, 1.6e9, 6e9, 24e9};
    int64_t             tiles = 1;
    for (int i = 0; i < TR_COUNT(least) && work >= least[i]; i++)
        tiles *= 2;
    return tiles;
}

/* The AVX-512 cores multiply without packing up to a work of 100^3, which is up to a quarter faster than packing a product of
 * some times that: such a product is cut into tiles that small. (Not A B^T with a short inner dimension, where that path is
 * slower.) */
static const double SMALL_TILE = 1e6, SMALL_PRODUCT = 12e6;
enum { LONG_INNER = 512 };

static bool is_small(bool trans_a, bool trans_b, int64_t k, double work)
{
    return tr__openblas.multiplies_unpacked && work <= SMALL_PRODUCT && (trans_a || !trans_b || k >= LONG_INNER);
}

/* Halve the longer side of the tiles again and again: near squares pack least. Cuts lie at multiples of GRAIN, the widest
 * register tile, and tiles are at least TILE_SIDE long. */
enum { GRAIN = 16, TILE_SIDE = 16 };

static void cut(int64_t *rows, int64_t *cols, int64_t m, int64_t n, double tiles)
{
    *rows = *cols = 1;
    while ((double)(*rows * *cols) < tiles) {
        int64_t      *longer = m / *rows >= n / *cols ? rows : cols;
        const int64_t side = longer == rows ? m / *rows : n / *cols;
        if (side < 2 * TILE_SIDE)
            return;
        *longer *= 2;
    }
}

void tr_gemm_grid(int64_t *rows, int64_t *cols, bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k)
{
    const double work = (double)m * (double)n * (double)k, tiles = (double)tiles_of(work);
    const double small_tiles = is_small(trans_a, trans_b, k, work) ? work / SMALL_TILE : 1;
    cut(rows, cols, m, n, tiles > small_tiles ? tiles : small_tiles);
}

/* -- our own products: of floats (gemm_packed.h) where the library would pack, too; of bfloat16 (gemm_bf16.h) ------ */

/* The routine that computes a product, chosen for the whole of it. */
typedef enum way { BY_LIBRARY, BY_PACKING, BY_BF16_VECTORS, BY_BF16_TILES } way;

static bool wants_bf16(void)
{
    return tr__precision_now() == TR_PRECISION_BFLOAT16;
}

static bool multiplies_bf16(void)
{
    return wants_bf16() && tr__bf16_way() != TR_BF16_NONE;
}

static bool rounds_copies(void)
{
    return wants_bf16() && tr__bf16_way() == TR_BF16_NONE;
}

static way way_of_floats(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k)
{
    if (m > 0 && n > 0 && k > 0 && multiplies_bf16())
        return tr__gemm_bf16_by_tiles(m, n, k) ? BY_BF16_TILES : BY_BF16_VECTORS;
    return !is_small(trans_a, trans_b, k, (double)m * (double)n * (double)k) && tr__gemm_packed_wants(m, n, k) ? BY_PACKING : BY_LIBRARY;
}

/* Cuts change no bit of such a product, so that there need be no more tiles than threads: no thread packs what another
 * has packed without need. Where threads do not fit a power of two, twice as many balance them. */
static int64_t packed_tiles(double work)
{
    const int64_t threads = tr_num_threads(), most = tiles_of(work);
    int64_t       tiles = 1;
    while (tiles < threads)
        tiles *= 2;
    tiles *= tiles == threads ? 1 : 2;
    return tiles < most ? tiles : most;
}

static void packed_grid(int64_t *rows, int64_t *cols, int64_t m, int64_t n, int64_t k, way how)
{
    const double faster = how == BY_PACKING ? 1 : 2;
    cut(rows, cols, m, n, (double)packed_tiles((double)m * (double)n * (double)k / faster));
}

enum { FACTOR_ROWS = 64 };                                 /* from so many on packing pays */

static _Thread_local tr_factor_find *finds;                /* what tr__gemm_ask was told */
static _Thread_local void           *finds_in;

void tr__gemm_ask(tr_factor_find *find, void *payload)
{
    finds = find;
    finds_in = payload;
}

#include "kernels/math/tools/each_float.h"
#else

#if T_IS_F32
static way NAME(way_of)(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k)
{
    return way_of_floats(trans_a, trans_b, m, n, k);
}

/* A rounded copy of a matrix of rows x cols takes its place. */
static void take_rounded(float *copy, int64_t rows, int64_t cols, const float **x, int64_t *ld)
{
    tr__bf16_round(copy, *x, rows, cols, *ld);
    *x = copy;
    *ld = cols;
}

/* If bfloat16 is wanted and no instruction multiplies it, both operands are copies in this thread's memory. */
static void NAME(round_operands)(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const float **a, int64_t *lda,
                                 const float **b, int64_t *ldb)
{
    if (!rounds_copies() || k == 0)
        return;
    const int64_t size_a = (m * k + 15) / 16 * 16;
    float        *copy = tr_thread_scratch(TR_SCRATCH_ROUNDED, (size_t)(size_a + n * k) * sizeof *copy);

    take_rounded(copy, trans_a ? k : m, trans_a ? m : k, a, lda);
    take_rounded(copy + size_a, trans_b ? n : k, trans_b ? k : n, b, ldb);
}
#else
static way NAME(way_of)(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k)
{
    (void)trans_a, (void)trans_b, (void)m, (void)n, (void)k;
    return BY_LIBRARY;
}

static void NAME(round_operands)(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const double **a, int64_t *lda,
                                 const double **b, int64_t *ldb)
{
    (void)trans_a, (void)trans_b, (void)m, (void)n, (void)k, (void)a, (void)lda, (void)b, (void)ldb;
}
#endif

/* Numbers that OpenBLAS's ints have no room for: of operands with more than 2^31 elements a side, or with no elements. */
static void NAME(multiply_large)(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, T alpha, const T *a, int64_t lda,
                                 const T *b, int64_t ldb, T beta, T *c, int64_t ldc)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            T sum = 0;
            for (int64_t l = 0; l < k; l++)
                sum += (trans_a ? a[l * lda + i] : a[i * lda + l]) * (trans_b ? b[j * ldb + l] : b[l * ldb + j]);
            c[i * ldc + j] = alpha * sum + (beta != 0 ? beta * c[i * ldc + j] : 0);
        }
}

/* One piece of a product; `how`: what NAME(way_of) says of the whole. */
static void NAME(multiply)(way how, bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, T alpha, const T *a,
                           int64_t lda, const T *b, int64_t ldb, T beta, T *c, int64_t ldc)
{
#if T_IS_F32
    if (how == BY_PACKING) {
        tr__gemm_packed(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
        return;
    }
    if (how != BY_LIBRARY) {
        const tr_bf16_product product = {trans_a, trans_b, how == BY_BF16_TILES, lda, ldb, ldc, alpha, beta, a, b, c};
        if (m > 0 && n > 0)
            tr__gemm_bf16(m, n, k, &product);
        return;
    }
#endif
    (void)how;
    assert(tr__openblas.core[0] && "tr_blas_init comes first");
    if (m == 0 || n == 0)
        return;
    if (m > INT_MAX || n > INT_MAX || k > INT_MAX || lda > INT_MAX || ldb > INT_MAX || ldc > INT_MAX) {
        NAME(multiply_large)(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
        return;
    }
    NAME(tr__openblas.gemm)(TR_ROW_MAJOR, trans_a ? TR_TRANS : TR_NO_TRANS, trans_b ? TR_TRANS : TR_NO_TRANS, (int)m, (int)n, (int)k, alpha, a,
                    (int)lda, b, (int)ldb, beta, c, (int)ldc);
}

bool NAME(tr_gemm_sums_once)(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k)
{
    switch (NAME(way_of)(trans_a, trans_b, m, n, k)) {
    case BY_PACKING:      return k <= tr__gemm_packed_depth();
    case BY_BF16_VECTORS:
    case BY_BF16_TILES:   return k <= TR_BF16_DEPTH;
    default:              return false;
    }
}

void NAME(tr_gemm_one)(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, T alpha, const T *a, int64_t lda,
                       const T *b, int64_t ldb, T beta, T *c, int64_t ldc)
{
    NAME(round_operands)(trans_a, trans_b, m, n, k, &a, &lda, &b, &ldb);
    NAME(multiply)(NAME(way_of)(trans_a, trans_b, m, n, k), trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

typedef struct {
    way      how;
    bool     trans_a, trans_b;
    int64_t  m, n, k, lda, ldb, ldc, rows, cols;           /* rows x cols tiles */
    T        alpha, beta;
    const T *a, *b;
    T       *c;
    int64_t  stride_a, stride_b, stride_c;                 /* of a batch */
} NAME(product);

static void NAME(product_tile)(void *payload, int64_t tile)
{
    const NAME(product) *p = payload;
    int64_t              top, bottom, left, right;

    tr_slice_range(&top, &bottom, p->m, GRAIN, p->rows, tile / p->cols);
    tr_slice_range(&left, &right, p->n, GRAIN, p->cols, tile % p->cols);
    NAME(multiply)(p->how, p->trans_a, p->trans_b, bottom - top, right - left, p->k, p->alpha,
                   p->a + (p->trans_a ? top : top * p->lda), p->lda, p->b + (p->trans_b ? left * p->ldb : left), p->ldb,
                   p->beta, p->c + top * p->ldc + left, p->ldc);
}

void NAME(tr_gemm)(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, T alpha, const T *a, int64_t lda,
                   const T *b, int64_t ldb, T beta, T *c, int64_t ldc)
{
    const way how = NAME(way_of)(trans_a, trans_b, m, n, k);
    int64_t   rows, cols;
#if T_IS_F32
    const bool           asks = finds && !trans_a && alpha == 1 && m <= TR_FACTOR_MOST_ROWS;
    const tr_factor_f32 *packed = asks ? finds(finds_in, trans_b, n, k, b, ldb) : NULL;
    if (packed) {
        tr_gemm_factor_f32(m, a, lda, packed, beta, c, ldc);
        return;
    }
#endif
    NAME(round_operands)(trans_a, trans_b, m, n, k, &a, &lda, &b, &ldb);
    if (how != BY_LIBRARY)
        packed_grid(&rows, &cols, m, n, k, how);
    else
        tr_gemm_grid(&rows, &cols, trans_a, trans_b, m, n, k);
    if (rows * cols == 1) {
        NAME(multiply)(how, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
        return;
    }
    NAME(product) p = {how, trans_a, trans_b, m, n, k, lda, ldb, ldc, rows, cols, alpha, beta, a, b, c, 0, 0, 0};
    tr_parallel(rows * cols, NAME(product_tile), &p);
}

/* -- a right side that many products share --------------------------------------------------------------------------- */

int64_t NAME(tr_factor_size)(int64_t n, int64_t k, int64_t rows)
{
    if (!T_IS_F32 || rows < FACTOR_ROWS || n == 0 || k == 0)
        return 0;
    if (multiplies_bf16())
        return tr__bf16_panels_words(n, k);                /* 4 bytes each, as floats have */
    return tr__gemm_panels_wants(n, k) ? tr__gemm_panels_size(n, k) : 0;
}

void NAME(tr_factor_init)(NAME(tr_factor) *factor, bool trans, int64_t n, int64_t k, const T *b, int64_t ldb, int64_t rows,
                          T *memory)
{
    *factor = (NAME(tr_factor)){trans, n, k, ldb, b, NAME(tr_factor_size)(n, k, rows) > 0 ? memory : NULL};
#if T_IS_F32
    if (factor->panels && multiplies_bf16()) {
        tr__bf16_panels_pack((uint32_t *)memory, trans, n, k, b, ldb);
    } else if (factor->panels) {
        if (rounds_copies())
            take_rounded(tr_thread_scratch(TR_SCRATCH_ROUNDED, (size_t)(n * k) * sizeof *b), trans ? n : k, trans ? k : n, &b, &ldb);
        tr__gemm_panels_pack(memory, trans, n, k, b, ldb);
    }
#endif
}

#if T_IS_F32
typedef struct {
    const tr_factor_f32 *factor;
    tr_bf16_product product;
    int64_t         m, tiles;
    bool            is_bf16;
} panel_product;

static void panel_tile(void *payload, int64_t tile)
{
    const panel_product   *p = payload;
    const tr_factor_f32   *f = p->factor;
    const tr_bf16_product *g = &p->product;
    int64_t                left, right;

    tr_slice_range(&left, &right, f->n, TR_PANEL_COLS, p->tiles, tile);
    if (left >= right)
        return;
    if (p->is_bf16)
        tr__bf16_panels(p->m, f->n, f->k, g, (const uint32_t *)f->panels, left, right - left);
    else
        tr__gemm_panels(p->m, f->n, f->k, g->a, g->lda, f->panels, left, right - left, g->beta, g->c, g->ldc);
}

static void multiply_panels(int64_t m, const float *a, int64_t lda, const tr_factor_f32 *factor, float beta, float *c, int64_t ldc)
{
    const int64_t n = factor->n, k = factor->k;
    const int64_t panels = (n + TR_PANEL_COLS - 1) / TR_PANEL_COLS, tiles = packed_tiles((double)m * (double)n * (double)k);

    if (rounds_copies())
        take_rounded(tr_thread_scratch(TR_SCRATCH_ROUNDED, (size_t)(m * k) * sizeof *a), m, k, &a, &lda);
    panel_product p = {factor, {.by_tiles = tr__gemm_bf16_by_tiles(m, n, k), .lda = lda, .ldc = ldc, .alpha = 1, .beta = beta,
                                .a = a, .c = c}, m, tiles < panels ? tiles : panels, multiplies_bf16()};
    tr_parallel(p.tiles, panel_tile, &p);
}
#endif

void NAME(tr_gemm_factor)(int64_t m, const T *a, int64_t lda, const NAME(tr_factor) *factor, T beta, T *c, int64_t ldc)
{
#if T_IS_F32
    if (factor->panels && m > 0) {
        multiply_panels(m, a, lda, factor, beta, c, ldc);
        return;
    }
#endif
    NAME(tr_gemm)(false, factor->trans, m, factor->n, factor->k, 1, a, lda, factor->b, factor->ldb, beta, c, ldc);
}

/* -- batches: whole products are slices while there are enough of them ---------------------------------------------- */

enum { NAME(BATCH_WORK) = 1500000 };                       /* multiplications in a slice */

typedef struct {
    NAME(product) product;
    int64_t       batch, groups;
} NAME(batch);

static void NAME(batch_slice)(void *payload, int64_t group)
{
    const NAME(batch) *b = payload;
    int64_t            from, to;
    tr_slice_range(&from, &to, b->batch, 1, b->groups, group);
    for (int64_t i = from; i < to; i++) {
        const NAME(product) *p = &b->product;
        NAME(tr_gemm_one)(p->trans_a, p->trans_b, p->m, p->n, p->k, p->alpha, p->a + i * p->stride_a, p->lda,
                          p->b + i * p->stride_b, p->ldb, p->beta, p->c + i * p->stride_c, p->ldc);
    }
}

void NAME(tr_gemm_batched)(bool trans_a, bool trans_b, int64_t batch, int64_t m, int64_t n, int64_t k, T alpha,
                           const T *a, int64_t lda, int64_t stride_a, const T *b, int64_t ldb, int64_t stride_b, T beta,
                           T *c, int64_t ldc, int64_t stride_c)
{
    if (batch < 4) {
        for (int64_t i = 0; i < batch; i++)
            NAME(tr_gemm)(trans_a, trans_b, m, n, k, alpha, a + i * stride_a, lda, b + i * stride_b, ldb, beta,
                          c + i * stride_c, ldc);
        return;
    }
    const int64_t work = 1 + m * n * k;
    NAME(batch) all = {
        {BY_LIBRARY, trans_a, trans_b, m, n, k, lda, ldb, ldc, 1, 1, alpha, beta, a, b, c, stride_a, stride_b, stride_c},
        batch, tr_slice_count(batch, 1 + NAME(BATCH_WORK) / work),
    };
    tr_parallel(all.groups, NAME(batch_slice), &all);
}

/* -- matrix by vector: bound by memory; cut along the output -------------------------------------------------------- */

enum { NAME(GEMV_SLICE) = 32768 };                          /* elements of A in a slice */

typedef struct {
    bool     trans;
    int64_t  m, n, lda, slices;
    T        alpha, beta;
    const T *a, *x;
    T       *y;
} NAME(vector_product);

static void NAME(vector_slice)(void *payload, int64_t slice)
{
    const NAME(vector_product) *p = payload;
    int64_t                     from, to, m = p->m, n = p->n;
    const T                    *a = p->a;

    tr_slice_range(&from, &to, p->trans ? n : m, GRAIN, p->slices, slice);
    a += p->trans ? from : from * p->lda;
    *(p->trans ? &n : &m) = to - from;
    if (from < to)
        NAME(tr__openblas.gemv)(TR_ROW_MAJOR, p->trans ? TR_TRANS : TR_NO_TRANS, (int)m, (int)n, p->alpha, a, (int)p->lda, p->x, 1, p->beta,
                        p->y + from, 1);
}

void NAME(tr_gemv)(bool trans, int64_t m, int64_t n, T alpha, const T *a, int64_t lda, const T *x, T beta, T *y)
{
    const int64_t size = trans ? n : m, length = trans ? m : n;
    const int64_t min_items = (NAME(GEMV_SLICE) + length) / (length + 1);
    assert(tr__openblas.core[0] && "tr_blas_init comes first");
    assert(m <= INT_MAX && n <= INT_MAX && lda <= INT_MAX);

    if (length == 0)                                        /* the library leaves y alone then, NaN and all */
        for (int64_t i = 0; i < size; i++)
            y[i] = beta == 0 ? 0 : y[i] * beta;
    if (length == 0 || size == 0)
        return;
    NAME(vector_product) p = {trans, m, n, lda, tr_slice_count(size, min_items < GRAIN ? GRAIN : min_items),
                              alpha, beta, a, x, y};
    tr_parallel(p.slices, NAME(vector_slice), &p);
}

#endif
