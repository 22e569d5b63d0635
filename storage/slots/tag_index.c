/* tag_index.c - see tag_index.h. The head of slots counts entries as used slots, of which none is free; there are no rows. */
#include "storage/slots/tag_index.h"

#include "storage/slots/slots_state.h"

#include <stdlib.h>

struct tr_tag_index {
    tr_slots *slots;
};

tr_status tr_tag_index_create(tr_tag_index **out, uint32_t first_shard, uint32_t shard_count)
{
    const tr_slots_config config = {0, first_shard, shard_count, 0};
    tr_tag_index        *index = calloc(1, sizeof *index);

    if (!index)
        return tr_fail(TR_ENOMEM, "table: no memory");
    const tr_status status = tr_slots_create(&index->slots, NULL, &config);
    if (status == TR_OK)
        *out = index;
    else
        free(index);
    return status;
}

void tr_tag_index_free(tr_tag_index *index)
{
    if (!index)
        return;
    tr_slots_free(index->slots);
    free(index);
}

uint64_t tr_tag_index_count(const tr_tag_index *index)
{
    return index->slots->head->used;
}

uint64_t tr_tag_index_bytes(const tr_tag_index *index)
{
    return tr_slots_index_bytes(index->slots);
}

static tr_status append(tr_tag_candidate **list, uint64_t *capacity, uint64_t *count, int64_t key, uint32_t record)
{
    if (*count == *capacity) {
        tr_tag_candidate *grown = realloc(*list, (2 * *capacity + 256) * sizeof *grown);
        if (!grown)
            return tr_fail(TR_ENOMEM, "table: no memory for %llu keys of a look-up", (unsigned long long)*count);
        *list = grown;
        *capacity = 2 * *capacity + 256;
    }
    (*list)[(*count)++] = (tr_tag_candidate){key, record};
    return TR_OK;
}

TR_INLINE const uint64_t *home_of(const tr_slots *s, int64_t key)
{
    return &s->entry[tr__slots_home(s->head, tr__slots_tag(s, key))];
}

tr_status tr_tag_index_find(tr_tag_candidate **list, uint64_t *capacity, uint64_t *count, const tr_tag_index *index, const int64_t *keys,
                             const uint32_t *slots, int64_t n)
{
    enum { AHEAD = 16 };
    const tr_slots *s = index->slots;

    if (!s->head->used)
        return TR_OK;
    for (int64_t i = 0; i < n; i++) {
        if (i + AHEAD < n && (!slots || slots[i + AHEAD] == TR_SLOT_NONE))
            __builtin_prefetch(home_of(s, keys[i + AHEAD]));
        if (slots && slots[i] != TR_SLOT_NONE)
            continue;
        const uint32_t tag = tr__slots_tag(s, keys[i]);
        for (const uint64_t *at = home_of(s, keys[i]); *at; at++)
            if (tr__slots_entry_tag(*at) == tag)
                TR_TRY(append(list, capacity, count, keys[i], tr__slots_entry_slot(*at)));
    }
    return TR_OK;
}

/* The place of an entry; NULL: it is not there. */
static uint64_t *place_of(const tr_slots *s, int64_t key, uint32_t record)
{
    const uint64_t wanted = tr__slots_entry(tr__slots_tag(s, key), record);
    uint64_t       at = tr__slots_home(s->head, tr__slots_tag(s, key));

    while (s->entry[at] && s->entry[at] != wanted)
        at++;
    return s->entry[at] ? &s->entry[at] : NULL;
}

bool tr_tag_index_has(const tr_tag_index *index, int64_t key, uint32_t record)
{
    return place_of(index->slots, key, record) != NULL;
}

tr_status tr_tag_index_put(tr_tag_index *index, int64_t key, uint32_t record)
{
    TR_TRY(tr__slots_reserve_index(index->slots));
    tr__slots_put(index->slots, tr__slots_tag(index->slots, key), record);
    index->slots->head->used++;
    return TR_OK;
}

void tr_tag_index_take(tr_tag_index *index, int64_t key, uint32_t record)
{
    tr__slots_take(index->slots, tr__slots_tag(index->slots, key), record);
    index->slots->head->used--;
}

void tr_tag_index_move(tr_tag_index *index, int64_t key, uint32_t record, uint32_t to)
{
    uint64_t *place = place_of(index->slots, key, record);

    if (place)
        *place = tr__slots_entry(tr__slots_tag(index->slots, key), to);
}

tr_status tr_tag_index_of_shard(uint32_t **list, uint64_t *capacity, uint64_t *count, const tr_tag_index *index, uint32_t shard)
{
    return tr__slots_entries_of_shard(list, capacity, count, index->slots, shard, UINT32_MAX);
}
