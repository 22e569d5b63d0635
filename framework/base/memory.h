/* memory.h - memory for the small things that a program is made of (names, slots, attributes), and for arrays.
 *
 * The setters of descs return nothing, so that building a program stays readable; a machine that has no room
 * for a name has none for the program either. tr__must_* therefore end the process with a message instead
 * of returning NULL. What grows with data (tensors, files, serialised programs) does not use them: there
 * the caller gets TR_ENOMEM. The parameter server uses them for its lists and for messages, whose sizes are held against a limit
 * before (pserver/wire/messages.h): a rank that ends is replaced, a rank that has lost a message without a word is not.
 *
 * Large arrays lie in huge pages where the machine gives them to who asks (transparent_hugepage: madvise or always). Another rank
 * of the host that reads such an array has the kernel look up one page where there would be 512, which is most of what small pages
 * cost: a gradient of 16 MiB is received at 6.5 GB/s instead of 3.7. */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

_Noreturn void tr__out_of_memory(size_t size);            /* says so, and aborts */
void *tr__must_alloc(size_t size);                        /* zeroed; never NULL, not even for 0 */
void *tr__must_array(size_t count, size_t size);          /* `count` items of `size` bytes, zeroed */
void *tr__must_bytes(size_t size);                        /* not zeroed: it is written at once */
void *tr__must_aligned(size_t size);                      /* not zeroed, at a cache line; takes whole cache lines */
void *tr__must_realloc(void *memory, size_t size);
char *tr__must_copy(const void *bytes, size_t size);      /* and a 0 after it */
char *tr__must_strdup(const char *text);
char *tr__must_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *tr__must_vformat(const char *format, va_list args) __attribute__((format(printf, 1, 0)));

/* An array: aligned to a cache line, which is the widest vector. free() frees it; NULL: there is no room.
 * No array is larger than the limit, which is the machine's memory unless a test sets it (0: that again). Linux hands
 * out addresses without memory behind them, and would later kill the process that writes there. */
void  *tr__array_alloc(size_t bytes);
size_t tr__array_limit(void);
void   tr__array_set_limit(size_t bytes);

/* The bytes of addresses that this process may have in all (ulimit -v); 0: there is no limit. */
unsigned long long tr__address_limit(void);
/* A library of others ends the process, or crashes, where it gets no addresses. Has a limited process fewer than `bytes` left? Then `error`
 * says so. */
bool tr__lacks_addresses(char *error, size_t size, const char *library, size_t bytes);
