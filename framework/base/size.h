/* size.h - sums and products of sizes that come from outside: they end at TR_SIZE_MAX instead of wrapping round.
 *
 * Compute with these wherever a factor is an attribute, or a dimension whose product was not checked yet. A result that
 * reached TR_SIZE_MAX stays there, so one comparison at the end is enough: no tensor may have more bytes than
 * TR_MAX_BYTES (op_check.c, tensor.c). Operands are 0 or more. */
#pragma once

#include <stdint.h>

#define TR_SIZE_MAX INT64_MAX
/* The address range of a process on x86-64. */
#define TR_MAX_BYTES ((int64_t)1 << 47)

static inline int64_t tr_size_mul(int64_t a, int64_t b)
{
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? TR_SIZE_MAX : product;
}

static inline int64_t tr_size_add(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? TR_SIZE_MAX : sum;
}

static inline int64_t tr_size_volume(const int64_t extent[3])
{
    return tr_size_mul(tr_size_mul(extent[0], extent[1]), extent[2]);
}
