/* bench_checkpoint.c - writing a checkpoint beside writing as many bytes one after the other, and the copy that a training
 * waits for beside memcpy.
 *
 *     bench_checkpoint FOLDER [MEGABYTES] [ROUNDS]          default: 512, 7
 *
 * Both sides end with fsync and take turns; every figure is a median, with the quartiles. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "storage/checkpoint/snapshot.h"

enum { ARRAYS = 24, ROUNDS_MAX = 99 };

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void must(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "bench_checkpoint: %s: %s\n", what, tr_error());
    exit(1);
}

/* Arrays of very different sizes, as a network has; the sizes add up to `bytes`, nearly. */
static void make_arrays(tr_checkpoint_item *states, int64_t (*dims)[1], size_t bytes)
{
    static char names[ARRAYS][16];

    for (int i = 0; i < ARRAYS; i++) {
        const size_t share = i < ARRAYS / 2 ? bytes * 2 / ARRAYS : 4000;
        snprintf(names[i], sizeof names[i], "array%d", i);
        dims[i][0] = (int64_t)(share / sizeof(float));
        float *data = malloc(share);
        for (int64_t j = 0; j < dims[i][0]; j++)
            data[j] = (float)(i + j);
        states[i] = (tr_checkpoint_item){.name = names[i], .kind = TR_STATE_PARAMETER, .dtype = TR_FP32, .rank = 1, .dims = dims[i],
                               .data = data};
    }
}

/* As dd does: 1 MiB at a time, then fsync. */
static double write_plainly(const char *folder, const uint8_t *data, size_t bytes)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/plain", folder);
    const double from = seconds();
    const int    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    must(fd >= 0, path);
    for (size_t at = 0; at < bytes; at += 1 << 20)
        must(write(fd, data + at, 1 << 20) == 1 << 20, "write");
    must(fsync(fd) == 0, "fsync");
    close(fd);
    const double took = seconds() - from;
    unlink(path);
    return took;
}

static double write_checkpoint(const char *folder, int64_t step, const tr_checkpoint_item *states)
{
    char                      path[4096];
    const tr_checkpoint_facts facts = {.step = step, .mode = "local"};

    snprintf(path, sizeof path, "%s/checkpoints", folder);
    const double from = seconds();
    must(tr_checkpoint_save(NULL, path, &facts, ARRAYS, states, 0) == TR_OK, "tr_checkpoint_save");
    const double took = seconds() - from;
    snprintf(path, sizeof path, "rm -r '%s/checkpoints'", folder);
    must(system(path) == 0, path);
    return took;
}

static int compare(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static void report(const char *what, double *values, int count, const char *unit)
{
    qsort(values, (size_t)count, sizeof *values, compare);
    printf("%-34s %8.3f  (%.3f..%.3f) %s\n", what, values[count / 2], values[count / 4], values[count * 3 / 4], unit);
}

int main(int argc, char **argv)
{
    static tr_checkpoint_item states[ARRAYS];
    static int64_t  dims[ARRAYS][1];
    double          plain[ROUNDS_MAX], checkpoint[ROUNDS_MAX], ratio[ROUNDS_MAX], copy[ROUNDS_MAX], plain_copy[ROUNDS_MAX];

    if (argc < 2 || argc > 4) {
        fprintf(stderr, "usage: bench_checkpoint FOLDER [MEGABYTES] [ROUNDS]\n");
        return 2;
    }
    const size_t bytes = (size_t)(argc > 2 ? atoi(argv[2]) : 512) << 20;
    const int    rounds = argc > 3 && atoi(argv[3]) < ROUNDS_MAX ? atoi(argv[3]) : 7;
    uint8_t     *data = malloc(bytes), *to = malloc(bytes);
    must(bytes && rounds > 0 && data && to && tr_init() == TR_OK, "arguments");
    memset(data, 1, bytes);
    memset(to, 2, bytes);
    make_arrays(states, dims, bytes);
    tr_snapshot *snapshot = tr_snapshot_new();
    must(tr_snapshot_reserve(snapshot, tr_snapshot_bytes(ARRAYS, states)) == TR_OK, "tr_snapshot_reserve");
    for (int r = 0; r < rounds; r++) {
        const double a = write_plainly(argv[1], data, bytes);
        const double b = write_checkpoint(argv[1], r, states);
        plain[r] = (double)bytes / a / 1e6;
        checkpoint[r] = (double)bytes / b / 1e6;
        ratio[r] = a / b;
        double from = seconds();
        must(tr_snapshot_take(snapshot, ARRAYS, states, 0, 0) == TR_OK, "tr_snapshot_take");
        copy[r] = (double)bytes / (seconds() - from) / 1e9;
        from = seconds();
        memcpy(to, data, bytes);
        plain_copy[r] = (double)bytes / (seconds() - from) / 1e9;
    }
    printf("%zu MiB, %d rounds, %d threads\n", bytes >> 20, rounds, tr_num_threads());
    report("sequential write and fsync", plain, rounds, "MB/s");
    report("checkpoint", checkpoint, rounds, "MB/s");
    report("ratio (target: 0.8 or more)", ratio, rounds, "");
    report("copy that training waits for", copy, rounds, "GB/s");
    report("memcpy, one thread", plain_copy, rounds, "GB/s");
    tr_snapshot_free(snapshot);
    return 0;
}
