/* row_copy.h - copies and adds the few numbers of a table's row. A call of memcpy for each row would cost more than the copy. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* `bytes` is the same for many rows, so the CPU predicts the branches. The arrays do not overlap. */
static inline void tr_row_copy(void *restrict to, const void *restrict from, size_t bytes)
{
    char       *out = to;
    const char *in = from;

    if (bytes > 1024) {
        memcpy(out, in, bytes);
        return;
    }
    for (; bytes >= 64; bytes -= 64, out += 64, in += 64)
        memcpy(out, in, 64);
    if (bytes & 32) {
        memcpy(out, in, 32);
        out += 32;
        in += 32;
    }
    if (bytes & 16) {
        memcpy(out, in, 16);
        out += 16;
        in += 16;
    }
    if (bytes & 8) {
        memcpy(out, in, 8);
        out += 8;
        in += 8;
    }
    if (bytes & 4) {
        memcpy(out, in, 4);
        out += 4;
        in += 4;
    }
    for (bytes &= 3; bytes; bytes--)
        *out++ = *in++;
}

/* Return x, or to + x, without a branch, which the CPU could not predict. `was` masks the bits of the number. `none` is -0.0, which changes
 * no bit of x. */
static inline float tr_row_sum(float to, float x, uint32_t was, uint32_t none)
{
    uint32_t bits;

    memcpy(&bits, &to, sizeof bits);
    bits = (bits & was) | none;
    memcpy(&to, &bits, sizeof to);
    return to + x;
}

/* to = x for the first of several rows, to += x for the others. The arrays do not overlap. */
static inline void tr_row_add(float *restrict to, const float *restrict x, int64_t width, bool is_first)
{
    enum { STEP = 8 };
    const uint32_t was = is_first ? 0 : UINT32_MAX, none = ~was & 0x80000000u;

    for (; width >= STEP; width -= STEP, to += STEP, x += STEP)
        for (int i = 0; i < STEP; i++)
            to[i] = tr_row_sum(to[i], x[i], was, none);
    for (int64_t i = 0; i < width; i++)
        to[i] = tr_row_sum(to[i], x[i], was, none);
}
