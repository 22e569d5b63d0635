/* rows_in_table.c - rows in a table of Trireme, of which a part lies on disk, or none. */
#include "framework/threads/threadpool.h"
#include "rows_engine.h"
#include "storage/table/table.h"

#include <stdlib.h>

enum { TILE = 256, MIN_ROWS = 512 };

typedef struct table {
    tr_table *rows;
    uint32_t *slots;
    int64_t   capacity;               /* of `slots` */
    uint64_t  step;
} table;

static void must(tr_status status)
{
    if (status != TR_OK)
        rows_fail("table", tr_error());
}

static void *open_table(const rows_options *options)
{
    const tr_table_config  config = {.dtype = TR_FP32,
                                     .width = options->width,
                                     .states = options->states,
                                     .init = TR_TABLE_UNIFORM,
                                     .a = -0.1,
                                     .b = 0.1,
                                     .random_key = 1};
    const tr_table_segment place = {.shard_count = TR_SHARDS, .spill = options->memory ? options->folder : NULL, .memory = options->memory};
    table                 *self = calloc(1, sizeof *self);

    if (!self)
        rows_fail("table", "no memory");
    must(tr_table_create(&self->rows, &config, &place));
    return self;
}

static void take(table *self, const int64_t *keys, int64_t n)
{
    if (n > self->capacity) {
        self->slots = realloc(self->slots, (size_t)n * sizeof *self->slots);
        self->capacity = n;
        if (!self->slots)
            rows_fail("table", "no memory");
    }
    must(tr_table_begin(self->rows, ++self->step));
    must(tr_table_take(self->rows, self->slots, keys, n));
}

static void fill_table(void *payload, const int64_t *keys, int64_t n)
{
    take(payload, keys, n);
}

static void end_fill(void *payload)
{
    (void)payload;
}

static void update(void *payload, int64_t begin, int64_t end)
{
    const table           *self = payload;
    const tr_table_config *config = tr_table_get_config(self->rows);
    const int64_t          width = config->width;
    float                 *values = tr_thread_scratch(TR_SCRATCH_ROUNDED, sizeof(float) * (size_t)(TILE * width * (1 + ROWS_STATES)));
    float                 *states[ROWS_STATES] = {values + TILE * width, values + 2 * TILE * width};

    for (int64_t at = begin; at < end; at += TILE) {
        const int64_t n = end - at < TILE
        ? end - at : TILE;
        tr_table_gather(self->rows, self->slots + at, n, values, states);
        rows_update(values, states, config->states, n * width);
        tr_table_scatter(self->rows, self->slots + at, n, values, (const float *const *)states);
    }
}

static void step_table(void *payload, const int64_t *keys, int64_t n)
{
    table *self = payload;

    take(self, keys, n);
    must(tr_table_keep(self->rows, self->slots, n));
    tr_parallel_range(n, MIN_ROWS, update, self);
}

static void expect(void *payload, const int64_t *keys, int64_t n)
{
    must(tr_table_expect(((table *)payload)->rows, keys, n));
}

static void count_table(void *payload, rows_counts *out)
{
    tr_table_report report;

    tr_table_get_report(((table *)payload)->rows, &report);
    *out = (rows_counts){report.looked_up, report.found_hot, report.cold.reads, report.cold.ahead, 1e-9 * (double)report.cold.waited};
}

static void close_table(void *payload)
{
    table *self = payload;

    tr_table_free(self->rows);
    free(self->slots);
    free(self);
}

const rows_engine rows_in_table = {open_table, fill_table, end_fill, step_table, expect, count_table, close_table};
