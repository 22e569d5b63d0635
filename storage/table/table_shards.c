/* table_shards.c - whole virtual shards as bytes: packed and unpacked rows, and the rows of a snapshot. */
#include "framework/base/memory.h"
#include "storage/table/table_state.h"

#include <stdlib.h>
#include <string.h>

/* In packed rows the bit that marks a row in use is clear. */
static void clean_marks(void *packed, uint64_t bytes, uint64_t stride)
{
    for (uint64_t at = 0; at < bytes; at += stride)
        ((tr_slot_row *)(void *)((char *)packed + at))->mark &= TR__TOUCHES;
}

/* Drop the slots whose rows no update after `since` touched. Returns how many are left. */
static uint64_t choose_newer(uint32_t *list, uint64_t count, const tr_slots *slots, uint32_t since)
{
    uint64_t kept = 0;

    for (uint64_t i = 0; i < count; i++)
        if (tr_slots_row(tr_slots_rows(slots), tr_slots_stride(slots), list[i])->last > since)
            list[kept++] = list[i];
    return kept;
}

/* `since`: only rows that a later update touched; 0: all. */
static tr_status pack(const tr_slots *slots, uint32_t shard, uint32_t since, void **out, uint64_t *bytes)
{
    const uint64_t stride = tr_slots_stride(slots);
    uint32_t      *list = NULL;
    uint64_t       capacity = 0, count = 0;
    tr_status      status = tr_slots_of_shard(&list, &capacity, &count, slots, shard);

    if (status == TR_OK && since)
        count = choose_newer(list, count, slots, since);
    char *packed = status == TR_OK ? tr__must_bytes(count * stride + 1) : NULL;

    for (uint64_t i = 0; packed && i < count; i++)
        memcpy(packed + i * stride, tr_slots_row(tr_slots_rows(slots), stride, list[i]), stride);
    free(list);
    if (status == TR_OK && !packed)
        return tr_fail(TR_ENOMEM, "table: no memory for the %llu rows of shard %u", (unsigned long long)count, shard);
    *out = packed;
    *bytes = count * stride;
    if (packed)
        clean_marks(packed, *bytes, stride);
    return status;
}

static tr_status pack_nothing(void **out, uint64_t *bytes)
{
    *bytes = 0;
    *out = malloc(1);
    return *out ? TR_OK : tr_fail(TR_ENOMEM, "table: no memory");
}

tr_status tr_table_pack(const tr_table *table, uint32_t shard, void **out, uint64_t *bytes)
{
    return tr_table_pack_newer(table, shard, 0, out, bytes);
}

tr_status tr_table_pack_newer(const tr_table *table, uint32_t shard, uint32_t since, void **out, uint64_t *bytes)
{
    TR_TRY(pack(table->slots, shard, since, out, bytes));
    return tr__spill_pack(table, shard, since, out, bytes);
}

tr_status tr_table_pack_candidates(const tr_table *table, uint32_t shard, void **out, uint64_t *bytes)
{
    return table->candidates ? pack(table->candidates, shard, 0, out, bytes) : pack_nothing(out, bytes);
}

static tr_status check_packed(uint64_t bytes, uint64_t stride)
{
    if (bytes % stride == 0)
        return TR_OK;
    return tr_fail(TR_EFORMAT, "table: %llu bytes are no rows of %llu", (unsigned long long)bytes, (unsigned long long)stride);
}

/* `slot`: where the row was when it was looked up; a key that comes twice may have got one since. */
static tr_status put_at(tr_table *table, uint32_t slot, const tr_table_row *row)
{
    if (slot == TR_SLOT_NONE)
        slot = tr_slots_find_one(table->slots, row->key);
    if (slot == TR_SLOT_NONE)
        return tr__table_copy_row(&slot, table, row);
    if (table->snapshot)
        tr_slots_snapshot_keep(table->snapshot, &slot, 1);
    tr__spill_change(table, &slot, 1);
    tr__table_write_row(table, slot, row);
    return TR_OK;
}

tr_status tr_table_put(tr_table *table, const tr_table_row *row)
{
    tr_changes_forget(&table->changes);            /* a row from elsewhere says the step of another table */
    TR_TRY(tr__spill_bring(table, &row->key, 1));
    return put_at(table, TR_SLOT_NONE, row);
}

enum { BATCH = 512 };

static tr_status unpack_batch(tr_table *table, const char *from, int n)
{
    int64_t     key[BATCH] = {0};
    uint32_t    slot[BATCH];
    tr_slot_row head;

    for (int i = 0; i < n; i++)
        memcpy(&key[i], from + (uint64_t)i * table->stride + offsetof(tr_slot_row, key), sizeof key[i]);
    TR_TRY(tr__spill_bring(table, key, n));
    tr_slots_find(table->slots, slot, key, n);
    for (int i = 0; i < n; i++, from += table->stride) {
        memcpy(&head, from, sizeof head);
        const tr_table_row row = {head.key, head.mark & TR__TOUCHES, head.last, from + sizeof head,
                                  (const float *)(const void *)(from + sizeof head + table->values_padded)};
        TR_TRY(put_at(table, slot[i], &row));
    }
    return TR_OK;
}

tr_status tr_table_unpack(tr_table *table, const void *rows, uint64_t bytes)
{
    TR_TRY(check_packed(bytes, table->stride));
    tr_changes_forget(&table->changes);            /* a row from elsewhere says the step of another table */
    for (uint64_t at = 0, count = bytes / table->stride; at < count; at += BATCH)
        TR_TRY(unpack_batch(table, (const char *)rows + at * table->stride, count - at < BATCH ? (int)(count - at) : BATCH));
    return TR_OK;
}

tr_status tr_table_unpack_candidates(tr_table *table, const void *rows, uint64_t bytes)
{
    TR_TRY(check_packed(bytes, sizeof(tr_slot_row)));
    if (bytes && !table->candidates)
        return tr_fail(TR_EFORMAT, "table: %llu keys wait for a row, but each has one at once here",
                       (unsigned long long)(bytes / sizeof(tr_slot_row)));
    tr_changes_forget(&table->changes);
    for (uint64_t at = 0; at < bytes; at += sizeof(tr_slot_row)) {
        tr_slot_row from;
        uint32_t    slot;
        memcpy(&from, (const char *)rows + at, sizeof from);
        tr_slots_find(table->candidates, &slot, &from.key, 1);
        if (slot == TR_SLOT_NONE)
            TR_TRY(tr__table_make_candidate(&slot, table, from.key));
        tr_slot_row *to = tr_slots_row(tr_slots_rows(table->candidates), tr_slots_stride(table->candidates), slot);
        to->mark = TR_SLOT_LIVES | (from.mark & TR__TOUCHES);
        to->last = from.last;
    }
    return TR_OK;
}

/* == a snapshot ============================================================================================ */

static int by_shard(const void *left, const void *right)
{
    const tr_removed_key *a = left, *b = right;
    const uint32_t        x = tr_slots_shard(a->key), y = tr_slots_shard(b->key);

    return x != y ? (x > y) - (x < y) : (a->key > b->key) - (a->key < b->key);
}

/* Keep what has changed since an earlier snapshot aside, as far as rows do not tell it. */
static void keep_changes(tr_table *table, uint64_t since)
{
    const tr_removed_key *removed;
    uint64_t              clock;

    free(table->removed);
    table->removed = NULL;
    table->removed_count = 0;
    table->has_changes = tr_changes_since(&clock, &removed, &table->removed_count, &table->changes, since);
    if (!table->has_changes)
        return;
    table->changed_after = (uint32_t)clock;
    table->removed = (tr_removed_key *)(void *)tr__must_copy(removed, table->removed_count * sizeof *removed);
    qsort(table->removed, table->removed_count, sizeof *table->removed, by_shard);
}

tr_status tr_table_snapshot(tr_table *table, uint64_t number, uint64_t since)
{
    tr_table_snapshot_end(table);
    keep_changes(table, since);
    TR_TRY(tr_slots_snapshot_new(&table->snapshot, table->slots));
    tr_status status = table->candidates ? tr_slots_snapshot_new(&table->candidates_snapshot, table->candidates) : TR_OK;
    if (status == TR_OK)
        status = tr__spill_snapshot(table);
    table->snapshot_rows = tr_slots_count(table->slots) + tr__spill_rows(table);
    if (status != TR_OK)
        tr_table_snapshot_end(table);
    else if (number)
        tr_changes_note(&table->changes, number, table->step);
    return status;
}

bool tr_table_snapshot_has_changes(const tr_table *table)
{
    return table->has_changes;
}

uint64_t tr_table_snapshot_rows(const tr_table *table)
{
    return table->snapshot_rows;
}

void tr_table_snapshot_end(tr_table *table)
{
    tr_slots_snapshot_free(table->snapshot);
    tr_slots_snapshot_free(table->candidates_snapshot);
    table->snapshot = table->candidates_snapshot = NULL;
    tr__spill_snapshot_end(table);
}

/* Remove from packed rows those that no update after `since` touched; 0: keep all. Returns the bytes that are left. */
static uint64_t keep_newer(void *packed, uint64_t bytes, uint64_t stride, uint32_t since)
{
    uint64_t kept = 0;

    for (uint64_t at = 0; since && at < bytes; at += stride) {
        tr_slot_row head;
        memcpy(&head, (char *)packed + at, sizeof head);
        if (head.last <= since)
            continue;
        memmove((char *)packed + kept, (char *)packed + at, stride);
        kept += stride;
    }
    return since ? kept : bytes;
}

/* Read a shard as it was, or those of its rows that have changed. */
static tr_status read_shard(const tr_table *table, tr_slots_snapshot *snapshot, uint64_t stride, uint32_t shard, void **out,
                            uint64_t *bytes)
{
    TR_TRY(tr_slots_snapshot_read(snapshot, shard, out, bytes));
    if (table->has_changes)
        *bytes = keep_newer(*out, *bytes, stride, table->changed_after);
    clean_marks(*out, *bytes, stride);
    return TR_OK;
}

tr_status tr_table_snapshot_read(const tr_table *table, uint32_t shard, void **out, uint64_t *bytes)
{
    if (table->spill)
        return tr__spill_snapshot_read(table, shard, table->has_changes ? table->changed_after : 0, out, bytes);
    return read_shard(table, table->snapshot, table->stride, shard, out, bytes);
}

tr_status tr_table_snapshot_read_candidates(const tr_table *table, uint32_t shard, void **out, uint64_t *bytes)
{
    if (!table->candidates)
        return pack_nothing(out, bytes);
    return read_shard(table, table->candidates_snapshot, tr_slots_stride(table->candidates), shard, out, bytes);
}

/* The number of the first removed key of this shard or a later one. */
static uint64_t first_removed(const tr_table *t, uint32_t shard)
{
    uint64_t first = 0, end = t->removed_count;

    while (first < end) {
        const uint64_t middle = first + (end - first) / 2;
        if (tr_slots_shard(t->removed[middle].key) < shard)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

tr_status tr_table_snapshot_read_removed(const tr_table *table, uint32_t shard, bool are_candidates, void **out, uint64_t *bytes)
{
    const uint64_t first = table->has_changes ? first_removed(table, shard) : 0,
                   end = table->has_changes ? first_removed(table, shard + 1) : 0;
    int64_t       *keys = tr__must_array(end - first + 1, sizeof *keys);
    uint64_t       count = 0;

    for (uint64_t i = first; i < end; i++)
        if (table->removed[i].is_candidate == are_candidates && (!count || keys[count - 1] != table->removed[i].key))
            keys[count++] = table->removed[i].key;
    *out = keys;
    *bytes = count * sizeof *keys;
    return TR_OK;
}

tr_status tr_table_unpack_removed(tr_table *table, bool are_candidates, const void *keys, uint64_t bytes)
{
    tr_slots *slots = are_candidates ? table->candidates : table->slots;

    TR_TRY(check_packed(bytes, sizeof(int64_t)));
    for (uint64_t at = 0; slots && at < bytes; at += sizeof(int64_t)) {
        int64_t  key;
        uint32_t slot;
        memcpy(&key, (const char *)keys + at, sizeof key);
        if (!are_candidates)
            TR_TRY(tr__spill_bring(table, &key, 1));
        tr_slots_find(slots, &slot, &key, 1);
        if (slot != TR_SLOT_NONE)
            tr__table_delete_row(table, slots, slot);
    }
    return TR_OK;
}
