/* slots_shards.c - the slots of one virtual shard. */
#include "storage/slots/slots_state.h"

#include <stdlib.h>

uint32_t tr_slots_shard(int64_t key)
{
    return (uint32_t)(tr_hash_u64((uint64_t)key) >> (64 - TR__SHARD_BITS));
}

static tr_status append(uint32_t **list, uint64_t *capacity, uint64_t *count, uint32_t slot, uint32_t shard)
{
    if (*count == *capacity) {
        uint32_t *grown = realloc(*list, (2 * *capacity + 1024) * sizeof *grown);
        if (!grown)
            return tr_fail(TR_ENOMEM, "table: no memory for the rows of shard %u", shard);
        *list = grown;
        *capacity = 2 * *capacity + 1024;
    }
    (*list)[(*count)++] = slot;
    return TR_OK;
}

/* Go through the regions of the shard. The last bits of a tag say whether it is of this shard. */
tr_status tr__slots_entries_of_shard(uint32_t **list, uint64_t *capacity, uint64_t *count, const tr_slots *slots, uint32_t shard,
                                     uint64_t used)
{
    const tr__slots_head *h = slots->head;
    const uint64_t        first = (uint64_t)shard << (64 - TR__SHARD_BITS), last = first + (((uint64_t)1 << (64 - TR__SHARD_BITS)) - 1);
    const uint32_t        inner = UINT32_MAX >> TR__REGION_BITS, mine = shard & slots->shard_mask;

    *count = 0;
    if (shard < h->first_shard || shard - h->first_shard >= h->shard_count)
        return TR_OK;
    const uint32_t low = tr__slots_spread(slots, first) & ~inner, high = tr__slots_spread(slots, last) | inner;
    const uint64_t end = tr__slots_home(h, high);
    for (uint64_t at = tr__slots_home(h, low); at <= end || slots->entry[at]; at++) {
        const uint64_t entry = slots->entry[at];
        const uint32_t tag = tr__slots_entry_tag(entry);
        if ((tag & slots->shard_mask) == mine && tag >= low && tag <= high && entry && tr__slots_entry_slot(entry) < used)
            TR_TRY(append(list, capacity, count, tr__slots_entry_slot(entry), shard));
    }
    return TR_OK;
}

tr_status tr_slots_of_shard(uint32_t **list, uint64_t *capacity, uint64_t *count, const tr_slots *slots, uint32_t shard)
{
    return tr__slots_entries_of_shard(list, capacity, count, slots, shard, slots->head->used);
}
