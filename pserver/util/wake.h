/* wake.h - sleep until another thread rings, or a time has passed: a futex word, which processes may share.
 *
 * A waiter reads the word, looks for work, and sleeps only while the word is unchanged. A thread that has work for the waiter changes the
 * word first. So no ring is lost. */
#pragma once

#include "pserver/util/schedule.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static inline int64_t tr__clock(void)
{
    struct timespec t;

    if (tr__schedule)
        return tr__schedule->clock();
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline void tr__sleep(int64_t nanoseconds)
{
    if (tr__schedule)
        tr__schedule->wait(NULL, 0, 0, nanoseconds);
    else
        nanosleep(&(struct timespec){nanoseconds / 1000000000, nanoseconds % 1000000000}, NULL);
}

/* Several threads may sleep on one word. `who` is a set of bits: a ring wakes the threads that share a bit with it. */
static inline void tr__bell_wait_as(atomic_uint *bell, unsigned who, unsigned seen, int64_t nanoseconds)
{
    if (tr__schedule) {
        tr__schedule->wait(bell, who, seen, nanoseconds);
        return;
    }
    const int64_t         until = tr__clock() + nanoseconds;
    const struct timespec at = {until / 1000000000, until % 1000000000};
    syscall(SYS_futex, bell, FUTEX_WAIT_BITSET, seen, &at, NULL, who);
}

static inline void tr__bell_ring_for(atomic_uint *bell, unsigned who)
{
    atomic_fetch_add(bell, 1);
    if (tr__schedule)
        tr__schedule->ring(bell, who);
    else
        syscall(SYS_futex, bell, FUTEX_WAKE_BITSET, INT_MAX, NULL, NULL, who);
}

static inline void tr__bell_wait(atomic_uint *bell, unsigned seen, int64_t nanoseconds)
{
    tr__bell_wait_as(bell, FUTEX_BITSET_MATCH_ANY, seen, nanoseconds);
}

static inline void tr__bell_ring(atomic_uint *bell)
{
    tr__bell_ring_for(bell, FUTEX_BITSET_MATCH_ANY);
}

/* Wait for a condition until a time of tr__clock. False: it has come. `is_idle`: no thread of this process works on the condition; so in a
 * schedule others must have their turns. */
static inline bool tr__cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t until, bool is_idle)
{
    struct timespec at = {until / 1000000000, until % 1000000000};

    if (!tr__schedule)
        return pthread_cond_timedwait(cond, lock, &at) == 0;
    if (is_idle) {
        pthread_mutex_unlock(lock);
        tr__sleep(1000000);
        pthread_mutex_lock(lock);
        return tr__clock() < until;
    }
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec++;
    pthread_cond_timedwait(cond, lock, &at);
    return true;
}

static inline void tr__pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}
