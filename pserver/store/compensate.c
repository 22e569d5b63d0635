/* compensate.c - one loop, for each dtype. */
#include "pserver/store/compensate.h"

#include <assert.h>

void tr_compensate(tr_dtype dtype, void *grad, const void *now, const void *then, int64_t count, double factor)
{
    assert(dtype == TR_FP32 || dtype == TR_FP64);
    if (dtype == TR_FP32) {
        float *restrict       g = grad;
        const float *restrict w = now, *restrict w0 = then;
        for (int64_t i = 0; i < count; i++)
            g[i] += (float)factor * g[i] * g[i] * (w[i] - w0[i]);
    } else {
        double *restrict       g = grad;
        const double *restrict w = now, *restrict w0 = then;
        for (int64_t i = 0; i < count; i++)
            g[i] += factor * g[i] * g[i] * (w[i] - w0[i]);
    }
}
