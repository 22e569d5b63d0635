/* checkpoint_table.c - sparse tables of checkpoints: the description of a table in a part, and its rows joined from all parts. */
#include "pserver/checkpoint/checkpoint.h"

#include <stdlib.h>
#include <string.h>

#include "framework/memory.h"
#include "framework/name.h"
#include "pserver/table/table_var.h"

typedef Trireme__Checkpoint__Table about;

/* == writing ====================================================================================== */

static tr_table *rows_of(const tr_checkpoint_item *state)
{
    const tr_job_table *table = state->kind == TR_STATE_TABLE ? state->data : NULL;
    return table ? (tr_table *)(uintptr_t)table->first_rows : NULL;
}

tr_status tr_tables_snapshot(int count, const tr_checkpoint_item *states)
{
    for (int i = 0; i < count; i++)
        if (rows_of(&states[i]))
            TR_TRY(tr_table_snapshot(rows_of(&states[i])));
    return TR_OK;
}

void tr_tables_snapshot_end(int count, const tr_checkpoint_item *states)
{
    for (int i = 0; i < count; i++)
        if (rows_of(&states[i]))
            tr_table_snapshot_end(rows_of(&states[i]));
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
        tr_table_range(table->first_rows, &out->first_shard, &out->shard_count);
    return out;
}

/* == what must hold ================================================================================= */

static tr_job_table table_of(const about *from)
{
    tr_job_table t = {
        .name = from->name, .dtype = (tr_dtype)from->dtype, .width = from->width, .states = (int)from->n_state_values,
        .init = (int)from->init, .a = from->a, .b = from->b, .random_key = from->random_key, .entry_count = from->entry_count,
        .entry_probability = from->entry_probability, .max_age = from->max_age, .keep_count = from->keep_count,
        .max_rows = (int64_t)from->max_rows, .updates = (int64_t)from->updates};

    memcpy(t.state_value, from->state_values, from->n_state_values * sizeof(float));
    return t;
}

static tr_status check_about(const about *t, const char *file)
{
    TR_TRY(tr_name_check(t->name));
    if (t->n_state_values > TR_TABLE_STATES || t->updates > INT64_MAX || t->max_rows > INT64_MAX)
        return tr_fail(TR_EFORMAT, "table '%.200s' of %s: %zu states, %llu updates", t->name, file, t->n_state_values,
                       (unsigned long long)t->updates);
    const tr_job_table    table = table_of(t);
    const tr_table_config config = tr_table_config_of(&table);
    if (tr_table_check_config(&config) != TR_OK || t->first_shard >= TR_SHARDS || t->shard_count > TR_SHARDS - t->first_shard)
        return tr_fail(TR_EFORMAT, "table '%.200s' of %s: rows of %lld %s, %u shards from %u on", t->name, file, (long long)t->width,
                       tr_dtype_name((tr_dtype)t->dtype), t->shard_count, t->first_shard);
    return TR_OK;
}

static const about *find(const tr_part *part, const char *name)
{
    for (size_t i = 0; i < part->n_tables; i++)
        if (!strcmp(part->tables[i]->name, name))
            return part->tables[i];
    return NULL;
}

static uint64_t stride_of(const about *t, bool are_candidates)
{
    const tr_job_table    table = table_of(t);
    const tr_table_config config = tr_table_config_of(&table);
    return are_candidates ? sizeof(tr_slot_row) : tr_table_stride(&config);
}

/* The rows are the table's, and are there once. `seen`: two for each shard. */
static tr_status check_rows(const tr_part_tensor *t, const about *table, const char *file, bool *seen)
{
    const bool is_known = table && t->has_shard && t->shard >= table->first_shard &&
                          t->shard - table->first_shard < table->shard_count;

    if (!is_known || t->dtype != TR_UINT8 || t->n_dims != 2 || (uint64_t)t->dims[1] != stride_of(table, t->candidates) ||
        seen[2 * t->shard + (t->candidates != 0)])
        return tr_fail(TR_EFORMAT, "table '%.200s' of %s: shard %u does not belong there", t->name, file, t->shard);
    seen[2 * t->shard + (t->candidates != 0)] = true;
    return TR_OK;
}

static tr_status check_part(const tr_part *part)
{
    bool        seen[2 * TR_SHARDS];
    const char *name = "";

    for (size_t i = 0; i < part->n_tables; i++) {
        TR_TRY(check_about(part->tables[i], part->file));
        if (find(part, part->tables[i]->name) != part->tables[i])
            return tr_fail(TR_EFORMAT, "table '%.200s' stands twice in %s", part->tables[i]->name, part->file);
    }
    for (size_t i = 0; i < part->n_tensors; i++) {     /* sorted: the shards of a table stand together */
        const tr_part_tensor *t = part->tensors[i];
        if (t->kind != TRIREME__CHECKPOINT__KIND__TABLE)
            continue;
        if (strcmp(name, t->name))
            memset(seen, 0, sizeof seen);
        name = t->name;
        TR_TRY(check_rows(t, find(part, name), part->file, seen));
    }
    return TR_OK;
}

static bool is_alike(const about *a, const about *b)
{
    return a->dtype == b->dtype && a->width == b->width && a->n_state_values == b->n_state_values;
}

/* All parts' shards of a table, each once. */
static tr_status check_whole(const tr_manifest *m, const about *first)
{
    bool     seen[TR_SHARDS] = {false};
    uint32_t count = 0;

    for (size_t i = 0; i < m->n_parts; i++) {
        const about *t = find(m->parts[i], first->name);
        if (t && !is_alike(t, first))
            return tr_fail(TR_EFORMAT, "table '%.200s' has other rows in %s", first->name, m->parts[i]->file);
        for (uint32_t s = 0; t && s < t->shard_count; s++) {
            if (seen[t->first_shard + s])
                return tr_fail(TR_EFORMAT, "table '%.200s': shard %u stands twice", first->name, t->first_shard + s);
            seen[t->first_shard + s] = true;
            count++;
        }
    }
    if (count == TR_SHARDS)
        return TR_OK;
    return tr_fail(TR_EFORMAT, "table '%.200s': it has %d shards, %u are there", first->name, TR_SHARDS, count);
}

tr_status tr__tables_check(const tr_manifest *m)
{
    for (size_t i = 0; i < m->n_parts; i++)
        TR_TRY(check_part(m->parts[i]));
    for (size_t i = 0; i < m->n_parts; i++)
        for (size_t j = 0; j < m->parts[i]->n_tables; j++)
            TR_TRY(check_whole(m, m->parts[i]->tables[j]));
    return TR_OK;
}

/* == reading ========================================================================================== */

/* The next table behind `name` in the order of names; NULL: there is none. */
static const about *next_table(const tr_manifest *m, const char *name)
{
    const about *next = NULL;

    for (size_t i = 0; i < m->n_parts; i++)
        for (size_t j = 0; j < m->parts[i]->n_tables; j++) {
            const about *t = m->parts[i]->tables[j];
            if (strcmp(t->name, name) > 0 && (!next || strcmp(t->name, next->name) < 0))
                next = t;
        }
    return next;
}

static const about *table_at(const tr_manifest *m, int index)
{
    const about *t = next_table(m, "");

    for (int i = 0; t && i < index; i++)
        t = next_table(m, t->name);
    return t;
}

int tr_checkpoint_tables(const tr_checkpoint *c)
{
    int count = 0;

    for (const about *t = table_at(tr__checkpoint_manifest(c), 0); t; count++)
        t = next_table(tr__checkpoint_manifest(c), t->name);
    return count;
}

static bool is_of(const tr_part_tensor *t, const char *name)
{
    return t->kind == TRIREME__CHECKPOINT__KIND__TABLE && !strcmp(t->name, name);
}

void tr_checkpoint_table(tr_job_table *out, int64_t *rows, const tr_checkpoint *c, int index)
{
    const tr_manifest *m = tr__checkpoint_manifest(c);
    const about       *first = table_at(m, index);

    *out = table_of(first);
    *rows = 0;
    for (size_t i = 0; i < m->n_parts; i++) {
        const about *here = find(m->parts[i], first->name);
        if (here && (int64_t)here->updates > out->updates)     /* servers that are not in step count apart */
            out->updates = (int64_t)here->updates;
        for (size_t j = 0; j < m->parts[i]->n_tensors; j++)
            if (is_of(m->parts[i]->tensors[j], first->name) && !m->parts[i]->tensors[j]->candidates)
                *rows += m->parts[i]->tensors[j]->dims[0];
    }
}

typedef tr_status (*take_rows)(void *payload, const void *rows, uint64_t bytes, bool are_candidates);

/* The tensors [from, *end) of the part lie near each other: read them in one go. */
static tr_status read_run(const tr_part *part, const char *folder, const char *name, size_t from, size_t *end, take_rows take,
                          void *payload)
{
    static const uint64_t RUN = 32 << 20;
    const uint64_t        begin = part->tensors[from]->offset;
    uint64_t              until = begin;

    for (*end = from; *end < part->n_tensors && is_of(part->tensors[*end], name); ++*end) {
        const tr_part_tensor *t = part->tensors[*end];
        if (t->offset < until || (*end > from && t->offset + t->bytes - begin > RUN))
            break;
        until = t->offset + t->bytes;
    }
    uint8_t *bytes = malloc(until - begin + 1);
    if (!bytes)
        return tr_fail(TR_ENOMEM, "no memory for %llu bytes of table '%s'", (unsigned long long)(until - begin), name);
    tr_status status = tr_part_read(part, folder, begin, until - begin, bytes);
    for (size_t i = from; status == TR_OK && i < *end; i++)
        status = take(payload, bytes + (part->tensors[i]->offset - begin), part->tensors[i]->bytes, part->tensors[i]->candidates);
    free(bytes);
    return status;
}

static tr_status read_all(const tr_checkpoint *c, const char *name, take_rows take, void *payload)
{
    const tr_manifest *m = tr__checkpoint_manifest(c);

    for (size_t i = 0; i < m->n_parts; i++)
        for (size_t from = 0, end; from < m->parts[i]->n_tensors; from = end) {
            end = from + 1;
            if (is_of(m->parts[i]->tensors[from], name))
                TR_TRY(read_run(m->parts[i], tr_checkpoint_folder(c), name, from, &end, take, payload));
        }
    return TR_OK;
}

typedef struct packed {
    uint8_t *data;
    uint64_t bytes;
} packed;

static tr_status append(void *payload, const void *rows, uint64_t bytes, bool are_candidates)
{
    packed *to = payload;

    if (!are_candidates) {
        memcpy(to->data + to->bytes, rows, bytes);
        to->bytes += bytes;
    }
    return TR_OK;
}

static tr_status check_index(const tr_checkpoint *c, int index, const char *call)
{
    if (index >= 0 && index < tr_checkpoint_tables(c))
        return TR_OK;
    return tr_fail(TR_ERANGE, "%s: table %d; there are %d", call, index, tr_checkpoint_tables(c));
}

tr_status tr_checkpoint_read_table(void **out, int64_t *bytes, const tr_checkpoint *c, int index)
{
    tr_job_table table;
    int64_t      rows;

    TR_TRY(check_index(c, index, "tr_checkpoint_read_table"));
    tr_checkpoint_table(&table, &rows, c, index);
    packed all = {malloc((uint64_t)rows * stride_of(table_at(tr__checkpoint_manifest(c), index), false) + 1), 0};
    if (!all.data)
        return tr_fail(TR_ENOMEM, "no memory for the %lld rows of table '%s'", (long long)rows, table.name);
    const tr_status status = read_all(c, table.name, append, &all);
    if (status != TR_OK) {
        free(all.data);
        return status;
    }
    *out = all.data;
    *bytes = (int64_t)all.bytes;
    return TR_OK;
}

/* == into a scope ====================================================================================== */

static tr_status put(void *payload, const void *rows, uint64_t bytes, bool are_candidates)
{
    tr_table *table = payload;

    if (are_candidates && tr_table_get_config(table)->entry_count < 2)
        return TR_OK;                                  /* rows are made at once now */
    return (are_candidates ? tr_table_unpack_candidates : tr_table_unpack)(table, rows, bytes);
}

static tr_status check_fit(const tr_checkpoint *c, const tr_job_table *from, const tr_table_config *here)
{
    if (from->dtype == here->dtype && from->width == here->width && from->states == here->states)
        return TR_OK;
    return tr_fail(TR_ESHAPE, "table '%s' in '%s' has rows of %lld %s with %d states, the program wants %lld %s with %d", from->name,
                   tr_checkpoint_folder(c), (long long)from->width, tr_dtype_name(from->dtype), from->states, (long long)here->width,
                   tr_dtype_name(here->dtype), here->states);
}

tr_status tr_checkpoint_load_table(tr_scope *scope, const tr_checkpoint *c, int index)
{
    const tr_table_place here = {.shard_count = TR_SHARDS};
    tr_table_config      config;
    tr_table_var        *tv;
    tr_table            *table = NULL;
    tr_job_table         from;
    int64_t              rows;

    TR_TRY(check_index(c, index, "tr_checkpoint_load_table"));
    tr_checkpoint_table(&from, &rows, c, index);
    tr_var *var = tr__scope_var(scope, from.name);
    config = tr_table_config_of(&from);
    if (var->kind == TR_KIND_RAW) {
        TR_TRY(tr_table_var_of(&tv, var, "tr_checkpoint_load_table", from.name));
        TR_TRY(check_fit(c, &from, &tv->config));
        config = tv->config;
    }
    TR_TRY(tr_table_create(&table, &config, &here));
    const tr_status status = read_all(c, from.name, put, table);
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
