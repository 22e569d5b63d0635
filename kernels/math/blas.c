/* blas.c - finding OpenBLAS, checking its core, cutting products.
 *
 * OpenBLAS reads its settings when it is loaded, so they are put into the environment around dlopen. Its own threads are
 * never used: one-thread products in our slices are faster on nearly every shape, and two pools fight over the cores. */
#ifndef T
#include "kernels/math/blas.h"

#include "framework/compiler.h"
#include "framework/threadpool.h"
#include "kernels/math/gemm_packed.h"

#include <assert.h>
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#ifndef TR_BLAS_SONAME
#define TR_BLAS_SONAME "libscipy_openblas.so"
#endif
#ifndef TR_BLAS_PREFIX
#define TR_BLAS_PREFIX "scipy_"
#endif

enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };               /* of cblas.h */

typedef void (*sgemm_fn)(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda,
                         const float *b, int ldb, float beta, float *c, int ldc);
typedef void (*dgemm_fn)(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a, int lda,
                         const double *b, int ldb, double beta, double *c, int ldc);
typedef void (*sgemv_fn)(int order, int trans, int m, int n, float alpha, const float *a, int lda, const float *x,
                         int incx, float beta, float *y, int incy);
typedef void (*dgemv_fn)(int order, int trans, int m, int n, double alpha, const double *a, int lda, const double *x,
                         int incx, double beta, double *y, int incy);

static struct {
    void    *handle;
    char     core[32];
    bool     multiplies_unpacked;                          /* has a path for small matrices */
    sgemm_fn gemm_f32;
    dgemm_fn gemm_f64;
    sgemv_fn gemv_f32;
    dgemv_fn gemv_f64;
} blas;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static tr_status      outcome = TR_OK;
static char           outcome_text[1024];

/* -- loading ------------------------------------------------------------------------------------------------- */

/* Set a variable, or unset it for NULL; returns what it was, malloc'ed, or NULL. */
static char *swap_env(const char *name, const char *value)
{
    const char *old = getenv(name);
    char       *copy = old ? strdup(old) : NULL;
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
    return copy;
}

static void *symbol(const char *name)
{
    char full[128];
    snprintf(full, sizeof full, "%s%s", TR_BLAS_PREFIX, name);
    return dlsym(blas.handle, full);
}

static bool find_symbols(void)
{
    void  *gemm_f32 = symbol("cblas_sgemm"), *gemm_f64 = symbol("cblas_dgemm");
    void  *gemv_f32 = symbol("cblas_sgemv"), *gemv_f64 = symbol("cblas_dgemv");
    void  *core = symbol("openblas_get_corename"), *set_threads = symbol("openblas_set_num_threads");
    char *(*get_core)(void);
    void  (*set)(int);

    if (!gemm_f32 || !gemm_f64 || !gemv_f32 || !gemv_f64 || !core || !set_threads)
        return false;
    memcpy(&blas.gemm_f32, &gemm_f32, sizeof gemm_f32);
    memcpy(&blas.gemm_f64, &gemm_f64, sizeof gemm_f64);
    memcpy(&blas.gemv_f32, &gemv_f32, sizeof gemv_f32);
    memcpy(&blas.gemv_f64, &gemv_f64, sizeof gemv_f64);
    memcpy(&get_core, &core, sizeof core);
    memcpy(&set, &set_threads, sizeof set_threads);
    set(1);
    snprintf(blas.core, sizeof blas.core, "%s", get_core());
    return true;
}

/* Open the library with the given core (NULL: its own choice). */
static tr_status load(const char *core)
{
    char *threads = swap_env("OPENBLAS_NUM_THREADS", "1");
    char *core_type = core ? swap_env("OPENBLAS_CORETYPE", core) : NULL;

    blas.handle = dlopen(TR_BLAS_SONAME, RTLD_NOW | RTLD_LOCAL);
    const char *error = blas.handle ? "" : dlerror();

    free(swap_env("OPENBLAS_NUM_THREADS", threads));
    if (core)
        free(swap_env("OPENBLAS_CORETYPE", core_type));
    free(threads);
    free(core_type);
    if (!blas.handle)
        return tr_fail(TR_ENOTFOUND, "cannot load OpenBLAS: %s", error ? error : TR_BLAS_SONAME);
    if (!find_symbols())
        return tr_fail(TR_EUNSUPPORTED, "'%s' is no OpenBLAS whose functions begin with '%s'", TR_BLAS_SONAME,
                       TR_BLAS_PREFIX);
    return TR_OK;
}

/* -- the core -------------------------------------------------------------------------------------------------- */

#if defined(__x86_64__)
enum { LEVEL_SSE, LEVEL_AVX, LEVEL_AVX2, LEVEL_AVX512 };

static int cpu_level(void)
{
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl"))
        return LEVEL_AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return LEVEL_AVX2;
    return __builtin_cpu_supports("avx") ? LEVEL_AVX : LEVEL_SSE;
}

/* What the kernels of a core use. OpenBLAS names its Zen kernels alike on all Zen, those with AVX-512 too. */
static int core_level(const char *core)
{
    static const struct { const char *name; int level; } cores[] = {
        {"SkylakeX", LEVEL_AVX512}, {"Cooperlake", LEVEL_AVX512}, {"SapphireRapids", LEVEL_AVX512},
        {"Zen", LEVEL_AVX512},      {"Haswell", LEVEL_AVX2},      {"Excavator", LEVEL_AVX2},
        {"Sandybridge", LEVEL_AVX}, {"Bulldozer", LEVEL_AVX},     {"Piledriver", LEVEL_AVX},
        {"Steamroller", LEVEL_AVX},
    };
    for (int i = 0; i < TR_COUNT(cores); i++)
        if (strcasecmp(core, cores[i].name) == 0)
            return cores[i].level;
    return LEVEL_SSE;
}

/* A core that the user named may be one level below the CPU: to compare, or to avoid a fault. */
static tr_status check_core(void)
{
    static const char *const best[] = {"", "Sandybridge", "Haswell", "SkylakeX"};
    const int                need = cpu_level();
    const int                least = getenv("OPENBLAS_CORETYPE") && need > LEVEL_AVX2 ? LEVEL_AVX2 : need;

    if (core_level(blas.core) >= least)
        return TR_OK;
    char wrong[sizeof blas.core];
    memcpy(wrong, blas.core, sizeof wrong);
    dlclose(blas.handle);
    TR_TRY(load(best[need]));
    if (core_level(blas.core) < need)
        return tr_fail(TR_EUNSUPPORTED, "OpenBLAS chose the core '%s' for a CPU that can run '%s', and '%s' when asked for "
                       "that: products would be several times slower", wrong, best[need], blas.core);
    return TR_OK;
}
#else
static tr_status check_core(void)
{
    return TR_OK;
}
#endif

static tr_status load_and_check(void)
{
    TR_TRY(load(NULL));
    TR_TRY(check_core());
    blas.multiplies_unpacked = strcasecmp(blas.core, "SkylakeX") == 0 || strcasecmp(blas.core, "Cooperlake") == 0 ||
                               strcasecmp(blas.core, "SapphireRapids") == 0;
    return TR_OK;
}

static void init(void)
{
    outcome = load_and_check();
    if (outcome != TR_OK) {
        snprintf(outcome_text, sizeof outcome_text, "%s", tr_error());
        blas.core[0] = 0;
    }
}

tr_status tr_blas_init(void)
{
    pthread_once(&once, init);
    return outcome == TR_OK ? TR_OK : tr_fail(outcome, "%s", outcome_text);
}

const char *tr_blas_core(void)
{
    return blas.core;
}

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
    return blas.multiplies_unpacked && work <= SMALL_PRODUCT && (trans_a || !trans_b || k >= LONG_INNER);
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

/* -- our own products (gemm_packed.h): where the library would pack, too ------------------------------------------- */

static bool packs(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k)
{
    return !is_small(trans_a, trans_b, k, (double)m * (double)n * (double)k) && tr__gemm_packed_wants(m, n, k);
}

/* Cuts change no bit of such a product, so that there need be no more tiles than threads: no thread packs what another
 * has packed without need. Where threads do not fit a power of two, twice as many balance them. */
static void packed_grid(int64_t *rows, int64_t *cols, int64_t m, int64_t n, int64_t k)
{
    const int64_t threads = tr_num_threads();
    int64_t       tiles = 1, most = tiles_of((double)m * (double)n * (double)k);
    while (tiles < threads)
        tiles *= 2;
    tiles *= tiles == threads ? 1 : 2;
    cut(rows, cols, m, n, (double)(tiles < most ? tiles : most));
}

enum { FACTOR_ROWS = 64 };                                 /* from so many on packing pays */

#define TR_TEMPLATE "kernels/math/blas.c"
#include "kernels/math/each_float.h"
#else

#if T_IS_F32
static bool NAME(packs)(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k)
{
    return packs(trans_a, trans_b, m, n, k);
}
#else
static bool NAME(packs)(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k)
{
    (void)trans_a, (void)trans_b, (void)m, (void)n, (void)k;
    return false;
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

/* One piece of a product; `packed`: what NAME(packs) says of the whole. */
static void NAME(multiply)(bool packed, bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, T alpha, const T *a,
                           int64_t lda, const T *b, int64_t ldb, T beta, T *c, int64_t ldc)
{
#if T_IS_F32
    if (packed) {
        tr__gemm_packed(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
        return;
    }
#endif
    (void)packed;
    assert(blas.core[0] && "tr_blas_init comes first");
    if (m == 0 || n == 0)
        return;
    if (m > INT_MAX || n > INT_MAX || k > INT_MAX || lda > INT_MAX || ldb > INT_MAX || ldc > INT_MAX) {
        NAME(multiply_large)(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
        return;
    }
    NAME(blas.gemm)(ROW_MAJOR, trans_a ? TRANS : NO_TRANS, trans_b ? TRANS : NO_TRANS, (int)m, (int)n, (int)k, alpha, a,
                    (int)lda, b, (int)ldb, beta, c, (int)ldc);
}

void NAME(tr_gemm_one)(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, T alpha, const T *a, int64_t lda,
                       const T *b, int64_t ldb, T beta, T *c, int64_t ldc)
{
    NAME(multiply)(NAME(packs)(trans_a, trans_b, m, n, k), trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

typedef struct {
    bool     packed, trans_a, trans_b;
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
    NAME(multiply)(p->packed, p->trans_a, p->trans_b, bottom - top, right - left, p->k, p->alpha,
                   p->a + (p->trans_a ? top : top * p->lda), p->lda, p->b + (p->trans_b ? left * p->ldb : left), p->ldb,
                   p->beta, p->c + top * p->ldc + left, p->ldc);
}

void NAME(tr_gemm)(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, T alpha, const T *a, int64_t lda,
                   const T *b, int64_t ldb, T beta, T *c, int64_t ldc)
{
    const bool packed = NAME(packs)(trans_a, trans_b, m, n, k);
    int64_t    rows, cols;
    if (packed)
        packed_grid(&rows, &cols, m, n, k);
    else
        tr_gemm_grid(&rows, &cols, trans_a, trans_b, m, n, k);
    if (rows * cols == 1) {
        NAME(multiply)(packed, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
        return;
    }
    NAME(product) p = {packed, trans_a, trans_b, m, n, k, lda, ldb, ldc, rows, cols, alpha, beta, a, b, c, 0, 0, 0};
    tr_parallel(rows * cols, NAME(product_tile), &p);
}

/* -- a right side that many products share --------------------------------------------------------------------------- */

int64_t NAME(tr_factor_size)(int64_t n, int64_t k, int64_t rows)
{
    return T_IS_F32 && rows >= FACTOR_ROWS && tr__gemm_panels_wants(n, k) ? tr__gemm_panels_size(n, k) : 0;
}

void NAME(tr_factor_init)(NAME(tr_factor) *factor, bool trans, int64_t n, int64_t k, const T *b, int64_t ldb, int64_t rows,
                          T *memory)
{
    *factor = (NAME(tr_factor)){trans, n, k, ldb, b, NAME(tr_factor_size)(n, k, rows) > 0 ? memory : NULL};
#if T_IS_F32
    if (factor->panels)
        tr__gemm_panels_pack(memory, trans, n, k, b, ldb);
#endif
}

#if T_IS_F32
typedef struct {
    const NAME(tr_factor) *factor;
    int64_t      m, lda, ldc, tiles;
    float        beta;
    const float *a;
    float       *c;
} panel_product;

static void panel_tile(void *payload, int64_t tile)
{
    const panel_product *p = payload;
    const tr_factor_f32 *f = p->factor;
    int64_t              left, right;

    tr_slice_range(&left, &right, f->n, TR_PANEL_COLS, p->tiles, tile);
    if (left < right)
        tr__gemm_panels(p->m, f->n, f->k, p->a, p->lda, f->panels, left, right - left, p->beta, p->c, p->ldc);
}
#endif

void NAME(tr_gemm_factor)(int64_t m, const T *a, int64_t lda, const NAME(tr_factor) *factor, T beta, T *c, int64_t ldc)
{
    const int64_t n = factor->n, k = factor->k;
#if T_IS_F32
    if (factor->panels && m > 0) {
        const int64_t panels = (n + TR_PANEL_COLS - 1) / TR_PANEL_COLS, tiles = tiles_of((double)m * (double)n * (double)k);
        panel_product p = {factor, m, lda, ldc, tiles < panels ? tiles : panels, beta, a, c};
        tr_parallel(p.tiles, panel_tile, &p);
        return;
    }
#endif
    NAME(tr_gemm)(false, factor->trans, m, n, k, 1, a, lda, factor->b, factor->ldb, beta, c, ldc);
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
        {false, trans_a, trans_b, m, n, k, lda, ldb, ldc, 1, 1, alpha, beta, a, b, c, stride_a, stride_b, stride_c},
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
        NAME(blas.gemv)(ROW_MAJOR, p->trans ? TRANS : NO_TRANS, (int)m, (int)n, p->alpha, a, (int)p->lda, p->x, 1, p->beta,
                        p->y + from, 1);
}

void NAME(tr_gemv)(bool trans, int64_t m, int64_t n, T alpha, const T *a, int64_t lda, const T *x, T beta, T *y)
{
    const int64_t size = trans ? n : m, length = trans ? m : n;
    const int64_t min_items = (NAME(GEMV_SLICE) + length) / (length + 1);
    assert(blas.core[0] && "tr_blas_init comes first");
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
