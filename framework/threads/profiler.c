/* profiler.c - see profiler.h. */
#include "framework/threads/profiler.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "framework/base/fork_lock.h"
#include "framework/base/number.h"

typedef struct event {
    char        name[48];
    const char *category;
    uint64_t    start, end;
    long        thread;
} event;

enum { MOST_EVENTS = 1 << 20 };       /* 80 MB; later ones are counted alone */

int tr__profiler_state;

static tr_fork_lock    lock = TR_FORK_LOCK_INIT;
static event          *events;        /* under lock, as all below */
static size_t          event_count, event_capacity;
static uint64_t        dropped;

uint64_t tr_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void tr_profiler_start(void)
{
    tr__fork_lock_take(&lock);
    event_count = 0;
    dropped = 0;
    tr__fork_lock_release(&lock);
    __atomic_store_n(&tr__profiler_state, 1, __ATOMIC_RELAXED);
}

void tr_profiler_record(const char *name, const char *category, uint64_t start_ns, uint64_t end_ns)
{
    tr__fork_lock_take(&lock);
    if (event_count == event_capacity) {
        const size_t capacity = event_capacity ? event_capacity * 2 : 4096;
        event *grown = capacity <= MOST_EVENTS ? realloc(events, capacity * sizeof *grown) : NULL;
        if (!grown) {
            dropped++;
            tr__fork_lock_release(&lock);
            return;
        }
        events = grown;
        event_capacity = capacity;
    }
    event *e = &events[event_count++];
    snprintf(e->name, sizeof e->name, "%s", name);
    e->category = category;
    e->start = start_ns;
    e->end = end_ns;
    e->thread = syscall(SYS_gettid);
    tr__fork_lock_release(&lock);
}

/* Names of operators need no escapes; user-given ones may. */
static void print_name(FILE *out, const char *name)
{
    for (; *name; name++) {
        if (*name == '"' || *name == '\\')
            fputc('\\', out);
        if ((unsigned char)*name >= 0x20)
            fputc(*name, out);
    }
}

/* The wall clock when the clock of events is 0, in microseconds since 1970: traces of several hosts meet there. */
static double wall_at_zero(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3 - (double)tr_clock_ns() / 1e3;
}

static void print_events(FILE *out)
{
    const long process = (long)getpid();

    tr__print(out, "{\"displayTimeUnit\": \"ns\", \"otherData\": {\"dropped\": %llu, \"zero_us\": %.3f}, \"traceEvents\": [",
            (unsigned long long)dropped, wall_at_zero());
    for (size_t i = 0; i < event_count; i++) {
        const event *e = &events[i];
        tr__print(out, "%s\n{\"ph\": \"X\", \"pid\": %ld, \"tid\": %ld, \"ts\": %.3f, \"dur\": %.3f, \"cat\": \"%s\", \"name\": \"",
                i ? "," : "", process, e->thread, (double)e->start / 1e3, (double)(e->end - e->start) / 1e3, e->category);
        print_name(out, e->name);
        fprintf(out, "\"}");
    }
    fprintf(out, "\n]}\n");
}

tr_status tr_profiler_stop(const char *path)
{
    __atomic_store_n(&tr__profiler_state, 0, __ATOMIC_RELAXED);
    FILE *out = fopen(path, "w");
    if (!out)
        return tr_fail(TR_EIO, "cannot write the profile '%s': %s", path, strerror(errno));
    tr__fork_lock_take(&lock);
    print_events(out);
    free(events);
    events = NULL;
    event_count = event_capacity = 0;
    tr__fork_lock_release(&lock);
    const bool failed = ferror(out) != 0;
    if (fclose(out) != 0 || failed)
        return tr_fail(TR_EIO, "cannot write the profile '%s'", path);
    return TR_OK;
}
