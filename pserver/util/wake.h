/* wake.h - sleep until another thread rings, or a time has passed: a futex word, which processes may share.
 *
 * A waiter reads the word, looks for work, and sleeps only while the word is unchanged. A thread that has work for the waiter changes the
 * word first. So no ring is lost. */
#ifndef TR_PSERVER_WAKE_H
#define TR_PSERVER_WAKE_H

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static inline int64_t tr__clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline void tr__bell_wait(atomic_uint *bell, unsigned seen, int64_t nanoseconds)
{
    const struct timespec t = {nanoseconds / 1000000000, nanoseconds % 1000000000};
    syscall(SYS_futex, bell, FUTEX_WAIT, seen, &t, NULL, 0);
}

static inline void tr__bell_ring(atomic_uint *bell)
{
    atomic_fetch_add(bell, 1);
    syscall(SYS_futex, bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* The same for several threads that sleep on one word. `who` is a set of bits: a ring wakes the threads that share a bit with it. */
static inline void tr__bell_wait_as(atomic_uint *bell, unsigned who, unsigned seen, int64_t nanoseconds)
{
    const int64_t         until = tr__clock() + nanoseconds;
    const struct timespec at = {until / 1000000000, until % 1000000000};
    syscall(SYS_futex, bell, FUTEX_WAIT_BITSET, seen, &at, NULL, who);
}

static inline void tr__bell_ring_for(atomic_uint *bell, unsigned who)
{
    atomic_fetch_add(bell, 1);
    syscall(SYS_futex, bell, FUTEX_WAKE_BITSET, INT_MAX, NULL, NULL, who);
}

static inline void tr__pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

#endif
