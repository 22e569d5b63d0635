/* table_report.c - one pass over the headers of the rows; a heap holds the hottest rows so far. */
#include "storage/table/table_report.h"

#include "framework/base/memory.h"
#include "storage/memory/segment.h"

#include <stdlib.h>

/* == hot keys ==================================================================================== */

static int by_heat(const void *a, const void *b)
{
    const tr_table_hot_key *x = a, *y = b;

    if (x->updates != y->updates)
        return x->updates > y->updates ? -1 : 1;
    return (x->key > y->key) - (x->key < y->key);
}

/* The heap has its entry with the fewest updates at the top. The entry `at` may have more than those below it: move it down. */
static void sink(tr_table_hot_key *heap, int64_t count, int64_t at)
{
    for (;;) {
        int64_t cool = at;
        for (int64_t child = 2 * at + 1; child <= 2 * at + 2 && child < count; child++)
            if (by_heat(&heap[child], &heap[cool]) > 0)
                cool = child;
        if (cool == at)
            return;
        const tr_table_hot_key warm = heap[at];
        heap[at] = heap[cool];
        heap[cool] = warm;
        at = cool;
    }
}

int64_t tr_table_hot_keys(tr_table_hot_key *out, const tr_table *table, int64_t most)
{
    const tr_slots *slots = tr_table_slots(table);
    const uint32_t  used = tr_slots_used(slots);
    int64_t         count = 0;

    for (uint32_t slot = 0; most > 0 && slot < used; slot++) {
        const tr_slot_row *row = tr_slots_row(tr_slots_rows(slots), tr_slots_stride(slots), slot);
        const tr_table_hot_key it = {row->key, row->mark & ~TR_SLOT_LIVES};
        if (!(row->mark & TR_SLOT_LIVES))
            continue;
        if (count < most) {
            out[count++] = it;
            for (int64_t at = count / 2; count == most && at-- > 0;)
                sink(out, count, at);
        } else if (by_heat(&it, &out[0]) < 0) {
            out[0] = it;
            sink(out, count, 0);
        }
    }
    if (count)
        qsort(out, (size_t)count, sizeof *out, by_heat);
    return count;
}

/* == the report ================================================================================== */

void tr_table_describe(tr_table_part *out, const tr_table *table)
{
    const tr_table_config *config = tr_table_get_config(table);
    tr_table_report        report;

    tr_table_get_report(table, &report);
    const uint64_t values = (uint64_t)tr_table_row_bytes(config);
    const uint64_t states = (uint64_t)config->states * (uint64_t)config->width * sizeof(float);
    *out = (tr_table_part){
        .rows = (int64_t)report.rows,
        .waiting = (int64_t)report.candidates,
        .row_bytes = (int64_t)report.row_bytes,
        .value_bytes = (int64_t)(report.rows * values),
        .state_bytes = (int64_t)(report.rows * states),
        .header_bytes = (int64_t)(report.rows * (report.row_bytes - values - states)),
        .index_bytes = (int64_t)report.index_bytes,
        .journal_bytes = (int64_t)report.undo_bytes,
        .bytes = (int64_t)report.bytes,
        .updates = (int64_t)tr_table_clock(table),
    };
    out->hot_count = tr_table_hot_keys(out->hot, table, TR_TABLE_HOT_KEYS);
}

void tr_table_describe_disk(tr_table_disk *out, const tr_table *table)
{
    tr_table_report report;

    tr_table_get_report(table, &report);
    *out = (tr_table_disk){
        .rows = (int64_t)report.cold.rows,
        .file_bytes = (int64_t)report.cold.file_bytes,
        .looked_up = (int64_t)report.looked_up,
        .found_in_memory = (int64_t)report.found_hot,
        .reads = (int64_t)report.cold.reads,
        .read_bytes = (int64_t)report.cold.read_bytes,
        .reads_ahead = (int64_t)report.cold.ahead,
        .written_bytes = (int64_t)report.cold.written_bytes,
        .wait_microseconds = (int64_t)(report.cold.waited / 1000),
    };
}

tr_status tr_table_part_pack(const tr_table *table, void **out, uint64_t *bytes)
{
    tr_table_part *part = tr__must_bytes(sizeof *part);

    tr_table_describe(part, table);
    *out = part;
    *bytes = sizeof *part;
    return TR_OK;
}

tr_status tr_table_disk_pack(const tr_table *table, void **out, uint64_t *bytes)
{
    tr_table_disk *disk = tr__must_bytes(sizeof *disk);

    tr_table_describe_disk(disk, table);
    *out = disk;
    *bytes = sizeof *disk;
    return TR_OK;
}

int64_t tr_table_page_bytes(void)
{
    return (int64_t)tr_segment_page_bytes();
}
