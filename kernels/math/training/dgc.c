/* dgc.c - the bits of a magnitude are in the order of the magnitudes. So the k-th largest is found digit by digit of 16 bits: count the
 * values with each digit, and go on with those whose digits so far are those of the k-th. Two passes for float, four for double. */
#ifndef T
#include "kernels/math/training/dgc.h"

#include <string.h>

#include "framework/base/compiler.h"
#include "framework/threads/threadpool.h"

enum { DIGIT = 16, DIGITS = 1 << DIGIT, MIN_ITEMS = 16384 };

/* The least magnitude that goes, as bits, and how many of that very magnitude do. */
typedef struct cut {
    uint64_t least;
    int64_t  equal;
} cut;

/* The highest digit such that `k` values have it or a higher one; k becomes how many of them have just this. */
static uint64_t digit_of(const uint32_t *counts, int64_t *k)
{
    uint64_t digit = DIGITS - 1;

    for (; digit > 0 && counts[digit] < *k; digit--)
        *k -= counts[digit];
    return digit;
}

#include "kernels/math/tools/each_float.h"
#else

typedef struct {
    T       *out, *u;
    const T *g;
    T        m;
    bool     nesterov, adds;
} NAME(job);

/* -- momentum ---------------------------------------------------------------------------------------------- */

TR_CLONES static void NAME(momentum_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    const T          m = j->m;

    for (int64_t i = begin; i < end; i++) {
        const T g = j->g[i], u = m * j->u[i] + g, step = j->nesterov ? g + m * u : u;
        j->u[i] = u;
        j->out[i] = j->adds ? j->out[i] + step : step;
    }
}

void NAME(tr_dgc_momentum)(T *sent, T *u, const T *g, T m, bool nesterov, int64_t n)
{
    NAME(job) j = {.out = sent, .u = u, .g = g, .m = m, .nesterov = nesterov};
    tr_parallel_range(n, MIN_ITEMS, NAME(momentum_range), &j);
}

void NAME(tr_dgc_accumulate)(T *v, T *u, const T *g, T m, bool nesterov, int64_t n)
{
    NAME(job) j = {.out = v, .u = u, .g = g, .m = m, .nesterov = nesterov, .adds = true};
    tr_parallel_range(n, MIN_ITEMS, NAME(momentum_range), &j);
}

/* -- the largest --------------------------------------------------------------------------------------------- */

TR_INLINE uint64_t NAME(magnitude)(T x)
{
#if T_IS_F32
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & 0x7fffffff;
#else
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & 0x7fffffffffffffff;
#endif
}

static cut NAME(cut_of)(const T *v, int64_t k, int64_t n)
{
    uint32_t *counts = tr_thread_scratch(TR_SCRATCH_PARTIAL, DIGITS * sizeof *counts);
    cut       found = {0, k};

    for (int shift = (int)sizeof(T) * 8 - DIGIT; shift >= 0; shift -= DIGIT) {
        memset(counts, 0, DIGITS * sizeof *counts);
        for (int64_t i = 0; i < n; i++) {
            const uint64_t digits = NAME(magnitude)(v[i]) >> shift;
            counts[digits % DIGITS] += digits / DIGITS == found.least;
        }
        found.least = found.least * DIGITS + digit_of(counts, &found.equal);
    }
    return found;
}

void NAME(tr_dgc_take)(T *sent, T *v, T *u, int64_t k, int64_t n)
{
    cut at = NAME(cut_of)(v, k, n);

    for (int64_t i = 0; i < n; i++) {
        const uint64_t magnitude = NAME(magnitude)(v[i]);
        const bool     goes = magnitude > at.least || (magnitude == at.least && at.equal-- > 0);
        sent[i] = goes ? v[i] : 0;
        v[i] = goes ? 0 : v[i];
        u[i] = goes ? 0 : u[i];
    }
}

#endif
