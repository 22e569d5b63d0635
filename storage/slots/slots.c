/* slots.c - the life of slots, and their rows. */
#include "storage/slots/slots_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 4 };
static const uint64_t MAX_BYTES = (uint64_t)1 << 40, MAX_SLOTS = UINT32_MAX - 1;

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
    tr__slots_find_segments(s);
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
    return open(&s->index, name ? path[1] : NULL, "index", VERSION, (rows * 2 + TR__SLOTS_FIRST_CAPACITY + TR__SLOTS_SLACK) * sizeof(uint64_t));
}

static tr_status begin(tr_slots *s, const tr_slots_config *config)
{
    TR_TRY(tr_segment_grow(s->rows, TR__SLOTS_HEAD));
    TR_TRY(tr_segment_grow(s->index, (TR__SLOTS_FIRST_CAPACITY + TR__SLOTS_SLACK) * sizeof(uint64_t)));
    tr__slots_head *h = s->head = tr_segment_base(s->rows);
    h->payload = config->payload;
    h->first_shard = config->first_shard;
    h->shard_count = config->shard_count;
    h->capacity = h->next = TR__SLOTS_FIRST_CAPACITY;
    tr__slots_in_order();
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
    return make(out, name, config, tr_segment_create_moving, begin);
}

void tr_slots_free(tr_slots *slots)
{
    if (!slots)
        return;
    tr_segment_free(slots->rows);
    tr_segment_free(slots->index);
    if (!slots->has_journal)
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

/* == rows ========================================================================================= */

static void push_free(tr_slots *s, uint32_t slot)
{
    tr__slots_head        *h = s->head;
    tr_slot_row *row = tr_slots_row(s->row, s->stride, slot);

    row->key = (int64_t)(h->free & UINT32_MAX);        /* next free slot + 1 */
    row->mark = 0;
    tr__slots_in_order();
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
    const uint64_t  more = have / 16 < LEAST ? LEAST : have / 16 > MOST ? MOST : have / 16;
    const tr_status status = tr_segment_grow(s->rows, bytes + more) == TR_OK ? TR_OK : tr_segment_grow(s->rows, bytes);
    tr__slots_find_segments(s);
    return status;
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
    tr__slots_head *h = slots->head;
    uint32_t        slot = (uint32_t)(h->free & UINT32_MAX);

    TR_TRY(tr__slots_reserve_index(slots));
    if (slot && is_free(slots, slot - 1)) {
        slot--;
        h->pending = (uint64_t)slot + 1;
        tr__slots_in_order();
        h->free = next_free(slots, slot);
    } else {
        h->free = 0;                                   /* it is 0 already, unless the list was damaged */
        slot = (uint32_t)h->used;
        TR_TRY(reserve_rows(slots, h->used + 1));
        h = slots->head;                               /* where it lies now */
        tr_slots_row(slots->row, slots->stride, slot)->mark = 0;
        h->pending = (uint64_t)slot + 1;
        tr__slots_in_order();
        h->used++;
    }
    *out = slot;
    return TR_OK;
}

void tr_slots_publish(tr_slots *slots, uint32_t slot, int64_t key)
{
    tr_slot_row *row = tr_slots_row(slots->row, slots->stride, slot);

    row->key = key;
    tr__slots_in_order();
    row->mark |= TR_SLOT_LIVES;
    tr__slots_in_order();
    tr__slots_put(slots, tr__slots_tag(slots, key), slot);
    tr__slots_in_order();
    slots->head->pending = 0;
}

void tr_slots_delete(tr_slots *slots, uint32_t slot)
{
    tr__slots_head        *h = slots->head;
    tr_slot_row *row = tr_slots_row(slots->row, slots->stride, slot);

    h->pending = (uint64_t)slot + 1;
    tr__slots_in_order();
    tr__slots_take(slots, tr__slots_tag(slots, row->key), slot);
    tr__slots_in_order();
    row->mark = 0;
    tr__slots_in_order();
    push_free(slots, slot);
    tr__slots_in_order();
    h->pending = 0;
}

/* Make the list of free slots below `first` from the list of all. Returns it as the head keeps it. */
static uint64_t free_below(tr_slots *s, uint32_t first)
{
    const tr__slots_head *h = s->head;
    uint64_t              count = 0, last = 0, at = h->free & UINT32_MAX;

    for (uint64_t left = tr__slots_free_count(h); left && at; left--) {
        tr_slot_row   *row = tr_slots_row(s->row, s->stride, (uint32_t)at - 1);
        const uint64_t next = (uint32_t)row->key;
        if (at <= first && is_free(s, (uint32_t)at - 1)) {
            row->key = (int64_t)last;
            last = at;
            count++;
        }
        at = next <= h->used ? next : 0;
    }
    return count << 32 | last;
}

void tr_slots_trim(tr_slots *slots, uint32_t first)
{
    tr__slots_head *h = slots->head;

    if (first >= h->used)
        return;
    h->is_trimming = 1;
    tr__slots_in_order();
    h->free = free_below(slots, first);
    h->used = first;
    tr__slots_in_order();
    h->is_trimming = 0;
    tr_segment_shrink(slots->rows, TR__SLOTS_HEAD + first * slots->stride);
}

/* == after a kill ================================================================================= */

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
            tr__slots_put(s, tag, (uint32_t)slot);
        else if (!lives && (h->free & UINT32_MAX) != slot + 1)
            push_free(s, (uint32_t)slot);
    }
    tr__slots_in_order();
    h->pending = 0;
}

/* Make the list of free rows from all rows. */
static void find_free(tr_slots *s)
{
    tr__slots_head *h = s->head;

    h->free = 0;
    for (uint32_t slot = 0; slot < h->used; slot++)
        if (is_free(s, slot))
            push_free(s, slot);
    tr__slots_in_order();
    h->is_trimming = 0;
}

/* Check that everything the header describes lies inside the segments. Rows and entries are not checked: that would take as long as
 * reading the table. */
static bool has_places(const tr_slots *s)
{
    const tr__slots_head *h = s->head;
    const uint64_t        room = tr_segment_bytes(s->index) / sizeof(uint64_t);

    return h->capacity <= room && h->next <= room && tr__slots_places(h) <= room;
}

static bool has_all(const tr_slots *s)
{
    const tr__slots_head *h = s->head;
    const uint64_t        rows = (tr_segment_bytes(s->rows) - TR__SLOTS_HEAD) / (sizeof(tr_slot_row) + h->payload);
    const bool            is_list = (h->free & UINT32_MAX) <= h->used && tr__slots_free_count(h) <= h->used && !(h->free & UINT32_MAX) == !tr__slots_free_count(h);

    return (s->has_journal || (h->used <= rows && is_list)) && has_places(s);
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
    return TR_OK;
}

static tr_status check_index(const tr_slots *s)
{
    const tr__slots_head *h = s->head;

    if (tr__slots_is_index(s))
        return TR_OK;
    return tr_fail(TR_EFORMAT, "table in segment '%s': its index is damaged: %llu places, %llu to come, %llu rows", tr_segment_name(s->rows),
                   (unsigned long long)h->capacity, (unsigned long long)h->next, (unsigned long long)(h->used - tr__slots_free_count(h)));
}

static tr_status go_on(tr_slots *s, const tr_slots_config *config)
{
    use(s, config);
    TR_TRY(check_head(s, config));
    if (s->head->is_trimming)
        find_free(s);
    TR_TRY(check_index(s));
    if (s->head->is_moving)
        TR_TRY(tr__slots_make_index(s));
    settle(s);
    return TR_OK;
}

tr_status tr_slots_attach(tr_slots **out, const char *name, const tr_slots_config *config)
{
    return make(out, name, config, tr_segment_attach_moving, go_on);
}

static tr_status go_on_index(tr_slots *s, const tr_slots_config *config)
{
    use(s, config);
    s->has_journal = true;
    TR_TRY(check_head(s, config));
    return tr__slots_replay(s);
}

tr_status tr__slots_attach_index(tr_slots **out, const char *name, const tr_slots_config *config)
{
    return make(out, name, config, tr_segment_attach_moving, go_on_index);
}
