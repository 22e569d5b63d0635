/* test_blas.c - products match a plain triple loop for all transposes and are the same bits for any thread count. */
#ifndef T
#include "kernels/math/products/blas.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/kernels/math/check.h"

static const int64_t shapes[][3] = {                          /* m, n, k */
    {1, 1, 1},    {0, 5, 3},     {5, 0, 3},    {3, 5, 0},    {1, 7, 9},     {7, 1, 9},      {3, 5, 2},     {16, 16, 16},
    {33, 65, 17}, {100, 100, 99}, {64, 128, 784}, {784, 128, 64}, {130, 150, 170}, {20, 576, 25}, {300, 301, 302},
    {47, 50, 300}, {60, 160, 1300}, {283, 1061, 259}, {131, 97, 1003},
};

/* A process that OpenBLAS takes for an old one: before this process has loaded the library. */
static void a_core_that_is_too_old_is_replaced(void **state)
{
    (void)state;
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("avx"))
        skip();
#endif
    const pid_t child = fork();
    if (child == 0) {
        setenv("OPENBLAS_CORETYPE", "Nehalem", 1);
        _exit(tr_blas_init() != TR_OK ? 2 : strcmp(tr_blas_core(), "Nehalem") == 0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void the_core_fits_the_cpu(void **state)
{
    (void)state;
    assert_int_equal(tr_blas_init(), TR_OK);
    assert_true(tr_blas_core()[0] != 0);
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        assert_string_not_equal(tr_blas_core(), "Katmai");       /* how it calls a Prescott, too */
        assert_string_not_equal(tr_blas_core(), "Prescott");
        assert_string_not_equal(tr_blas_core(), "Core2");
        assert_string_not_equal(tr_blas_core(), "Nehalem");
    }
#endif
    print_message("OpenBLAS core: %s\n", tr_blas_core());
}

static void grids_depend_on_the_shape_and_cover_it(void **state)
{
    (void)state;
    int64_t rows, cols;
    tr_gemm_grid(&rows, &cols, false, false, 64, 64, 64);
    assert_int_equal(rows * cols, 1);
    tr_gemm_grid(&rows, &cols, false, true, 16, 2048, 2048);
    assert_int_equal(rows, 1);
    assert_true(cols >= 2);
    tr_gemm_grid(&rows, &cols, true, false, 3136, 50, 500);
    assert_int_equal(cols, 1);
    assert_true(rows >= 2);
    tr_gemm_grid(&rows, &cols, false, false, 100000, 100000, 100000);
    assert_in_range(rows * cols, 2, TR_MAX_SLICES);
}

#include "kernels/math/tools/each_float.h"

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_core_that_is_too_old_is_replaced),
        cmocka_unit_test(the_core_fits_the_cpu),
        cmocka_unit_test(grids_depend_on_the_shape_and_cover_it),
        BOTH(products_match_the_triple_loop),
        BOTH(threads_do_not_matter),
        BOTH(tiles_make_the_product),
        BOTH(strides_beyond_the_width_are_left_alone),
        BOTH(batches_are_products),
        BOTH(factors_make_the_product),
        BOTH(vectors_match),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else

typedef struct {
    T *a, *b, *c, *c0;
} NAME(operands);

static NAME(operands) NAME(operands_of)(int64_t m, int64_t n, int64_t k)
{
    NAME(operands) o = {NAME(random)(m * k, 1, -1, 1), NAME(random)(k * n, 2, -1, 1), NAME(random)(m * n, 3, -1, 1),
                        NAME(random)(m * n, 3, -1, 1)};
    return o;
}

static void NAME(free_operands)(NAME(operands) *o)
{
    free(o->a), free(o->b), free(o->c), free(o->c0);
}

static double NAME(exact)(const NAME(operands) *o, bool ta, bool tb, int64_t m, int64_t n, int64_t k, int64_t i, int64_t j)
{
    double sum = 0;
    for (int64_t p = 0; p < k; p++)
        sum += (double)(ta ? o->a[p * m + i] : o->a[i * k + p]) * (double)(tb ? o->b[j * k + p] : o->b[p * n + j]);
    return sum;
}

static void NAME(check_product)(bool ta, bool tb, int64_t m, int64_t n, int64_t k, T alpha, T beta)
{
    NAME(operands) o = NAME(operands_of)(m, n, k);
    if (beta == 0)
        for (int64_t i = 0; i < m * n; i++)
            o.c[i] = (T)NAN;                                  /* must not be read */
    NAME(tr_gemm)(ta, tb, m, n, k, alpha, o.a, ta ? m : k, o.b, tb ? k : n, beta, o.c, n);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            const double want = (double)alpha * NAME(exact)(&o, ta, tb, m, n, k, i, j) +
                                (beta == 0 ? 0 : (double)beta * (double)o.c0[i * n + j]);
            NAME(near)((double)o.c[i * n + j], want, (double)k + 1, 2, "c", i * n + j);
        }
    NAME(free_operands)(&o);
}

static void NAME(products_match_the_triple_loop)(void **state)
{
    (void)state;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int t = 0; t < 4; t++) {
            NAME(check_product)(t & 1, t & 2, shapes[s][0], shapes[s][1], shapes[s][2], 1, 0);
            if (shapes[s][0] * shapes[s][1] < 10000)
                NAME(check_product)(t & 1, t & 2, shapes[s][0], shapes[s][1], shapes[s][2], (T)0.5, -2);
        }
}

static void NAME(threads_do_not_matter)(void **state)
{
    (void)state;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int t = 0; t < 4; t++) {
            const int64_t  m = shapes[s][0], n = shapes[s][1], k = shapes[s][2];
            const bool     ta = t & 1, tb = t & 2;
            NAME(operands) o = NAME(operands_of)(m, n, k);
            SAME_FOR_ALL_THREADS(o.c, m * n * (int64_t)sizeof(T), (void)0,
                                 NAME(tr_gemm)(ta, tb, m, n, k, 1, o.a, ta ? m : k, o.b, tb ? k : n, 0, o.c, n));
            NAME(free_operands)(&o);
        }
}

/* Enough tiles for several threads, and the product in tiles is that in one piece but for rounding. */
static void NAME(tiles_make_the_product)(void **state)
{
    (void)state;
    static const int64_t large[][3] = {{64, 128, 784}, {784, 128, 64}, {256, 400, 400}, {300, 301, 302}, {16, 2048, 512},
                                       {512, 400, 273}, {100, 2073, 256}, {3136, 50, 500}};
    for (size_t s = 0; s < sizeof large / sizeof *large; s++)
        for (int t = 0; t < 4; t++) {
            const int64_t  m = large[s][0], n = large[s][1], k = large[s][2];
            const bool     ta = t & 1, tb = t & 2;
            int64_t        rows, cols;
            NAME(operands) o = NAME(operands_of)(m, n, k);
            tr_gemm_grid(&rows, &cols, ta, tb, m, n, k);
            assert_true(rows * cols > 1);
            NAME(tr_gemm)(ta, tb, m, n, k, 1, o.a, ta ? m : k, o.b, tb ? k : n, 0, o.c, n);
            NAME(tr_gemm_one)(ta, tb, m, n, k, 1, o.a, ta ? m : k, o.b, tb ? k : n, 0, o.c0, n);
            for (int64_t i = 0; i < m * n; i++)
                NAME(near)((double)o.c[i], (double)o.c0[i], (double)k, 1, "c", i);
            NAME(free_operands)(&o);
        }
}

static void NAME(strides_beyond_the_width_are_left_alone)(void **state)
{
    (void)state;
    enum { M = 5, N = 7, K = 3, LD = 11 };
    T *a = NAME(random)(M * LD, 1, -1, 1), *b = NAME(random)(K * LD, 2, -1, 1), *c = NAME(random)(M * LD, 3, 5, 6);
    NAME(tr_gemm)(false, false, M, N, K, 1, a, LD, b, LD, 0, c, LD);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < LD; j++) {
            double sum = 0;
            for (int p = 0; p < K && j < N; p++)
                sum += (double)a[i * LD + p] * (double)b[p * LD + j];
            if (j < N)
                NAME(near)((double)c[i * LD + j], sum, 2, 4, "c", i * LD + j);
            else
                assert_true(c[i * LD + j] >= 5);
        }
    free(a), free(b), free(c);
}

static void NAME(batches_are_products)(void **state)
{
    (void)state;
    static const int64_t cases[][4] = {{0, 3, 4, 5}, {2, 3, 4, 5}, {7, 3, 4, 5}, {40, 10, 64, 32}, {3, 150, 150, 150}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t batch = cases[i][0], m = cases[i][1], n = cases[i][2], k = cases[i][3];
        T *a = NAME(random)(batch * m * k, 1, -1, 1), *b = NAME(random)(k * n, 2, -1, 1);
        T *c = NAME(random)(batch * m * n, 3, -1, 1), *want = NAME(random)(batch * m * n, 3, -1, 1);
        SAME_FOR_ALL_THREADS(c, batch * m * n * (int64_t)sizeof(T), (void)0,
                             NAME(tr_gemm_batched)(false, false, batch, m, n, k, 1, a, k, m * k, b, n, 0, 0, c, n, m * n));
        for (int64_t p = 0; p < batch; p++)
            NAME(tr_gemm)(false, false, m, n, k, 1, a + p * m * k, k, b, n, 0, want + p * m * n, n);
        assert_memory_equal(c, want, (size_t)(batch * m * n) * sizeof(T));
        free(a), free(b), free(c), free(want);
    }
}

/* Packed where there are rows enough, and not. */
static void NAME(factors_make_the_product)(void **state)
{
    (void)state;
    static const int64_t cases[][3] = {{0, 32, 16}, {1, 24, 8}, {5, 40, 300}, {16, 512, 128}, {33, 47, 513}, {300, 1040, 64}, {3, 5, 7}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int t = 0; t < 8; t++) {
            const int64_t        m = cases[i][0], n = cases[i][1], k = cases[i][2], rows = t & 4 ? 1000 : 1;
            const bool           trans = t & 1;
            const T              beta = t & 2 ? 1 : 0;
            NAME(operands)       o = NAME(operands_of)(m, n, k);
            T                   *memory = aligned_alloc(64, (size_t)((NAME(tr_factor_size)(n, k, rows) + 16) / 16 * 16) * sizeof(T));
            NAME(tr_factor)      factor;
            NAME(tr_factor_init)(&factor, trans, n, k, o.b, trans ? k : n, rows, memory);
            SAME_FOR_ALL_THREADS(o.c, m * n * (int64_t)sizeof(T), memcpy(o.c, o.c0, (size_t)(m * n) * sizeof(T)),
                                 NAME(tr_gemm_factor)(m, o.a, k, &factor, beta, o.c, n));
            NAME(tr_gemm)(false, trans, m, n, k, 1, o.a, k, o.b, trans ? k : n, beta, o.c0, n);
            for (int64_t j = 0; j < m * n; j++)
                NAME(near)((double)o.c[j], (double)o.c0[j], (double)k + 1, 1, "c", j);
            NAME(free_operands)(&o);
            free(memory);
        }
}

static void NAME(vectors_match)(void **state)
{
    (void)state;
    static const int64_t cases[][2] = {{1, 1}, {0, 4}, {4, 0}, {5, 7}, {300, 400}, {1000, 13}, {13, 3000}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int trans = 0; trans < 2; trans++) {
            const int64_t m = cases[i][0], n = cases[i][1], size = trans ? n : m, length = trans ? m : n;
            T *a = NAME(random)(m * n, 1, -1, 1), *x = NAME(random)(length, 2, -1, 1);
            T *y = NAME(random)(size, 3, -1, 1), *y0 = NAME(random)(size, 3, -1, 1);
            SAME_FOR_ALL_THREADS(y, size * (int64_t)sizeof(T), memcpy(y, y0, (size_t)size * sizeof(T)),
                                 NAME(tr_gemv)(trans, m, n, 2, a, n, x, (T)0.5, y));
            for (int64_t r = 0; r < size; r++) {
                double sum = 0;
                for (int64_t p = 0; p < length; p++)
                    sum += (double)(trans ? a[p * n + r] : a[r * n + p]) * (double)x[p];
                NAME(near)((double)y[r], 2 * sum + 0.5 * (double)y0[r], (double)length + 1, 2, "y", r);
            }
            free(a), free(x), free(y), free(y0);
        }
}

#endif
