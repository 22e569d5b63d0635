#include "storage/table/first_values.h"
#include "storage/table/mapped_table.h"

#include "framework/base/memory.h"
#include "storage/memory/guard.h"
#include "storage/table/table_state.h"

#include <stdlib.h>
#include <string.h>

/* The files whose rows are of one moment. */
typedef struct layer {
    tr_row_file *of[TR_SHARDS];       /* the file with a shard's rows */
} layer;

struct tr_mapped_table {
    tr_row_file **file;               /* the oldest first */
    int           count, capacity;
    layer       **layer;              /* the oldest first */
    int           layer_count;
    uint32_t      filled;             /* of the newest layer: shards from 0 on that it has */
};

tr_mapped_table *tr_mapped_table_new(void)
{
    return tr__must_alloc(sizeof(tr_mapped_table));
}

void tr_mapped_table_free(tr_mapped_table *table)
{
    if (!table)
        return;
    for (int i = 0; i < table->count; i++)
        tr_row_file_free(table->file[i]);
    for (int i = 0; i < table->layer_count; i++)
        free(table->layer[i]);
    free(table->layer);
    free(table->file);
    free(table);
}

static bool is_same(const tr_table_config *a, const tr_table_config *b)
{
    return a->dtype == b->dtype && a->width == b->width && a->init == b->init && a->random_key == b->random_key &&
           !memcmp(&a->a, &b->a, sizeof a->a) && !memcmp(&a->b, &b->b, sizeof a->b);
}

static layer *newest_layer(tr_mapped_table *table)
{
    if (!table->layer_count || table->filled == TR_SHARDS) {
        table->layer = tr__must_realloc(table->layer, ((size_t)table->layer_count + 1) * sizeof *table->layer);
        table->layer[table->layer_count++] = tr__must_alloc(sizeof(layer));
        table->filled = 0;
    }
    return table->layer[table->layer_count - 1];
}

/* Enter the file for its shards, which are the next ones. */
static bool fill(tr_mapped_table *table, tr_row_file *file)
{
    layer   *newest = newest_layer(table);
    uint32_t first, count;

    tr_row_file_shards(file, &first, &count);
    if (first != table->filled)
        return false;
    for (uint32_t shard = first; shard < first + count; shard++)
        newest->of[shard] = file;
    table->filled += count;
    return true;
}

tr_status tr_mapped_table_add(tr_mapped_table *table, const char *path, uint32_t *next)
{
    tr_row_file *file = NULL;

    if (table->count == table->capacity) {
        table->capacity = table->capacity ? 2 * table->capacity : 4;
        table->file = tr__must_realloc(table->file, (size_t)table->capacity * sizeof(tr_row_file *));
    }
    TR_TRY(tr_row_file_open(&file, path, TR_ROW_FILE_COPIED));
    if (table->count && !is_same(tr_row_file_config(file), tr_mapped_table_config(table))) {
        tr_row_file_free(file);
        return tr_fail(TR_EFORMAT, "'%s' has rows of another table than the files before: type, width or first values differ", path);
    }
    table->file[table->count++] = file;
    if (!fill(table, file))
        return tr_fail(TR_EFORMAT, "'%s' has rows of other shards than its name says", path);
    *next = table->filled;
    return TR_OK;
}

const tr_table_config *tr_mapped_table_config(const tr_mapped_table *table)
{
    return tr_row_file_config(table->file[0]);
}

static tr_status find(const void **values, const tr_mapped_table *table, int64_t key)
{
    const uint32_t shard = tr_slots_shard(key);

    *values = NULL;
    for (int i = table->layer_count - 1; i >= 0 && !*values; i--)
        TR_TRY(tr_row_file_find(values, table->layer[i]->of[shard], key));
    return TR_OK;
}

typedef struct pulling {
    const tr_mapped_table *table;
    char                  *out;
    const int64_t         *keys;
    int64_t                n;
    tr_status              status;
} pulling;

static tr_status pull_row(const tr_mapped_table *table, char *to, int64_t key)
{
    const tr_table_config *config = tr_mapped_table_config(table);
    const void            *values;

    TR_TRY(find(&values, table, key));
    if (values)
        memcpy(to, values, (size_t)tr_table_row_bytes(config));
    else if (tr__table_reads_zeros(config, key))
        memset(to, 0, (size_t)tr_table_row_bytes(config));
    else
        tr__table_put_first_value(config, to, key);
    return TR_OK;
}

static void pull(void *payload)
{
    pulling     *p = payload;
    const size_t bytes = (size_t)tr_table_row_bytes(tr_mapped_table_config(p->table));

    p->status = TR_OK;
    for (int64_t i = 0; i < p->n && p->status == TR_OK; i++)
        p->status = pull_row(p->table, p->out + (size_t)i * bytes, p->keys[i]);
}

tr_status tr_mapped_table_pull(const tr_mapped_table *table, void *out, const int64_t *keys, int64_t n)
{
    pulling p = {table, out, keys, n, TR_OK};
    bool    is_mapped = false;

    for (int i = 0; i < table->count; i++)
        is_mapped |= tr_row_file_is_mapped(table->file[i]);
    if (!is_mapped) {
        pull(&p);
        return p.status;
    }
    const bool is_whole = tr_guard_call(pull, &p);
    for (int i = 0; i < table->count; i++)
        TR_TRY(tr_row_file_is_intact(table->file[i]));
    return is_whole ? p.status : tr_fail(TR_EIO, "the disk has not given a part of a file of rows");
}
