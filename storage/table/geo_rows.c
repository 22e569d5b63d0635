#include "storage/table/geo_rows.h"

#include "kernels/math/tools/cast.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct tr_geo_rows {
    tr_table *table;
    char     *name;                   /* name of its segments, or NULL */
    uint64_t  exchange;               /* the exchange that the table's present update leads to */
    int64_t   width;
    tr_dtype  dtype;
    uint64_t  row_bytes;
    tr_keyset taken;                  /* keys whose rows were taken since the last exchange */
    uint8_t  *base;                   /* these rows as they were taken */
    uint64_t  base_capacity;
    int64_t  *key;                    /* the keys of changed rows */
    float    *change;                 /* their changes, and room for two rows after them */
    uint64_t  change_capacity;
};

static tr_table_segment place_of(const char *name)
{
    return (tr_table_segment){.name = name, .shard_count = TR_SHARDS, .logs_when_set = name != NULL};
}

/* Attach to the copy of an earlier process. The call waits a moment for a process that is about to end. */
static tr_status attach(tr_geo_rows *geo, const tr_table_config *config, uint64_t exchange)
{
    enum { TRIES = 500, PAUSE = 2000 };
    const tr_table_segment place = place_of(geo->name);
    tr_status            status;

    for (int i = 0; (status = tr_table_attach(&geo->table, config, &place, exchange)) == TR_EEXIST && i < TRIES; i++)
        usleep(PAUSE);
    return status;
}

static void forget_name(tr_geo_rows *geo, const char *why)
{
    fprintf(stderr, "trireme warning: %s; this trainer's optimizer state of a table's rows is lost if the job is started again\n", why);
    tr_table_remove(geo->name);
    free(geo->name);
    geo->name = NULL;
}

/* A full /dev/shm does not stop the training: the copy then ends with this process. */
static tr_status open_table(tr_geo_rows *geo, const tr_table_config *config, uint64_t exchange)
{
    if (geo->name && exchange > 0 && attach(geo, config, exchange) == TR_OK)
        return TR_OK;
    if (geo->name) {
        const tr_table_segment named = place_of(geo->name);
        tr_table_remove(geo->name);
        if (tr_table_create(&geo->table, config, &named) == TR_OK)
            return TR_OK;
        forget_name(geo, tr_error());
    }
    const tr_table_segment here = place_of(NULL);
    return tr_table_create(&geo->table, config, &here);
}

tr_status tr_geo_rows_new(tr_geo_rows **out, const tr_table_config *config, const char *name, uint64_t exchange)
{
    tr_table_config own = *config;
    tr_geo_rows    *geo = calloc(1, sizeof *geo);

    if (!geo || (name && !(geo->name = strdup(name)))) {
        free(geo);
        return tr_fail(TR_ENOMEM, "no memory for a copy of a table");
    }
    own.entry_count = own.max_age = own.keep_count = 0;
    own.max_rows = 0;
    geo->width = config->width;
    geo->dtype = config->dtype;
    geo->row_bytes = (uint64_t)tr_table_row_bytes(config);
    tr_status status = open_table(geo, &own, exchange);
    if (status == TR_OK)
        status = tr_keyset_reset(&geo->taken, 0);
    if (status != TR_OK) {
        tr_geo_rows_free(geo);
        return status;
    }
    *out = geo;
    return TR_OK;
}

void tr_geo_rows_free(tr_geo_rows *geo)
{
    if (!geo)
        return;
    tr_table_free(geo->table);
    tr_keyset_deinit(&geo->taken);
    free(geo->name);
    free(geo->base);
    free(geo->key);
    free(geo->change);
    free(geo);
}

tr_table *tr_geo_rows_table(tr_geo_rows *geo)
{
    return geo->table;
}

bool tr_geo_rows_has(const tr_geo_rows *geo, int64_t key)
{
    return tr_keyset_has(&geo->taken, key);
}

void tr_geo_rows_get(const tr_geo_rows *geo, void *out, int64_t key)
{
    (void)tr_table_pull(geo->table, out, &key, 1);     /* all rows of a copy are in memory: it cannot fail */
}

/* The same table in memory that ends with the process. */
static tr_status leave_segments(tr_geo_rows *geo)
{
    const tr_table_segment here = place_of(NULL);
    tr_table            *table;
    void                *rows;
    uint64_t             bytes;
    tr_status            status = TR_OK;

    forget_name(geo, tr_error());
    TR_TRY(tr_table_create(&table, tr_table_get_config(geo->table), &here));
    for (uint32_t shard = 0; shard < TR_SHARDS && status == TR_OK; shard++) {
        status = tr_table_pack(geo->table, shard, &rows, &bytes);
        if (status == TR_OK) {
            status = tr_table_unpack(table, rows, bytes);
            free(rows);
        }
    }
    tr_table_free(status == TR_OK ? geo->table : table);
    geo->table = status == TR_OK ? table : geo->table;
    return status;
}

static tr_status set_values(tr_geo_rows *geo, uint64_t exchange, int64_t key, const void *row)
{
    if (geo->exchange != exchange)
        TR_TRY(tr_table_begin(geo->table, exchange));
    geo->exchange = exchange;
    tr_status status = tr_table_set_values(geo->table, key, row);
    if (status != TR_OK && geo->name) {
        TR_TRY(leave_segments(geo));
        status = tr_table_set_values(geo->table, key, row);
    }
    return status;
}

tr_status tr_geo_rows_take(tr_geo_rows *geo, uint64_t exchange, int64_t key, const void *row)
{
    uint32_t number;

    TR_TRY(tr_keyset_grow(&geo->taken, 1));
    if (geo->taken.capacity > geo->base_capacity) {
        uint8_t *grown = realloc(geo->base, geo->taken.capacity * geo->row_bytes);
        if (!grown)
            return tr_fail(TR_ENOMEM, "no memory for %u rows as the servers had them", geo->taken.capacity);
        geo->base = grown;
        geo->base_capacity = geo->taken.capacity;
    }
    TR_TRY(set_values(geo, exchange, key, row));
    tr_keyset_add(&geo->taken, &number, &key, 1);
    memcpy(geo->base + number * geo->row_bytes, row, geo->row_bytes);
    return TR_OK;
}

static tr_status make_room(tr_geo_rows *geo)
{
    const uint64_t count = geo->taken.count;

    if (geo->change && count <= geo->change_capacity)
        return TR_OK;
    free(geo->key);
    free(geo->change);
    geo->change_capacity = count + count / 4;
    geo->key = malloc((geo->change_capacity + 1) * sizeof *geo->key);
    geo->change = malloc((geo->change_capacity + 2) * (uint64_t)geo->width * sizeof *geo->change);
    if (geo->key && geo->change)
        return TR_OK;
    geo->change_capacity = 0;
    return tr_fail(TR_ENOMEM, "no memory for the changes of %llu rows", (unsigned long long)count);
}

tr_status tr_geo_rows_changes(tr_geo_rows *geo, int trainers, int64_t *count, const int64_t **keys, const float **values)
{
    TR_TRY(make_room(geo));
    float   *base = geo->change + geo->change_capacity * (uint64_t)geo->width;
    void    *raw = base + geo->width;
    int64_t  changed = 0;

    for (uint32_t i = 0; i < geo->taken.count; i++) {
        const uint8_t *then = geo->base + i * geo->row_bytes;
        float         *change = geo->change + changed * geo->width;
        tr_geo_rows_get(geo, raw, geo->taken.keys[i]);
        if (!memcmp(raw, then, geo->row_bytes))
            continue;
        tr_cast(change, TR_FP32, raw, geo->dtype, geo->width);
        tr_cast(base, TR_FP32, then, geo->dtype, geo->width);
        for (int64_t c = 0; c < geo->width; c++)
            change[c] = (change[c] - base[c]) / (float)trainers;
        geo->key[changed++] = geo->taken.keys[i];
    }
    *count = changed;
    *keys = geo->key;
    *values = geo->change;
    return TR_OK;
}

void tr_geo_rows_forget(tr_geo_rows *geo)
{
    tr_keyset_clear(&geo->taken);
}
