/* machine.c - what this machine can do now: the speed of a matrix product, and of memory for arrays of several sizes.
 *
 *     machine OPENBLAS_LIBRARY PREFIX THREADS
 *
 * prints {"gemm_gflops": ..., "triad_gbps": ..., "streams": [[BYTES, GB/s], ...]}. Each thread multiplies matrices of its own by a
 * one-thread product, and goes over arrays of its own in three ways: it reads (s += b[i]), updates (a[i] += s b[i], as an optimizer
 * does) and adds (a[i] = b[i] + s c[i], the triad). A size of `streams` is that of all arrays of all threads, and its speed that of the
 * fastest way; the triad is that of the largest size. Best of a few rounds, in CPU time: a floor must not be too high because the machine
 * is busy. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SIDE = 768, ELEMENTS = 48 << 20, ROUNDS = 15, MAX_THREADS = 64, SUMS = 128, MIN_SWEEP = 1 << 20 };

static const int64_t sizes[] = {1 << 18, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 192 << 20};     /* bytes, the largest that of ELEMENTS */
enum { SIZES = sizeof sizes / sizeof *sizes, READ = 0, UPDATE, TRIAD, WAYS };

typedef void (*sgemm_fn)(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *, int);

static sgemm_fn          sgemm;
static pthread_barrier_t barrier;

typedef struct worker {
    pthread_t thread;
    float    *memory;                          /* ELEMENTS */
    int64_t   floats;                          /* of them that a stream goes over */
    int64_t   repeats;
    float     sum;
    double    gemm, stream[SIZES][WAYS];       /* seconds of the best round, a stream's for a byte */
} worker;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void multiply(worker *w)
{
    float *a = w->memory, *b = a + SIDE * SIDE, *c = b + SIDE * SIDE;
    sgemm(101, 111, 111, SIDE, SIDE, SIDE, 1, a, SIDE, b, SIDE, 0, c, SIDE);
}

/* The compiler may not reorder a sum of floats, so there are many. */
static void read_all(worker *w)
{
    float sum[SUMS] = {0};
    for (int64_t r = 0; r < w->repeats; r++)
        for (int64_t i = 0; i + SUMS <= w->floats; i += SUMS)
            for (int j = 0; j < SUMS; j++)
                sum[j] += w->memory[i + j];
    for (int j = 0; j < SUMS; j++)
        w->sum += sum[j];
}

static void update(worker *w)
{
    const int64_t count = w->floats / 2;
    float *restrict a = w->memory;
    const float *restrict b = a + count;
    for (int64_t r = 0; r < w->repeats; r++)
        for (int64_t i = 0; i < count; i++)
            a[i] += 1e-9f * b[i];
}

static void triad(worker *w)
{
    const int64_t count = w->floats / 3;
    float *restrict a = w->memory;
    const float *restrict b = a + count, *restrict c = b + count;
    for (int64_t r = 0; r < w->repeats; r++)
        for (int64_t i = 0; i < count; i++)
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

/* Bytes that a way counts: a float that is updated is read and written. */
static double bytes_of(const worker *w, int way)
{
    return (way == UPDATE ? 6.0 : 4.0) * (double)w->floats * (double)w->repeats;
}

static int threads;

static void *run(void *payload)
{
    static void (*const ways[WAYS])(worker *) = {read_all, update, triad};
    worker *w = payload;

    for (int64_t i = 0; i < ELEMENTS; i++)
        w->memory[i] = 1.0f / (float)(i % 97 + 1);
    w->gemm = best_of(w, multiply);
    for (int s = 0; s < SIZES; s++) {
        w->floats = sizes[s] / 4 / threads;
        w->repeats = 1 + MIN_SWEEP / w->floats;
        for (int way = 0; way < WAYS; way++)
            w->stream[s][way] = best_of(w, ways[way]) / bytes_of(w, way);
    }
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

/* GB/s of all threads together. */
static double speed(const worker *workers, int size, int way)
{
    double sum = 0;
    for (int i = 0; i < threads; i++)
        sum += 1e-9 / workers[i].stream[size][way];
    return sum;
}

static double fastest(const worker *workers, int size)
{
    double best = 0;
    for (int way = 0; way < WAYS; way++)
        best = speed(workers, size, way) > best ? speed(workers, size, way) : best;
    return best;
}

int main(int argc, char **argv)
{
    static worker workers[MAX_THREADS];
    double        flops = 0;

    threads = argc == 4 ? atoi(argv[3]) : 0;
    if (threads < 1 || threads > MAX_THREADS || !find_product(argv[1], argv[2]))
        return 2;
    pthread_barrier_init(&barrier, NULL, (unsigned)threads);
    for (int i = 0; i < threads; i++) {
        workers[i].memory = malloc(ELEMENTS * sizeof(float));
        if (!workers[i].memory || pthread_create(&workers[i].thread, NULL, run, &workers[i]) != 0)
            return 1;
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
        flops += 2.0 * SIDE * SIDE * SIDE / workers[i].gemm;
    }
    printf("{\"gemm_gflops\": %.2f, \"triad_gbps\": %.2f, \"streams\": [", flops / 1e9, speed(workers, SIZES - 1, TRIAD));
    for (int s = 0; s < SIZES; s++)
        printf("%s[%lld, %.2f]", s > 0 ? ", " : "", (long long)sizes[s], fastest(workers, s));
    printf("]}\n");
    return 0;
}
