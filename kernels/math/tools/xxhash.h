/* xxhash.h - XXH64, the hash that Fluid's operator `hash` uses: a public function with published test values. */
#pragma once

#include <stddef.h>
#include <stdint.h>

uint64_t tr_xxh64(const void *bytes, size_t size, uint64_t seed);
