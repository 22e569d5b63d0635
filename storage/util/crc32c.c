/* crc32c.c - adds eight bytes with one instruction, where the CPU has it; else with eight tables (Kounavis and Berry, "A systematic approach to
 * building high performance software-based CRC generators", 2005).
 *
 * The instruction takes three cycles, but a new one can begin in each cycle. So three stretches are summed side by side. A checksum is
 * linear in its start value, so tables move the checksum of one stretch over the length of the next. */
#include "storage/util/crc32c.h"

#include <pthread.h>
#include <string.h>

static const uint32_t POLYNOMIAL = 0x82f63b78;     /* reflected */

enum { STRETCH = 4096 };

static uint32_t table[8][256];
static uint32_t shift[4][256];                     /* tables by byte of a checksum: the checksum after STRETCH zeros */

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
    for (int i = 0; i < 1024; i++) {
        const int low = i & 255, rest = low & (low - 1);       /* one bit less: the two parts are moved apart and added */
        uint32_t  crc = (uint32_t)low << i / 256 * 8;
        for (int zero = 0; !rest && zero < STRETCH; zero += 8)
            crc = table[7][crc & 255] ^ table[6][crc >> 8 & 255] ^ table[5][crc >> 16 & 255] ^ table[4][crc >> 24];
        shift[i / 256][low] = rest ? shift[i / 256][rest] ^ shift[i / 256][low ^ rest] : crc;
    }
}

static void fill_once(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill_table);
}

uint32_t tr_crc32c_plain(uint32_t crc, const void *data, size_t size)
{
    const uint8_t *at = data;

    fill_once();
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

static uint64_t moved(uint64_t crc)
{
    return shift[0][crc & 255] ^ shift[1][crc >> 8 & 255] ^ shift[2][crc >> 16 & 255] ^ shift[3][crc >> 24 & 255];
}

__attribute__((target("sse4.2,crc32"))) static uint64_t three_stretches(uint64_t crc, const uint8_t *at)
{
    uint64_t second = 0, third = 0, word[3];

    for (size_t i = 0; i < STRETCH; i += 8) {
        memcpy(&word[0], at + i, 8);
        memcpy(&word[1], at + i + STRETCH, 8);
        memcpy(&word[2], at + i + 2 * STRETCH, 8);
        crc = __builtin_ia32_crc32di(crc, word[0]);
        second = __builtin_ia32_crc32di(second, word[1]);
        third = __builtin_ia32_crc32di(third, word[2]);
    }
    return moved(moved(crc) ^ second) ^ third;
}

__attribute__((target("sse4.2,crc32"))) static uint32_t by_instruction(uint32_t crc, const void *data, size_t size)
{
    const uint8_t *at = data;
    uint64_t       wide = (uint32_t)~crc;

    fill_once();
    for (; size >= 3 * STRETCH; at += 3 * STRETCH, size -= 3 * STRETCH)
        wide = three_stretches(wide, at);
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
