/* slots_index.c - changes the index, which is in the order of tags: adds and removes entries, and makes it larger in place. */
#include "storage/slots/slots_state.h"

#include "framework/base/memory.h"

#include <stdlib.h>
#include <string.h>

enum { MOVE = 24 };                   /* places that each insertion examines while the index grows */
/* A region is crowded when more than 15/16 of its places and 16 more are taken. In a large index chance does not get there. */
enum { CROWDED = 16, CROWDED_MORE = 16 };

/* Lay an entry into its place. The last place stays empty, because searches end there. A damaged index may have no place for the entry:
 * then the row is not found. */
static void lay(tr_slots *s, uint64_t entry)
{
    const uint64_t end = tr__slots_places(s->head) - 1, home = tr__slots_home(s->head, tr__slots_entry_tag(entry));
    uint64_t       at = home;

    while (s->entry[at])
        at++;
    if (at < end)
        s->entry[at] = entry;
    s->work += at - home + 1;
}

/* Add an entry to the index. Rows that arrive shard by shard fill one region after the other. Then the index must grow at once, because
 * each region will be as full as this one. */
void tr__slots_put(tr_slots *s, uint32_t tag, uint32_t slot)
{
    tr__slots_head *h = s->head;
    const uint64_t  places = h->capacity >> TR__REGION_BITS;

    lay(s, tr__slots_entry(tag, slot));
    s->is_crowded = ++h->region[tr__slots_region(tag)] > places - places / CROWDED + CROWDED_MORE;
}

tr_status tr__slots_reserve_journal(tr_slots *s, uint64_t places)
{
    TR_TRY(tr_segment_grow(s->rows, TR__SLOTS_HEAD + places * sizeof *s->lifted));
    tr__slots_find_segments(s);
    s->lifted = (uint64_t *)(void *)s->row;
    return TR_OK;
}

static tr_status reserve_lifted(tr_slots *s, uint64_t count)
{
    if (s->has_journal)
        return tr__slots_reserve_journal(s, count);
    if (count <= s->lifted_capacity)
        return TR_OK;
    uint64_t *grown = realloc(s->lifted, 2 * count * sizeof *grown);
    if (!grown)
        return tr_fail(TR_ENOMEM, "table: no memory to move %llu entries of its index", (unsigned long long)count);
    s->lifted = grown;
    s->lifted_capacity = 2 * count;
    return TR_OK;
}

/* Keep what lies in these places, and mark them. There is room for it. */
static void begin_move(tr_slots *s, uint64_t from, uint64_t count, uint64_t boundary)
{
    tr__slots_head *h = s->head;

    if (count)
        memcpy(s->lifted, s->entry + from, count * sizeof *s->entry);
    h->moving_from = from;
    h->moving_count = count;
    h->moving_boundary = boundary;
    tr__slots_in_order();
    h->is_moving = TR__SLOTS_LIFTS;
    tr__slots_in_order();
}

static void end_move(tr_slots *s)
{
    tr__slots_in_order();
    s->head->is_moving = 0;
}

/* From here on the lifted entries have homes by the new boundary. */
static void begin_to_lay(tr_slots *s)
{
    tr__slots_head *h = s->head;

    tr__slots_in_order();
    h->is_moving = TR__SLOTS_LAYS;
    tr__slots_in_order();
    h->boundary = h->moving_boundary;
}

static void end_to_lay(tr_slots *s)
{
    if (s->head->boundary == 0)
        s->head->capacity = s->head->next;
    end_move(s);
}

/* Move the highest hashes that still lie by the old capacity to their new places. The step takes all entries between two empty places,
 * lifts them out, and puts each at its new home. */
static tr_status move_some(tr_slots *s, uint64_t wanted)
{
    const tr__slots_head *h = s->head;
    const uint64_t        top = tr__slots_home_by(h->capacity, h->boundary), lines = h->capacity / TR__SLOTS_LINE;
    uint64_t              from = top > wanted ? top - wanted : 0, to = top;

    while (from && s->entry[from - 1])
        from--;
    while (s->entry[to])
        to++;
    TR_TRY(reserve_lifted(s, to - from));
    s->work += to - from;
    /* the first hash whose home is not below */
    const uint64_t boundary = (((from + TR__SLOTS_LINE - 1) / TR__SLOTS_LINE << 32) + lines - 1) / lines;
    begin_move(s, from, to - from, boundary);
    memset(s->entry + from, 0, (to - from) * sizeof *s->entry);
    begin_to_lay(s);
    for (uint64_t i = 0; i < to - from; i++)
        if (s->lifted[i])
            lay(s, s->lifted[i]);
    end_to_lay(s);
    return TR_OK;
}

static bool is_growing(const tr__slots_head *h)
{
    return h->next != h->capacity;
}

static bool is_full(const tr__slots_head *h, uint64_t entries)
{
    return entries * 5 > h->next * 4;
}

static tr_status begin_growth(tr_slots *s)
{
    tr__slots_head *h = s->head;
    const uint64_t  next = (h->capacity + h->capacity / 8) / TR__SLOTS_LINE * TR__SLOTS_LINE;

    TR_TRY(tr_segment_grow(s->index, (next + TR__SLOTS_SLACK) * sizeof(uint64_t)));
    tr__slots_find_segments(s);
    h->boundary = (uint64_t)1 << 32;
    tr__slots_in_order();
    h->next = next;
    return TR_OK;
}

static tr_status finish_growth(tr_slots *s)
{
    while (is_growing(s->head))
        TR_TRY(move_some(s, 4096));
    return TR_OK;
}

tr_status tr__slots_reserve_index(tr_slots *s)
{
    const uint64_t entries = s->head->used - tr__slots_free_count(s->head) + 1;      /* a journal that grows moves the head */

    if (s->entry[tr__slots_places(s->head) - 2])
        return tr_fail(TR_ENOMEM, "table: thousands of keys have nearly the same hash");
    /* otherwise the count of a region is damaged */
    s->is_crowded &= s->head->next >> (TR__REGION_BITS + 1) <= entries + TR__SLOTS_FIRST_CAPACITY;
    if (s->is_crowded && !is_growing(s->head))
        TR_TRY(begin_growth(s));
    if (s->is_crowded || (is_growing(s->head) && is_full(s->head, entries)))
        TR_TRY(finish_growth(s));
    s->is_crowded = false;
    if (!is_growing(s->head) && is_full(s->head, entries))
        TR_TRY(begin_growth(s));
    return is_growing(s->head) ? move_some(s, MOVE) : TR_OK;
}

/* Entries from this place on move down, as far as there is no empty place. Rows could tell them again; otherwise the journal does. */
static void begin_to_take(tr_slots *s, uint64_t at)
{
    uint64_t end = at;

    while (s->has_journal && s->entry[end])
        end++;
    if (s->has_journal && reserve_lifted(s, end - at) != TR_OK)
        tr__out_of_memory((end - at) * sizeof *s->entry);
    begin_move(s, at, end - at, s->head->boundary);
}

void tr__slots_take(tr_slots *s, uint32_t tag, uint32_t slot)
{
    const uint64_t entry = tr__slots_entry(tag, slot);
    uint64_t       at = tr__slots_home(s->head, tag);

    while (s->entry[at] && s->entry[at] != entry)
        at++;
    if (!s->entry[at])
        return;
    begin_to_take(s, at);
    tr__slots_head *h = s->head;
    for (uint64_t next = at + 1; s->entry[next]; next++, s->work++)
        if (tr__slots_home(h, tr__slots_entry_tag(s->entry[next])) <= at) {
            s->entry[at] = s->entry[next];
            at = next;
        }
    s->entry[at] = 0;
    h->region[tr__slots_region(tag)] -= h->region[tr__slots_region(tag)] > 0;
    end_move(s);
}

/* == after a kill ================================================================================= */

tr_status tr__slots_make_index(tr_slots *s)
{
    tr__slots_head *h = s->head;
    uint64_t        live = 0;

    h->capacity = h->next > h->capacity ? h->next : h->capacity;
    h->next = h->capacity;
    h->boundary = 0;
    memset(s->entry, 0, tr__slots_places(h) * sizeof *s->entry);
    memset(h->region, 0, sizeof h->region);
    for (uint64_t i = 0; i < h->used; i++) {
        const tr_slot_row *row = tr_slots_row(s->row, s->stride, (uint32_t)i);
        if (!(row->mark & TR_SLOT_LIVES))
            continue;
        if (++live > h->used - tr__slots_free_count(h))
            return tr_fail(TR_EFORMAT, "table in segment '%s': more than the %llu rows that it has live", tr_segment_name(s->rows),
                           (unsigned long long)(h->used - tr__slots_free_count(h)));
        tr__slots_put(s, tr__slots_tag(s, row->key), (uint32_t)i);
    }
    tr__slots_in_order();
    h->is_moving = 0;
    return TR_OK;
}

/* The last place must be empty, and homes lie before the places that follow the last line. */
static bool has_shape(const tr_slots *s)
{
    const tr__slots_head *h = s->head;

    return h->capacity >= TR__SLOTS_FIRST_CAPACITY && h->next >= h->capacity && h->next <= h->capacity + h->capacity / 8 &&
           h->capacity % TR__SLOTS_LINE == 0 && h->next % TR__SLOTS_LINE == 0 && h->boundary <= (uint64_t)1 << 32 &&
           !s->entry[tr__slots_places(h) - 1];
}

static bool has_entry(const tr_slots *s, uint64_t entry)
{
    uint64_t at = tr__slots_home(s->head, tr__slots_entry_tag(entry));

    while (s->entry[at] && s->entry[at] != entry)
        at++;
    return s->entry[at];
}

tr_status tr__slots_replay(tr_slots *s)
{
    const tr__slots_head *h = s->head;
    const uint64_t        room = (tr_segment_bytes(s->rows) - TR__SLOTS_HEAD) / sizeof *s->lifted, end = tr__slots_places(h) - 1;

    if (!has_shape(s))
        return tr_fail(TR_EFORMAT, "table in segment '%s': its index is damaged", tr_segment_name(s->rows));
    if (!h->is_moving)
        return TR_OK;
    if (h->is_moving > TR__SLOTS_LAYS || h->moving_count > room || h->moving_count > end || h->moving_from > end - h->moving_count ||
        h->moving_boundary > (uint64_t)1 << 32)
        return tr_fail(TR_EFORMAT, "table in segment '%s': the journal of its index is damaged", tr_segment_name(s->rows));
    s->lifted = (uint64_t *)(void *)s->row;
    if (h->is_moving == TR__SLOTS_LIFTS) {
        memcpy(s->entry + h->moving_from, s->lifted, h->moving_count * sizeof *s->entry);
        end_move(s);
        return TR_OK;
    }
    begin_to_lay(s);
    for (uint64_t i = 0; i < h->moving_count; i++)
        if (s->lifted[i] && !has_entry(s, s->lifted[i]))
            lay(s, s->lifted[i]);
    end_to_lay(s);
    return TR_OK;
}

bool tr__slots_is_index(const tr_slots *s)
{
    const tr__slots_head *h = s->head;

    return has_shape(s) && !is_full(h, h->used - tr__slots_free_count(h) - (h->used > tr__slots_free_count(h)));
}
