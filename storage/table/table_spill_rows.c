/* table_spill_rows.c - all rows of a table that lie on disk: their number, and packing a shard of them, also of a snapshot. */
#include "storage/table/table_state.h"
#include "storage/util/buffer.h"

#include <stdlib.h>
#include <string.h>

void tr__spill_clear(tr_table *table)
{
    if (table->spill)
        tr_cold_clear(table->spill->cold);
}

uint64_t tr__spill_rows(const tr_table *table)
{
    return table->spill ? tr_cold_count(table->spill->cold) : 0;
}

void tr__spill_report(tr_table_report *report, const tr_table *table)
{
    const tr__spill *s = table->spill;

    if (!s)
        return;
    tr_cold_get_report(s->cold, &report->cold);
    report->rows += report->cold.rows;
    report->index_bytes += report->cold.index_bytes;
    report->bytes += report->cold.index_bytes + s->capacity * (sizeof *s->used + sizeof *s->record);
    report->looked_up = s->looked_up;
    report->found_hot = s->found_hot;
}

typedef struct packing {
    uint8_t *rows;
    uint64_t bytes, capacity, stride;
    uint32_t since;
} packing;

static tr_status pack_row(void *payload, uint32_t record, const tr_slot_row *row)
{
    packing *p = payload;

    (void)record;
    if (p->since && row->last <= p->since)
        return TR_OK;
    TR_TRY(tr_buffer_reserve(&p->rows, &p->capacity, p->bytes + p->stride, 1));
    memcpy(p->rows + p->bytes, row, p->stride);
    ((tr_slot_row *)(void *)(p->rows + p->bytes))->mark &= TR__TOUCHES;
    p->bytes += p->stride;
    return TR_OK;
}

static tr_status end_packing(const packing *p, tr_status status, void **rows, uint64_t *bytes)
{
    *rows = p->rows;
    *bytes = p->bytes;
    if (status == TR_OK)
        return TR_OK;
    free(*rows);
    *rows = NULL;
    *bytes = 0;
    return status;
}

tr_status tr__spill_pack(const tr_table *table, uint32_t shard, uint32_t since, void **rows, uint64_t *bytes)
{
    packing p = {*rows, *bytes, *bytes, table->stride, since};

    if (!table->spill)
        return TR_OK;
    return end_packing(&p, tr_cold_each_of_shard(table->spill->cold, shard, since, pack_row, &p), rows, bytes);
}

/* The hot rows come first and quickly: their old contents take memory when they change before they are read. */
static tr_status sort(const tr_table *t, uint32_t since)
{
    for (uint32_t i = 0; i < t->shard_count; i++) {
        void    *rows = NULL;
        uint64_t bytes = 0;
        TR_TRY(tr_slots_snapshot_read(t->snapshot, t->first_shard + i, &rows, &bytes));
        const tr_status status = tr_cold_snapshot_put(t->spill->cold, t->first_shard + i, rows, bytes);
        free(rows);
        TR_TRY(status);
    }
    return tr_cold_snapshot_sort(t->spill->cold, since);
}

tr_status tr__spill_snapshot_read(const tr_table *table, uint32_t shard, uint32_t since, void **rows, uint64_t *bytes)
{
    packing p = {.stride = table->stride, .since = since};

    if (tr_cold_snapshot_is_fresh(table->spill->cold))
        TR_TRY(sort(table, since));
    TR_TRY(tr_buffer_reserve(&p.rows, &p.capacity, 1, 1));
    return end_packing(&p, tr_cold_snapshot_each(table->spill->cold, shard, pack_row, &p), rows, bytes);
}

tr_status tr__spill_snapshot(const tr_table *table)
{
    return table->spill ? tr_cold_snapshot_begin(table->spill->cold) : TR_OK;
}

void tr__spill_snapshot_end(const tr_table *table)
{
    if (table->spill)
        tr_cold_snapshot_end(table->spill->cold);
}
