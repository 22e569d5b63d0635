/* machine.c - what this machine can do now: the speed of a matrix product and of memory, with 1 and 2 threads.
 *
 *     machine OPENBLAS_LIBRARY PREFIX THREADS      prints {"gemm_gflops": ..., "triad_gbps": ...}
 *
 * Each thread multiplies matrices of its own by a one-thread product, and adds arrays of its own that no cache holds
 * (a[i] = b[i] + s c[i], 12 bytes an element counted). Best of a few rounds, in CPU time: a floor must not be too high because
 * the machine is busy. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SIDE = 768, ELEMENTS = 16 << 20, ROUNDS = 15, MAX_THREADS = 64 };

typedef void (*sgemm_fn)(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *, int);

static sgemm_fn          sgemm;
static pthread_barrier_t barrier;

typedef struct worker {
    pthread_t thread;
    float    *a, *b, *c;
    double    gemm, triad;                     /* seconds of the best round */
} worker;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void multiply(worker *w)
{
    sgemm(101, 111, 111, SIDE, SIDE, SIDE, 1, w->a, SIDE, w->b, SIDE, 0, w->c, SIDE);
}

static void add(worker *w)
{
    float *restrict a = w->a;
    const float *restrict b = w->b, *restrict c = w->c;
    for (int i = 0; i < ELEMENTS; i++)
        a[i] = b[i] + 0.5f * c[i];
}

/* All threads begin a round together, so that none has the memory for itself. */
static double best_of(worker *w, void (*work)(worker *))
{
    double best = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&barrier);
        const double start = now();
        work(w);
        const double seconds = now() - start;
        best = seconds < best ? seconds : best;
    }
    return best;
}

static void *run(void *payload)
{
    worker *w = payload;
    for (int i = 0; i < ELEMENTS; i++)
        w->a[i] = w->b[i] = w->c[i] = 1.0f / (float)(i % 97 + 1);
    w->gemm = best_of(w, multiply);
    w->triad = best_of(w, add);
    return NULL;
}

static int find_product(const char *library, const char *prefix)
{
    char  name[128];
    void *handle, *symbol;

    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    handle = dlopen(library, RTLD_NOW);
    snprintf(name, sizeof name, "%scblas_sgemm", prefix);
    symbol = handle ? dlsym(handle, name) : NULL;
    if (!symbol)
        fprintf(stderr, "machine: no %s in '%s'\n", name, library);
    memcpy(&sgemm, &symbol, sizeof symbol);
    return symbol != NULL;
}

int main(int argc, char **argv)
{
    static worker workers[MAX_THREADS];
    const int     threads = argc == 4 ? atoi(argv[3]) : 0;
    double        flops = 0, bytes = 0;

    if (threads < 1 || threads > MAX_THREADS || !find_product(argv[1], argv[2]))
        return 2;
    pthread_barrier_init(&barrier, NULL, (unsigned)threads);
    for (int i = 0; i < threads; i++) {
        worker *w = &workers[i];
        w->a = malloc(ELEMENTS * sizeof(float));
        w->b = malloc(ELEMENTS * sizeof(float));
        w->c = malloc(ELEMENTS * sizeof(float));
        if (!w->a || !w->b || !w->c || pthread_create(&w->thread, NULL, run, w) != 0)
            return 1;
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
        flops += 2.0 * SIDE * SIDE * SIDE / workers[i].gemm;
        bytes += 12.0 * ELEMENTS / workers[i].triad;
    }
    printf("{\"gemm_gflops\": %.2f, \"triad_gbps\": %.2f}\n", flops / 1e9, bytes / 1e9);
    return 0;
}
