/* row_copy.h - copying the few numbers of a table's row: a call of memcpy for each would cost more than the copy. */
#ifndef TR_PSERVER_ROW_COPY_H
#define TR_PSERVER_ROW_COPY_H

#include <stddef.h>
#include <string.h>

/* `bytes` is the same for many rows, so that the branches are foreseen. The arrays do not overlap. */
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

#endif
