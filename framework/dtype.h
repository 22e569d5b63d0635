/* dtype.h - the element types. One row of the table in dtype.c is all it takes to add one. */
#ifndef TR_FRAMEWORK_DTYPE_H
#define TR_FRAMEWORK_DTYPE_H

#include "framework/trireme.h"

bool tr_dtype_is_valid(tr_dtype dtype);
bool tr_dtype_is_float(tr_dtype dtype);      /* fp16, bf16, fp32, fp64 */

#endif
