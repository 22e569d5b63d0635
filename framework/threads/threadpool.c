/* threadpool.c - slices are claimed from one atomic ticket.
 *
 * The ticket holds the job's number and which of its slices nobody has claimed yet: those from one number to another. A thread claims
 * the first or the last of them; success proves that what it read of the job belongs to that number, because the fields change
 * only when no slice is unclaimed and none is running. So the caller never waits for a worker that came late: only for
 * slices that were claimed.
 *
 * Each thread claims always from the same end. So it works on the same part of an array in one kernel after the other, and finds it in its
 * own cache. Where two processors share no cache, a line that the other one has written takes three times as long as one from memory.
 *
 * Sleep: a worker that spun in vain counts itself in `sleepers`, looks once more and waits on `bell`; the caller
 * publishes the ticket, then looks at `sleepers`. Both in sequential consistency, so one of them sees the other. The
 * caller's own wait for the last slices works alike with `caller_sleeps` and `done`.
 *
 * Placement: the kernel may wake a worker on the caller's CPU and leave it there for seconds while another CPU is idle, as it
 * does where CPUs share no cache. Both then take turns. So a worker that finds itself on the caller's CPU moves to another one. */
#include "framework/threads/threadpool.h"

#include "framework/base/compiler.h"
#include "framework/base/memory.h"
#include "framework/base/status.h"
#include "framework/threads/precision.h"
#include "framework/threads/ticket.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A worker spins longer than its caller: between two jobs there may be a sort, or what a script does between two steps, and to wake a
 * sleeper takes as long where other processes want its CPU. */
enum { MAX_THREADS = 256, WORKER_SPIN_NS = 100000, CALLER_SPIN_NS = 40000, PAUSES_PER_LOOK = 32 };

static struct {
    _Alignas(TR_CACHE_LINE) _Atomic tr_ticket ticket;
    _Atomic(tr_slice_fn)    fn;
    _Atomic(void *)         payload;
    _Atomic int64_t         slices;
    _Atomic tr_precision    precision;                     /* of products in the slices: the caller's */
    atomic_int              caller_cpu;                    /* where the caller ran when it published the job */
    _Alignas(TR_CACHE_LINE) atomic_uint done;              /* slices of the job that are finished */
    _Alignas(TR_CACHE_LINE) atomic_uint bell;
    atomic_uint             sleepers;
    atomic_uint             caller_sleeps;
    atomic_bool             stop;
    _Alignas(TR_CACHE_LINE) atomic_bool busy;              /* one job, or one change of the pool, at a time */
    int                     workers;                       /* that were started; only the one that is busy looks */
    pthread_t               thread[MAX_THREADS];
} pool;

static atomic_int          wanted;                         /* threads in all; 0: not decided yet */
static _Thread_local bool  in_slice;
static pthread_once_t      once = PTHREAD_ONCE_INIT;
static pthread_key_t       scratch_key;

/* -- sleep and time --------------------------------------------------------------------------------------------- */

static void futex_wait(atomic_uint *word, unsigned expected)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

static void futex_wake(atomic_uint *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static void pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * (int64_t)1000000000 + t.tv_nsec;
}

/* -- running slices --------------------------------------------------------------------------------------- */

static void finish_one(int64_t slices)
{
    const unsigned done = atomic_fetch_add(&pool.done, 1) + 1;
    if (done == (unsigned)slices && atomic_load(&pool.caller_sleeps))
        futex_wake(&pool.done, 1);
}

/* Claim and run slices until none of the current job is left. */
static void work(bool from_end)
{
    tr_ticket ticket = atomic_load_explicit(&pool.ticket, memory_order_acquire);
    while (tr__ticket_has_slices(ticket)) {
        const tr_slice_fn fn = atomic_load_explicit(&pool.fn, memory_order_relaxed);
        void *const       payload = atomic_load_explicit(&pool.payload, memory_order_relaxed);
        const int64_t     slices = atomic_load_explicit(&pool.slices, memory_order_relaxed);
        const tr_precision precision = atomic_load_explicit(&pool.precision, memory_order_relaxed);
        const tr_ticket    rest = from_end ? tr__ticket_without_last(ticket) : tr__ticket_without_first(ticket);
        if (atomic_compare_exchange_weak_explicit(&pool.ticket, &ticket, rest, memory_order_acq_rel, memory_order_acquire)) {
            tr__precision_enter(precision);
            fn(payload, from_end ? tr__ticket_end(ticket) - 1 : tr__ticket_first(ticket));
            finish_one(slices);
            ticket = atomic_load_explicit(&pool.ticket, memory_order_acquire);
        }
    }
}

/* -- workers ----------------------------------------------------------------------------------------------- */

static bool has_work(void)
{
    return tr__ticket_has_slices(atomic_load_explicit(&pool.ticket, memory_order_relaxed)) ||
           atomic_load_explicit(&pool.stop, memory_order_relaxed);
}

static bool spin_for_work(void)
{
    const int64_t deadline = now_ns() + WORKER_SPIN_NS;
    do {
        for (int i = 0; i < PAUSES_PER_LOOK; i++) {
            if (has_work())
                return true;
            pause_cpu();
        }
    } while (now_ns() < deadline);
    return false;
}

static void sleep_for_work(void)
{
    const unsigned bell = atomic_load(&pool.bell);
    atomic_fetch_add(&pool.sleepers, 1);
    if (!(tr__ticket_has_slices(atomic_load(&pool.ticket)) || atomic_load(&pool.stop)))
        futex_wait(&pool.bell, bell);
    atomic_fetch_sub(&pool.sleepers, 1);
}

/* From then on the worker may use the CPUs of the process's first thread but this one: it would be woken here again. With more threads
 * than CPUs the kernel decides. */
static void leave_callers_cpu(void)
{
    const int mine = sched_getcpu();
    cpu_set_t cpus;

    if (TR_LIKELY(mine != atomic_load_explicit(&pool.caller_cpu, memory_order_relaxed)) || mine < 0 ||
        sched_getaffinity(getpid(), sizeof cpus, &cpus) != 0 || CPU_COUNT(&cpus) < tr_num_threads())
        return;
    CPU_CLR(mine, &cpus);
    if (CPU_COUNT(&cpus) > 0)
        sched_setaffinity(0, sizeof cpus, &cpus);
}

/* The first worker, and every other one behind it, claims from the end. */
static void *worker(void *number)
{
    const bool from_end = (uintptr_t)number % 2 == 0;

    in_slice = true;
    while (!atomic_load(&pool.stop)) {
        leave_callers_cpu();
        work(from_end);
        if (!spin_for_work())
            sleep_for_work();
    }
    return NULL;
}

static void ring(int count)
{
    atomic_fetch_add(&pool.bell, 1);
    futex_wake(&pool.bell, count);
}

/* The caller is busy. A thread that cannot be had is done without. */
static void start_workers(int count)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);               /* signals are for the threads of the application */
    while (pool.workers < count && pthread_create(&pool.thread[pool.workers], NULL, worker, (void *)(uintptr_t)pool.workers) == 0)
        pool.workers++;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static void stop_workers(void)
{
    atomic_store(&pool.stop, true);
    ring(INT_MAX);
    for (int i = 0; i < pool.workers; i++)
        pthread_join(pool.thread[i], NULL);
    pool.workers = 0;
    atomic_store(&pool.stop, false);
}

static bool try_acquire(void)
{
    return !atomic_load_explicit(&pool.busy, memory_order_relaxed) &&
           !atomic_exchange_explicit(&pool.busy, true, memory_order_acquire);
}

static void release(void)
{
    atomic_store_explicit(&pool.busy, false, memory_order_release);
}

/* -- once per process: fork and threads' ends ---------------------------------------------------------------- */

/* Threads do not survive a fork: the child forgets them and whatever job was running. */
static void forget_pool(void)
{
    memset(&pool, 0, sizeof pool);
}

static void free_scratch(void *slots)
{
    void **memory = slots;
    for (int i = 0; i < TR_SCRATCH_COUNT; i++)
        free(memory[i]);
    free(memory);
}

static void init(void)
{
    pthread_atfork(NULL, NULL, forget_pool);
    if (pthread_key_create(&scratch_key, free_scratch) != 0)
        abort();
}

/* -- the thread count ----------------------------------------------------------------------------------------- */

/* The threads that a variable of the environment asks for; 0: none named, -1: a text that is no number of threads. */
static int threads_in(const char *variable)
{
    const char *text = getenv(variable);
    char       *end;

    if (!text || !*text)
        return 0;
    const long count = strtol(text, &end, 10);
    return *end || count < 1 || count > MAX_THREADS ? -1 : (int)count;
}

static int asked_threads(void)
{
    return threads_in("TRIREME_NUM_THREADS");
}

tr_status tr__num_threads_of(int *count, const char *variable)
{
    *count = threads_in(variable);
    return *count >= 0 ? TR_OK : tr_fail(TR_EINVAL, "%s='%s' in the environment; a whole number from 1 to %d is possible", variable,
                                         getenv(variable), MAX_THREADS);
}

tr_status tr_num_threads_check(void)
{
    int count;

    return atomic_load_explicit(&wanted, memory_order_relaxed) == 0 ? tr__num_threads_of(&count, "TRIREME_NUM_THREADS") : TR_OK;
}

static int default_threads(void)
{
    const int asked = asked_threads();
    cpu_set_t cpus;
    if (asked > 0)
        return asked;
    if (sched_getaffinity(0, sizeof cpus, &cpus) != 0)
        return 1;
    const int count = CPU_COUNT(&cpus);
    return count < 1 ? 1 : count < MAX_THREADS ? count : MAX_THREADS;
}

int tr_num_threads(void)
{
    int count = atomic_load_explicit(&wanted, memory_order_relaxed);
    if (count == 0) {
        int undecided = 0;
        count = default_threads();
        /* A count that makes no sense is not decided on, so that the check finds it. */
        if (asked_threads() >= 0 && !atomic_compare_exchange_strong(&wanted, &undecided, count))
            count = undecided;
    }
    return count;
}

void tr_set_num_threads(int count)
{
    atomic_store(&wanted, count <= 0 ? 0 : count < MAX_THREADS ? count : MAX_THREADS);
}

/* -- jobs ------------------------------------------------------------------------------------------------------ */

static void publish(int64_t slices, tr_slice_fn fn, void *payload)
{
    atomic_store_explicit(&pool.done, 0, memory_order_relaxed);
    atomic_store_explicit(&pool.fn, fn, memory_order_relaxed);
    atomic_store_explicit(&pool.payload, payload, memory_order_relaxed);
    atomic_store_explicit(&pool.slices, slices, memory_order_relaxed);
    atomic_store_explicit(&pool.precision, tr__precision_now(), memory_order_relaxed);
    atomic_store_explicit(&pool.caller_cpu, sched_getcpu(), memory_order_relaxed);
    atomic_store(&pool.ticket, tr__ticket_next(atomic_load_explicit(&pool.ticket, memory_order_relaxed), slices));
    if (atomic_load(&pool.sleepers) > 0)
        ring((int)slices - 1);
}

/* Spin first: the last slices are about to end. Then sleep, for the worker that holds one may need this very core. */
static void wait_for_slices(int64_t slices)
{
    int64_t deadline = 0;
    for (unsigned spins = 1; atomic_load_explicit(&pool.done, memory_order_acquire) != (unsigned)slices; spins++) {
        pause_cpu();
        if (spins % PAUSES_PER_LOOK != 0)
            continue;
        const int64_t now = now_ns();
        if (deadline == 0)
            deadline = now + CALLER_SPIN_NS;
        if (now < deadline)
            continue;
        atomic_store(&pool.caller_sleeps, 1);
        const unsigned done = atomic_load(&pool.done);
        if (done != (unsigned)slices)
            futex_wait(&pool.done, done);
        atomic_store(&pool.caller_sleeps, 0);
    }
}

static void run_inline(int64_t slices, tr_slice_fn fn, void *payload)
{
    for (int64_t i = 0; i < slices; i++)
        fn(payload, i);
}

/* The pool for this thread alone, with `threads` - 1 workers or as many as there can be; false: it is busy, or this is a slice. */
static bool acquire(int threads)
{
    if (in_slice || !try_acquire())
        return false;
    if (TR_UNLIKELY(pool.workers != threads - 1)) {
        pthread_once(&once, init);
        if (pool.workers > threads - 1)
            stop_workers();
        start_workers(threads - 1);
    }
    return true;
}

static void run_and_release(int64_t slices, tr_slice_fn fn, void *payload)
{
    in_slice = true;
    publish(slices, fn, payload);
    work(false);
    wait_for_slices(slices);
    in_slice = false;
    release();
}

/* More slices than a ticket can count are taken many at a time. */
typedef struct many {
    tr_slice_fn fn;
    void       *payload;
} many;

static void run_many(void *payload, int64_t begin, int64_t end)
{
    const many *m = payload;
    for (int64_t i = begin; i < end; i++)
        m->fn(m->payload, i);
}

void tr_parallel(int64_t slices, tr_slice_fn fn, void *payload)
{
    const int threads = tr_num_threads();
    if (slices > TR_TICKET_SLICES)
        tr_parallel_range(slices, 1, run_many, &(many){fn, payload});
    else if (slices <= 1 || threads <= 1 || !acquire(threads))
        run_inline(slices, fn, payload);
    else
        run_and_release(slices, fn, payload);
}

bool tr__pool_run_gang(int slices, tr_slice_fn fn, void *payload)
{
    const int threads = tr_num_threads();
    if (threads < slices || !acquire(threads))
        return false;
    if (pool.workers < slices - 1) {                       /* some could not be started */
        release();
        return false;
    }
    run_and_release(slices, fn, payload);
    return true;
}

bool tr__slice_enter(bool inside)
{
    const bool before = in_slice;
    in_slice = inside;
    return before;
}

/* -- cutting ----------------------------------------------------------------------------------------------------- */

int64_t tr_slice_count(int64_t items, int64_t min_items)
{
    const int64_t slices = items / (min_items > 0 ? min_items : 1);
    return slices < 1 ? 1 : slices < TR_MAX_SLICES ? slices : TR_MAX_SLICES;
}

void tr_slice_range(int64_t *begin, int64_t *end, int64_t items, int64_t grain, int64_t slices, int64_t slice)
{
    const int64_t grains = (items + grain - 1) / grain, each = grains / slices, more = grains % slices;
    const int64_t from = slice * each + (slice < more ? slice : more);
    const int64_t to = from + each + (slice < more);
    *begin = from * grain < items ? from * grain : items;
    *end = to * grain < items ? to * grain : items;
}

typedef struct range {
    tr_range_fn fn;
    void       *payload;
    int64_t     items, grain, slices;
} range;

static void range_slice(void *payload, int64_t slice)
{
    const range *r = payload;
    int64_t      begin, end;
    tr_slice_range(&begin, &end, r->items, r->grain, r->slices, slice);
    if (begin < end)
        r->fn(r->payload, begin, end);
}

void tr_parallel_range(int64_t items, int64_t min_items, tr_range_fn fn, void *payload)
{
    if (items <= 0)
        return;
    if (items < 2 * min_items) {
        fn(payload, 0, items);
        return;
    }
    range r = {fn, payload, items, min_items < 64 ? 1 : 64, tr_slice_count(items, min_items)};
    tr_parallel(r.slices, range_slice, &r);
}

typedef struct copy {
    char       *to;
    const char *from;
} copy;

static void copy_range(void *payload, int64_t begin, int64_t end)
{
    const copy *c = payload;
    memcpy(c->to + begin, c->from + begin, (size_t)(end - begin));
}

void tr_parallel_copy(void *to, const void *from, size_t bytes)
{
    copy c = {to, from};
    tr_parallel_range((int64_t)bytes, 1 << 20, copy_range, &c);
}

/* -- scratch ------------------------------------------------------------------------------------------------------ */

static _Thread_local void **scratch;
static _Thread_local size_t scratch_size[TR_SCRATCH_COUNT];

static void grow_scratch(tr_scratch slot, size_t bytes)
{
    const size_t page = 4096, size = (bytes + page - 1) / page * page;
    pthread_once(&once, init);
    if (!scratch) {
        scratch = calloc(TR_SCRATCH_COUNT, sizeof *scratch);
        if (!scratch || pthread_setspecific(scratch_key, scratch) != 0)
            tr__out_of_memory(bytes);
    }
    free(scratch[slot]);
    scratch[slot] = aligned_alloc(page, size);
    if (!scratch[slot])
        tr__out_of_memory(bytes);
    scratch_size[slot] = size;
}

void *tr_thread_scratch(tr_scratch slot, size_t bytes)
{
    if (TR_UNLIKELY(bytes > scratch_size[slot]))
        grow_scratch(slot, bytes);
    return scratch ? scratch[slot] : NULL;
}
