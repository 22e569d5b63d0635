/* fork_lock.c - see fork_lock.h. A mutex guards the list of all locks; a fork holds it while it holds them. */
#include "framework/base/fork_lock.h"

#include <assert.h>

static pthread_mutex_t    list_lock = PTHREAD_MUTEX_INITIALIZER;
static tr_fork_lock      *all;
static pthread_once_t     forks_are_watched = PTHREAD_ONCE_INIT;
static _Thread_local bool holds_one;

static void before_fork(void)
{
    pthread_mutex_lock(&list_lock);
    for (tr_fork_lock *lock = all; lock; lock = lock->next)
        pthread_mutex_lock(&lock->mutex);
}

static void after_fork(void)
{
    for (tr_fork_lock *lock = all; lock; lock = lock->next)
        pthread_mutex_unlock(&lock->mutex);
    pthread_mutex_unlock(&list_lock);
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork, after_fork);
}

static void enlist(tr_fork_lock *lock)
{
    pthread_once(&forks_are_watched, watch_forks);
    pthread_mutex_lock(&list_lock);
    if (!atomic_load(&lock->is_listed)) {
        lock->next = all;
        lock->link = &all;
        if (all)
            all->link = &lock->next;
        all = lock;
        atomic_store(&lock->is_listed, true);
    }
    pthread_mutex_unlock(&list_lock);
}

void tr__fork_lock_init(tr_fork_lock *lock)
{
    *lock = (tr_fork_lock)TR_FORK_LOCK_INIT;
}

void tr__fork_lock_deinit(tr_fork_lock *lock)
{
    assert(!holds_one);
    if (atomic_load(&lock->is_listed)) {
        pthread_mutex_lock(&list_lock);
        *lock->link = lock->next;
        if (lock->next)
            lock->next->link = lock->link;
        pthread_mutex_unlock(&list_lock);
    }
    pthread_mutex_destroy(&lock->mutex);
}

void tr__fork_lock_take(tr_fork_lock *lock)
{
    assert(!holds_one);
    if (!atomic_load_explicit(&lock->is_listed, memory_order_acquire))
        enlist(lock);
    pthread_mutex_lock(&lock->mutex);
    holds_one = true;
}

void tr__fork_lock_release(tr_fork_lock *lock)
{
    holds_one = false;
    pthread_mutex_unlock(&lock->mutex);
}
