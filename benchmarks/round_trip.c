/* round_trip.c - how far two CPUs are from each other: the nanoseconds in which a cache line goes from the first to the second and back.
 *
 *     round_trip CPU CPU
 *
 * Prints one number, that of the fastest of some series: a busy machine disturbs the others. About 100 where the two share a cache; 500
 * where the line goes over the links between chips. The host of a virtual machine may change that at any time. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { TRIPS = 1000, SERIES = 20 };

static _Alignas(128) atomic_int there;
static _Alignas(128) atomic_int back;
static double best = 1e9;

static void stay_on(int cpu)
{
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(cpu, &cpus);
    if (sched_setaffinity(0, sizeof cpus, &cpus) != 0) {
        fprintf(stderr, "round_trip: CPU %d is none of this process\n", cpu);
        exit(1);
    }
}

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static void *answer(void *cpu)
{
    stay_on(*(const int *)cpu);
    for (int i = 1; i <= SERIES * TRIPS; i++) {
        while (atomic_load(&there) != i)
            ;
        atomic_store(&back, i);
    }
    return NULL;
}

static void ask(void)
{
    for (int s = 0; s < SERIES; s++) {
        const double start = now_ns();
        for (int i = s * TRIPS + 1; i <= (s + 1) * TRIPS; i++) {
            atomic_store(&there, i);
            while (atomic_load(&back) != i)
                ;
        }
        const double trip = (now_ns() - start) / TRIPS;
        best = trip < best ? trip : best;
    }
}

int main(int argc, char **argv)
{
    pthread_t thread;
    int       other = argc > 2 ? atoi(argv[2]) : 1;

    stay_on(argc > 1 ? atoi(argv[1]) : 0);
    if (pthread_create(&thread, NULL, answer, &other) != 0)
        return 1;
    ask();
    pthread_join(thread, NULL);
    printf("%.0f\n", best);
    return 0;
}
