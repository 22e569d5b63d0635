/* slots.c - changes rows and the index, which is in the order of tags; slots_find.c looks it up. */
#include "storage/table/slots_state.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 3 };
enum { FIRST_CAPACITY = 1024, MOVE = 24 };     /* places that each insertion examines while the index grows */
/* A region is crowded when more than 15/16 of its places and 16 more are taken. In a large index chance does not get there. */
enum { CROWDED = 16, CROWDED_MORE = 16 };
static const uint64_t MAX_BYTES = (uint64_t)1 << 40, MAX_SLOTS = UINT32_MAX - 1;

/* A fence: a process that attaches after a kill sees the stores above it before the stores below it. */
static void in_order(void)
{
    atomic_signal_fence(memory_order_seq_cst);
}

/* == hashes ===================================================================================== */

static uint64_t make_entry(uint32_t tag, uint32_t slot)
{
    return (uint64_t)tag << 32 | (slot + 1);
}

/* == life ======================================================================================= */

/* A region has parts of so many shards at most; the low bits of their numbers tell them apart. */
static uint32_t shard_mask(uint32_t count)
{
    const uint32_t regions = 1 << TR__REGION_BITS, borders = count & (count - 1) ? 1 : 0, most = (count + regions - 1) / regions + borders;
    uint32_t       mask = 0;

    while (mask + 1 < most)
        mask = 2 * mask + 1;
    return mask;
}

static void use(tr_slots *s, const tr_slots_config *config)
{
    s->head = tr_segment_base(s->rows);
    s->row = (char *)s->head + TR__SLOTS_HEAD;
    s->entry = tr_segment_base(s->index);
    s->stride = sizeof(tr_slot_row) + config->payload;
    s->first_hash = (uint64_t)config->first_shard << (64 - TR__SHARD_BITS);
    s->factor = ((uint64_t)1 << (32 + TR__SHARD_BITS)) / config->shard_count;
    s->shard_mask = shard_mask(config->shard_count);
}

typedef tr_status (*open_fn)(tr_segment **out, const char *name, const char *content, uint32_t version, uint64_t limit);

static tr_status open_both(tr_slots *s, open_fn open, const char *name, const tr_slots_config *config)
{
    const uint64_t stride = sizeof(tr_slot_row) + config->payload;
    const uint64_t limit = config->max_bytes ? config->max_bytes : MAX_BYTES;
    const uint64_t rows = limit / stride < MAX_SLOTS ? limit / stride : MAX_SLOTS;
    char           path[2][TR_SEGMENT_NAME + 8];

    for (int i = 0; i < 2; i++)
        snprintf(path[i], sizeof path[i], "%s.%s", name ? name : "", i ? "index" : "rows");
    TR_TRY(open(&s->rows, name ? path[0] : NULL, "rows", VERSION, TR__SLOTS_HEAD + rows * stride));
    return open(&s->index, name ? path[1] : NULL, "index", VERSION, (rows * 2 + FIRST_CAPACITY + TR__SLOTS_SLACK) * sizeof(uint64_t));
}

static tr_status begin(tr_slots *s, const tr_slots_config *config)
{
    TR_TRY(tr_segment_grow(s->rows, TR__SLOTS_HEAD));
    TR_TRY(tr_segment_grow(s->index, (FIRST_CAPACITY + TR__SLOTS_SLACK) * sizeof(uint64_t)));
    tr__slots_head *h = s->head = tr_segment_base(s->rows);
    h->payload = config->payload;
    h->first_shard = config->first_shard;
    h->shard_count = config->shard_count;
    h->capacity = h->next = FIRST_CAPACITY;
    in_order();
    h->is_complete = 1;
    use(s, config);
    return TR_OK;
}

static tr_status check_config(const tr_slots_config *config)
{
    if (config->payload % 8)
        return tr_fail(TR_EINVAL, "slots: rows of %llu bytes; a multiple of 8 is possible", (unsigned long long)config->payload);
    if (!config->shard_count || config->first_shard >= TR_SHARDS || config->shard_count > TR_SHARDS - config->first_shard)
        return tr_fail(TR_ERANGE, "slots: %u shards from %u on, of %d", config->shard_count, config->first_shard, TR_SHARDS);
    return TR_OK;
}

/* Make both segments, then the slots in them. */
static tr_status make(tr_slots **out, const char *name, const tr_slots_config *config, open_fn open,
                      tr_status (*begin_or_go_on)(tr_slots *, const tr_slots_config *))
{
    TR_TRY(check_config(config));
    tr_slots *s = calloc(1, sizeof *s);
    if (!s)
        return tr_fail(TR_ENOMEM, "slots: no memory");
    tr_status status = open_both(s, open, name, config);
    if (status == TR_OK)
        status = begin_or_go_on(s, config);
    if (status != TR_OK) {
        tr_slots_free(s);
        return status;
    }
    *out = s;
    return TR_OK;
}

tr_status tr_slots_create(tr_slots **out, const char *name, const tr_slots_config *config)
{
    return make(out, name, config, tr_segment_create, begin);
}

void tr_slots_free(tr_slots *slots)
{
    if (!slots)
        return;
    tr_segment_free(slots->rows);
    tr_segment_free(slots->index);
    free(slots->lifted);
    free(slots);
}

void tr_slots_remove(const char *name)
{
    char path[TR_SEGMENT_NAME + 8];

    snprintf(path, sizeof path, "%s.rows", name);
    tr_segment_remove(path);
    snprintf(path, sizeof path, "%s.index", name);
    tr_segment_remove(path);
}

char *tr_slots_rows(const tr_slots *slots)
{
    return slots->row;
}

uint64_t tr_slots_stride(const tr_slots *slots)
{
    return slots->stride;
}

uint64_t tr_slots_count(const tr_slots *slots)
{
    return slots->head->used - tr__slots_free_count(slots->head);
}

uint32_t tr_slots_used(const tr_slots *slots)
{
    return (uint32_t)slots->head->used;
}

uint64_t tr_slots_bytes(const tr_slots *slots)
{
    return tr_segment_bytes(slots->rows) + tr_segment_bytes(slots->index);
}

uint64_t tr_slots_index_bytes(const tr_slots *slots)
{
    return tr_segment_bytes(slots->index);
}

void *tr_slots_notes(const tr_slots *slots)
{
    return slots->head->notes;
}

/* == the index: put, take, grow =================================================================== */

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
static void put(tr_slots *s, uint64_t entry)
{
    tr__slots_head *h = s->head;
    const uint64_t  places = h->capacity >> TR__REGION_BITS;

    lay(s, entry);
    s->is_crowded = ++h->region[tr__slots_region(tr__slots_entry_tag(entry))] > places - places / CROWDED + CROWDED_MORE;
}

static tr_status reserve_lifted(tr_slots *s, uint64_t count)
{
    if (count <= s->lifted_capacity)
        return TR_OK;
    uint64_t *grown = realloc(s->lifted, 2 * count * sizeof *grown);
    if (!grown)
        return tr_fail(TR_ENOMEM, "table: no memory to move %llu entries of its index", (unsigned long long)count);
    s->lifted = grown;
    s->lifted_capacity = 2 * count;
    return TR_OK;
}

/* Move the highest hashes that still lie by the old capacity to their new places. The step takes all entries between two empty places,
 * lifts them out, and puts each at its new home. */
static tr_status move_some(tr_slots *s, uint64_t wanted)
{
    tr__slots_head          *h = s->head;
    const uint64_t top = tr__slots_home_by(h->capacity, h->boundary), lines = h->capacity / TR__SLOTS_LINE;
    uint64_t       from = top > wanted ? top - wanted : 0, to = top, count = 0;

    while (from && s->entry[from - 1])
        from--;
    while (s->entry[to])
        to++;
    TR_TRY(reserve_lifted(s, to - from));
    s->work += to - from;
    h->is_moving = 1;
    in_order();
    for (uint64_t i = from; i < to; i++)
        if (s->entry[i]) {
            s->lifted[count++] = s->entry[i];
            s->entry[i] = 0;
        }
    h->boundary = (((from + TR__SLOTS_LINE - 1) / TR__SLOTS_LINE << 32) + lines - 1) / lines;      /* the first hash whose home is not below */
    for (uint64_t i = 0; i < count; i++)
        lay(s, s->lifted[i]);
    if (h->boundary == 0)
        h->capacity = h->next;
    in_order();
    h->is_moving = 0;
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
    h->boundary = (uint64_t)1 << 32;
    in_order();
    h->next = next;
    return TR_OK;
}

static tr_status finish_growth(tr_slots *s)
{
    while (is_growing(s->head))
        TR_TRY(move_some(s, 4096));
    return TR_OK;
}

/* Make room for one more entry. */
static tr_status reserve_index(tr_slots *s)
{
    tr__slots_head *h = s->head;
    const uint64_t  entries = h->used - tr__slots_free_count(h) + 1;

    if (s->entry[tr__slots_places(h) - 2])
        return tr_fail(TR_ENOMEM, "table: thousands of keys have nearly the same hash");
    s->is_crowded &= h->next >> (TR__REGION_BITS + 1) <= entries + FIRST_CAPACITY;       /* otherwise the count of a region is damaged */
    if (s->is_crowded && !is_growing(h))
        TR_TRY(begin_growth(s));
    if (s->is_crowded || (is_growing(h) && is_full(h, entries)))
        TR_TRY(finish_growth(s));
    s->is_crowded = false;
    if (!is_growing(h) && is_full(h, entries))
        TR_TRY(begin_growth(s));
    return is_growing(h) ? move_some(s, MOVE) : TR_OK;
}

static void take(tr_slots *s, uint32_t tag, uint32_t slot)
{
    tr__slots_head          *h = s->head;
    const uint64_t entry = make_entry(tag, slot);
    uint64_t       at = tr__slots_home(h, tag);

    while (s->entry[at] && s->entry[at] != entry)
        at++;
    if (!s->entry[at])
        return;
    h->is_moving = 1;
    in_order();
    for (uint64_t next = at + 1; s->entry[next]; next++, s->work++)
        if (tr__slots_home(h, tr__slots_entry_tag(s->entry[next])) <= at) {
            s->entry[at] = s->entry[next];
            at = next;
        }
    s->entry[at] = 0;
    h->region[tr__slots_region(tag)] -= h->region[tr__slots_region(tag)] > 0;
    in_order();
    h->is_moving = 0;
}

/* == rows ========================================================================================= */

static void push_free(tr_slots *s, uint32_t slot)
{
    tr__slots_head        *h = s->head;
    tr_slot_row *row = tr_slots_row(s->row, s->stride, slot);

    row->key = (int64_t)(h->free & UINT32_MAX);        /* next free slot + 1 */
    row->mark = 0;
    in_order();
    h->free = ((tr__slots_free_count(h) + 1) << 32) | (slot + 1);
}

static tr_status reserve_rows(tr_slots *s, uint64_t used)
{
    const uint64_t bytes = TR__SLOTS_HEAD + used * s->stride, have = tr_segment_bytes(s->rows);

    if (bytes <= have)
        return TR_OK;
    if (used > MAX_SLOTS)
        return tr_fail(TR_ENOMEM, "table: %llu rows; %llu are possible on one server", (unsigned long long)used,
                       (unsigned long long)MAX_SLOTS);
    /* Grow by a sixteenth: so calls are few and little memory lies idle. But grow by no more than one step may wait for, and near the
     * limit by less. */
    enum { LEAST = 64 << 10, MOST = 16 << 20 };
    const uint64_t more = have / 16 < LEAST ? LEAST : have / 16 > MOST ? MOST : have / 16;
    return tr_segment_grow(s->rows, bytes + more) == TR_OK ? TR_OK : tr_segment_grow(s->rows, bytes);
}

/* The list of free rows without its first one. A damaged list ends at the damage. */
static uint64_t next_free(const tr_slots *s, uint32_t slot)
{
    const tr_slot_row *row = tr_slots_row(s->row, s->stride, slot);
    const uint64_t     next = (uint32_t)row->key, count = tr__slots_free_count(s->head) - 1;

    return next > s->head->used || !next != !count ? 0 : count << 32 | next;
}

/* In a damaged list the first row may be in use, or be listed twice. */
static bool is_free(const tr_slots *s, uint32_t slot)
{
    return !(tr_slots_row(s->row, s->stride, slot)->mark & TR_SLOT_LIVES);
}

tr_status tr_slots_new_row(uint32_t *out, tr_slots *slots)
{
    tr__slots_head    *h = slots->head;
    uint32_t slot = (uint32_t)(h->free & UINT32_MAX);

    TR_TRY(reserve_index(slots));
    if (slot && is_free(slots, slot - 1)) {
        slot--;
        h->pending = (uint64_t)slot + 1;
        in_order();
        h->free = next_free(slots, slot);
    } else {
        h->free = 0;                                   /* it is 0 already, unless the list was damaged */
        slot = (uint32_t)h->used;
        TR_TRY(reserve_rows(slots, h->used + 1));
        tr_slots_row(slots->row, slots->stride, slot)->mark = 0;
        h->pending = (uint64_t)slot + 1;
        in_order();
        h->used++;
    }
    *out = slot;
    return TR_OK;
}

void tr_slots_publish(tr_slots *slots, uint32_t slot, int64_t key)
{
    tr_slot_row *row = tr_slots_row(slots->row, slots->stride, slot);

    row->key = key;
    in_order();
    row->mark |= TR_SLOT_LIVES;
    in_order();
    put(slots, make_entry(tr__slots_tag(slots, key), slot));
    in_order();
    slots->head->pending = 0;
}

void tr_slots_delete(tr_slots *slots, uint32_t slot)
{
    tr__slots_head        *h = slots->head;
    tr_slot_row *row = tr_slots_row(slots->row, slots->stride, slot);

    h->pending = (uint64_t)slot + 1;
    in_order();
    take(slots, tr__slots_tag(slots, row->key), slot);
    in_order();
    row->mark = 0;
    in_order();
    push_free(slots, slot);
    in_order();
    h->pending = 0;
}

/* == after a kill ================================================================================= */

static tr_status make_index_anew(tr_slots *s)
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
        put(s, make_entry(tr__slots_tag(s, row->key), (uint32_t)i));
    }
    in_order();
    h->is_moving = 0;
    return TR_OK;
}

/* Complete or undo the row that was being made or removed: a row in use gets its entry, any other becomes free. */
static void settle(tr_slots *s)
{
    tr__slots_head          *h = s->head;
    const uint64_t slot = h->pending - 1;

    if (!h->pending)
        return;
    if (slot < h->used) {
        const tr_slot_row *row = tr_slots_row(s->row, s->stride, (uint32_t)slot);
        const uint32_t     tag = tr__slots_tag(s, row->key);
        const bool         lives = row->mark & TR_SLOT_LIVES;
        if (lives && tr__slots_look_up(s, row->key, tag, tr__slots_home(h, tag)) == TR_SLOT_NONE)
            put(s, make_entry(tag, (uint32_t)slot));
        else if (!lives && (h->free & UINT32_MAX) != slot + 1)
            push_free(s, (uint32_t)slot);
    }
    in_order();
    h->pending = 0;
}

/* Check that everything the header describes lies inside the segments. Rows and entries are not checked: that would take as long as
 * reading the table. */
static bool has_all(const tr_slots *s)
{
    const tr__slots_head *h = s->head;
    const uint64_t        rows = (tr_segment_bytes(s->rows) - TR__SLOTS_HEAD) / (sizeof(tr_slot_row) + h->payload);
    const uint64_t        room = tr_segment_bytes(s->index) / sizeof(uint64_t);
    const bool            is_list = (h->free & UINT32_MAX) <= h->used && tr__slots_free_count(h) <= h->used && !(h->free & UINT32_MAX) == !tr__slots_free_count(h);

    return h->used <= rows && is_list && h->capacity <= room && h->next <= room && tr__slots_places(h) <= room;
}

/* Check the index: its last place must be empty, and its load within the bounds (one row may be under way). */
static bool is_index(const tr_slots *s)
{
    const tr__slots_head *h = s->head;

    return h->capacity >= FIRST_CAPACITY && h->next >= h->capacity && h->next <= h->capacity + h->capacity / 8 &&
           h->capacity % TR__SLOTS_LINE == 0 && h->next % TR__SLOTS_LINE == 0 && h->boundary <= (uint64_t)1 << 32 &&
           !is_full(h, h->used - tr__slots_free_count(h) - (h->used > tr__slots_free_count(h))) && !s->entry[tr__slots_places(h) - 1];
}

static tr_status check_head(const tr_slots *s, const tr_slots_config *config)
{
    const tr__slots_head *h = s->head;

    if (tr_segment_bytes(s->rows) < TR__SLOTS_HEAD || !h->is_complete)
        return tr_fail(TR_EFORMAT, "table in segment '%s' was never completed", tr_segment_name(s->rows));
    if (h->payload != config->payload || h->first_shard != config->first_shard || h->shard_count != config->shard_count)
        return tr_fail(TR_EFORMAT, "table in segment '%s' has rows of %llu bytes and shards %u to %u; wanted are %llu bytes and "
                       "shards %u to %u", tr_segment_name(s->rows), (unsigned long long)h->payload, h->first_shard,
                       h->first_shard + h->shard_count - 1, (unsigned long long)config->payload, config->first_shard,
                       config->first_shard + config->shard_count - 1);
    if (!has_all(s))
        return tr_fail(TR_EFORMAT, "table in segment '%s' says that it has more than it has", tr_segment_name(s->rows));
    if (!is_index(s))
        return tr_fail(TR_EFORMAT, "table in segment '%s': its index is damaged: %llu places, %llu to come, %llu rows", tr_segment_name(s->rows),
                       (unsigned long long)h->capacity, (unsigned long long)h->next, (unsigned long long)(h->used - tr__slots_free_count(h)));
    return TR_OK;
}

static tr_status go_on(tr_slots *s, const tr_slots_config *config)
{
    use(s, config);
    TR_TRY(check_head(s, config));
    if (s->head->is_moving)
        TR_TRY(make_index_anew(s));
    settle(s);
    return TR_OK;
}

tr_status tr_slots_attach(tr_slots **out, const char *name, const tr_slots_config *config)
{
    return make(out, name, config, tr_segment_attach, go_on);
}
