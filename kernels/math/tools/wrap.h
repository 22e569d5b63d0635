/* wrap.h - sums, differences and products of any number: those of integers wrap round, as NumPy's do.
 *
 * Overflow of a signed integer is undefined in C, and a program from outside can ask for it. So templates of each_number.h
 * compute values with these functions. They are as fast as the operators, also in vectors. */
#ifndef TR_MATH_WRAP_H
#define TR_MATH_WRAP_H

#include "framework/base/compiler.h"

#include <math.h>
#include <stdint.h>

#define TR_TEMPLATE "kernels/math/tools/wrap.h"
#include "kernels/math/tools/each_number.h"

#elif defined(T)

#if T_IS_FLOATING
TR_INLINE T NAME(tr_plus)(T a, T b)  { return a + b; }
TR_INLINE T NAME(tr_minus)(T a, T b) { return a - b; }
TR_INLINE T NAME(tr_times)(T a, T b) { return a * b; }
#else
TR_INLINE T NAME(tr_plus)(T a, T b)
{
    T sum;
    (void)__builtin_add_overflow(a, b, &sum);
    return sum;
}

TR_INLINE T NAME(tr_minus)(T a, T b)
{
    T difference;
    (void)__builtin_sub_overflow(a, b, &difference);
    return difference;
}

TR_INLINE T NAME(tr_times)(T a, T b)
{
    T product;
    (void)__builtin_mul_overflow(a, b, &product);
    return product;
}
#endif

#endif
