/* openblas.c - finding OpenBLAS, checking its core.
 *
 * OpenBLAS reads its settings when it is loaded, so they are put into the environment around dlopen. Its own threads are
 * never used: one-thread products in our slices are faster on nearly every shape, and two pools fight over the cores. */
#include "kernels/math/products/openblas.h"

#include "framework/base/compiler.h"
#include "framework/base/memory.h"
#include "framework/base/number.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef TR_BLAS_SONAME
#define TR_BLAS_SONAME "libscipy_openblas.so"
#endif
#ifndef TR_BLAS_PREFIX
#define TR_BLAS_PREFIX "scipy_"
#endif

tr_openblas tr__openblas;

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
    return dlsym(tr__openblas.handle, full);
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
    memcpy(&tr__openblas.gemm_f32, &gemm_f32, sizeof gemm_f32);
    memcpy(&tr__openblas.gemm_f64, &gemm_f64, sizeof gemm_f64);
    memcpy(&tr__openblas.gemv_f32, &gemv_f32, sizeof gemv_f32);
    memcpy(&tr__openblas.gemv_f64, &gemv_f64, sizeof gemv_f64);
    memcpy(&get_core, &core, sizeof core);
    memcpy(&set, &set_threads, sizeof set_threads);
    set(1);
    snprintf(tr__openblas.core, sizeof tr__openblas.core, "%s", get_core());
    return true;
}

/* Open the library with the given core (NULL: its own choice). */
static tr_status load(const char *core)
{
    char *threads = swap_env("OPENBLAS_NUM_THREADS", "1");
    char *core_type = core ? swap_env("OPENBLAS_CORETYPE", core) : NULL;

    tr__openblas.handle = dlopen(TR_BLAS_SONAME, RTLD_NOW | RTLD_LOCAL);
    const char *error = tr__openblas.handle ? "" : dlerror();

    free(swap_env("OPENBLAS_NUM_THREADS", threads));
    if (core)
        free(swap_env("OPENBLAS_CORETYPE", core_type));
    free(threads);
    free(core_type);
    if (!tr__openblas.handle)
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

/* The instructions that the kernels of a core use. OpenBLAS names its Zen kernels alike on all Zen, those with AVX-512 too. */
static int core_level(const char *core)
{
    static const struct { const char *name; int level; } cores[] = {
        {"SkylakeX", LEVEL_AVX512}, {"Cooperlake", LEVEL_AVX512}, {"SapphireRapids", LEVEL_AVX512},
        {"Zen", LEVEL_AVX512},      {"Haswell", LEVEL_AVX2},      {"Excavator", LEVEL_AVX2},
        {"Sandybridge", LEVEL_AVX}, {"Bulldozer", LEVEL_AVX},     {"Piledriver", LEVEL_AVX},
        {"Steamroller", LEVEL_AVX},
    };
    for (int i = 0; i < TR_COUNT(cores); i++)
        if (tr__is_like(core, cores[i].name, SIZE_MAX))
            return cores[i].level;
    return LEVEL_SSE;
}

/* A core that the user named may be one level below the CPU: to compare, or to avoid a fault. */
static tr_status check_core(void)
{
    static const char *const best[] = {"", "Sandybridge", "Haswell", "SkylakeX"};
    const int                need = cpu_level();
    const int                least = getenv("OPENBLAS_CORETYPE") && need > LEVEL_AVX2 ? LEVEL_AVX2 : need;

    if (core_level(tr__openblas.core) >= least)
        return TR_OK;
    char wrong[sizeof tr__openblas.core];
    memcpy(wrong, tr__openblas.core, sizeof wrong);
    dlclose(tr__openblas.handle);
    TR_TRY(load(best[need]));
    if (core_level(tr__openblas.core) < need)
        return tr_fail(TR_EUNSUPPORTED, "OpenBLAS chose the core '%s' for a CPU that can run '%s', and '%s' when asked for "
                       "that: products would be several times slower", wrong, best[need], tr__openblas.core);
    return TR_OK;
}
#else
static tr_status check_core(void)
{
    return TR_OK;
}
#endif

/* The library's code, its buffer and what its start takes. It ends the process where it gets less. */
static const size_t NEEDED = (size_t)128 << 20;

static tr_status load_and_check(void)
{
    char few[256];

    if (tr__lacks_addresses(few, sizeof few, "OpenBLAS", NEEDED))
        return tr_fail(TR_EUNSUPPORTED, "%s", few);
    TR_TRY(load(NULL));
    TR_TRY(check_core());
    tr__openblas.multiplies_unpacked = tr__is_like(tr__openblas.core, "SkylakeX", SIZE_MAX) || tr__is_like(tr__openblas.core, "Cooperlake", SIZE_MAX) ||
                               tr__is_like(tr__openblas.core, "SapphireRapids", SIZE_MAX);
    return TR_OK;
}

static void init(void)
{
    outcome = load_and_check();
    if (outcome != TR_OK) {
        snprintf(outcome_text, sizeof outcome_text, "%s", tr_error());
        tr__openblas.core[0] = 0;
    }
}

tr_status tr_blas_init(void)
{
    pthread_once(&once, init);
    return outcome == TR_OK ? TR_OK : tr_fail(outcome, "%s", outcome_text);
}

const char *tr_blas_core(void)
{
    return tr__openblas.core;
}
