/* fork_lock.h - a mutex that is free in a child made by fork.
 *
 * A child has a copy of each mutex, but only the thread that forked. A mutex that another thread held at that moment would stay locked in
 * the child for ever. So a fork takes all locks of this kind first, and both processes release them: what the locks guard is whole in the
 * child. This holds for the mutexes of the process and of objects that a child may use. Objects that belong to a run (executors, frames,
 * jobs) need plain mutexes: a child refuses what another thread was running.
 *
 * What must stay true: a thread that holds such a lock takes no other one, does not fork, and does not wait for a condition. Then a fork may
 * take them in any order. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

typedef struct tr_fork_lock tr_fork_lock;
struct tr_fork_lock {
    pthread_mutex_t mutex;
    atomic_bool     is_listed;        /* forks know it: since it was first taken */
    tr_fork_lock   *next, **link;
};

#define TR_FORK_LOCK_INIT {.mutex = PTHREAD_MUTEX_INITIALIZER}

/* For a lock of an object; a static one is initialised by TR_FORK_LOCK_INIT. */
void tr__fork_lock_init(tr_fork_lock *lock);
void tr__fork_lock_deinit(tr_fork_lock *lock);
void tr__fork_lock_take(tr_fork_lock *lock);
void tr__fork_lock_release(tr_fork_lock *lock);
