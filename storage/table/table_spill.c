/* table_spill.c - rows of a table that lie on disk: which ones, and when they come back.
 *
 * A row is hot, in the slots, or cold, in the log on disk. Every call of the table first brings the rows of its keys: cold ones are read
 * together and become hot. When there would be more hot rows than the table's memory has room for, others become cold (table_cool.c).
 *
 * A table in named segments has a log for undoing its last update. It is by slots, so the rows of that log stay hot until the update is
 * final. What is kept here of slots ends with the process: after it, rows in memory are written anew when they become cold.
 *
 * What must stay true: rows become cold in tr__spill_begin alone, and never those of its keys. So the slots of a call stay valid until the
 * next call. A row whose old contents are in the log for undoing stays in its slot. Look-ups of several threads take turns. */
#include "framework/base/memory.h"
#include "framework/threads/threadpool.h"
#include "storage/table/table_state.h"

#include <stdlib.h>
#include <string.h>

/* == life ======================================================================================== */

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
        record[i] = TR__NO_RECORD;
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
    spill->usual = 1;
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

void tr__spill_lose_record(tr__spill *s, uint32_t slot)
{
    if (s->record[slot] == TR__NO_RECORD)
        return;
    tr_cold_drop(s->cold, s->record[slot]);
    s->record[slot] = TR__NO_RECORD;
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
            tr__spill_lose_record(table->spill, slots[i]);
}

static void pin(tr__spill *s, uint32_t slot)
{
    s->pinned += s->used[slot] != TR__PINNED;
    s->used[slot] = TR__PINNED;
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
    s->pinned -= s->used[slot] == TR__PINNED;
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
    tr__spill_lose_record(table->spill, slot);
    table->spill->pinned -= table->spill->used[slot] == TR__PINNED;
    table->spill->used[slot] = 0;
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

    TR_TRY(tr__spill_keep_to_memory(t));
    TR_TRY(find_hot(t, keys, n));
    TR_TRY(reserve_slots(s, tr_slots_used(t->slots) + (uint64_t)n));
    s->call = s->call + 1 == TR__PINNED ? 1 : s->call + 1;
    for (int64_t i = 0; i < n; i++)
        if (s->slots[i] == TR_SLOT_NONE)
            missing++;
        else if (s->used[s->slots[i]] != TR__PINNED)
            s->used[s->slots[i]] = s->call;
    s->looked_up += (uint64_t)n;
    s->found_hot += (uint64_t)n - missing;
    TR_TRY(tr__spill_make_room(t, missing));
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
        if (s->slots[i] != TR_SLOT_NONE && s->used[s->slots[i]] != TR__PINNED)
            s->used[s->slots[i]] = s->call;
    if (status == TR_OK)
        status = tr_cold_expect(s->cold, keys, s->slots, n);
    pthread_mutex_unlock(&s->lock);
    return status;
}
