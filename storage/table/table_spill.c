/* table_spill.c - rows of a table that lie on disk: which ones, and when they come back.
 *
 * A row is hot, in the slots, or cold, in the log on disk. Every call of the table first brings the rows of its keys: cold ones are read
 * together and become hot. When there would be more hot rows than the table's memory has room for, a clock hand goes over the slots: a row
 * that no call has used since the hand passed it becomes cold. If it has changed since it was read, it is appended to the log. Otherwise
 * its record on disk is used again.
 *
 * A table in named segments has a log for undoing its last update. It is by slots, so the rows of that log stay hot until the update is
 * final. What is kept here of slots ends with the process: after it, rows in memory are written anew when they become cold.
 *
 * What must stay true: rows become cold in tr__spill_bring alone, and never those of its keys. So the slots of a call stay valid until the
 * next call. A row whose old contents are in the log for undoing stays in its slot. Look-ups of several threads take turns. */
#include "framework/base/memory.h"
#include "framework/threads/threadpool.h"
#include "storage/table/table_state.h"

#include <stdlib.h>
#include <string.h>

#define NO_RECORD UINT32_MAX
enum { PINNED = UINT8_MAX };          /* in `used`: the row stays until the last update is final */

/* == life ======================================================================================== */

/* An index begins with so many bytes: they are no part of the table's memory. */
static uint64_t beyond_the_first(uint64_t index_bytes)
{
    return index_bytes > TR_SLOTS_FIRST_INDEX ? index_bytes - TR_SLOTS_FIRST_INDEX : 0;
}

/* How many hot rows there may be: as many as the cold rows leave memory for, whose index grows by an eighth at a time. A hot row takes some
 * 16 bytes in the index and in `used` and `record`, and these do not become smaller again. Where the index of the cold rows takes nearly
 * all, some rows stay. */
static uint64_t most_rows(const tr_table *t)
{
    enum { BESIDE = 16, LEAST = 8 };
    const tr__spill *s = t->spill;
    const uint64_t   cold = beyond_the_first(tr_cold_memory(s->cold)), grown = cold + cold / 8, least = s->memory / LEAST;
    const uint64_t   room = grown < s->memory - least ? s->memory - grown : least;
    const uint64_t   kept = beyond_the_first(tr_slots_index_bytes(t->slots)) + s->capacity * (sizeof *s->used + sizeof *s->record);
    const uint64_t   full = room / (t->stride + BESIDE), left = (kept < room / 2 ? room - kept : room / 2) / t->stride;

    return !full || !left ? 1 : full < left ? full : left;
}

/* Small tables have small blocks, so that their files are bounded as well. */
static uint64_t block_bytes(uint64_t memory)
{
    enum { PAGE = 4096, SHARE = 64, MOST = 1 << 20 };
    const uint64_t bytes = memory / SHARE / PAGE * PAGE;

    return bytes < PAGE ? PAGE : bytes > MOST ? MOST : bytes;
}

static tr_status reserve_slots(tr__spill *s, uint64_t slots)
{
    if (slots <= s->capacity)
        return TR_OK;
    const uint64_t capacity = slots + slots / 4;
    uint8_t       *used = realloc(s->used, capacity);
    if (used)
        s->used = used;
    uint32_t *record = used ? realloc(s->record, capacity * sizeof *record) : NULL;
    if (!record)
        return tr_fail(TR_ENOMEM, "table: no memory to remember the use of %llu rows", (unsigned long long)capacity);
    s->record = record;
    memset(used + s->capacity, 0, capacity - s->capacity);
    for (uint64_t i = s->capacity; i < capacity; i++)
        record[i] = NO_RECORD;
    s->capacity = capacity;
    return TR_OK;
}

/* After a kill a row may be both in memory and in the index. */
static tr_status open_cold(tr__spill *s, const tr_table *t, const tr_cold_config *config, bool is_new)
{
    int64_t key;

    TR_TRY((is_new ? tr_cold_create : tr_cold_attach)(&s->cold, config));
    if (!is_new && tr_cold_was_moving(s->cold, &key))
        tr_cold_settle(s->cold, tr_slots_find_one(t->slots, key) != TR_SLOT_NONE);
    return reserve_slots(s, tr_slots_used(t->slots));
}

static bool removes_old_rows(const tr_table_config *config)
{
    return config->max_age || config->max_rows;
}

tr_status tr__spill_configure(tr_table *table)
{
    return table->spill && removes_old_rows(&table->config) ? tr_cold_keep_ages(table->spill->cold) : TR_OK;
}

tr_status tr__spill_new(tr__spill **out, const tr_table *table, const tr_table_segment *place, bool is_new)
{
    enum { SHARE = 8 };
    const tr_cold_config config = {place->name, place->spill, table->stride, place->first_shard, place->shard_count,
                                   block_bytes(place->memory), removes_old_rows(&table->config)};

    *out = NULL;
    if (!place->spill)
        return TR_OK;
    tr__spill *spill = calloc(1, sizeof *spill);
    if (!spill)
        return tr_fail(TR_ENOMEM, "table: no memory");
    spill->folder = tr__must_strdup(place->spill);
    spill->memory = place->memory;
    spill->batch = place->memory / SHARE < config.block_bytes ? place->memory / SHARE / table->stride : config.block_bytes / table->stride;
    spill->call = 1;
    pthread_mutex_init(&spill->lock, NULL);
    const tr_status status = open_cold(spill, table, &config, is_new);
    if (status == TR_OK)
        *out = spill;
    else
        tr__spill_free(spill);
    return status;
}

void tr__spill_free(tr__spill *spill)
{
    if (!spill)
        return;
    tr_cold_free(spill->cold);
    pthread_mutex_destroy(&spill->lock);
    free(spill->folder);
    free(spill->used);
    free(spill->record);
    free(spill->slots);
    free(spill->ages);
    free(spill);
}

const char *tr_table_spill(uint64_t *memory, const tr_table *table)
{
    *memory = table->spill ? table->spill->memory : 0;
    return table->spill ? table->spill->folder : NULL;
}

/* == what is known of slots ========================================================================= */

static void lose_record(tr__spill *s, uint32_t slot)
{
    if (s->record[slot] == NO_RECORD)
        return;
    tr_cold_drop(s->cold, s->record[slot]);
    s->record[slot] = NO_RECORD;
}

void tr__spill_made(tr_table *table, uint32_t slot)
{
    if (table->spill)
        table->spill->used[slot] = table->spill->call;
}

void tr__spill_change(tr_table *table, const uint32_t *slots, int64_t n)
{
    for (int64_t i = 0; table->spill && i < n; i++)
        if (slots[i] != TR_SLOT_NONE)
            lose_record(table->spill, slots[i]);
}

static void pin(tr__spill *s, uint32_t slot)
{
    s->pinned += s->used[slot] != PINNED;
    s->used[slot] = PINNED;
}

/* Only a table in named segments has a log for undoing. */
void tr__spill_pin(tr_table *table, const uint32_t *slots, int64_t n)
{
    for (int64_t i = 0; table->spill && tr_undo_bytes(table->undo) && i < n; i++)
        if (slots[i] != TR_SLOT_NONE)
            pin(table->spill, slots[i]);
}

static void pin_logged(void *payload, uint64_t slot, const char *row)
{
    (void)row;
    pin(payload, (uint32_t)slot);
}

static void unpin_logged(void *payload, uint64_t slot, const char *row)
{
    tr__spill *s = payload;

    (void)row;
    s->pinned -= s->used[slot] == PINNED;
    s->used[slot] = s->call;
}

void tr__spill_pin_logged(tr_table *table)
{
    if (table->spill)
        tr_undo_each(table->undo, pin_logged, table->spill);
}

void tr__spill_unpin_logged(tr_table *table)
{
    if (table->spill)
        tr_undo_each(table->undo, unpin_logged, table->spill);
}

void tr__spill_remove(tr_table *table, uint32_t slot)
{
    if (!table->spill)
        return;
    lose_record(table->spill, slot);
    table->spill->pinned -= table->spill->used[slot] == PINNED;
    table->spill->used[slot] = 0;
}

/* == rows become cold ================================================================================ */

/* A block that held this record is tidied away. */
static bool lost_record(void *payload, int64_t key, uint32_t record)
{
    const tr_table *t = payload;
    const uint32_t  slot = tr_slots_find_one(t->slots, key);

    if (slot == TR_SLOT_NONE || t->spill->record[slot] != record)
        return false;
    t->spill->record[slot] = NO_RECORD;
    return true;
}

/* The row of the slot has this record, which is held. */
static tr_status make_cold(tr_table *t, uint32_t slot, uint32_t record)
{
    const int64_t key = tr__table_row(t, slot)->key;

    tr_cold_begin_move(t->spill->cold, key, record);
    const tr_status status = tr_cold_put(t->spill->cold, key, record);
    if (status == TR_OK) {
        t->spill->record[slot] = NO_RECORD;
        t->spill->used[slot] = 0;
        tr__table_take_out(t, t->slots, slot);
    }
    tr_cold_end_move(t->spill->cold);
    return status;
}

static tr_status write_rows(tr_table *t, const uint32_t *slots, const tr_slot_row **rows, uint32_t *records, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        rows[i] = tr__table_row(t, slots[i]);
    TR_TRY(tr_cold_write(t->spill->cold, records, rows, n));
    for (int64_t i = 0; i < n; i++) {
        const tr_status status = make_cold(t, slots[i], records[i]);
        if (status == TR_OK)
            continue;
        for (; i < n; i++)
            tr_cold_drop(t->spill->cold, records[i]);
        return status;
    }
    return TR_OK;
}

/* The next slot whose row no call has used since the hand passed it. *steps: slots that the hand may still pass. */
static uint32_t next_victim(const tr_table *t, uint64_t *steps)
{
    tr__spill     *s = t->spill;
    const uint64_t used = tr_slots_used(t->slots);

    for (; *steps; --*steps) {
        const uint32_t slot = (uint32_t)(s->hand < used ? s->hand : 0);
        s->hand = (uint64_t)slot + 1;
        if (s->used[slot] == s->call || s->used[slot] == PINNED || !(tr__table_row(t, slot)->mark & TR_SLOT_LIVES))
            continue;
        if (!s->used[slot])
            return slot;
        s->used[slot] = 0;
    }
    return TR_SLOT_NONE;
}

enum { AT_A_TIME = 1024 };

/* Rows that are becoming cold; those that must be written are collected. */
typedef struct cooling {
    uint32_t slots[AT_A_TIME];
    int64_t  changed;
} cooling;

static tr_status cool(tr_table *t, cooling *c, uint32_t slot)
{
    tr__spill *s = t->spill;

    if (s->record[slot] != NO_RECORD && tr_cold_may_put(s->cold, s->record[slot]))
        return make_cold(t, slot, s->record[slot]);
    lose_record(s, slot);
    s->used[slot] = s->call;                           /* the hand must not choose it twice */
    c->slots[c->changed++] = slot;
    return TR_OK;
}

static tr_status write_cooling(tr_table *t, cooling *c)
{
    const tr_slot_row *rows[AT_A_TIME];
    uint32_t           records[AT_A_TIME];
    const int64_t      changed = c->changed;

    c->changed = 0;
    return write_rows(t, c->slots, rows, records, changed);
}

/* Let some rows become cold. Returns by *count how many did. */
static tr_status cool_some(tr_table *t, uint64_t wanted, uint64_t *steps, uint64_t *count)
{
    cooling c = {.changed = 0};

    for (*count = 0; *count < wanted && c.changed < AT_A_TIME; ++*count) {
        const uint32_t slot = next_victim(t, steps);
        if (slot == TR_SLOT_NONE)
            break;
        TR_TRY(cool(t, &c, slot));
    }
    return write_cooling(t, &c);
}

/* Let all rows from this slot on become cold, and give their memory back. */
static tr_status trim(tr_table *t, uint32_t first)
{
    cooling c = {.changed = 0};

    for (uint32_t slot = first; slot < tr_slots_used(t->slots); slot++) {
        if (tr__table_row(t, slot)->mark & TR_SLOT_LIVES)
            TR_TRY(cool(t, &c, slot));
        if (c.changed == AT_A_TIME)
            TR_TRY(write_cooling(t, &c));
    }
    TR_TRY(write_cooling(t, &c));
    tr_slots_trim(t->slots, first);
    return TR_OK;
}

/* When the index of the cold rows has grown, there may be fewer hot rows. Slots at the end are given up, some thousand in a call, when none
 * of their rows must stay and nobody reads them for a snapshot. */
static tr_status keep_to_memory(tr_table *t)
{
    enum { SHARE = 32, SOME = 4096 };
    const uint64_t most = most_rows(t), used = tr_slots_used(t->slots);

    if (t->spill->pinned || t->snapshot || used <= most + most / SHARE + t->spill->batch)
        return TR_OK;
    return trim(t, (uint32_t)(used - most > SOME ? used - SOME : most));
}

/* Make room for `more` hot rows. If all hot rows are needed now, there are more of them until the next call. */
static tr_status make_room(tr_table *t, uint64_t more)
{
    tr__spill     *s = t->spill;
    const uint64_t hot = tr_slots_count(t->slots), most = most_rows(t);
    uint64_t       steps = 2 * (uint64_t)tr_slots_used(t->slots);

    if (hot + more <= most)
        return TR_OK;
    uint64_t surplus = hot + more - most, count = 1;
    surplus = surplus > s->batch ? surplus : s->batch;
    for (; surplus && count; surplus -= count < surplus ? count : surplus)
        TR_TRY(cool_some(t, surplus, &steps, &count));
    return tr_cold_tidy(s->cold, lost_record, t);
}

/* == rows become hot ================================================================================ */

static tr_status make_hot(void *payload, uint32_t record, const tr_slot_row *row)
{
    tr_table          *t = payload;
    const char        *values = (const char *)(row + 1);
    const float       *states = (const float *)(const void *)(values + t->values_padded);
    const tr_table_row from = {row->key, row->mark & TR__TOUCHES, row->last, values, states};
    uint32_t           slot;

    tr_cold_begin_move(t->spill->cold, row->key, record);
    const tr_status status = tr__table_copy_row(&slot, t, &from);
    if (status == TR_OK) {
        tr_cold_take(t->spill->cold, row->key, record);
        t->spill->record[slot] = record;
    }
    tr_cold_end_move(t->spill->cold);
    return status;
}

typedef struct search {
    const tr_table *table;
    uint32_t       *slots;
    const int64_t  *keys;
} search;

static void find_range(void *payload, int64_t begin, int64_t end)
{
    const search *s = payload;

    tr_slots_find(s->table->slots, s->slots + begin, s->keys + begin, end - begin);
}

static tr_status reserve_call(tr__spill *s, int64_t n)
{
    if (n <= s->slots_capacity)
        return TR_OK;
    uint32_t *slots = realloc(s->slots, (size_t)(n + n / 4) * sizeof *slots);
    if (!slots)
        return tr_fail(TR_ENOMEM, "table: no memory for the slots of %lld keys", (long long)n);
    s->slots = slots;
    s->slots_capacity = n + n / 4;
    return TR_OK;
}

/* Find the slots of the keys that are hot. */
static tr_status find_hot(tr_table *t, const int64_t *keys, int64_t n)
{
    enum { MIN_KEYS = 1024 };

    TR_TRY(reserve_call(t->spill, n));
    tr_parallel_range(n, MIN_KEYS, find_range, &(search){t, t->spill->slots, keys});
    return TR_OK;
}

static tr_status bring(tr_table *t, const int64_t *keys, int64_t n)
{
    tr__spill *s = t->spill;
    uint64_t   missing = 0;

    TR_TRY(keep_to_memory(t));
    TR_TRY(find_hot(t, keys, n));
    TR_TRY(reserve_slots(s, tr_slots_used(t->slots) + (uint64_t)n));
    s->call = s->call + 1 == PINNED ? 1 : s->call + 1;
    for (int64_t i = 0; i < n; i++)
        if (s->slots[i] == TR_SLOT_NONE)
            missing++;
        else if (s->used[s->slots[i]] != PINNED)
            s->used[s->slots[i]] = s->call;
    s->looked_up += (uint64_t)n;
    s->found_hot += (uint64_t)n - missing;
    TR_TRY(make_room(t, missing));
    return missing ? tr_cold_fetch(s->cold, keys, s->slots, n, make_hot, t) : TR_OK;
}

tr_status tr__spill_begin(tr_table *table, const int64_t *keys, int64_t n)
{
    if (!table->spill)
        return TR_OK;
    pthread_mutex_lock(&table->spill->lock);
    const tr_status status = bring(table, keys, n);
    if (status != TR_OK)
        pthread_mutex_unlock(&table->spill->lock);
    return status;
}

void tr__spill_end(tr_table *table)
{
    if (table->spill)
        pthread_mutex_unlock(&table->spill->lock);
}

tr_status tr__spill_bring(tr_table *table, const int64_t *keys, int64_t n)
{
    TR_TRY(tr__spill_begin(table, keys, n));
    tr__spill_end(table);
    return TR_OK;
}

/* Rows that are hot stay so until the hand has passed twice. */
tr_status tr_table_expect(tr_table *table, const int64_t *keys, int64_t n)
{
    tr__spill *s = table->spill;

    if (!s)
        return TR_OK;
    pthread_mutex_lock(&s->lock);
    tr_status status = find_hot(table, keys, n);
    for (int64_t i = 0; i < n && status == TR_OK; i++)
        if (s->slots[i] != TR_SLOT_NONE && s->used[s->slots[i]] != PINNED)
            s->used[s->slots[i]] = s->call;
    if (status == TR_OK)
        status = tr_cold_expect(s->cold, keys, s->slots, n);
    pthread_mutex_unlock(&s->lock);
    return status;
}
