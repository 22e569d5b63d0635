/* compiler.h - what the code says to the compiler beyond C.
 *
 * TR_CLONES compiles a function once for each level of x86-64 and picks one when the program is
 * loaded. Whatever such a function calls must be TR_INLINE: only what is inlined is cloned along.
 * It is empty under sanitizers (their start-up runs before the choice can be made), for compilers
 * without the attribute and on other CPUs: the plain function is the reference and always exists. */
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(TR_SANITIZE)
#define TR_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TR_CLONES
#endif

/* Before a loop whose iterations do not depend on each other, although its arrays may be the same array (in place):
 * the compiler need not check for overlap and fall back to one element at a time. */
#if defined(__clang__)
#define TR_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define TR_IVDEP _Pragma("GCC ivdep")
#else
#define TR_IVDEP
#endif

/* Before a loop over a single vector, which the compiler would otherwise unroll before it sees a vector. */
#if defined(__GNUC__) && !defined(__clang__)
#define TR_ONE_VECTOR _Pragma("GCC unroll 1")
#else
#define TR_ONE_VECTOR
#endif

#define TR_INLINE      static inline __attribute__((always_inline))
#define TR_LIKELY(x)   __builtin_expect(!!(x), 1)
#define TR_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define TR_COUNT(a)    ((int)(sizeof(a) / sizeof((a)[0])))

enum { TR_CACHE_LINE = 64 };
