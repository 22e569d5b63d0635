/* check.h - what the tests of kernels/math share: arrays of random numbers, comparisons, thread counts.
 *
 * A test file is its own template (each_float.h): references are computed in double, the tolerance is a multiple of the
 * type's precision relative to the size of the terms. */
#pragma once

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "framework/tensors/random.h"
#include "framework/threads/threadpool.h"

static inline void *array_new(int64_t n, size_t item_size)
{
    void *memory = malloc((size_t)(n > 0 ? n : 1) * item_size);
    assert_non_null(memory);
    return memory;
}

static inline float *random_f32(int64_t n, uint64_t key, float min, float max)
{
    float *x = array_new(n, sizeof *x);
    tr_random_uniform_f32(x, n, key, 0, min, max);
    return x;
}

static inline double *random_f64(int64_t n, uint64_t key, double min, double max)
{
    double *x = array_new(n, sizeof *x);
    tr_random_uniform_f64(x, n, key, 0, min, max);
    return x;
}

static inline void near_f32(double got, double want, double size, double units, const char *what, int64_t at)
{
    if ((isnan(got) && isnan(want)) || got == want)
        return;
    if (!(fabs(got - want) <= units * FLT_EPSILON * (size + FLT_MIN)))
        fail_msg("%s[%lld]: got %.9g, expected %.9g", what, (long long)at, got, want);
}

static inline void near_f64(double got, double want, double size, double units, const char *what, int64_t at)
{
    if ((isnan(got) && isnan(want)) || got == want)
        return;
    if (!(fabs(got - want) <= units * DBL_EPSILON * (size + DBL_MIN)))
        fail_msg("%s[%lld]: got %.17g, expected %.17g", what, (long long)at, got, want);
}

/* Make the call with 1, 2, 3 and 4 threads: `out` must come out with the same bits. `before` restores what the call
 * changes. */
#define SAME_FOR_ALL_THREADS(out, bytes, before, call)                       \
    do {                                                                     \
        void *first_ = array_new((int64_t)(bytes), 1);                       \
        for (int threads_ = 1; threads_ <= 4; threads_++) {                  \
            tr_set_num_threads(threads_);                                    \
            before;                                                          \
            call;                                                            \
            if (threads_ == 1)                                               \
                memcpy(first_, out, (size_t)(bytes));                        \
            else                                                             \
                assert_memory_equal(first_, out, (size_t)(bytes));           \
        }                                                                    \
        tr_set_num_threads(2);                                               \
        free(first_);                                                        \
    } while (0)

#define BOTH(test) cmocka_unit_test(test##_f32), cmocka_unit_test(test##_f64)
