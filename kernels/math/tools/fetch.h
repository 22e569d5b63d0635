/* fetch.h - asking for memory before it is read.
 *
 * The processor's own prefetchers stop at the ends of pages, and a row of a matrix is often a page or less. Packing rows that lie in the third cache
 * or in memory took up to twice as long without this. */
#pragma once

#include <stdint.h>

#include "framework/base/compiler.h"

/* Ask for the line that lies `ahead` floats behind `from`; where no memory is, nothing happens. */
static inline __attribute__((always_inline)) void tr__fetch_bytes(const void *from, int64_t ahead)
{
    __builtin_prefetch((const void *)((uintptr_t)from + (uintptr_t)ahead));
}

static inline __attribute__((always_inline)) void tr__fetch(const float *from, int64_t ahead)
{
    tr__fetch_bytes(from, ahead * (int64_t)sizeof *from);
}

/* Ask for a row of a table: all of its lines, also where it does not begin with one. */
static inline __attribute__((always_inline)) void tr__fetch_row(const void *row, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i += TR_CACHE_LINE)
        tr__fetch_bytes(row, i);
    tr__fetch_bytes(row, bytes - 1);
}

/* As tr__fetch_row, for a row that will be written: its lines leave the caches of other processors, so that the writes need not wait for that. An
 * x86 processor that does not know the instruction passes it over. */
static inline __attribute__((always_inline)) void tr__claim_line(const char *line)
{
#ifdef __x86_64__
    __asm__ volatile("prefetchw %0" : : "m"(*line));
#else
    __builtin_prefetch(line, 1);
#endif
}

static inline __attribute__((always_inline)) void tr__claim_row(const void *row, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i += TR_CACHE_LINE)
        tr__claim_line((const char *)row + i);
    tr__claim_line((const char *)row + bytes - 1);
}

/* How many rows ahead: as many lines as can be under way, and stay in the first cache until they are read. */
static inline int64_t tr__rows_ahead(int64_t bytes)
{
    enum { LINES = 160, MOST_ROWS = 64 };
    const int64_t rows = LINES / (bytes / TR_CACHE_LINE + 1);
    return rows < 1 ? 1 : rows < MOST_ROWS ? rows : MOST_ROWS;
}
