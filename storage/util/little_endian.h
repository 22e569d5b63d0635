/* little_endian.h - numbers in files and messages: the lowest byte comes first, at any alignment, whatever the machine's byte order. */
#pragma once

#include <stdint.h>

static inline uint32_t tr_get_u32(const uint8_t *in)
{
    return (uint32_t)in[0] | (uint32_t)in[1] << 8 | (uint32_t)in[2] << 16 | (uint32_t)in[3] << 24;
}

static inline uint64_t tr_get_u64(const uint8_t *in)
{
    return tr_get_u32(in) | (uint64_t)tr_get_u32(in + 4) << 32;
}

static inline void tr_put_u32(uint8_t *out, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        out[i] = (uint8_t)(value >> 8 * i);
}

static inline void tr_put_u64(uint8_t *out, uint64_t value)
{
    tr_put_u32(out, (uint32_t)value);
    tr_put_u32(out + 4, (uint32_t)(value >> 32));
}
