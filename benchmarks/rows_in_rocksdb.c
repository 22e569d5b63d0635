/* rows_in_rocksdb.c - rows in RocksDB, by its C interface, with the options that were best for it.
 *
 * The key is the int64, big end first, so that keys lie in their order. The value has the row's values and states. A step's keys are
 * shared out among threads, which read, update and put; each thread writes one batch. A read of an index counts as one for a row.
 * Nothing is compressed, there is no log ahead of writes, and no page cache. Block cache, indexes, filters and memtables together have
 * the memory.
 *
 * The rows are made by writing files in the order of the keys, which RocksDB takes over as they are. */
#include "rows_engine.h"

#include <endian.h>
#include <malloc.h>
#include <pthread.h>
#include <rocksdb/c.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_READERS = 64, FILE_ROWS = 1 << 20, AT_A_TIME = 128 };

typedef struct rocks rocks;

typedef struct reader {
    rocks                *of;
    pthread_t             thread;
    rocksdb_writebatch_t *batch;
    float                *row;        /* that is updated */
    uint64_t              looked_up, found, reads;
    int                   number;
} reader;

struct rocks {
    rows_options                    options;
    rocksdb_options_t              *settings;
    rocksdb_t                      *db;
    rocksdb_column_family_handle_t *family;
    rocksdb_readoptions_t          *read;
    rocksdb_writeoptions_t         *write;
    rocksdb_sstfilewriter_t        *file;    /* that is being filled */
    int64_t                         file_rows, files;
    float                          *first;    /* contents of a new row */
    reader                          readers[MOST_READERS];
    pthread_barrier_t               begin, end;
    const int64_t                  *keys;     /* of the step */
    int64_t                         count;
    bool                            stops;
};

static void must(char *error)
{
    if (error)
        rows_fail("rocksdb", error);
}

static size_t row_bytes(const rocks *self)
{
    return sizeof(float) * (size_t)(self->options.width * (1 + self->options.states));
}

/* == options ======================================================================================= */

/* Four memtables of 64 MB, or smaller ones in a small memory; the cache has the rest. */
static uint64_t memtable_bytes(uint64_t memory)
{
    enum { SHARE = 32, MOST = 64 << 20 };
    return memory / SHARE < MOST ? memory / SHARE : MOST;
}

static rocksdb_block_based_table_options_t *tables_of(uint64_t cache_bytes)
{
    rocksdb_block_based_table_options_t *tables = rocksdb_block_based_options_create();

    rocksdb_block_based_options_set_block_cache(tables, rocksdb_cache_create_lru(cache_bytes));
    rocksdb_block_based_options_set_filter_policy(tables, rocksdb_filterpolicy_create_bloom_full(10));
    rocksdb_block_based_options_set_cache_index_and_filter_blocks(tables, 1);
    rocksdb_block_based_options_set_cache_index_and_filter_blocks_with_high_priority(tables, 1);
    rocksdb_block_based_options_set_format_version(tables, 5);
    rocksdb_block_based_options_set_data_block_index_type(tables, rocksdb_block_based_table_data_block_index_type_binary_search_and_hash);
    return tables;
}

/* A block lies in one page, so a row costs the read of one page. All rows exist, so the last level needs no filters. */
#define AS_TEXT "optimize_filters_for_hits=true;block_based_table_factory={block_align=true}"

static void change(rocksdb_options_t *to, const rocksdb_options_t *from, const char *text)
{
    char *error = NULL;

    rocksdb_get_options_from_string(from, text, to, &error);
    must(error);
}

static rocksdb_options_t *settings_of(const rows_options *options)
{
    enum { MEMTABLES = 4, JOBS = 4 };
    const uint64_t     memtable = memtable_bytes(options->memory);
    rocksdb_options_t *settings = rocksdb_options_create(), *aligned = rocksdb_options_create(), *changed = rocksdb_options_create();

    rocksdb_options_set_create_if_missing(settings, 1);
    rocksdb_options_set_compression(settings, rocksdb_no_compression);
    rocksdb_options_set_use_direct_reads(settings, 1);
    rocksdb_options_set_use_direct_io_for_flush_and_compaction(settings, 1);
    rocksdb_options_set_write_buffer_size(settings, memtable);
    rocksdb_options_set_max_write_buffer_number(settings, MEMTABLES);
    rocksdb_options_set_max_background_jobs(settings, JOBS);
    rocksdb_options_set_level_compaction_dynamic_level_bytes(settings, 1);
    rocksdb_options_set_max_open_files(settings, -1);
    rocksdb_options_set_block_based_table_factory(settings, tables_of(options->memory - MEMTABLES * memtable));
    change(aligned, settings, AS_TEXT);
    change(changed, aligned, options->settings ? options->settings : "");
    rocksdb_options_destroy(settings);
    rocksdb_options_destroy(aligned);
    return changed;
}

/* == rows come into being ============================================================================== */

static void name_file(char *out, size_t bytes, const rocks *self, int64_t number)
{
    snprintf(out, bytes, "%s/fill%lld", self->options.folder, (long long)number);
}

static void begin_file(rocks *self)
{
    char name[4096], *error = NULL;

    name_file(name, sizeof name, self, self->files++);
    rocksdb_sstfilewriter_open(self->file, name, &error);
    must(error);
}

static void end_file(rocks *self)
{
    char *error = NULL;

    rocksdb_sstfilewriter_finish(self->file, &error);
    must(error);
    self->file_rows = 0;
}

static void fill(void *payload, const int64_t *keys, int64_t n)
{
    rocks *self = payload;

    for (int64_t i = 0; i < n; i++) {
        const uint64_t key = htobe64((uint64_t)keys[i]);
        char          *error = NULL;
        if (!self->file_rows)
            begin_file(self);
        rocksdb_sstfilewriter_put(self->file, (const char *)&key, sizeof key, (const char *)self->first, row_bytes(self), &error);
        must(error);
        if (++self->file_rows == FILE_ROWS)
            end_file(self);
    }
}

static void end_fill(void *payload)
{
    rocks                               *self = payload;
    rocksdb_ingestexternalfileoptions_t *how = rocksdb_ingestexternalfileoptions_create();
    char                                *error = NULL, (*names)[4096] = malloc((size_t)self->files * sizeof *names);
    const char                         **list = malloc((size_t)self->files * sizeof *list);

    if (self->file_rows)
        end_file(self);
    for (int64_t i = 0; i < self->files; i++) {
        name_file(names[i], sizeof names[i], self, i);
        list[i] = names[i];
    }
    rocksdb_ingestexternalfileoptions_set_move_files(how, 1);
    rocksdb_ingest_external_file(self->db, list, (size_t)self->files, how, &error);
    must(error);
    rocksdb_ingestexternalfileoptions_destroy(how);
    rocksdb_sstfilewriter_destroy(self->file);
    self->file = NULL;
    free(list);
    free(names);
}

/* == a step ============================================================================================ */

static void update_row(reader *r, const uint64_t *key, const char *found, size_t bytes)
{
    const int64_t width = r->of->options.width;
    float        *states[ROWS_STATES] = {r->row + width, r->row + 2 * width};

    memcpy(r->row, found, bytes);
    rows_update(r->row, states, r->of->options.states, width);
    rocksdb_writebatch_put(r->batch, (const char *)key, sizeof *key, (const char *)r->row, bytes);
}

/* Some rows in one call, which takes a quarter less processor time than a call for each. */
static void run_some(reader *r, const int64_t *keys, int64_t n)
{
    const rocks             *of = r->of;
    uint64_t                 key[AT_A_TIME];
    const char              *place[AT_A_TIME];
    size_t                   sizes[AT_A_TIME], bytes;
    rocksdb_pinnableslice_t *rows[AT_A_TIME];
    char                    *errors[AT_A_TIME];

    for (int64_t i = 0; i < n; i++) {
        key[i] = htobe64((uint64_t)keys[i]);
        place[i] = (const char *)&key[i];
        sizes[i] = sizeof key[i];
    }
    rocksdb_batched_multi_get_cf(of->db, of->read, of->family, (size_t)n, place, sizes, rows, errors, true);
    for (int64_t i = 0; i < n; i++) {
        must(errors[i]);
        const char *found = rocksdb_pinnableslice_value(rows[i], &bytes);
        if (!found || bytes != row_bytes(of))
            rows_fail("rocksdb", "a row is missing");
        update_row(r, &key[i], found, bytes);
        rocksdb_pinnableslice_destroy(rows[i]);
    }
}

static void run_part(reader *r, rocksdb_perfcontext_t *context)
{
    const rocks   *of = r->of;
    const int64_t  begin = of->count * r->number / of->options.readers, end = of->count * (r->number + 1) / of->options.readers;
    const uint64_t before = rocksdb_perfcontext_metric(context, rocksdb_block_read_count);
    char          *error = NULL;

    for (int64_t at = begin; at < end; at += AT_A_TIME)
        run_some(r, of->keys + at, end - at < AT_A_TIME ? end - at : AT_A_TIME);
    const uint64_t reads = rocksdb_perfcontext_metric(context, rocksdb_block_read_count) - before, n = (uint64_t)(end - begin);
    r->looked_up += n;
    r->reads += reads;
    r->found += n > reads ? n - reads : 0;
    rocksdb_write(of->db, of->write, r->batch, &error);
    must(error);
    rocksdb_writebatch_clear(r->batch);
}

static void *read_rows(void *payload)
{
    reader                *r = payload;
    rocksdb_perfcontext_t *context = rocksdb_perfcontext_create();

    rocksdb_set_perf_level(rocksdb_enable_count);
    for (;;) {
        pthread_barrier_wait(&r->of->begin);
        if (r->of->stops)
            break;
        run_part(r, context);
        pthread_barrier_wait(&r->of->end);
    }
    rocksdb_perfcontext_destroy(context);
    return NULL;
}

static void step(void *payload, const int64_t *keys, int64_t n)
{
    rocks *self = payload;

    self->keys = keys;
    self->count = n;
    pthread_barrier_wait(&self->begin);
    pthread_barrier_wait(&self->end);
}

static void count(void *payload, rows_counts *out)
{
    const rocks *self = payload;

    *out = (rows_counts){.waited = -1};
    for (int i = 0; i < self->options.readers; i++) {
        out->looked_up += self->readers[i].looked_up;
        out->found += self->readers[i].found;
        out->reads += self->readers[i].reads;
    }
}

/* == life ============================================================================================== */

static void start_readers(rocks *self)
{
    const unsigned parties = (unsigned)self->options.readers + 1;

    pthread_barrier_init(&self->begin, NULL, parties);
    pthread_barrier_init(&self->end, NULL, parties);
    for (int i = 0; i < self->options.readers; i++) {
        self->readers[i] = (reader){.of = self, .number = i, .batch = rocksdb_writebatch_create(), .row = malloc(row_bytes(self))};
        if (pthread_create(&self->readers[i].thread, NULL, read_rows, &self->readers[i]))
            rows_fail("rocksdb", "no thread");
    }
}

static void *open_rocks(const rows_options *options)
{
    static const char *names[] = {"default"};
    rocks             *self = calloc(1, sizeof *self);
    char               folder[4096], *error = NULL;

    if (!self || options->readers > MOST_READERS)
        rows_fail("rocksdb", "no memory, or too many readers");
    mallopt(M_ARENA_MAX, 2);                           /* the memory is for rows */
    self->options = *options;
    self->first = calloc(1, row_bytes(self));
    self->settings = settings_of(options);
    snprintf(folder, sizeof folder, "%s/rocksdb", options->folder);
    self->db = rocksdb_open_column_families(self->settings, folder, 1, names, (const rocksdb_options_t *[]){self->settings}, &self->family,
                                            &error);
    must(error);
    self->read = rocksdb_readoptions_create();
    self->write = rocksdb_writeoptions_create();
    rocksdb_writeoptions_disable_WAL(self->write, 1);
    self->file = rocksdb_sstfilewriter_create(rocksdb_envoptions_create(), self->settings);
    start_readers(self);
    return self;
}

static void close_rocks(void *payload)
{
    rocks *self = payload;

    self->stops = true;
    pthread_barrier_wait(&self->begin);
    for (int i = 0; i < self->options.readers; i++) {
        pthread_join(self->readers[i].thread, NULL);
        rocksdb_writebatch_destroy(self->readers[i].batch);
        free(self->readers[i].row);
    }
    rocksdb_column_family_handle_destroy(self->family);
    rocksdb_cancel_all_background_work(self->db, 1);
    rocksdb_close(self->db);
    rocksdb_options_destroy(self->settings);
    rocksdb_readoptions_destroy(self->read);
    rocksdb_writeoptions_destroy(self->write);
    free(self->first);
    free(self);
}

const rows_engine rows_in_rocksdb = {open_rocks, fill, end_fill, step, NULL, count, close_rocks};
