/* table.c - makes, attaches and frees a table, and describes it. */
#include "framework/tensors/random.h"
#include "storage/table/table_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* == life ======================================================================================== */

tr_status tr_table_check_config(const tr_table_config *c)
{
    if (c->dtype != TR_FP32 && c->dtype != TR_FP16 && c->dtype != TR_BF16)
        return tr_fail(TR_EDTYPE, "table: rows of %s; float32, float16 and bfloat16 are possible", tr_dtype_name(c->dtype));
    if (c->width < 1 || c->width > 65536)
        return tr_fail(TR_ESHAPE, "table: rows of %lld values; 1 to 65536 are possible", (long long)c->width);
    if (c->states < 0 || c->states > TR_TABLE_STATES)
        return tr_fail(TR_ERANGE, "table: an optimizer with %d states for each element; up to %d are possible", c->states,
                       TR_TABLE_STATES);
    if (c->init < 0 || c->init >= TR_TABLE_INIT_COUNT)
        return tr_fail(TR_EINVAL, "table: there is no way %d to draw first values", (int)c->init);
    if (!(c->entry_probability >= 0 && c->entry_probability <= 1))
        return tr_fail(TR_ERANGE, "table: a probability of %g", c->entry_probability);
    return TR_OK;
}

int64_t tr_table_row_bytes(const tr_table_config *config)
{
    return config->width * tr_dtype_size(config->dtype);
}

static uint64_t padded(uint64_t bytes, uint64_t to)
{
    return (bytes + to - 1) / to * to;
}

uint64_t tr_table_stride(const tr_table_config *config)
{
    const uint64_t values = padded((uint64_t)tr_table_row_bytes(config), 4);
    return sizeof(tr_slot_row) + padded(values + (uint64_t)config->states * (uint64_t)config->width * 4, 8);
}

static tr_slots_config slots_config(const tr_table_config *config, const tr_table_segment *place)
{
    return (tr_slots_config){tr_table_stride(config) - sizeof(tr_slot_row), place->first_shard, place->shard_count,
                             place->max_bytes};
}

static const char *path(char *out, size_t size, const char *name, const char *what)
{
    if (!name)
        return NULL;
    snprintf(out, size, "%s.%s", name, what);
    return out;
}

static tr_status open_parts(tr_table *t, const tr_table_segment *place, bool is_new)
{
    const tr_slots_config rows = slots_config(&t->config, place), none = {0, place->first_shard, place->shard_count, 0};
    char                  text[TR_SEGMENT_NAME];

    TR_TRY((is_new ? tr_slots_create : tr_slots_attach)(&t->slots, place->name, &rows));
    t->rows = tr_slots_rows(t->slots);
    t->stride = tr_slots_stride(t->slots);
    TR_TRY(tr__spill_new(&t->spill, t, place, is_new));
    if (t->config.entry_count > 1)
        TR_TRY((is_new ? tr_slots_create : tr_slots_attach)(&t->candidates, path(text, sizeof text, place->name, "waiting"),
                                                            &none));
    const char *log = path(text, sizeof text, place->name, "undo");
    return is_new ? tr_undo_create(&t->undo, log, t->stride) : tr_undo_attach(&t->undo, log, t->stride, tr_slots_used(t->slots));
}

static tr_status open_table(tr_table **out, const tr_table_config *config, const tr_table_segment *place, bool is_new)
{
    TR_TRY(tr_table_check_config(config));
    tr_table *t = calloc(1, sizeof *t);
    if (!t)
        return tr_fail(TR_ENOMEM, "table: no memory");
    t->config = *config;
    t->value_bytes = (uint64_t)tr_table_row_bytes(config);
    t->values_padded = padded(t->value_bytes, 4);
    t->first_shard = place->first_shard;
    t->shard_count = place->shard_count;
    t->logs_when_set = place->logs_when_set;
    const tr_status status = open_parts(t, place, is_new);
    if (status != TR_OK) {
        tr_table_free(t);
        return status;
    }
    *out = t;
    return TR_OK;
}

/* The settings that two tables must share so that their rows mean the same. */
static uint64_t digest(const tr_table_config *c)
{
    double   parts[10 + TR_TABLE_STATES] = {(double)c->dtype, (double)c->width, c->states, (double)c->init, c->a, c->b, c->entry_count,
                                            c->entry_probability};
    uint64_t hash;

    for (int i = 0; i < c->states; i++)
        parts[10 + i] = c->state_value[i];
    memcpy(&parts[8], &c->random_key, sizeof c->random_key);
    hash = tr_hash_bytes(parts, sizeof parts);
    return hash ? hash : 1;
}

tr_status tr_table_create(tr_table **out, const tr_table_config *config, const tr_table_segment *place)
{
    tr_table *t = NULL;

    TR_TRY(open_table(&t, config, place, true));
    tr__table_notes_of(t)->is_spilled = t->spill != NULL;
    tr__table_notes_of(t)->digest = digest(config);
    *out = t;
    return TR_OK;
}

/* Let the table count keys without rows, or count none. */
static tr_status configure_candidates(tr_table *t, const tr_table_config *config, const tr_table_segment *place)
{
    const tr_slots_config none = {0, place->first_shard, place->shard_count, 0};
    char                  text[TR_SEGMENT_NAME];
    const char           *name = path(text, sizeof text, place->name, "waiting");

    if (config->entry_count > 1)
        return t->candidates ? TR_OK : tr_slots_create(&t->candidates, name, &none);
    if (t->candidates && name)
        tr_slots_remove(name);
    tr_slots_free(t->candidates);
    t->candidates = NULL;
    return TR_OK;
}

/* Let a table have rows on disk: those beyond its memory will go there with its next call. */
static tr_status configure_spill(tr_table *t, const tr_table_segment *place)
{
    if (t->spill && !place->spill)
        return tr_fail(TR_EUNSUPPORTED, "it has rows on disk, and the program wants none there: give it memory and spill as before");
    if (t->spill || !place->spill)
        return TR_OK;
    TR_TRY(tr__spill_new(&t->spill, t, place, true));
    tr__table_notes_of(t)->is_spilled = 1;
    return TR_OK;
}

tr_status tr_table_configure(tr_table *table, const tr_table_config *config, const tr_table_segment *place)
{
    const tr_table_config *now = &table->config;

    TR_TRY(tr_table_check_config(config));
    if (config->dtype != now->dtype || config->width != now->width || config->states != now->states)
        return tr_fail(TR_ESHAPE, "it has rows of %lld %s with %d states, the program wants %lld %s with %d", (long long)now->width,
                       tr_dtype_name(now->dtype), now->states, (long long)config->width, tr_dtype_name(config->dtype), config->states);
    TR_TRY(configure_spill(table, place));
    TR_TRY(configure_candidates(table, config, place));
    tr_changes_forget(&table->changes);
    table->config = *config;
    tr__table_notes_of(table)->digest = digest(config);
    return tr__spill_configure(table);
}

tr_status tr_table_attach(tr_table **out, const tr_table_config *config, const tr_table_segment *place, uint64_t step)
{
    tr_table *t = NULL;

    TR_TRY(open_table(&t, config, place, false));
    if (tr__table_notes_of(t)->digest != digest(config)) {
        tr_table_free(t);
        return tr_fail(TR_EFORMAT, "table in segment '%s.rows' has rows of another type, width, optimizer or first value", place->name);
    }
    if (tr__table_notes_of(t)->is_spilled && !t->spill) {
        tr_table_free(t);
        return tr_fail(TR_EFORMAT, "table in segment '%s.rows' has rows on disk, and none are wanted there", place->name);
    }
    tr_table_go_back(t, step);
    tr__spill_pin_logged(t);
    *out = t;
    return TR_OK;
}

void tr_table_go_back(tr_table *table, uint64_t step)
{
    const uint64_t last = tr_undo_step(table->undo), ahead = tr__table_notes_of(table)->ahead;

    if (last > step) {
        tr__spill_unpin_logged(table);
        tr_undo_roll_back(table->undo, table->rows);
        table->undone = last + ahead;
    }
    table->step = step + ahead;
}

tr_status tr_table_begin(tr_table *table, uint64_t step)
{
    table->step = step + tr__table_notes_of(table)->ahead;
    table->undone = 0;
    tr__spill_unpin_logged(table);
    return tr_undo_begin(table->undo, step);
}

void tr_table_make_final(tr_table *table)
{
    tr__spill_unpin_logged(table);
    tr_undo_begin(table->undo, tr_undo_step(table->undo));
}

uint64_t tr_table_clock(const tr_table *table)
{
    return table->step;
}

void tr_table_free(tr_table *table)
{
    if (!table)
        return;
    tr_table_snapshot_end(table);
    tr_slots_free(table->slots);
    tr_slots_free(table->candidates);
    tr_undo_free(table->undo);
    tr__spill_free(table->spill);
    tr_changes_deinit(&table->changes);
    free(table->removed);
    free(table->list);
    free(table);
}

void tr_table_remove(const char *name)
{
    char text[TR_SEGMENT_NAME];

    tr_cold_remove(name);
    tr_slots_remove(name);
    tr_slots_remove(path(text, sizeof text, name, "waiting"));
    tr_segment_remove(path(text, sizeof text, name, "undo"));
}

const tr_table_config *tr_table_get_config(const tr_table *table)
{
    return &table->config;
}

void tr_table_range(const tr_table *table, uint32_t *first_shard, uint32_t *shard_count)
{
    *first_shard = table->first_shard;
    *shard_count = table->shard_count;
}

/* == description ====================================================================================== */

void tr_table_get_report(const tr_table *table, tr_table_report *report)
{
    *report = (tr_table_report){
        .rows = tr_slots_count(table->slots),
        .candidates = table->candidates ? tr_slots_count(table->candidates) : 0,
        .row_bytes = table->stride,
        .index_bytes = tr_slots_index_bytes(table->slots) + (table->candidates ? tr_slots_index_bytes(table->candidates) : 0),
        .undo_bytes = tr_undo_bytes(table->undo),
        .bytes = tr_slots_bytes(table->slots) + tr_undo_bytes(table->undo) +
                 (table->candidates ? tr_slots_bytes(table->candidates) : 0),
    };
    tr__spill_report(report, table);
}

const tr_slots *tr_table_slots(const tr_table *table)
{
    return table->slots;
}
