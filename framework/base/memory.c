/* memory.c - see memory.h. */
#include "framework/base/memory.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "framework/base/number.h"
#include "framework/trireme.h"

enum { LINE = 64 };
static const size_t HUGE_PAGE = (size_t)2 << 20;

unsigned long long tr__address_limit(void)
{
    struct rlimit allowed;

    return getrlimit(RLIMIT_AS, &allowed) == 0 && allowed.rlim_cur != RLIM_INFINITY ? allowed.rlim_cur : 0;
}

bool tr__lacks_addresses(char *error, size_t size, const char *library, size_t bytes)
{
    const unsigned long long limit = tr__address_limit() / 1024;
    void                    *tried = limit ? mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) : NULL;

    if (tried == MAP_FAILED)
        snprintf(error, size, "%s takes about %zu MiB of addresses, which this process has not left: it may have %llu KiB in all "
                 "(ulimit -v); let it have more (ulimit -v unlimited)", library, bytes >> 20, limit);
    else if (tried)
        munmap(tried, bytes);
    return tried == MAP_FAILED;
}

void tr__out_of_memory(size_t size)
{
    const unsigned long long limit = tr__address_limit() / 1024;

    if (limit)
        fprintf(stderr, "trireme: out of memory: no %zu bytes, of the %llu KiB that this process may have in all (ulimit -v)\n", size, limit);
    else
        fprintf(stderr, "trireme: out of memory: no %zu bytes\n", size);
    abort();
}

static void *checked(void *memory, size_t size)
{
    if (!memory)
        tr__out_of_memory(size);
    return memory;
}

void *tr__must_alloc(size_t size)
{
    return checked(calloc(1, size ? size : 1), size);
}

void *tr__must_array(size_t count, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(count, size, &bytes))
        bytes = SIZE_MAX;
    return checked(calloc(count ? count : 1, size), bytes);
}

void *tr__must_bytes(size_t size)
{
    return checked(malloc(size ? size : 1), size);
}

void *tr__must_aligned(size_t size)
{
    const size_t lines = size / LINE + (size % LINE != 0 || size == 0);

    return checked(lines <= SIZE_MAX / LINE ? aligned_alloc(LINE, lines * LINE) : NULL, size);
}

void *tr__must_realloc(void *memory, size_t size)
{
    return checked(realloc(memory, size ? size : 1), size);
}

char *tr__must_copy(const void *bytes, size_t size)
{
    char *copy = checked(malloc(size + 1), size + 1);
    if (size > 0)
        memcpy(copy, bytes, size);
    copy[size] = '\0';
    return copy;
}

char *tr__must_strdup(const char *text)
{
    return tr__must_copy(text, strlen(text));
}

char *tr__must_vformat(const char *format, va_list args)
{
    va_list again;

    va_copy(again, args);
    const int length = tr__vformat(NULL, 0, format, args);
    char     *text = tr__must_alloc((size_t)(length > 0 ? length : 0) + 1);
    tr__vformat(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

char *tr__must_format(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    char *text = tr__must_vformat(format, args);
    va_end(args);
    return text;
}

/* -- arrays ----------------------------------------------------------------------------------- */

static atomic_size_t array_limit;             /* 0: not asked yet */

/* All of the machine's memory. */
static size_t physical_memory(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);

    return pages > 0 && page > 0 ? (size_t)pages * (size_t)page : SIZE_MAX / 2;
}

size_t tr__array_limit(void)
{
    size_t limit = atomic_load_explicit(&array_limit, memory_order_relaxed);

    if (limit == 0) {
        limit = physical_memory();
        atomic_store_explicit(&array_limit, limit, memory_order_relaxed);
    }
    return limit;
}

void tr__array_set_limit(size_t bytes)
{
    atomic_store_explicit(&array_limit, bytes, memory_order_relaxed);
}

void *tr__array_alloc(size_t bytes)
{
    const size_t alignment = bytes < HUGE_PAGE ? LINE : HUGE_PAGE;

    if (bytes > tr__array_limit())
        return NULL;
    void *memory;
    if (posix_memalign(&memory, alignment, bytes ? (bytes + LINE - 1) / LINE * LINE : LINE))
        return NULL;
    if (alignment == HUGE_PAGE)                        /* not its end, which shares a page with what is not its own */
        madvise(memory, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
    return memory;
}

void tr_free(void *memory)
{
    free(memory);
}
