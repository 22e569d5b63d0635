/* rounded.c - see rounded.h. Blocks of values pass through memory on the stack, because source and result overlap: values are read before
 * the result reaches them. */
#include "pserver/wire/rounded.h"

#include "framework/tensors/half.h"

#include <string.h>

enum { STEP = 512 };

static uint64_t step_of(uint64_t left)
{
    return left < STEP ? left : STEP;
}

void tr_rounded_make(void *out, const void *floats, uint64_t bytes)
{
    float    from[STEP];
    uint16_t to[STEP];

    for (uint64_t i = 0, n; i < bytes / 4; i += n) {
        n = step_of(bytes / 4 - i);
        memcpy(from, (const uint8_t *)floats + 4 * i, 4 * n);
        tr__half_of_floats(to, from, TR_BF16, (int64_t)n);
        memcpy((uint8_t *)out + 2 * i, to, 2 * n);
    }
}

uint8_t *tr_rounded_buffer(uint8_t *floats, uint64_t bytes)
{
    return floats + bytes / 2;
}

void tr_rounded_widen(uint8_t *floats, uint64_t bytes)
{
    const uint8_t *halves = tr_rounded_buffer(floats, bytes);
    uint16_t       from[STEP];
    float          to[STEP];

    for (uint64_t i = 0, n; i < bytes / 4; i += n) {
        n = step_of(bytes / 4 - i);
        memcpy(from, halves + 2 * i, 2 * n);
        tr__floats_of_half(to, from, TR_BF16, (int64_t)n);
        memcpy(floats + 4 * i, to, 4 * n);
    }
}

void tr_rounded_floats(float *out, const float *floats, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes / 4; i++)
        out[i] = tr_f32_of_bf16(tr_bf16_of_f32(floats[i]));
}
