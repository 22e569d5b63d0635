/* exact.h - sums of squares without rounding: the same bits in any order, for any cut over threads or servers.
 *
 * A tr_exact is one long fixed-point number that holds every square of a double and the sum of 2^63 of them: limbs of 32
 * bits in words of 64, so that carries can wait (R. Neal, "Fast exact summation using small and large
 * superaccumulators", 2015). It is rounded once, at the end. NaN makes the sum NaN, infinity makes it infinite. */
#ifndef TR_MATH_EXACT_H
#define TR_MATH_EXACT_H

#include "framework/trireme.h"

enum { TR_EXACT_LIMBS = 136, TR_EXACT_WORDS = TR_EXACT_LIMBS + 1 };

typedef struct tr_exact {
    int64_t limb[TR_EXACT_LIMBS];     /* limb i counts 2^(32 i - 2148) */
    int64_t added;                    /* numbers since the last carry */
    bool    has_nan, has_infinity;
} tr_exact;                           /* zeros: the sum of nothing */

void   tr_exact_add(tr_exact *to, const tr_exact *from);
/* The nearest float (double), of two the even one. */
float  tr_exact_round_f32(tr_exact *sum);
double tr_exact_round_f64(tr_exact *sum);
/* As words that other processes may read. */
void   tr_exact_pack(uint32_t out[TR_EXACT_WORDS], tr_exact *sum);
void   tr_exact_add_packed(tr_exact *to, const uint32_t in[TR_EXACT_WORDS]);

#define TR_TEMPLATE "kernels/math/arrays/exact.h"
#include "kernels/math/tools/each_float.h"

#elif defined(T)

/* Add the squares of x[0 .. n-1]. */
void NAME(tr_exact_add_squares)(tr_exact *to, const T *x, int64_t n);

#endif
