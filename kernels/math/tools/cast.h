/* cast.h - conversions among all data types.
 *
 * To bool: not zero. From floating to integer: towards zero; what does not fit (and NaN) has the value that C leaves
 * open, as in Fluid. To fp16 and bf16: to nearest even, through float. */
#pragma once

#include "framework/tensors/half.h"

void tr_cast(void *out, tr_dtype out_type, const void *x, tr_dtype type, int64_t n);
