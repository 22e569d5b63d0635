/* half.c - see half.h. */
#include "framework/tensors/half.h"

TR_CLONES static void floats_of_bf16(float *out, const uint16_t *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = tr_f32_of_bf16(x[i]);
}

TR_CLONES static void bf16_of_floats(uint16_t *out, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = tr_bf16_of_f32(x[i]);
}

TR_CLONES static void floats_of_fp16(float *out, const uint16_t *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = tr_f32_of_fp16(x[i]);
}

TR_CLONES static void fp16_of_floats(uint16_t *out, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = tr_fp16_of_f32(x[i]);
}

void tr__floats_of_half(float *out, const uint16_t *x, tr_dtype half, int64_t n)
{
    (half == TR_BF16 ? floats_of_bf16 : floats_of_fp16)(out, x, n);
}

void tr__half_of_floats(uint16_t *out, const float *x, tr_dtype half, int64_t n)
{
    (half == TR_BF16 ? bf16_of_floats : fp16_of_floats)(out, x, n);
}
