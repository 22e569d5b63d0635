/* table_check.c - see table_check.h. */
#include "tests/support/table_check.h"

#include <stdlib.h>

#include "storage/slots/slots_state.h"
#include "storage/table/table_state.h"

tr_status tr_slots_check(const tr_slots *slots)
{
    const tr__slots_head *h = slots->head;
    uint64_t    live = 0, entries = 0, listed = 0;

    for (uint64_t i = 0; i < h->used; i++) {
        const tr_slot_row *row = tr_slots_row(slots->row, slots->stride, (uint32_t)i);
        if (!(row->mark & TR_SLOT_LIVES))
            continue;
        uint32_t found;
        live++;
        tr_slots_find(slots, &found, &row->key, 1);
        if (found != i)
            return tr_fail(TR_EINTERNAL, "the index does not find slot %llu", (unsigned long long)i);
    }
    for (uint64_t i = 0; i < tr__slots_places(h); i++)
        entries += slots->entry[i] != 0;
    for (uint64_t next = h->free & UINT32_MAX; next && next <= h->used && listed <= h->used; listed++)
        next = (uint64_t)tr_slots_row(slots->row, slots->stride, (uint32_t)next - 1)->key;
    if (entries != live || listed != tr__slots_free_count(h) || live + listed != h->used)
        return tr_fail(TR_EINTERNAL, "%llu rows live, %llu entries, %llu free ones listed, %llu counted, %llu slots used",
                       (unsigned long long)live, (unsigned long long)entries, (unsigned long long)listed,
                       (unsigned long long)tr__slots_free_count(h), (unsigned long long)h->used);
    return TR_OK;
}

tr_status tr_table_check(const tr_table *table)
{
    TR_TRY(tr_slots_check(table->slots));
    return table->candidates ? tr_slots_check(table->candidates) : TR_OK;
}

tr_status tr_table_each(const tr_table *table, uint32_t shard, tr_status (*each)(void *payload, const tr_table_row *row),
                        void *payload)
{
    uint32_t *list = NULL;
    uint64_t  capacity = 0, count = 0;
    tr_status status = tr_slots_of_shard(&list, &capacity, &count, table->slots, shard);

    for (uint64_t i = 0; i < count && status == TR_OK; i++) {
        tr_slot_row       *row = tr__table_row(table, list[i]);
        const tr_table_row out = {row->key, row->mark & TR__TOUCHES, row->last, tr__row_values(row), tr__row_states(table, row)};
        status = each(payload, &out);
    }
    free(list);
    return status;
}
