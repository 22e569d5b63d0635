/* gemm_bf16.c - asking the CPU and its operating system, and the product compiled with the instructions. */
#include "kernels/math/products/gemm_bf16.h"

#include <assert.h>
#include <pthread.h>

#include "framework/base/compiler.h"
#include "framework/threads/threadpool.h"
#include "kernels/math/tools/cast.h"

/* Compilers from these on know the instructions. */
#if defined(__x86_64__) && ((defined(__clang__) && __clang_major__ >= 12) || (!defined(__clang__) && defined(__GNUC__) && __GNUC__ >= 11))

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernels/math/products/gemm_bf16_units.h"

#include "kernels/math/products/gemm_bf16_blocks.h"

static bool has_vectors(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bf16");
}

/* The system saves tiles when it changes threads: bits 17 and 18 of XCR0. */
static bool system_saves_tiles(void)
{
    uint32_t a, b, c, d;

    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
        return false;
    __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    return (a >> 17 & 3) == 3;
}

/* The room for tiles is large, so Linux gives it to processes that ask, for all of their threads. */
static bool system_allows_tiles(void)
{
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

static bool has_tiles(void)
{
    enum { AMX_BF16 = 1 << 22, AMX_TILE = 1 << 24 };
    uint32_t a, b, c, d;

    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & AMX_BF16) && (d & AMX_TILE) && system_saves_tiles() &&
           system_allows_tiles();
}

static tr_bf16_way find_way(void)
{
    return !has_vectors() ? TR_BF16_NONE : has_tiles() ? TR_BF16_TILES : TR_BF16_VECTORS;
}

void tr__gemm_bf16(int64_t m, int64_t n, int64_t k, const tr_bf16_product *product)
{
    multiply(m, n, k, product);
}

int64_t tr__bf16_panels_words(int64_t n, int64_t k)
{
    return panels_words(n, k);
}

void tr__bf16_panels_pack(uint32_t *panels, bool trans_b, int64_t n, int64_t k, const float *b, int64_t ldb)
{
    pack_panels(panels, trans_b, n, k, b, ldb);
}

void tr__bf16_panels(int64_t m, int64_t n, int64_t k, const tr_bf16_product *product, const uint32_t *panels, int64_t left,
                     int64_t cols)
{
    multiply_panels(m, n, k, product, panels, left, cols);
}

#else

static tr_bf16_way find_way(void)
{
    return TR_BF16_NONE;
}

void tr__gemm_bf16(int64_t m, int64_t n, int64_t k, const tr_bf16_product *product)
{
    (void)m, (void)n, (void)k, (void)product;
    assert(!"there are no such instructions");
}

int64_t tr__bf16_panels_words(int64_t n, int64_t k)
{
    (void)n, (void)k;
    return 0;
}

void tr__bf16_panels_pack(uint32_t *panels, bool trans_b, int64_t n, int64_t k, const float *b, int64_t ldb)
{
    (void)panels, (void)trans_b, (void)n, (void)k, (void)b, (void)ldb;
    assert(!"there are no such instructions");
}

void tr__bf16_panels(int64_t m, int64_t n, int64_t k, const tr_bf16_product *product, const uint32_t *panels, int64_t left,
                     int64_t cols)
{
    (void)m, (void)n, (void)k, (void)product, (void)panels, (void)left, (void)cols;
    assert(!"there are no such instructions");
}

#endif

static pthread_once_t once = PTHREAD_ONCE_INIT;
static tr_bf16_way    way;

static void init(void)
{
    way = find_way();
}

tr_bf16_way tr__bf16_way(void)
{
    pthread_once(&once, init);
    return way;
}

/* Tiles have 16 rows, which a product of fewer leaves empty, and are set up for each product. */
bool tr__gemm_bf16_by_tiles(int64_t m, int64_t n, int64_t k)
{
    enum { MIN_ROWS = 4, MIN_COLS = 8, MIN_WORK = 1 << 15 };
    return tr__bf16_way() == TR_BF16_TILES && m >= MIN_ROWS && n >= MIN_COLS && (double)m * (double)n * (double)k >= MIN_WORK;
}

/* -- elsewhere ------------------------------------------------------------------------------------------------------- */

typedef struct rounding {
    float       *to;
    const float *from;
    int64_t      cols, ld;
} rounding;

TR_CLONES static void round_rows(void *payload, int64_t begin, int64_t end)
{
    const rounding *r = payload;
    for (int64_t i = begin; i < end; i++) {
        const float *from = r->from + i * r->ld;
        float       *to = r->to + i * r->cols;
        TR_IVDEP
        for (int64_t j = 0; j < r->cols; j++)
            to[j] = tr_f32_of_bf16(tr_bf16_of_f32(from[j]));
    }
}

void tr__bf16_round(float *to, const float *from, int64_t rows, int64_t cols, int64_t ld)
{
    enum { MIN_ITEMS = 16384 };
    rounding r = {to, from, cols, ld};
    tr_parallel_range(rows, 1 + MIN_ITEMS / (cols > 0 ? cols : 1), round_rows, &r);
}
