/* tensor_finite.c - see tensor_finite.h. */
#include "framework/tensors/tensor_finite.h"

#include <math.h>

#include "framework/tensors/half.h"

bool tr__tensor_is_finite(const tr_tensor *tensor)
{
    const int64_t n = tr_tensor_count(tensor);

    if (tensor->dtype == TR_FP32) {
        for (int64_t i = 0; i < n; i++)
            if (!isfinite(((const float *)tensor->data)[i]))
                return false;
    } else if (tensor->dtype == TR_FP64) {
        for (int64_t i = 0; i < n; i++)
            if (!isfinite(((const double *)tensor->data)[i]))
                return false;
    } else if (tr_dtype_is_half(tensor->dtype)) {
        const uint16_t exponent = tensor->dtype == TR_BF16 ? 0x7f80 : 0x7c00;
        for (int64_t i = 0; i < n; i++)
            if ((((const uint16_t *)tensor->data)[i] & exponent) == exponent)
                return false;
    }
    return true;
}
