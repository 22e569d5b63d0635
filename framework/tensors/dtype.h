/* dtype.h - the element types. One row of the table in dtype.c is all it takes to add one. */
#pragma once

#include "framework/trireme.h"

bool tr_dtype_is_valid(tr_dtype dtype);
bool tr_dtype_is_float(tr_dtype dtype);      /* fp16, bf16, fp32, fp64 */
/* Can a tensor of this type (int64, float32, float64) hold the value? NaN and infinity fit no type. A float may be rounded; an integer
 * may not. */
bool tr_dtype_holds(tr_dtype dtype, double value);
/* Write a value that the type holds (see above) to `to`. False: it does not hold the value, and nothing is written. */
bool tr_dtype_put(tr_dtype dtype, void *to, double value);
/* What such a type holds, for messages: "an integer". */
const char *tr_dtype_noun(tr_dtype dtype);
