/* bench_rows_on_disk.c - steps of training that read, update and write rows, of which memory has a part.
 *
 *     bench_rows_on_disk --engine table|memory|rocksdb --rows N --width W --optimizer adagrad|adam --keys zipf,uniform --memory BYTES
 *                        --folder FOLDER --look-ups N --steps N --warm N [--ahead] [--readers N] [--settings TEXT]
 *
 * A step draws keys, and makes them distinct, before its time begins. Its time is that of reading the rows, updating them by the
 * optimizer's rule, and writing them back. All rows exist before the first step. They are made in the order of their keys, which says
 * nothing about how often a key is drawn. The laws of --keys are measured one after the other with the same rows. With --ahead each is
 * measured a second time, and the keys of the next step are announced before each step.
 *
 * It prints a line of JSON for each. Times, bytes and reads are those of a step, `found` is the share of the distinct rows of a step that
 * needed no read, `written` is for a byte of rows that a step changed. Reads are those for rows of a step; `read_bytes` has all of the
 * process, and so has `written`. rows_on_disk.py runs it, with a limit of the process's memory. */
#include "framework/tensors/random.h"
#include "framework/trireme.h"
#include "kernels/math/training/optimizer.h"
#include "rows_engine.h"

#include <getopt.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { KEY_BITS = 40 };

typedef struct bench {
    rows_options       options;
    const rows_engine *engine;
    const char        *name, *laws;
    void              *rows;
    int64_t            look_ups, steps, warm;
    bool               ahead;
    uint64_t           drawn;         /* random numbers so far */
} bench;

/* Steps' keys, one step after the other. */
typedef struct key_lists {
    int64_t *keys, *first;            /* step i has keys[first[i]] to keys[first[i + 1]] */
    int64_t  steps;
} key_lists;

/* The time, and what the process has used of the machine so far. */
typedef struct moment {
    double      time, cpu;
    uint64_t    read_bytes, write_bytes;
    rows_counts counts;
} moment;

void rows_fail(const char *what, const char *why)
{
    fprintf(stderr, "bench_rows_on_disk: %s: %s\n", what, why);
    exit(1);
}

void rows_update(float *values, float *const *states, int state_count, int64_t n)
{
    enum { MOST = 1 << 14 };
    static const float grad[MOST] = {[0 ... MOST - 1] = 0.5f};

    if (n > MOST)
        rows_fail("rows_update", "too many elements");
    if (state_count == 1)
        tr_adagrad_f32(values, states[0], NULL, grad, 0.01f, 1e-6f, n);
    else
        tr_adam_f32(values, states[0], states[1], NULL, grad, 0.01f, 0.9f, 0.999f, 1e-8f, n);
}

/* == keys ========================================================================================== */

/* Ranks that follow each other have keys that are far from each other. */
static int64_t key_of(int64_t rank)
{
    return (int64_t)((uint64_t)rank * 2654435761u & ((UINT64_C(1) << KEY_BITS) - 1));
}

/* `zipf`: the inverse of Zipf's distribution with exponent 1.05, made continuous. */
static int64_t draw_rank(bench *b, bool is_zipf)
{
    const double  uniform = (double)(tr_hash_u64(++b->drawn) >> 11) * 0x1p-53, rows = (double)b->options.rows, a = -0.05;
    const int64_t rank = (int64_t)(is_zipf ? pow(uniform * (pow(rows + 1, a) - 1) + 1, 1 / a) - 1 : uniform * rows);

    return rank < b->options.rows ? rank : b->options.rows - 1;
}

static int ascending(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Returns how many distinct keys it has drawn. */
static int64_t draw_step(bench *b, int64_t *keys, bool is_zipf)
{
    int64_t count = 0;

    for (int64_t i = 0; i < b->look_ups; i++)
        keys[i] = key_of(draw_rank(b, is_zipf));
    qsort(keys, (size_t)b->look_ups, sizeof *keys, ascending);
    for (int64_t i = 0; i < b->look_ups; i++)
        if (!count || keys[i] != keys[count - 1])
            keys[count++] = keys[i];
    return count;
}

static key_lists draw(bench *b, int64_t steps, bool is_zipf)
{
    key_lists lists = {malloc(sizeof(int64_t) * (size_t)(steps * b->look_ups)), malloc(sizeof(int64_t) * (size_t)(steps + 1)), steps};

    if (!lists.keys || !lists.first)
        rows_fail("keys", "no memory");
    lists.first[0] = 0;
    for (int64_t i = 0; i < steps; i++)
        lists.first[i + 1] = lists.first[i] + draw_step(b, lists.keys + lists.first[i], is_zipf);
    return lists;
}

static void free_lists(key_lists *lists)
{
    free(lists->keys);
    free(lists->first);
}

/* == steps ========================================================================================= */

/* All keys in their order: those of one range of keys at a time are collected and sorted. */
static void fill(bench *b)
{
    enum { RANGE_BITS = 6, RANGES = 1 << RANGE_BITS, BATCH = 1 << 14 };
    const int64_t rows = b->options.rows;
    int64_t      *keys = malloc(sizeof *keys * (size_t)(rows / RANGES * 2 + RANGES));

    if (!keys)
        rows_fail("fill", "no memory");
    for (int64_t range = 0; range < RANGES; range++) {
        int64_t count = 0;
        for (int64_t rank = 0; rank < rows; rank++) {
            const int64_t key = key_of(rank);
            keys[count] = key;
            count += key >> (KEY_BITS - RANGE_BITS) == range;
        }
        qsort(keys, (size_t)count, sizeof *keys, ascending);
        for (int64_t at = 0; at < count; at += BATCH)
            b->engine->fill(b->rows, keys + at, count - at < BATCH ? count - at : BATCH);
    }
    free(keys);
    b->engine->end_fill(b->rows);
}

static void run_steps(bench *b, const key_lists *lists, bool announces)
{
    for (int64_t i = 0; i < lists->steps; i++) {
        const int64_t *first = lists->first + i;
        if (announces && i + 1 < lists->steps)
            b->engine->expect(b->rows, lists->keys + first[1], first[2] - first[1]);
        b->engine->step(b->rows, lists->keys + first[0], first[1] - first[0]);
    }
}

/* A number behind this name in a file of /proc. */
static uint64_t number_of(const char *path, const char *name)
{
    char     line[256];
    uint64_t value = 0;
    FILE    *in = fopen(path, "r");

    while (in && fgets(line, sizeof line, in))
        if (!strncmp(line, name, strlen(name)))
            value = strtoull(line + strlen(name), NULL, 10);
    if (in)
        fclose(in);
    return value;
}

static moment moment_of(const bench *b)
{
    struct timespec now;
    struct rusage   self;
    moment m = {.read_bytes = number_of("/proc/self/io", "read_bytes:"), .write_bytes = number_of("/proc/self/io", "write_bytes:")};

    b->engine->count(b->rows, &m.counts);
    getrusage(RUSAGE_SELF, &self);
    m.cpu = (double)(self.ru_utime.tv_sec + self.ru_stime.tv_sec) + 1e-6 * (double)(self.ru_utime.tv_usec + self.ru_stime.tv_usec);
    clock_gettime(CLOCK_MONOTONIC, &now);
    m.time = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    return m;
}

static void print(const bench *b, const key_lists *lists, const moment *from, const moment *to)
{
    const rows_counts *old = &from->counts, *new = &to->counts;
    const double       steps = (double)lists->steps, rows = (double)lists->first[lists->steps], time = to->time - from->time;
    const double       looked_up = (double)(new->looked_up - old->looked_up),
                       row_bytes = 8 + 4.0 * (double)b->options.width * (1 + b->options.states);
    char               waited[32] = "null";

    if (new->waited >= 0)
        snprintf(waited, sizeof waited, "%.6f", (new->waited - old->waited) / steps);
    printf("\"step\": %.6f, \"rows_a_step\": %.1f, \"rows_a_second\": %.0f, \"cpu\": %.6f, \"reads\": %.1f, \"reads_ahead\": %.1f, "
           "\"read_bytes\": %.0f, \"found\": %.4f, \"written\": %.3f, \"waited\": %s, \"peak\": %llu}\n",
           time / steps, rows / steps, rows / time, (to->cpu - from->cpu) / steps, (double)(new->reads - old->reads) / steps,
           (double)(new->ahead - old->ahead) / steps, (double)(to->read_bytes - from->read_bytes) / steps,
           looked_up > 0 ? (double)(new->found - old->found) / looked_up : 1,
           (double)(to->write_bytes - from->write_bytes) / (rows * row_bytes), waited,
           (unsigned long long)number_of("/proc/self/status", "VmHWM:") << 10);
    fflush(stdout);
}

static void measure(bench *b, const char *law, bool announces)
{
    const bool is_zipf = !strcmp(law, "zipf");
    key_lists  lists = draw(b, b->warm, is_zipf);

    run_steps(b, &lists, announces);
    free_lists(&lists);
    lists = draw(b, b->steps, is_zipf);
    const moment before = moment_of(b);
    run_steps(b, &lists, announces);
    const moment after = moment_of(b);
    printf("{\"engine\": \"%s\", \"keys\": \"%s\", \"ahead\": %s, ", b->name, law, announces ? "true" : "false");
    print(b, &lists, &before, &after);
    free_lists(&lists);
}

/* == the command line ============================================================================== */

static const rows_engine *find_engine(const char *name)
{
    if (!strcmp(name, "table") || !strcmp(name, "memory"))
        return &rows_in_table;
    if (strcmp(name, "rocksdb"))
        rows_fail(name, "expected table, memory or rocksdb");
#ifdef HAS_ROCKSDB
    return &rows_in_rocksdb;
#else
    rows_fail(name, "librocksdb was not found when this program was built: install librocksdb-dev and configure again");
#endif
}

static void read_options(bench *b, int argc, char **argv)
{
    enum { ENGINE = 1, ROWS, WIDTH, OPTIMIZER, KEYS, MEMORY, FOLDER, LOOK_UPS, STEPS, WARM, AHEAD, READERS, SETTINGS };
    static const struct option known[] = {
        {"engine", 1, NULL, ENGINE},     {"rows", 1, NULL, ROWS},     {"width", 1, NULL, WIDTH},   {"optimizer", 1, NULL, OPTIMIZER},
        {"keys", 1, NULL, KEYS},         {"memory", 1, NULL, MEMORY}, {"folder", 1, NULL, FOLDER}, {"look-ups", 1, NULL, LOOK_UPS},
        {"steps", 1, NULL, STEPS},       {"warm", 1, NULL, WARM},     {"ahead", 0, NULL, AHEAD},   {"readers", 1, NULL, READERS},
        {"settings", 1, NULL, SETTINGS}, {NULL, 0, NULL, 0}};

    for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;)
        switch (option) {
        case ENGINE: b->name = optarg; break;
        case ROWS: b->options.rows = atoll(optarg); break;
        case WIDTH: b->options.width = atoll(optarg); break;
        case OPTIMIZER: b->options.states = strcmp(optarg, "adam") ? 1 : 2; break;
        case KEYS: b->laws = optarg; break;
        case MEMORY: b->options.memory = strtoull(optarg, NULL, 10); break;
        case FOLDER: b->options.folder = optarg; break;
        case LOOK_UPS: b->look_ups = atoll(optarg); break;
        case STEPS: b->steps = atoll(optarg); break;
        case WARM: b->warm = atoll(optarg); break;
        case AHEAD: b->ahead = true; break;
        case READERS: b->options.readers = atoi(optarg); break;
        case SETTINGS: b->options.settings = optarg; break;
        default: exit(2);
        }
}

int main(int argc, char **argv)
{
    bench b = {.options = {.rows = 1000000, .width = 16, .states = 1, .memory = 19375000, .folder = ".", .readers = 16},
               .name = "table",
               .laws = "zipf",
               .look_ups = 13312,
               .steps = 200,
               .warm = 200};

    read_options(&b, argc, argv);
    b.engine = find_engine(b.name);
    if (!strcmp(b.name, "memory"))
        b.options.memory = 0;
    b.rows = b.engine->open(&b.options);
    const double begun = moment_of(&b).time;
    fill(&b);
    fprintf(stderr, "%s: filled in %.1f s\n", b.name, moment_of(&b).time - begun);
    char *laws = strdup(b.laws);
    for (char *rest = laws, *law; (law = strsep(&rest, ","));) {
        measure(&b, law, false);
        if (b.ahead && b.engine->expect)
            measure(&b, law, true);
    }
    free(laws);
    b.engine->close(b.rows);
    return 0;
}
