/* row_sums.h - the sums of many rows, each in the order of tr_lanes_sum (lanes.h).
 *
 * A short row's lanes take longer to join than to fill. With AVX-512 those of 16 rows of floats are joined together, by the same additions. */
#ifndef TR_MATH_ROW_SUMS_H
#define TR_MATH_ROW_SUMS_H

#include "framework/trireme.h"

#define TR_TEMPLATE "kernels/math/arrays/row_sums.h"
#include "kernels/math/tools/each_number.h"

#elif defined(T)

/* sums[i] = the sum of x[i][0 .. n-1], on the calling thread. */
void NAME(tr__row_sums)(T *sums, const T *x, int64_t rows, int64_t n);

#endif
