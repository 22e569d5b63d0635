/* file_reads.c - see file_reads.h. The caller takes reads, too, until none is left, and then waits for those of the others. */
#include "storage/cold/file_reads.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

enum { READERS = 15, STACK = 64 << 10 };               /* beside the caller */

typedef struct batch {
    int                 file;
    const tr_file_read *reads;
    int64_t             count, next, done;
    int                 error;        /* errno of a read that failed; -1: the file ended */
} batch;

static struct {
    pthread_mutex_t turn, lock;
    pthread_cond_t  has_work, is_done;
    batch          *batch;
    int             readers;
} pool = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, 0};

/* Returns 0, an errno, or -1 where the file ends. */
static int read_one(int file, const tr_file_read *r)
{
    for (uint64_t had = 0; had < r->bytes;) {
        const ssize_t got = pread(file, r->to + had, r->bytes - had, (off_t)(r->at + had));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? errno : -1;
        had += (uint64_t)got;
    }
    return 0;
}

/* Take reads of the batch until none is left. The lock is held, except during a read. */
static void take_reads(batch *b)
{
    while (b->next < b->count) {
        const tr_file_read *read = &b->reads[b->next++];
        pthread_mutex_unlock(&pool.lock);
        const int error = read_one(b->file, read);
        pthread_mutex_lock(&pool.lock);
        if (error)
            b->error = error;
        if (++b->done == b->count)
            pthread_cond_signal(&pool.is_done);
    }
}

static void *serve(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        while (!pool.batch || pool.batch->next == pool.batch->count)
            pthread_cond_wait(&pool.has_work, &pool.lock);
        take_reads(pool.batch);
    }
    return NULL;
}

/* The threads are not there in a forked child, and a lock may be held for ever. */
static void begin_anew(void)
{
    pthread_mutex_init(&pool.turn, NULL);
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.has_work, NULL);
    pthread_cond_init(&pool.is_done, NULL);
    pool.batch = NULL;
    pool.readers = 0;
}

/* A machine that gives fewer threads reads more slowly. */
static void start_readers(void)
{
    static bool    knows_forks;
    pthread_attr_t attr;
    pthread_t      thread;
    sigset_t       all, old;

    if (!knows_forks)
        pthread_atfork(NULL, NULL, begin_anew);
    knows_forks = true;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    while (pool.readers < READERS && pthread_create(&thread, &attr, serve, NULL) == 0)
        pool.readers++;
    pthread_attr_destroy(&attr);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static void run_by_all(batch *b)
{
    pthread_mutex_lock(&pool.turn);
    if (!pool.readers)
        start_readers();
    pthread_mutex_lock(&pool.lock);
    pool.batch = b;
    pthread_cond_broadcast(&pool.has_work);
    take_reads(b);
    while (b->done < b->count)
        pthread_cond_wait(&pool.is_done, &pool.lock);
    pool.batch = NULL;
    pthread_mutex_unlock(&pool.lock);
    pthread_mutex_unlock(&pool.turn);
}

tr_status tr_file_reads_run(int file, const char *what, const tr_file_read *reads, int64_t count)
{
    batch b = {file, reads, count, 0, 0, 0};

    if (count > 1)
        run_by_all(&b);
    else if (count == 1)
        b.error = read_one(file, reads);
    if (!b.error)
        return TR_OK;
    return tr_fail(TR_EIO, "cannot read '%s': %s", what, b.error < 0 ? "it ends too early" : strerror(b.error));
}
