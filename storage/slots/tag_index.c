/* tag_index.c - see tag_index.h. The head of slots counts entries as used slots, of which none is free; there are no rows. */
#include "storage/slots/tag_index.h"

#include "storage/slots/slots_state.h"

#include <stdlib.h>
#include <string.h>

struct tr_tag_index {
    tr_slots *slots;
};

enum { FIRST_JOURNAL = 4096 };         /* places: to move entries seldom needs more */

/* A kill between an entry and its count leaves the counts wrong. */
static tr_status count_entries(tr_slots *s)
{
    tr__slots_head *h = s->head;

    h->used = h->free = 0;
    memset(h->region, 0, sizeof h->region);
    for (uint64_t i = 0, places = tr__slots_places(h); i < places; i++)
        if (s->entry[i]) {
            h->used++;
            h->region[tr__slots_region(tr__slots_entry_tag(s->entry[i]))]++;
        }
    if (tr__slots_is_index(s))
        return TR_OK;
    return tr_fail(TR_EFORMAT, "table in segment '%s': its index has %llu entries in %llu places", tr_segment_name(s->rows),
                   (unsigned long long)h->used, (unsigned long long)h->next);
}

static tr_status open_slots(tr_slots **out, const char *name, uint32_t first_shard, uint32_t shard_count, bool is_new)
{
    const tr_slots_config config = {0, first_shard, shard_count, 0};

    TR_TRY((is_new ? tr_slots_create : tr__slots_attach_index)(out, name, &config));
    (*out)->has_journal = name != NULL;
    if (name)
        TR_TRY(tr__slots_reserve_journal(*out, FIRST_JOURNAL));
    return is_new ? TR_OK : count_entries(*out);
}

static tr_status open_index(tr_tag_index **out, const char *name, uint32_t first_shard, uint32_t shard_count, bool is_new)
{
    tr_tag_index *index = calloc(1, sizeof *index);

    if (!index)
        return tr_fail(TR_ENOMEM, "table: no memory");
    const tr_status status = open_slots(&index->slots, name, first_shard, shard_count, is_new);
    if (status == TR_OK)
        *out = index;
    else
        tr_tag_index_free(index);
    return status;
}

tr_status tr_tag_index_create(tr_tag_index **out, const char *name, uint32_t first_shard, uint32_t shard_count)
{
    return open_index(out, name, first_shard, shard_count, true);
}

tr_status tr_tag_index_attach(tr_tag_index **out, const char *name, uint32_t first_shard, uint32_t shard_count)
{
    return open_index(out, name, first_shard, shard_count, false);
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

void *tr_tag_index_notes(const tr_tag_index *index)
{
    return tr_slots_notes(index->slots);
}

void tr_tag_index_clear(tr_tag_index *index)
{
    tr_slots *s = index->slots;

    memset(s->entry, 0, tr__slots_places(s->head) * sizeof *s->entry);
    memset(s->head->region, 0, sizeof s->head->region);
    s->head->used = 0;
}

bool tr_tag_index_each(const tr_tag_index *index, bool (*each)(void *payload, uint32_t record), void *payload)
{
    const tr_slots *s = index->slots;
    bool            goes_on = true;

    for (uint64_t i = 0, places = tr__slots_places(s->head); goes_on && i < places; i++)
        if (s->entry[i])
            goes_on = each(payload, tr__slots_entry_slot(s->entry[i]));
    return goes_on;
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
