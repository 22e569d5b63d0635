/* checkpoint_table.c - sparse tables of checkpoints: the description of a table in a part, and its rows joined from all parts. */
#include "storage/checkpoint/checkpoint.h"
#include "storage/checkpoint/rows_ahead.h"
#include "storage/checkpoint/table_description.h"

#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"
#include "storage/table/table_var.h"
#include "storage/util/buffer.h"

typedef Trireme__Checkpoint__Table about;

/* == writing ====================================================================================== */

static tr_table *rows_of(const tr_checkpoint_item *state)
{
    const tr_job_table *table = state->kind == TR_STATE_TABLE ? state->data : NULL;
    return table ? (tr_table *)(uintptr_t)table->first_rows : NULL;
}

tr_status tr_tables_snapshot(int count, const tr_checkpoint_item *states, uint64_t number, uint64_t since)
{
    for (int i = 0; i < count; i++)
        if (rows_of(&states[i]))
            TR_TRY(tr_table_snapshot(rows_of(&states[i]), number, since));
    return TR_OK;
}

void tr_tables_snapshot_end(int count, const tr_checkpoint_item *states)
{
    for (int i = 0; i < count; i++)
        if (rows_of(&states[i]))
            tr_table_snapshot_end(rows_of(&states[i]));
}

static void describe_place(about *out, const tr_table *table)
{
    const char *spill = tr_table_spill(&out->memory, table);

    tr_table_range(table, &out->first_shard, &out->shard_count);
    out->has_memory = spill != NULL;
    out->spill = spill ? tr__must_strdup(spill) : NULL;
}

about *tr__table_describe(const tr_job_table *table)
{
    about *out = tr__must_alloc(sizeof *out);

    trireme__checkpoint__table__init(out);
    out->name = tr__must_strdup(table->name);
    out->dtype = (uint32_t)table->dtype;
    out->width = table->width;
    out->n_state_values = (size_t)table->states;
    out->state_values = (float *)(void *)tr__must_copy(table->state_value, (size_t)table->states * sizeof(float));
    out->init = (uint32_t)table->init;
    out->a = table->a;
    out->b = table->b;
    out->random_key = table->random_key;
    out->entry_count = (uint32_t)table->entry_count;
    out->entry_probability = table->entry_probability;
    out->max_age = (uint32_t)table->max_age;
    out->keep_count = (uint32_t)table->keep_count;
    out->max_rows = (uint64_t)table->max_rows;
    out->updates = (uint64_t)table->updates;
    out->shard_count = TR_SHARDS;
    if (table->first_rows)
        describe_place(out, table->first_rows);
    return out;
}

/* == reading ========================================================================================== */

int tr_checkpoint_tables(const tr_checkpoint *c)
{
    int count;

    tr__checkpoint_tables_of(&count, c);
    return count;
}

static int compare_name(const void *name, const void *table)
{
    return strcmp(name, ((const tr__whole_table *)table)->about->name);
}

int tr_checkpoint_find_table(const tr_checkpoint *c, const char *name)
{
    int                    count;
    const tr__whole_table *all = tr__checkpoint_tables_of(&count, c);
    const tr__whole_table *found = bsearch(name, all, (size_t)count, sizeof *all, compare_name);

    return found ? (int)(found - all) : -1;
}

static const tr__whole_table *table_at(const tr_checkpoint *c, int index)
{
    int count;

    return tr__checkpoint_tables_of(&count, c) + index;
}

void tr_checkpoint_table(tr_job_table *out, int64_t *rows, const tr_checkpoint *c, int index)
{
    const tr__whole_table *table = table_at(c, index);

    *out = tr__described_table(table->about);
    out->updates = table->updates;
    *rows = table->rows;
}

const char *tr__checkpoint_spill(uint64_t *memory, const tr_checkpoint *c, int index)
{
    const about *table = table_at(c, index)->about;

    *memory = table->memory;
    return table->spill;
}

static tr_status put(void *payload, const tr_part_tensor *what, const void *rows, uint64_t bytes)
{
    return tr__rows_put(payload, what, rows, bytes);
}

static tr_status read_shards(tr_table *table, const tr_checkpoint *c, const char *name, const tr_table_segment *range)
{
    const tr_rows_wanted wanted = {.table = name, .first_shard = range->first_shard, .shard_count = range->shard_count};
    return tr__checkpoint_read_rows(c, &wanted, put, table);
}

/* Read all rows into a table. Where some of them are changes, the checkpoint says how many rows there are in the end. */
static tr_status read_into(tr_table *table, const tr_checkpoint *c, const tr_job_table *from, int64_t rows)
{
    const tr_table_segment all = {.shard_count = TR_SHARDS};
    tr_table_report        report;

    TR_TRY(read_shards(table, c, from->name, &all));
    tr_table_get_report(table, &report);
    if (report.rows == (uint64_t)rows)
        return TR_OK;
    return tr_fail(TR_EFORMAT, "table '%s' in '%s': %lld rows are expected, %llu are there", from->name, tr_checkpoint_folder(c),
                   (long long)rows, (unsigned long long)report.rows);
}

typedef struct packed {
    uint8_t *data;
    uint64_t bytes, capacity;
} packed;

static tr_status append_bytes(packed *to, const void *rows, uint64_t bytes)
{
    TR_TRY(tr_buffer_reserve(&to->data, &to->capacity, to->bytes + bytes, 1));
    if (bytes)
        memcpy(to->data + to->bytes, rows, bytes);
    to->bytes += bytes;
    return TR_OK;
}

static tr_status append(void *payload, const tr_part_tensor *what, const void *rows, uint64_t bytes)
{
    return what->candidates ? TR_OK : append_bytes(payload, rows, bytes);
}

static tr_status append_shards(packed *all, const tr_table *table, const tr_table_segment *range)
{
    tr_status status = TR_OK;

    for (uint32_t i = 0; i < range->shard_count && status == TR_OK; i++) {
        void    *rows = NULL;
        uint64_t bytes = 0;
        status = tr_table_pack(table, range->first_shard + i, &rows, &bytes);
        if (status == TR_OK)
            status = append_bytes(all, rows, bytes);
        free(rows);
    }
    return status;
}

/* Rows of which some are changes: put them into a table, and pack that. */
static tr_status read_changed(packed *all, const tr_checkpoint *c, const tr_job_table *from, int64_t rows, const tr_table_segment *range)
{
    tr_table_config config = tr_table_config_of(from);
    tr_table       *table = NULL;

    config.entry_count = 0;                            /* keys that wait for a row are not wanted */
    TR_TRY(tr_table_create(&table, &config, range));
    tr_status status = range->shard_count == TR_SHARDS ? read_into(table, c, from, rows) : read_shards(table, c, from->name, range);
    if (status == TR_OK)
        status = append_shards(all, table, range);
    tr_table_free(table);
    return status;
}

static tr_status check_index(const tr_checkpoint *c, int index, const char *call)
{
    if (index >= 0 && index < tr_checkpoint_tables(c))
        return TR_OK;
    return tr_fail(TR_ERANGE, "%s: table %d; there are %d", call, index, tr_checkpoint_tables(c));
}

tr_status tr_checkpoint_read_table(void **out, int64_t *bytes, const tr_checkpoint *c, int index, uint32_t first_shard, uint32_t shard_count)
{
    const tr_table_segment range = {.first_shard = first_shard, .shard_count = shard_count};
    tr_rows_wanted         wanted = {.first_shard = first_shard, .shard_count = shard_count};
    tr_job_table           table;
    int64_t                rows;
    packed                 all = {0};

    TR_TRY(check_index(c, index, "tr_checkpoint_read_table"));
    if (!shard_count || first_shard >= TR_SHARDS || shard_count > TR_SHARDS - first_shard)
        return tr_fail(TR_ERANGE, "tr_checkpoint_read_table: %u shards from %u; there are %d", shard_count, first_shard, TR_SHARDS);
    tr_checkpoint_table(&table, &rows, c, index);
    wanted.table = table.name;
    const tr_status status = tr__checkpoint_manifest(c)->has_base_step ? read_changed(&all, c, &table, rows, &range)
                                                                       : tr__checkpoint_read_rows(c, &wanted, append, &all);
    if (status != TR_OK) {
        free(all.data);
        return status;
    }
    *out = all.data;
    *bytes = (int64_t)all.bytes;
    return TR_OK;
}

/* == into a scope ====================================================================================== */

static tr_status check_fit(const tr_checkpoint *c, const tr_job_table *from, const tr_table_config *here)
{
    if (from->dtype == here->dtype && from->width == here->width && from->states == here->states)
        return TR_OK;
    return tr_fail(TR_ESHAPE, "table '%s' in '%s' has rows of %lld %s with %d states, the program wants %lld %s with %d", from->name,
                   tr_checkpoint_folder(c), (long long)from->width, tr_dtype_name(from->dtype), from->states, (long long)here->width,
                   tr_dtype_name(here->dtype), here->states);
}

/* The configuration is that of the scope's table, if there is one. */
static tr_status find_config(tr_table_config *out, tr_scope *scope, const tr_checkpoint *c, const tr_job_table *from)
{
    tr_var       *var = tr__scope_var(scope, from->name);
    tr_table_var *tv;

    *out = tr_table_config_of(from);
    if (var->kind != TR_KIND_RAW)
        return TR_OK;
    TR_TRY(tr_table_var_of(&tv, var, "tr_checkpoint_load_table", from->name));
    *out = tv->config;
    return check_fit(c, from, out);
}

tr_status tr_checkpoint_check_table(tr_scope *scope, const tr_checkpoint *c, int index)
{
    tr_table_config config;
    tr_job_table    from;
    int64_t         rows;

    TR_TRY(check_index(c, index, "tr_checkpoint_check_table"));
    tr_checkpoint_table(&from, &rows, c, index);
    return find_config(&config, scope, c, &from);
}

tr_status tr_checkpoint_load_table(tr_scope *scope, const tr_checkpoint *c, int index)
{
    tr_table_config config;
    tr_table_var   *tv;
    tr_table       *table = NULL;
    tr_job_table         from;
    int64_t              rows;

    TR_TRY(check_index(c, index, "tr_checkpoint_load_table"));
    tr_checkpoint_table(&from, &rows, c, index);
    TR_TRY(find_config(&config, scope, c, &from));
    tr_var                *var = tr__scope_var(scope, from.name);
    const tr_table_segment here = tr_table_var_place(var);
    TR_TRY(tr_table_create(&table, &config, &here));
    const tr_status status = read_into(table, c, &from, rows);
    if (status != TR_OK) {
        tr_table_free(table);
        return status;
    }
    TR_TRY(tr_table_var_set(var, &config, &here));
    TR_TRY(tr_table_var_of(&tv, var, "tr_checkpoint_load_table", from.name));
    tv->table = table;
    tv->updates = (uint64_t)from.updates;
    return TR_OK;
}
