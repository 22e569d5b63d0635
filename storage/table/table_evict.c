/* table_evict.c - removes rows that were not used for long, one virtual shard a step: those that are too old, then the least worthy ones beyond
 * the shard's part of the table's rows. Which rows go does not depend on where they lie.
 *
 * Of rows on disk only the ages are looked at (cold.h). The records of those that go are read, because the index is by keys. */
#include "storage/table/table_state.h"

#include <stdlib.h>

/* A row of the shard: in a slot, or in a record on disk, whose key is known when it was read. */
typedef struct victim {
    uint32_t age, touches;
    int64_t  key;
    uint32_t slot, record;
} victim;

/* The rows of a shard that are left. */
typedef struct shard_rows {
    victim  *row;
    uint64_t count, capacity;
} shard_rows;

/* Steps since the last update of a row. A server of a mode without lockstep may have a row that was touched later than its own clock: its age is 0. */
static uint32_t age_of(uint32_t last, uint64_t clock)
{
    const uint32_t age = (uint32_t)clock - last;
    return age > INT32_MAX ? 0 : age;
}

static bool is_stale(const tr_table_config *c, const victim *row)
{
    return c->max_age && row->age > c->max_age && (!c->keep_count || row->touches < c->keep_count);
}

static victim victim_of(const tr_slots *slots, uint32_t slot, uint64_t clock)
{
    const tr_slot_row *row = tr_slots_row(tr_slots_rows(slots), tr_slots_stride(slots), slot);

    return (victim){age_of(row->last, clock), row->mark & TR__TOUCHES, row->key, slot, TR__NO_RECORD};
}

static tr_status reserve(shard_rows *all, uint64_t count)
{
    if (count <= all->capacity)
        return TR_OK;
    victim *grown = realloc(all->row, count * sizeof *grown);
    if (!grown)
        return tr_fail(TR_ENOMEM, "table: no memory to choose which of %llu rows to remove", (unsigned long long)count);
    all->row = grown;
    all->capacity = count;
    return TR_OK;
}

static tr_status list_hot(tr_table *t, const tr_slots *slots, uint32_t shard, uint64_t clock, shard_rows *all)
{
    uint64_t count = 0;

    TR_TRY(tr_slots_of_shard(&t->list, &t->list_capacity, &count, slots, shard));
    TR_TRY(reserve(all, all->count + count));
    for (uint64_t i = 0; i < count; i++)
        all->row[all->count++] = victim_of(slots, t->list[i], clock);
    return TR_OK;
}

static tr_status list_cold(tr_table *t, uint32_t shard, uint64_t clock, shard_rows *all)
{
    tr__spill *s = t->spill;
    uint64_t   count = 0;

    if (!s)
        return TR_OK;
    TR_TRY(tr_cold_ages_of_shard(&s->ages, &s->ages_capacity, &count, s->cold, shard));
    TR_TRY(reserve(all, all->count + count));
    for (uint64_t i = 0; i < count; i++) {
        const tr_cold_age *a = &s->ages[i];
        all->row[all->count++] = (victim){age_of(a->last, clock), a->mark & TR__TOUCHES, 0, TR_SLOT_NONE, a->record};
    }
    return TR_OK;
}

/* == removing ===================================================================================== */


typedef struct naming {
    victim  *row;
    uint64_t next;
} naming;

static tr_status name_next(void *payload, uint32_t record, const tr_slot_row *row)
{
    naming *n = payload;

    while (n->row[n->next].record == TR__NO_RECORD)
        n->next++;
    (void)record;
    n->row[n->next++].key = row->key;
    return TR_OK;
}

/* Read the keys of those rows that lie on disk. */
static tr_status name_rows(tr_table *t, victim *rows, uint64_t count)
{
    if (!t->spill || !count)
        return TR_OK;
    uint32_t *records = malloc(count * sizeof *records);
    uint64_t  n = 0;
    if (!records)
        return tr_fail(TR_ENOMEM, "table: no memory for the records of %llu rows", (unsigned long long)count);
    for (uint64_t i = 0; i < count; i++)
        if (rows[i].record != TR__NO_RECORD)
            records[n++] = rows[i].record;
    const tr_status status = n ? tr_cold_read(t->spill->cold, records, n, name_next, &(naming){rows, 0}) : TR_OK;
    free(records);
    return status;
}

static void remove_row(tr_table *t, tr_slots *slots, const victim *row)
{
    if (row->record == TR__NO_RECORD) {
        tr__table_delete_row(t, slots, row->slot);
        return;
    }
    tr_changes_remove(&t->changes, row->key, false);
    tr_cold_take(t->spill->cold, row->key, row->record);
    tr_cold_drop(t->spill->cold, row->record);
}

/* Remove the stale ones. */
static tr_status evict_stale(tr_table *t, tr_slots *slots, shard_rows *all, uint64_t *removed)
{
    const uint64_t count = all->count;
    uint64_t       left = 0;

    for (uint64_t i = 0; i < count; i++)
        if (!is_stale(&t->config, &all->row[i])) {
            const victim row = all->row[i];
            all->row[i] = all->row[left];
            all->row[left++] = row;
        }
    TR_TRY(name_rows(t, all->row + left, count - left));
    for (uint64_t i = left; i < count; i++)
        remove_row(t, slots, &all->row[i]);
    all->count = left;
    *removed += count - left;
    return TR_OK;
}

/* == rows beyond the table's number ================================================================= */

static int by_age(const void *a, const void *b)
{
    const victim *x = a, *y = b;

    if (x->age != y->age)
        return x->age > y->age ? -1 : 1;
    return (x->touches > y->touches) - (x->touches < y->touches);
}

/* The order of eviction: first the row that was untouched for the longest time, then the row with fewer updates, then the smaller key. */
static int by_worth(const void *a, const void *b)
{
    const victim *x = a, *y = b;
    const int     order = by_age(a, b);

    return order ? order : (x->key > y->key) - (x->key < y->key);
}

static tr_status evict_surplus(tr_table *t, shard_rows *all, uint64_t *removed)
{
    const uint64_t quota = (t->config.max_rows + TR_SHARDS - 1) / TR_SHARDS;
    uint64_t       candidates = all->count > quota ? all->count - quota : 0;

    if (!t->config.max_rows || !candidates)
        return TR_OK;
    const uint64_t surplus = candidates;
    qsort(all->row, all->count, sizeof *all->row, by_age);
    while (candidates < all->count && by_age(&all->row[surplus - 1], &all->row[candidates]) == 0)
        candidates++;                                  /* among equals the keys decide */
    TR_TRY(name_rows(t, all->row, candidates));
    qsort(all->row, candidates, sizeof *all->row, by_worth);
    for (uint64_t i = 0; i < surplus; i++)
        remove_row(t, t->slots, &all->row[i]);
    *removed += surplus;
    return TR_OK;
}

static tr_status evict_candidates(tr_table *t, uint32_t shard, uint64_t clock, shard_rows *all)
{
    uint64_t waiting = 0;

    if (!t->candidates)
        return TR_OK;
    TR_TRY(list_hot(t, t->candidates, shard, clock, all));
    const tr_status status = evict_stale(t, t->candidates, all, &waiting);
    all->count = 0;
    return status;
}

static tr_status evict(tr_table *t, uint32_t shard, uint64_t clock, shard_rows *all, uint64_t *removed)
{
    TR_TRY(evict_candidates(t, shard, clock, all));
    TR_TRY(list_hot(t, t->slots, shard, clock, all));
    TR_TRY(list_cold(t, shard, clock, all));
    TR_TRY(evict_stale(t, t->slots, all, removed));
    return evict_surplus(t, all, removed);
}

tr_status tr_table_evict(tr_table *table, uint64_t step, uint64_t *removed)
{
    const uint64_t clock = step + tr__table_notes_of(table)->ahead;
    shard_rows     all = {0};
    uint64_t       gone = 0;

    if (removed)
        *removed = 0;
    if (!table->config.max_age && !table->config.max_rows)
        return TR_OK;
    tr__spill_unpin_logged(table);
    TR_TRY(tr_undo_begin(table->undo, step));          /* undoing must not put old rows into slots that are used again */
    const tr_status status = evict(table, (uint32_t)(clock % TR_SHARDS), clock, &all, &gone);
    free(all.row);
    TR_TRY(status);
    TR_TRY(tr__spill_tidy(table));
    if (removed)
        *removed = gone;
    return TR_OK;
}
