/* fuzz_run.c - programs from outside, run: a wrong one is refused with a message, or computes something.
 *
 * The corpus has a small program of every operator (support/run_case.h is the format), and what once crashed. */
#include "tests/support/run_mutate.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "framework/base/memory.h"

/* A run is interrupted after LOOP_MS, because a loop may have no end. One that an interrupt does not end is a finding, and
 * so is a process that has needed more than MAX_RESIDENT. */
enum { LOOP_MS = 300, STUCK_MS = 20000, TICK_MS = 20, MAX_ARRAY = 64 << 20, MAX_RESIDENT_MB = 2048 };

int    LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
size_t fuzz_change(uint8_t *data, size_t size, size_t max_size, bool *more);
const char *fuzz_summary(void);
const char *__asan_default_options(void);

/* Memory that is not to be had is a failure like others. */
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

/* -- time and memory ---------------------------------------------------------------------------- */

static atomic_llong began;                        /* when the present run began, in ms; 0: none is under way */

static long long now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000ll + now.tv_nsec / 1000000;
}

static void *watch(void *nothing)
{
    const struct timespec tick = {.tv_nsec = TICK_MS * 1000000};

    for (;;) {
        nanosleep(&tick, NULL);
        const long long since = atomic_load(&began), took = now_ms() - since;
        if (since != 0 && took > STUCK_MS) {
            fprintf(stderr, "fuzz_run: an interrupt did not end the run within %d s\n", STUCK_MS / 1000);
            abort();
        }
        if (since != 0 && took > LOOP_MS)
            tr_interrupt();
    }
    return nothing;
}

static void start_watch(void)
{
    static bool is_started;
    pthread_t   thread;

    if (!is_started && pthread_create(&thread, NULL, watch, NULL) != 0)
        abort();
    is_started = true;
}

static long resident_mb(void)
{
    struct rusage used;

    getrusage(RUSAGE_SELF, &used);
    return used.ru_maxrss / 1024;
}

/* -- runs ------------------------------------------------------------------------------------------ */

static long ended, refused, interrupted;

static void count(tr_status status)
{
    if (status == TR_OK)
        ended++;
    else if (status == TR_EINTR)
        interrupted++;
    else
        refused++;
}

static void run(run_case *c)
{
    atomic_store(&began, now_ms());
    const tr_status status = run_case_run(c);
    atomic_store(&began, 0);
    if (status != TR_OK && !*tr_error())
        abort();
    count(status);
    if (resident_mb() > MAX_RESIDENT_MB) {
        fprintf(stderr, "fuzz_run: the process has needed %ld MiB\n", resident_mb());
        abort();
    }
}

const char *fuzz_summary(void)
{
    static char text[160];

    snprintf(text, sizeof text, "%ld ran to the end, %ld were refused, %ld were interrupted; at most %ld MiB", ended, refused,
             interrupted, resident_mb());
    return text;
}

static bool read_input(run_case *c, const uint8_t *data, size_t size)
{
    if (tr_init() != TR_OK)
        abort();
    return run_case_read(c, data, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    run_case c;

    if (!read_input(&c, input, size))
        return 0;
    start_watch();
    tr_set_num_threads(1);
    tr__array_set_limit(MAX_ARRAY);
    run(&c);
    run_case_deinit(&c);
    return 0;
}

/* -- mutants ------------------------------------------------------------------------------------------ */

/* The new size; a file that became too large stays as it was. */
static size_t put_back(uint8_t *data, size_t size, size_t max_size, run_case *c)
{
    size_t new_size;
    void  *bytes = run_case_write(&new_size, c);

    run_case_deinit(c);
    if (new_size <= max_size) {
        memcpy(data, bytes, new_size);
        size = new_size;
    }
    free(bytes);
    return size;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    run_case c;

    if (!read_input(&c, data, size))
        return size;
    run_mutate(&c, seed);
    return put_back(data, size, max_size, &c);
}

size_t fuzz_change(uint8_t *data, size_t size, size_t max_size, bool *more)
{
    static run_path path;
    run_case        c;

    if (!*more)
        path = (run_path){.at = 0};
    *more = read_input(&c, data, size);
    if (!*more)
        return size;
    run_mutate_along(&c, &path);
    *more = run_path_next(&path);
    return put_back(data, size, max_size, &c);
}
