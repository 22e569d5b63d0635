/* bench_table.c - looking rows up by key, beside reading the same rows at random places; making and restoring rows; what rows take.
 *
 *     bench_table ROWS WIDTH STATES [NAME]
 *
 * One line of JSON. Beside each: the same rows read through a list of their places, with the memory asked for ahead. With NAME the
 * table lies in shared memory. benchmarks/bench_table.py runs it. */
#include "framework/tensors/random.h"
#include "storage/table/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { QUERIES = 1 << 20, BATCH = 1 << 14, ROUNDS = 9, AHEAD = 24 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);        /* what other processes take does not count */
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x)
{
    qsort(x, ROUNDS, sizeof *x, ascending);
    return x[ROUNDS / 2];
}

static int64_t key_of(uint64_t i)
{
    return (int64_t)(tr_hash_u64(i + 1) ^ 0x5555);
}

static void must(tr_status status)
{
    if (status != TR_OK) {
        fprintf(stderr, "bench_table: %s\n", tr_error());
        exit(1);
    }
}

static double fill(tr_table *t, int64_t rows)
{
    const double from = now();
    int64_t     *keys = malloc(BATCH * sizeof *keys);
    uint32_t    *slots = malloc(BATCH * sizeof *slots);

    must(tr_table_begin(t, 1));
    for (int64_t at = 0; at < rows; at += BATCH) {
        const int64_t n = rows - at < BATCH ? rows - at : BATCH;
        for (int64_t i = 0; i < n; i++)
            keys[i] = key_of((uint64_t)(at + i));
        must(tr_table_take(t, slots, keys, n));
    }
    free(keys);
    free(slots);
    return now() - from;
}

/* Move all rows into another table, shard by shard, as a checkpoint does. */
static double restore(const tr_table *t)
{
    const tr_table_segment here = {.shard_count = TR_SHARDS};
    const double         from = now();
    tr_table            *to = NULL;

    must(tr_table_create(&to, tr_table_get_config(t), &here));
    for (uint32_t shard = 0; shard < TR_SHARDS; shard++) {
        void    *rows;
        uint64_t bytes;
        must(tr_table_pack(t, shard, &rows, &bytes));
        must(tr_table_unpack(to, rows, bytes));
        free(rows);
    }
    const double took = now() - from;
    tr_table_free(to);
    return took;
}

/* The rows that `slots` name, read with their memory asked for: the first 8 bytes, or all values into `out`. */
static uint64_t read_rows(char *rows, uint64_t stride, const uint32_t *slots, int64_t n, float *out, int64_t width)
{
    uint64_t sum = 0;

    for (int64_t i = 0; i < n; i++) {
        if (i + AHEAD < n) {
            const char *next = rows + slots[i + AHEAD] * stride;
            __builtin_prefetch(next);
            if (out)
                __builtin_prefetch(next + 64);
        }
        const tr_slot_row *row = tr_slots_row(rows, stride, slots[i]);
        sum += (uint64_t)row->key;
        if (out)
            memcpy(out + i % BATCH * width, row + 1, (size_t)width * sizeof(float));
    }
    return sum;
}

/* Keys that no other list has in this order. */
static void draw(int64_t *keys, int list, int64_t count)
{
    for (int64_t i = 0; i < QUERIES; i++)
        keys[i] = key_of(tr_random_below((uint64_t)list, (uint64_t)i, (uint64_t)count));
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    const int64_t         count = atoll(argv[1]);
    const tr_table_config config = {.dtype = TR_FP32, .width = atoll(argv[2]), .states = atoi(argv[3]), .init = TR_TABLE_CONSTANT};
    const tr_table_segment  place = {argc > 4 ? argv[4] : NULL, 0, TR_SHARDS, 0};
    tr_table             *t = NULL;
    tr_table_report       report;
    double                find[ROUNDS], raw_find[ROUNDS], pull[ROUNDS], raw_pull[ROUNDS];
    int64_t              *keys = malloc(QUERIES * sizeof *keys);
    uint32_t             *slots = malloc(QUERIES * sizeof *slots), *places = malloc((size_t)2 * ROUNDS * QUERIES * sizeof *places);
    float                *out = malloc(sizeof(float) * (size_t)(BATCH * config.width));
    uint64_t              sum = 0;

    must(tr_table_create(&t, &config, &place));
    const double filled = fill(t, count), restored = restore(t);
    const tr_slots *inside = tr_table_slots(t);
    /* The places that are read are all known before the first is: a row that was looked up just now would be in cache. */
    for (int list = 0; list < 2 * ROUNDS; list++) {
        draw(keys, 1000 + list, count);
        tr_slots_find(inside, places + (size_t)list * QUERIES, keys, QUERIES);
    }
    memset(out, 0, sizeof(float) * (size_t)(BATCH * config.width));
    for (int r = 0; r < ROUNDS; r++) {
        draw(keys, 2 * r, count);
        double from = now();
        for (int64_t at = 0; at < QUERIES; at += BATCH)
            tr_slots_find(inside, slots + at, keys + at, BATCH);
        find[r] = now() - from;
        from = now();
        sum += read_rows(tr_slots_rows(inside), tr_slots_stride(inside), places + (size_t)2 * r * QUERIES, QUERIES, NULL, 0);
        raw_find[r] = now() - from;
        draw(keys, 2 * r + 1, count);
        from = now();
        for (int64_t at = 0; at < QUERIES; at += BATCH)
            tr_table_pull(t, out, keys + at, BATCH);
        pull[r] = now() - from;
        from = now();
        sum += read_rows(tr_slots_rows(inside), tr_slots_stride(inside), places + (size_t)(2 * r + 1) * QUERIES, QUERIES, out,
                         config.width);
        raw_pull[r] = now() - from;
    }
    tr_table_get_report(t, &report);
    const double million = QUERIES * 1e-6, needed = (double)(report.row_bytes - 16 + 24);
    printf("{\"rows\": %llu, \"find\": %.1f, \"raw_read\": %.1f, \"pull\": %.1f, \"raw_gather\": %.1f, \"make\": %.2f, \"restore\": %.2f, "
           "\"row_bytes\": %llu, \"bytes_a_row\": %.2f, \"over_need\": %.3f, \"sum\": %llu}\n",
           (unsigned long long)report.rows, million / median(find), million / median(raw_find), million / median(pull),
           million / median(raw_pull), (double)count * 1e-6 / filled, (double)count * 1e-6 / restored, (unsigned long long)report.row_bytes,
           (double)report.bytes / (double)report.rows, (double)report.bytes / (double)report.rows / needed, (unsigned long long)sum);
    tr_table_free(t);
    if (place.name)
        tr_table_remove(place.name);
    return 0;
}
