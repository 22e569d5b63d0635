/* crc32c.c - eight bytes an instruction where there is one; else a table for each of eight bytes (Kounavis and
 * Berry, "A systematic approach to building high performance software-based CRC generators", 2005). */
#include "pserver/crc32c.h"

#include <pthread.h>
#include <string.h>

static const uint32_t POLYNOMIAL = 0x82f63b78;     /* reflected */

static uint32_t table[8][256];

static void fill_table(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ POLYNOMIAL : crc >> 1;
        table[0][i] = crc;
    }
    for (int t = 1; t < 8; t++)
        for (int i = 0; i < 256; i++)
            table[t][i] = table[t - 1][i] >> 8 ^ table[0][table[t - 1][i] & 255];
}

uint32_t tr_crc32c_plain(uint32_t crc, const void *data, size_t size)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const uint8_t        *at = data;

    pthread_once(&once, fill_table);
    crc = ~crc;
    for (; size >= 8; at += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        word ^= crc;
        crc = 0;
        for (int t = 0; t < 8; t++)
            crc ^= table[7 - t][word >> 8 * t & 255];
    }
    for (; size; at++, size--)
        crc = crc >> 8 ^ table[0][(crc ^ *at) & 255];
    return ~crc;
}

#if defined(__x86_64__) && defined(__GNUC__)

__attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t crc, const void *data, size_t size)
{
    const uint8_t *at = data;
    uint64_t       wide = (uint32_t)~crc;

    for (; size >= 8; at += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        wide = __builtin_ia32_crc32di(wide, word);
    }
    crc = (uint32_t)wide;
    for (; size; at++, size--)
        crc = __builtin_ia32_crc32qi(crc, *at);
    return ~crc;
}

uint32_t tr_crc32c(uint32_t crc, const void *data, size_t size)
{
    return __builtin_cpu_supports("sse4.2") ? by_instruction(crc, data, size) : tr_crc32c_plain(crc, data, size);
}

#else

uint32_t tr_crc32c(uint32_t crc, const void *data, size_t size)
{
    return tr_crc32c_plain(crc, data, size);
}

#endif
