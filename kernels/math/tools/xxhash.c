/* xxhash.c - XXH64 as its specification writes it: four lanes of 8 bytes while there are 32, then 8, 4 and 1 at a time. */
#include "kernels/math/tools/xxhash.h"

#include <string.h>

static const uint64_t P1 = 0x9E3779B185EBCA87u, P2 = 0xC2B2AE3D27D4EB4Fu, P3 = 0x165667B19E3779F9u, P4 = 0x85EBCA77C2B2AE63u,
                      P5 = 0x27D4EB2F165667C5u;

static uint64_t rotate(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

static uint64_t read64(const uint8_t *p)
{
    uint64_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

static uint64_t mix(uint64_t lane, uint64_t input) { return rotate(lane + input * P2, 31) * P1; }

static uint64_t join(uint64_t hash, uint64_t lane) { return (hash ^ mix(0, lane)) * P1 + P4; }

/* All whole stripes of 32 bytes; *p moves after them. */
static uint64_t stripes(const uint8_t **p, size_t size, uint64_t seed)
{
    uint64_t lane[4] = {seed + P1 + P2, seed + P2, seed, seed - P1};

    for (; size >= 32; size -= 32)
        for (int i = 0; i < 4; i++, *p += 8)
            lane[i] = mix(lane[i], read64(*p));
    uint64_t hash = rotate(lane[0], 1) + rotate(lane[1], 7) + rotate(lane[2], 12) + rotate(lane[3], 18);
    for (int i = 0; i < 4; i++)
        hash = join(hash, lane[i]);
    return hash;
}

uint64_t tr_xxh64(const void *bytes, size_t size, uint64_t seed)
{
    const uint8_t *p = bytes;
    size_t         left = size & 31;
    uint64_t       hash = (size >= 32 ? stripes(&p, size, seed) : seed + P5) + size;

    for (; left >= 8; left -= 8, p += 8)
        hash = rotate(hash ^ mix(0, read64(p)), 27) * P1 + P4;
    if (left >= 4) {
        uint32_t word;
        memcpy(&word, p, sizeof word);
        hash = rotate(hash ^ word * P1, 23) * P2 + P3;
        left -= 4;
        p += 4;
    }
    for (; left > 0; left--, p++)
        hash = rotate(hash ^ *p * P5, 11) * P1;
    hash = (hash ^ hash >> 33) * P2;
    hash = (hash ^ hash >> 29) * P3;
    return hash ^ hash >> 32;
}
