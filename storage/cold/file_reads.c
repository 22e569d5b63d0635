/* file_reads.c - see file_reads.h. The system calls of asynchronous input have no functions in the C library. */
#include "storage/cold/file_reads.h"

#include <errno.h>
#include <linux/aio_abi.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096 };
enum { DEPTH = 128, FEW = 32 };        /* reads under way; so many must be done before others are begun */

/* Reads that are under way, each in a slot with memory of whole pages. */
typedef struct ring {
    aio_context_t context;
    bool          is_open, is_missing; /* the kernel gives one, or none */
    char         *memory;
    uint64_t      capacity;            /* of the memory */
    uint64_t      span;                /* of a slot, in this batch */
    struct iocb   slot[DEPTH];
    const tr_file_read *of[DEPTH];     /* the read of each slot */
    int           free[DEPTH], free_count;
} ring;

/* == pieces of whole pages ======================================================================= */

static uint64_t first_page(const tr_file_read *r) { return r->at / PAGE * PAGE; }

static uint64_t span_of(const tr_file_read *r)
{
    return (r->at + r->bytes + PAGE - 1) / PAGE * PAGE - first_page(r);
}

/* Read the rest of a piece, of which `had` bytes of whole pages are there. Returns 0, an errno, or -1 where the file ends. */
static int read_rest(int file, const tr_file_read *r, char *pages, uint64_t had)
{
    const uint64_t first = first_page(r), needed = r->at + r->bytes - first, span = span_of(r);

    while (had < needed) {
        const ssize_t got = pread(file, pages + had, span - had, (off_t)(first + had));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? errno : -1;
        had += (uint64_t)got;
    }
    memcpy(r->to, pages + (r->at - first), r->bytes);
    return 0;
}

/* == a ring ======================================================================================= */

/* Slots for these reads, in as much memory as one needs, or 4 MiB. Returns how many, 0: there is no memory. */
static int make_slots(ring *r, const tr_file_read *reads, int64_t count)
{
    enum { MEMORY = 4 << 20 };
    uint64_t span = PAGE;

    for (int64_t i = 0; i < count; i++)
        if (span_of(&reads[i]) > span)
            span = span_of(&reads[i]);
    const uint64_t fit = MEMORY / span, slots = !fit ? 1 : fit < DEPTH ? fit : DEPTH;
    if (slots * span > r->capacity) {
        free(r->memory);
        r->memory = aligned_alloc(PAGE, slots * span);
        r->capacity = r->memory ? slots * span : 0;
    }
    r->span = span;
    r->free_count = 0;
    while (r->memory && r->free_count < (int)slots) {
        r->free[r->free_count] = r->free_count;
        r->free_count++;
    }
    return r->free_count;
}

static bool has_context(ring *r)
{
    if (!r->is_open && !r->is_missing)
        r->is_open = syscall(SYS_io_setup, DEPTH, &r->context) == 0;
    r->is_missing = !r->is_open;
    return r->is_open;
}

static struct iocb *fill_slot(ring *r, int file, const tr_file_read *read)
{
    const int slot = r->free[--r->free_count];

    r->of[slot] = read;
    r->slot[slot] = (struct iocb){
        .aio_data = (uint64_t)slot, .aio_lio_opcode = IOCB_CMD_PREAD, .aio_fildes = (uint32_t)file,
        .aio_buf = (uint64_t)(uintptr_t)(r->memory + (uint64_t)slot * r->span), .aio_nbytes = span_of(read),
        .aio_offset = (int64_t)first_page(read)};
    return &r->slot[slot];
}

/* Begin as many reads as there are slots. Returns the number of reads, of which some may have failed at once: they are made here. */
static int64_t begin_some(ring *r, int file, const tr_file_read *reads, int64_t left, int64_t *under_way, int *error)
{
    struct iocb *list[DEPTH];
    int64_t      count = 0, sent = 0;

    for (; count < left && r->free_count; count++)
        list[count] = fill_slot(r, file, &reads[count]);
    while (sent < count) {
        const long took = syscall(SYS_io_submit, r->context, count - sent, list + sent);
        if (took > 0) {
            sent += took;
            *under_way += took;
            continue;
        }
        const int slot = (int)list[sent++]->aio_data, failed = read_rest(file, r->of[slot], r->memory + (uint64_t)slot * r->span, 0);
        r->free[r->free_count++] = slot;
        *error = failed ? failed : *error;
    }
    return count;
}

static void end_some(ring *r, int file, int64_t *under_way, int *error)
{
    struct io_event events[DEPTH];
    const int64_t   least = *under_way < FEW ? *under_way : FEW;
    const long      got = syscall(SYS_io_getevents, r->context, least, DEPTH, events, NULL);

    for (long i = 0; i < got; i++) {
        const int slot = (int)events[i].data;
        const int failed = events[i].res < 0 ? (int)-events[i].res
                         : read_rest(file, r->of[slot], r->memory + (uint64_t)slot * r->span, (uint64_t)events[i].res);
        *error = failed ? failed : *error;
        r->free[r->free_count++] = slot;
        --*under_way;
    }
}

/* Returns 0, an errno of a read that failed, or -1: the file ended. */
static int read_all(ring *r, int file, const tr_file_read *reads, int64_t count)
{
    int64_t begun = 0, under_way = 0;
    int     error = 0;

    if (!make_slots(r, reads, count))
        return ENOMEM;
    if (count == 1 || !has_context(r)) {
        for (int64_t i = 0; i < count && !error; i++)
            error = read_rest(file, &reads[i], r->memory, 0);
        return error;
    }
    while (begun < count || under_way) {
        begun += begin_some(r, file, reads + begun, count - begun, &under_way, &error);
        if (under_way)
            end_some(r, file, &under_way, &error);
    }
    return error;
}

/* A forked child has neither the thread nor the rings of its parent, and locks may be held for ever. */
static void watch_forks(void);
static pthread_once_t watches_forks = PTHREAD_ONCE_INIT;

/* == reads that are waited for ==================================================================== */

static struct {
    pthread_mutex_t lock;              /* callers take turns */
    ring            ring;
} now = {.lock = PTHREAD_MUTEX_INITIALIZER};

tr_status tr_file_reads_run(int file, const char *what, const tr_file_read *reads, int64_t count)
{
    if (!count)
        return TR_OK;
    pthread_once(&watches_forks, watch_forks);
    pthread_mutex_lock(&now.lock);
    const int error = read_all(&now.ring, file, reads, count);
    pthread_mutex_unlock(&now.lock);
    if (!error)
        return TR_OK;
    return tr_fail(TR_EIO, "cannot read '%s': %s", what, error < 0 ? "it ends too early" : strerror(error));
}

/* == reads of the thread ========================================================================== */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t  has_work, is_done;
    tr_file_reads  *first;             /* batches in the order of their calls */
    bool            is_running;
    ring            ring;              /* of the thread alone */
} thread = {.lock = PTHREAD_MUTEX_INITIALIZER, .has_work = PTHREAD_COND_INITIALIZER, .is_done = PTHREAD_COND_INITIALIZER};

static void *serve(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&thread.lock);
    for (;;) {
        tr_file_reads *batch = thread.first;
        if (!batch) {
            pthread_cond_wait(&thread.has_work, &thread.lock);
            continue;
        }
        thread.first = batch->later;
        pthread_mutex_unlock(&thread.lock);
        const int error = read_all(&thread.ring, batch->file, batch->reads, batch->count);
        pthread_mutex_lock(&thread.lock);
        batch->error = error;
        batch->are_done = true;
        pthread_cond_broadcast(&thread.is_done);
    }
    return NULL;
}

static void begin_anew(void)
{
    pthread_mutex_init(&now.lock, NULL);
    pthread_mutex_init(&thread.lock, NULL);
    pthread_cond_init(&thread.has_work, NULL);
    pthread_cond_init(&thread.is_done, NULL);
    thread.first = NULL;
    thread.is_running = false;
    now.ring.is_open = thread.ring.is_open = false;
}

static bool start_thread(void)
{
    sigset_t  all, old;
    pthread_t it;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    const bool starts = pthread_create(&it, NULL, serve, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (starts)
        pthread_detach(it);
    return starts;
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, begin_anew);
}

void tr_file_reads_begin(tr_file_reads *batch)
{
    tr_file_reads **at = &thread.first;

    batch->are_done = false;
    batch->later = NULL;
    pthread_once(&watches_forks, watch_forks);
    pthread_mutex_lock(&thread.lock);
    if (thread.is_running || (thread.is_running = start_thread())) {
        while (*at)
            at = &(*at)->later;
        *at = batch;
        pthread_cond_signal(&thread.has_work);
    } else {
        batch->error = read_all(&thread.ring, batch->file, batch->reads, batch->count);
        batch->are_done = true;
    }
    pthread_mutex_unlock(&thread.lock);
}

bool tr_file_reads_are_done(const tr_file_reads *batch)
{
    pthread_mutex_lock(&thread.lock);
    const bool are_done = batch->are_done;
    pthread_mutex_unlock(&thread.lock);
    return are_done;
}

bool tr_file_reads_wait(tr_file_reads *batch)
{
    pthread_mutex_lock(&thread.lock);
    while (!batch->are_done)
        pthread_cond_wait(&thread.is_done, &thread.lock);
    pthread_mutex_unlock(&thread.lock);
    return !batch->error;
}
