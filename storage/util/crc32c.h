/* crc32c.h - CRC-32C (Castagnoli), the checksum of checkpoints: modern CPUs have an instruction for it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Continue checksum `crc` over `size` further bytes; begin with 0. */
uint32_t tr_crc32c(uint32_t crc, const void *data, size_t size);
/* Compute tr_crc32c without the CPU's instruction: for CPUs that lack it, and for tests. */
uint32_t tr_crc32c_plain(uint32_t crc, const void *data, size_t size);
