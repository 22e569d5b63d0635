/* slots_shards.c - the slots of one virtual shard. */
#include "storage/table/slots_state.h"

#include <stdlib.h>

uint32_t tr_slots_shard(int64_t key)
{
    return (uint32_t)(tr_hash_u64((uint64_t)key) >> (64 - TR__SHARD_BITS));
}

/* Entries at the borders, with tags `low` and `high`, may belong to two shards: there the key decides. */
static bool is_of_shard(const tr_slots *s, uint64_t entry, uint32_t low, uint32_t high, uint32_t shard)
{
    const uint32_t tag = tr__slots_entry_tag(entry);

    if (tr__slots_entry_slot(entry) >= s->head->used)
        return false;
    if (tag > low && tag < high)
        return true;
    return tag >= low && tag <= high && tr_slots_shard(tr_slots_row(s->row, s->stride, tr__slots_entry_slot(entry))->key) == shard;
}

tr_status tr_slots_of_shard(uint32_t **list, uint64_t *capacity, uint64_t *count, const tr_slots *slots, uint32_t shard)
{
    const tr__slots_head    *h = slots->head;
    const uint64_t first = (uint64_t)shard << (64 - TR__SHARD_BITS);
    const uint64_t last = first + (((uint64_t)1 << (64 - TR__SHARD_BITS)) - 1);

    *count = 0;
    if (shard < h->first_shard || shard - h->first_shard >= h->shard_count)
        return TR_OK;
    const uint32_t low = tr__slots_tag_of_hash(slots, first), high = tr__slots_tag_of_hash(slots, last);
    const uint64_t end = tr__slots_home(h, high);
    for (uint64_t at = tr__slots_home(h, low); at <= end || slots->entry[at]; at++) {
        const uint64_t entry = slots->entry[at];
        if (!entry || !is_of_shard(slots, entry, low, high, shard))
            continue;
        if (*count == *capacity) {
            uint32_t *grown = realloc(*list, (2 * *capacity + 1024) * sizeof *grown);
            if (!grown)
                return tr_fail(TR_ENOMEM, "table: no memory for the rows of shard %u", shard);
            *list = grown;
            *capacity = 2 * *capacity + 1024;
        }
        (*list)[(*count)++] = tr__slots_entry_slot(entry);
    }
    return TR_OK;
}
