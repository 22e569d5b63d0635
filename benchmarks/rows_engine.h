/* rows_engine.h - an engine that holds rows for bench_rows_on_disk.c: it finds the rows of a step, updates them and writes them back. */
#pragma once

#include <stdint.h>

enum { ROWS_STATES = 2 };             /* the most states of a row */

typedef struct rows_options {
    int64_t     rows, width;
    int         states;               /* 1: Adagrad, 2: Adam */
    uint64_t    memory;               /* bytes; 0: all rows are in memory */
    const char *folder;               /* of the rows that are not */
    const char *settings;             /* RocksDB's options as text, put over those of this benchmark; or NULL */
    int         readers;              /* threads that read from RocksDB */
} rows_options;

/* What has happened since the engine was opened. */
typedef struct rows_counts {
    uint64_t looked_up, found;        /* rows of all steps; those of them that needed no read */
    uint64_t reads, ahead;            /* reads for rows of a step; those of them that were begun before the step */
    double   waited;                  /* seconds that steps have waited for reads; below 0: unknown */
} rows_counts;

typedef struct rows_engine {
    void *(*open)(const rows_options *options);
    /* Make the rows of these keys. The keys ascend over all calls. */
    void (*fill)(void *self, const int64_t *keys, int64_t n);
    void (*end_fill)(void *self);
    /* Read the rows of distinct keys, update them and write them back. */
    void (*step)(void *self, const int64_t *keys, int64_t n);
    /* The next step has these keys. NULL: the engine cannot use it. */
    void (*expect)(void *self, const int64_t *keys, int64_t n);
    void (*count)(void *self, rows_counts *out);
    void (*close)(void *self);
} rows_engine;

extern const rows_engine rows_in_table, rows_in_rocksdb;

/* One step of the optimizer for `n` elements that lie one after the other, with a gradient of its own. */
void           rows_update(float *values, float *const *states, int state_count, int64_t n);
/* End the program with this message. */
_Noreturn void rows_fail(const char *what, const char *why);
