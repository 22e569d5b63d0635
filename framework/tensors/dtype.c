/* dtype.c - the table of element types. */
#include "framework/tensors/dtype.h"

#include "framework/base/compiler.h"

#include <math.h>

static const struct {
    const char *name;
    int64_t     size;
    bool        is_float;
} types[TR_DTYPE_COUNT] = {
    [TR_BOOL]   = {"bool", 1, false},
    [TR_INT16]  = {"int16", 2, false},
    [TR_INT32]  = {"int32", 4, false},
    [TR_INT64]  = {"int64", 8, false},
    [TR_FP16]   = {"float16", 2, true},
    [TR_FP32]   = {"float32", 4, true},
    [TR_FP64]   = {"float64", 8, true},
    [TR_SIZE_T] = {"size_t", 8, false},
    [TR_UINT8]  = {"uint8", 1, false},
    [TR_INT8]   = {"int8", 1, false},
    [TR_BF16]   = {"bfloat16", 2, true},
};

bool tr_dtype_is_valid(tr_dtype dtype)
{
    return dtype >= 0 && dtype < TR_DTYPE_COUNT && types[dtype].size > 0;
}

bool tr_dtype_is_float(tr_dtype dtype)
{
    return tr_dtype_is_valid(dtype) && types[dtype].is_float;
}

int64_t tr_dtype_size(tr_dtype dtype)
{
    return tr_dtype_is_valid(dtype) ? types[dtype].size : 0;
}

const char *tr_dtype_name(tr_dtype dtype)
{
    return tr_dtype_is_valid(dtype) ? types[dtype].name : "?";
}

bool tr_dtype_holds(tr_dtype dtype, double value)
{
    if (dtype == TR_INT64)
        return value >= -0x1p63 && value < 0x1p63 && value == trunc(value);
    return isfinite(dtype == TR_FP32 ? (double)(float)value : value);
}

bool tr_dtype_put(tr_dtype dtype, void *to, double value)
{
    if (TR_UNLIKELY(!tr_dtype_holds(dtype, value)))
        return false;
    if (dtype == TR_FP32)
        *(float *)to = (float)value;
    else if (dtype == TR_FP64)
        *(double *)to = value;
    else
        *(int64_t *)to = (int64_t)value;
    return true;
}

const char *tr_dtype_noun(tr_dtype dtype)
{
    if (dtype == TR_INT64)
        return "an integer";
    return dtype == TR_FP32 ? "a finite number that fits float32" : "a finite number that fits float64";
}
