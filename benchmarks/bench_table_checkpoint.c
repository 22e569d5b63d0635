/* bench_table_checkpoint.c - writing a sparse table while it is updated, beside writing as many bytes one after the other, and what
 * an update waits for: the moment, and its own steps while the writer reads.
 *
 *     bench_table_checkpoint FOLDER [MILLIONS OF ROWS] [ROUNDS]          default: 4, 5
 *
 * Rows of 16 float32 with one state. An update touches 26 * 1024 keys, most of them hot, as fast as it can; the same is measured
 * while nobody writes. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "framework/tensors/random.h"
#include "storage/checkpoint/checkpoint.h"
#include "storage/table/table_var.h"

enum { WIDTH = 16, KEYS = 26 * 1024, ROUNDS_MAX = 99 };

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
    fprintf(stderr, "bench_table_checkpoint: %s: %s\n", what, tr_error());
    exit(1);
}

static void update(tr_table *t, uint64_t step, const int64_t *keys, int64_t n)
{
    static uint32_t slots[KEYS];
    static float    values[KEYS * WIDTH], state[KEYS * WIDTH];
    float          *states[1] = {state};

    must(tr_table_begin(t, step) == TR_OK && tr_table_take(t, slots, keys, n) == TR_OK, "update");
    tr_table_gather(t, slots, n, values, states);
    for (int64_t i = 0; i < n * WIDTH; i++)
        values[i] += 1;
    must(tr_table_keep(t, slots, n) == TR_OK, "update");
    tr_table_scatter(t, slots, n, values, (const float *const *)states);
}

/* One in ten keys is any, the others are of the first thousandth. */
static void choose(int64_t *keys, int64_t rows, uint64_t step)
{
    const int64_t hot = rows / 1000 + 1;

    for (int64_t i = 0; i < KEYS; i++) {
        const uint64_t bits = tr_hash_u64(step * KEYS + (uint64_t)i);
        keys[i] = (int64_t)(bits % (uint64_t)(bits >> 60 ? hot : rows));
    }
}

static double write_plainly(const char *folder, size_t bytes)
{
    static uint8_t data[1 << 20];
    char           path[4096];

    snprintf(path, sizeof path, "%s/plain", folder);
    memset(data, 1, sizeof data);
    const double from = seconds();
    const int    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    must(fd >= 0, path);
    for (size_t at = 0; at < bytes; at += sizeof data)
        must(write(fd, data, sizeof data) == sizeof data, "write");
    must(fsync(fd) == 0, "fsync");
    close(fd);
    const double took = seconds() - from;
    unlink(path);
    return took;
}

typedef struct writing {
    const char    *folder;
    const tr_checkpoint_item state;
    atomic_bool    is_done;
    double         took;
    uint64_t       bytes;
} writing;

/* Under a name that no file has, as each checkpoint's is: removing the old file is no part of writing a new one. */
static void *write_part(void *payload)
{
    writing *w = payload;
    tr_part *part = NULL;
    char     path[4096];

    snprintf(path, sizeof path, "%s/part-0.data", w->folder);
    unlink(path);
    const double from = seconds();

    must(tr_part_write(&part, w->folder, "part-0.data", TR_ROWS_EXACT, 1, &w->state) == TR_OK, "tr_part_write");
    w->took = seconds() - from;
    w->bytes = part->bytes;
    tr_part_free(part);
    atomic_store(&w->is_done, true);
    return NULL;
}

static int compare(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static void report(const char *what, double *values, int count, const char *unit)
{
    qsort(values, (size_t)count, sizeof *values, compare);
    printf("%-44s %9.3f  (%.3f..%.3f) %s\n", what, values[count / 2], values[count / 4], values[count * 3 / 4], unit);
}

int main(int argc, char **argv)
{
    static const tr_table_segment everywhere = {NULL, 0, TR_SHARDS, 0};
    const tr_table_config config = {.dtype = TR_FP32, .width = WIDTH, .states = 1};
    static int64_t        keys[KEYS];
    tr_table             *t = NULL;
    uint64_t              step = 0;
    double                plain[ROUNDS_MAX], lone[ROUNDS_MAX], busy[ROUNDS_MAX], ratio[ROUNDS_MAX], snapshot[ROUNDS_MAX], quiet[ROUNDS_MAX],
                          mean[ROUNDS_MAX], worst[ROUNDS_MAX];

    if (argc < 2 || argc > 4) {
        fprintf(stderr, "usage: bench_table_checkpoint FOLDER [MILLIONS OF ROWS] [ROUNDS]\n");
        return 2;
    }
    const int64_t rows = (int64_t)((argc > 2 ? atof(argv[2]) : 4) * 1e6);
    const int     rounds = argc > 3 && atoi(argv[3]) < ROUNDS_MAX ? atoi(argv[3]) : 5;
    must(rows > 0 && rounds > 0 && tr_init() == TR_OK && tr_table_create(&t, &config, &everywhere) == TR_OK, "arguments");
    for (int64_t at = 0; at < rows; at += KEYS) {
        const int64_t n = rows - at < KEYS ? rows - at : KEYS;
        for (int64_t i = 0; i < n; i++)
            keys[i] = at + i;
        update(t, ++step, keys, n);
    }
    const tr_job_table about = {.name = "t", .dtype = TR_FP32, .width = WIDTH, .states = 1, .first_rows = t};
    for (int r = 0; r < rounds; r++) {
        writing   w = {.folder = argv[1], .state = {.name = "t", .kind = TR_STATE_TABLE, .data = &about}};
        pthread_t thread;
        double    from;
        int       updates = 0;

        must(tr_tables_snapshot(1, &w.state, 0, 0) == TR_OK, "snapshot");
        write_part(&w);
        tr_tables_snapshot_end(1, &w.state);
        lone[r] = (double)w.bytes / w.took / 1e6;
        const double a = write_plainly(argv[1], w.bytes);
        plain[r] = (double)w.bytes / a / 1e6;
        ratio[r] = lone[r] / plain[r];
        from = seconds();
        for (int i = 0; i < 20; i++) {
            choose(keys, rows, step);
            update(t, ++step, keys, KEYS);
        }
        quiet[r] = (seconds() - from) / 20 * 1e3;

        atomic_store(&w.is_done, false);
        from = seconds();
        must(tr_tables_snapshot(1, &w.state, 0, 0) == TR_OK, "snapshot");
        snapshot[r] = (seconds() - from) * 1e3;
        must(!pthread_create(&thread, NULL, write_part, &w), "thread");
        const double began = seconds();
        for (worst[r] = 0; !atomic_load(&w.is_done); updates++) {
            from = seconds();
            choose(keys, rows, step);
            update(t, ++step, keys, KEYS);
            const double took = (seconds() - from) * 1e3;
            worst[r] = took > worst[r] ? took : worst[r];
        }
        mean[r] = (seconds() - began) * 1e3 / (updates ? updates : 1);
        pthread_join(thread, NULL);
        from = seconds();
        tr_tables_snapshot_end(1, &w.state);
        snapshot[r] += (seconds() - from) * 1e3;
        busy[r] = (double)w.bytes / w.took / 1e6;
    }
    printf("%lld rows, %d rounds\n", (long long)rows, rounds);
    report("sequential write and fsync", plain, rounds, "MB/s");
    report("the table, nobody updates", lone, rounds, "MB/s");
    report("ratio (target: 0.8 or more)", ratio, rounds, "");
    report("the table, while it is updated", busy, rounds, "MB/s");
    report("the moment, and its end (target: 200)", snapshot, rounds, "ms");
    report("an update", quiet, rounds, "ms");
    report("an update while the table is written", mean, rounds, "ms");
    report("the longest of them (target: 200 more)", worst, rounds, "ms");
    tr_table_free(t);
    return 0;
}
