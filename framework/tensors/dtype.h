/* dtype.h - the element types. One row of the table in dtype.c is all it takes to add one. */
#pragma once

#include "framework/trireme.h"

bool tr_dtype_is_valid(tr_dtype dtype);
bool tr_dtype_is_float(tr_dtype dtype);      /* fp16, bf16, fp32, fp64 */
/* Can a tensor of this type (int64, float32, float64) hold the value? NaN and infinity fit no type. A float may be rounded; an integer
 * may not. */
bool tr_dtype_holds(tr_dtype dtype, double value);
