/* table_description.c - see table_description.h. */
#include "storage/checkpoint/table_description.h"

#include "framework/base/memory.h"
#include "framework/base/name.h"
#include "storage/slots/slots.h"
#include "storage/table/table_var.h"

#include <stdlib.h>
#include <string.h>

typedef Trireme__Checkpoint__Table about;

tr_job_table tr__described_table(const about *from)
{
    tr_job_table t = {
        .name = from->name, .dtype = (tr_dtype)from->dtype, .width = from->width, .states = (int)from->n_state_values,
        .init = (int)from->init, .a = from->a, .b = from->b, .random_key = from->random_key, .entry_count = from->entry_count,
        .entry_probability = from->entry_probability, .max_age = from->max_age, .keep_count = from->keep_count,
        .max_rows = (int64_t)from->max_rows, .updates = (int64_t)from->updates};

    if (from->n_state_values)
        memcpy(t.state_value, from->state_values, from->n_state_values * sizeof(float));
    return t;
}

static tr_status check_about(const about *t, const char *file)
{
    TR_TRY(tr_name_check(t->name));
    if (t->n_state_values > TR_TABLE_STATES || t->updates > INT64_MAX || t->max_rows > INT64_MAX)
        return tr_fail(TR_EFORMAT, "table '%.200s' of %s: %zu states, %llu updates", t->name, file, t->n_state_values,
                       (unsigned long long)t->updates);
    const tr_job_table    table = tr__described_table(t);
    const tr_table_config config = tr_table_config_of(&table);
    if (tr_table_check_config(&config) != TR_OK || t->first_shard >= TR_SHARDS || t->shard_count > TR_SHARDS - t->first_shard)
        return tr_fail(TR_EFORMAT, "table '%.200s' of %s: rows of %lld %s, %u shards from %u on", t->name, file, (long long)t->width,
                       tr_dtype_name((tr_dtype)t->dtype), t->shard_count, t->first_shard);
    return TR_OK;
}

static int compare_names(const void *left, const void *right)
{
    return strcmp((*(about *const *)left)->name, (*(about *const *)right)->name);
}

void tr__tables_sort(tr_part *part)
{
    if (part->n_tables)
        qsort(part->tables, part->n_tables, sizeof(about *), compare_names);
}

const about *tr__find_description(const tr_part *part, const char *name)
{
    const about        named = {.name = (char *)(uintptr_t)name};
    const about *const key = &named;
    about *const      *found = part->n_tables ? bsearch(&key, part->tables, part->n_tables, sizeof key, compare_names) : NULL;

    return found ? *found : NULL;
}

tr_row_code tr__described_code(const tr_part_tensor *of)
{
    const Trireme__Checkpoint__RowCode *c = of->code;

    return (tr_row_code){c->first_key, c->last, c->key_bits, c->touch_bits, c->age_bits};
}

/* Only rows are coded. */
static tr_status check_code(const tr_part_tensor *t, const char *file)
{
    if (!t->code)
        return TR_OK;
    const tr_row_code code = tr__described_code(t);
    tr_status         status = tr_row_code_check(&code);
    if (t->candidates || t->removed)
        status = tr_fail(TR_EFORMAT, "keys without rows are coded as rows");
    return status == TR_OK ? TR_OK : tr_context(status, "for shard %u of table '%.200s' of %s", t->shard, t->name, file);
}

uint64_t tr__described_stride(const about *t, const tr_part_tensor *of)
{
    if (of && of->removed)
        return sizeof(int64_t);
    const tr_job_table    table = tr__described_table(t);
    const tr_table_config config = tr_table_config_of(&table);
    if (of && of->code) {
        const tr_row_code code = tr__described_code(of);
        return tr_row_code_stride(&code, &config);
    }
    return of && of->candidates ? sizeof(tr_slot_row) : tr_table_stride(&config);
}

enum { FLAGS = 5 };                   /* removed keys and removed candidates, rows, candidates, and coded rows */

/* Check that the rows belong to the table, and that no shard appears twice. `seen`: FLAGS for each shard. */
static tr_status check_rows(const tr_part_tensor *t, const about *table, const char *file, bool *seen)
{
    const bool is_known = table && t->has_shard && t->shard >= table->first_shard &&
                          t->shard - table->first_shard < table->shard_count;
    const size_t flag = FLAGS * (size_t)t->shard + (t->code ? 4 : 2 * (t->removed != 0) + (t->candidates != 0));

    if (is_known && t->removed && !table->changes)
        return tr_fail(TR_EFORMAT, "table '%.200s' of %s: shard %u has lost keys, but all of its rows are there", t->name, file, t->shard);
    TR_TRY(check_code(t, file));
    if (!is_known || t->dtype != TR_UINT8 || t->n_dims != 2 || (uint64_t)t->dims[1] != tr__described_stride(table, t) || seen[flag])
        return tr_fail(TR_EFORMAT, "table '%.200s' of %s: shard %u does not belong there", t->name, file, t->shard);
    seen[flag] = true;
    return TR_OK;
}

static tr_status check_part(const tr_part *part)
{
    bool         seen[FLAGS * TR_SHARDS];
    const about *table = NULL;
    const char  *name = "";

    for (size_t i = 0; i < part->n_tables; i++) {
        TR_TRY(check_about(part->tables[i], part->file));
        if (part->tables[i]->changes ? part->tables[i]->rows > UINT32_MAX : part->tables[i]->has_rows)
            return tr_fail(TR_EFORMAT, "table '%.200s' of %s: %llu rows %s changes", part->tables[i]->name, part->file,
                           (unsigned long long)part->tables[i]->rows, part->tables[i]->changes ? "with" : "without");
        if (i && !compare_names(&part->tables[i - 1], &part->tables[i]))
            return tr_fail(TR_EFORMAT, "table '%.200s' stands twice in %s", part->tables[i]->name, part->file);
    }
    for (size_t i = 0; i < part->n_tensors; i++) {     /* sorted, so the shards of a table stand together */
        const tr_part_tensor *t = part->tensors[i];
        if (t->kind != TRIREME__CHECKPOINT__KIND__TABLE)
            continue;
        if (strcmp(name, t->name)) {
            memset(seen, 0, sizeof seen);
            table = tr__find_description(part, t->name);
        }
        name = t->name;
        TR_TRY(check_rows(t, table, part->file, seen));
    }
    return TR_OK;
}

static bool is_alike(const about *a, const about *b)
{
    return a->dtype == b->dtype && a->width == b->width && a->n_state_values == b->n_state_values;
}

/* A description, and its part. */
typedef struct described {
    const about   *table;
    const tr_part *part;
} described;

static int compare_described(const void *left, const void *right)
{
    const described *a = left, *b = right;
    const int        by_name = compare_names(&a->table, &b->table);

    return by_name ? by_name : (a->part > b->part) - (a->part < b->part);
}

/* Check that the descriptions of one table, in all parts, are alike and that own parts together have each shard once. */
static tr_status check_whole(const described *all, size_t count)
{
    bool     seen[TR_SHARDS] = {false};
    uint32_t found = 0;

    for (size_t i = 0; i < count; i++) {
        const about *t = all[i].table;
        if (!is_alike(t, all->table))
            return tr_fail(TR_EFORMAT, "table '%.200s' has other rows in %s", t->name, all[i].part->file);
        for (uint32_t s = 0; !all[i].part->has_of_step && s < t->shard_count; s++) {
            if (seen[t->first_shard + s])
                return tr_fail(TR_EFORMAT, "table '%.200s': shard %u stands twice", t->name, t->first_shard + s);
            seen[t->first_shard + s] = true;
            found++;
        }
    }
    if (found == TR_SHARDS)
        return TR_OK;
    return tr_fail(TR_EFORMAT, "table '%.200s': it has %d shards, %u are there", all->table->name, TR_SHARDS, found);
}

/* Tables and parts are many: their descriptions are sorted, so that those of a table stand together. */
static tr_status check_all_whole(const tr_manifest *m)
{
    size_t    count = 0;
    tr_status status = TR_OK;

    for (size_t i = 0; i < m->n_parts; i++)
        count += m->parts[i]->n_tables;
    described *all = tr__must_array(count + 1, sizeof *all);
    count = 0;
    for (size_t i = 0; i < m->n_parts; i++)
        for (size_t j = 0; j < m->parts[i]->n_tables; j++)
            all[count++] = (described){m->parts[i]->tables[j], m->parts[i]};
    qsort(all, count, sizeof *all, compare_described);
    for (size_t from = 0, end; from < count && status == TR_OK; from = end) {
        for (end = from + 1; end < count && !compare_names(&all[from].table, &all[end].table);)
            end++;
        status = check_whole(all + from, end - from);
    }
    free(all);
    return status;
}

bool tr__tables_have_changes(const tr_part *part)
{
    for (size_t i = 0; i < part->n_tables; i++)
        if (part->tables[i]->changes)
            return true;
    return false;
}

/* Check that what a checkpoint builds on is named, and stands before its own parts. */
static tr_status check_base(const tr_manifest *m)
{
    for (size_t i = 0; i < m->n_parts; i++) {
        const tr_part *part = m->parts[i];
        if (part->of_step > INT64_MAX || (part->has_of_step && i && !m->parts[i - 1]->has_of_step))
            return tr_fail(TR_EFORMAT, "%.200s of step %llu does not stand before the checkpoint's own parts", part->file,
                           (unsigned long long)part->of_step);
        if (!m->has_base_step && (part->has_of_step || tr__tables_have_changes(part)))
            return tr_fail(TR_EFORMAT, "%.200s is a part of changes, but the checkpoint builds on none", part->file);
    }
    return TR_OK;
}

tr_status tr__tables_check(tr_manifest *m)
{
    TR_TRY(check_base(m));
    for (size_t i = 0; i < m->n_parts; i++) {
        tr__tables_sort(m->parts[i]);
        TR_TRY(check_part(m->parts[i]));
    }
    return check_all_whole(m);
}
