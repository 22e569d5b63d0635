/* xxhash.h - XXH64, the hash that Fluid's operator `hash` uses: a public function with published test values. */
#ifndef TR_MATH_XXHASH_H
#define TR_MATH_XXHASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t tr_xxh64(const void *bytes, size_t size, uint64_t seed);

#endif
