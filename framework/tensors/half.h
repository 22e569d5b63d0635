/* half.h - numbers of 16 bits, bfloat16 and float16: types that are stored, and computed as float.
 *
 * To 16 bits: to nearest even; NaN stays NaN, what is too large becomes infinity. */
#pragma once

#include "framework/base/compiler.h"
#include "framework/trireme.h"

#include <string.h>

/* bfloat16 or float16 */
TR_INLINE bool tr_dtype_is_half(tr_dtype dtype) { return dtype == TR_BF16 || dtype == TR_FP16; }

/* `n` numbers of type `half` as floats, and floats as numbers of that type; on the calling thread. */
void tr__floats_of_half(float *out, const uint16_t *x, tr_dtype half, int64_t n);
void tr__half_of_floats(uint16_t *out, const float *x, tr_dtype half, int64_t n);

TR_INLINE float    tr_f32_of_bf16(uint16_t x);
TR_INLINE uint16_t tr_bf16_of_f32(float x);
TR_INLINE float    tr_f32_of_fp16(uint16_t x);
TR_INLINE uint16_t tr_fp16_of_f32(float x);

TR_INLINE uint32_t tr__bits_of_f32(float x) { uint32_t u; memcpy(&u, &x, sizeof u); return u; }
TR_INLINE float    tr__f32_of_bits(uint32_t u) { float x; memcpy(&x, &u, sizeof x); return x; }

TR_INLINE float tr_f32_of_bf16(uint16_t x)
{
    return tr__f32_of_bits((uint32_t)x << 16);
}

TR_INLINE uint16_t tr_bf16_of_f32(float x)
{
    const uint32_t u = tr__bits_of_f32(x);
    const uint32_t rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    const uint32_t quiet = u >> 16 | 0x40;
    return (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
}

/* Half has 5 exponent bits with bias 15, float 8 with 127. What is denormal in half is a multiple of 2^-24: set below 2^-14 it is
 * normalised by a subtraction, since arithmetic with numbers that are denormal in float takes a hundred cycles. */
TR_INLINE float tr_f32_of_fp16(uint16_t x)
{
    const uint32_t sign = (uint32_t)(x & 0x8000) << 16, magnitude = (uint32_t)(x & 0x7fff) << 13;
    const uint32_t normal = magnitude + (112u << 23), special = magnitude | 0x7f800000;
    const uint32_t denormal = tr__bits_of_f32(tr__f32_of_bits(magnitude + (113u << 23)) - 0x1p-14f);
    return tr__f32_of_bits(sign | (magnitude < 1u << 23 ? denormal : magnitude < 0x0f800000 ? normal : special));
}

/* Denormal results are rounded by adding 0.5, whose last bit weighs 2^-24, the least half; normal ones by adding to
 * the bits below the 10 that stay. */
TR_INLINE uint16_t tr_fp16_of_f32(float x)
{
    const uint32_t u = tr__bits_of_f32(x), sign = u >> 16 & 0x8000, magnitude = u & 0x7fffffff;
    const uint32_t denormal = tr__bits_of_f32(tr__f32_of_bits(magnitude) + 0.5f) - 0x3f000000;
    const uint32_t normal = (magnitude - (112u << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
    const uint32_t special = magnitude > 0x7f800000 ? 0x7e00 : 0x7c00;
    const uint32_t half = magnitude < 113u << 23 ? denormal : magnitude < 0x477ff000 ? normal : special;
    return (uint16_t)(sign | half);
}
