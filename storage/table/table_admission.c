/* table_admission.c - decides which keys get rows, and makes and removes rows.
 *
 * A key that is counted has a row without payload among the candidates. If there is a snapshot, rows are made and removed under its
 * lock, because that changes the index. */
#include "framework/tensors/random.h"
#include "framework/threads/threadpool.h"
#include "storage/table/first_values.h"
#include "storage/table/table_state.h"

#include <stdlib.h>
#include <string.h>

/* == admission ===================================================================================== */

bool tr__table_is_chosen(const tr_table_config *c, int64_t key)
{
    const double share = c->entry_probability > 0 ? c->entry_probability : 1;

    return share >= 1 || (double)tr_random_bits(~c->random_key, (uint64_t)key) < share * 0x1p32;
}

bool tr__table_reads_zeros(const tr_table_config *c, int64_t key)
{
    return c->entry_count > 1 || !tr__table_is_chosen(c, key);
}

typedef void (*fill_fn)(tr_table *t, uint32_t slot, int64_t key, const tr_table_row *row);

/* Make a row: `fill` writes its contents before the row can be found. All rows may lie elsewhere after that. */
static tr_status new_row(uint32_t *out, tr_table *t, tr_slots *slots, tr_slots_snapshot *snapshot, int64_t key, fill_fn fill,
                         const tr_table_row *row)
{
    tr_slots_snapshot_lock(snapshot);
    const tr_status status = tr_slots_new_row(out, slots);
    t->rows = tr_slots_rows(t->slots);
    if (status == TR_OK) {
        tr_slots_snapshot_made(snapshot, *out);
        fill(t, *out, key, row);
        tr_slots_publish(slots, *out, key);
    }
    tr_slots_snapshot_unlock(snapshot);
    if (status == TR_OK && slots == t->slots)
        tr__spill_made(t, *out);
    return status;
}

void tr__table_delete_row(tr_table *t, tr_slots *slots, uint32_t slot)
{
    tr_changes_remove(&t->changes, tr_slots_row(tr_slots_rows(slots), tr_slots_stride(slots), slot)->key, slots != t->slots);
    if (slots == t->slots)
        tr__spill_remove(t, slot);
    tr__table_take_out(t, slots, slot);
}

void tr__table_take_out(tr_table *t, tr_slots *slots, uint32_t slot)
{
    tr_slots_snapshot *snapshot = slots == t->slots ? t->snapshot : t->candidates_snapshot;

    tr_slots_snapshot_lock(snapshot);
    tr_slots_snapshot_remove(snapshot, slot);
    tr_slots_delete(slots, slot);
    tr_slots_snapshot_unlock(snapshot);
}

static void fill_candidate(tr_table *t, uint32_t slot, int64_t key, const tr_table_row *row)
{
    (void)key;
    (void)row;
    tr_slots_row(tr_slots_rows(t->candidates), tr_slots_stride(t->candidates), slot)->last = 0;
}

tr_status tr__table_make_candidate(uint32_t *out, tr_table *t, int64_t key)
{
    return new_row(out, t, t->candidates, t->candidates_snapshot, key, fill_candidate, NULL);
}

/* Count an update of a key without a row. *out: the key has enough of them now. A repeated step counts once. */
static tr_status count_touch(bool *out, tr_table *t, int64_t key)
{
    uint32_t slot;

    tr_slots_find(t->candidates, &slot, &key, 1);
    if (slot == TR_SLOT_NONE)
        TR_TRY(tr__table_make_candidate(&slot, t, key));
    tr_slot_row *row = tr_slots_row(tr_slots_rows(t->candidates), tr_slots_stride(t->candidates), slot);
    if (row->last != (uint32_t)t->step) {
        if (t->candidates_snapshot)
            tr_slots_snapshot_keep(t->candidates_snapshot, &slot, 1);
        row->last = (uint32_t)t->step;
        row->mark++;
    }
    *out = (row->mark & TR__TOUCHES) >= t->config.entry_count;
    return TR_OK;
}

static void fill_row(tr_table *t, uint32_t slot, int64_t key, const tr_table_row *from)
{
    tr_slot_row *row = tr__table_row(t, slot);
    float       *states = tr__row_states(t, row);

    (void)from;
    row->last = (uint32_t)t->step;
    tr__table_put_first_value(&t->config, tr__row_values(row), key);
    for (int s = 0; s < t->config.states; s++)
        for (int64_t i = 0; i < t->config.width; i++)
            *states++ = t->config.state_value[s];
}

tr_status tr__table_make_row(uint32_t *out, tr_table *t, int64_t key)
{
    return new_row(out, t, t->slots, t->snapshot, key, fill_row, NULL);
}

void tr__table_write_row(tr_table *t, uint32_t slot, const tr_table_row *row)
{
    tr_slot_row *to = tr__table_row(t, slot);

    memcpy(tr__row_values(to), row->values, t->value_bytes);
    memcpy(tr__row_states(t, to), row->states, (size_t)(t->config.states * t->config.width) * sizeof(float));
    to->mark = (to->mark & TR_SLOT_LIVES) | (row->touches & TR__TOUCHES);
    to->last = row->last;
}

static void copy_row(tr_table *t, uint32_t slot, int64_t key, const tr_table_row *row)
{
    (void)key;
    tr__table_write_row(t, slot, row);
}

tr_status tr__table_copy_row(uint32_t *out, tr_table *t, const tr_table_row *row)
{
    return new_row(out, t, t->slots, t->snapshot, row->key, copy_row, row);
}

static tr_status take_absent(uint32_t *out, tr_table *t, int64_t key)
{
    bool is_due = true;

    tr_slots_find(t->slots, out, &key, 1);             /* if a key comes twice, its row exists by now */
    if (*out != TR_SLOT_NONE || !tr__table_is_chosen(&t->config, key))
        return TR_OK;
    if (!t->candidates)
        return tr__table_make_row(out, t, key);
    TR_TRY(count_touch(&is_due, t, key));
    if (!is_due)
        return TR_OK;
    TR_TRY(tr__table_make_row(out, t, key));           /* the row serves later updates: this one was computed from zeros */
    tr_slots_find(t->candidates, out, &key, 1);
    tr__table_delete_row(t, t->candidates, *out);
    *out = TR_SLOT_NONE;
    return TR_OK;
}

static tr_status take_found(tr_table *table, uint32_t *slots, const int64_t *keys, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (slots[i] == TR_SLOT_NONE)
            TR_TRY(take_absent(&slots[i], table, keys[i]));
        else if (tr__is_made_by(table, tr__table_row(table, slots[i]), table->step))
            slots[i] = TR_SLOT_NONE;                   /* the step is repeated after a kill */
    return TR_OK;
}

typedef struct search {
    const tr_table *table;
    uint32_t       *slots;
    const uint32_t *hints;
    const int64_t  *keys;
} search;

/* Keys of a slice: to find them takes some microseconds. */
enum { MIN_KEYS = 256 };

static void find_range(void *payload, int64_t begin, int64_t end)
{
    const search *s = payload;

    tr_slots_find(s->table->slots, s->slots + begin, s->keys + begin, end - begin);
}

tr_status tr_table_take(tr_table *table, uint32_t *slots, const int64_t *keys, int64_t n)
{
    TR_TRY(tr__spill_bring(table, keys, n));
    tr_parallel_range(n, MIN_KEYS, find_range, &(search){table, slots, NULL, keys});
    return take_found(table, slots, keys, n);
}

static bool is_row_of(const tr_table *t, uint32_t slot, int64_t key)
{
    const tr_slot_row *row = tr__table_row(t, slot);
    return row->key == key && row->mark & TR_SLOT_LIVES;
}

/* A slot that is not there any more had a row that became cold. */
static void confirm_range(void *payload, int64_t begin, int64_t end)
{
    enum { AHEAD = 16 };
    const search  *s = payload;
    const uint32_t used = tr_slots_used(s->table->slots);

    for (int64_t i = begin; i < end; i++) {
        if (i + AHEAD < end && s->hints[i + AHEAD] < used)
            __builtin_prefetch(tr__table_row(s->table, s->hints[i + AHEAD]));
        s->slots[i] = s->hints[i] < used && is_row_of(s->table, s->hints[i], s->keys[i]) ? s->hints[i] : TR_SLOT_NONE;
    }
}

tr_status tr_table_take_hinted(tr_table *table, uint32_t *slots, const uint32_t *hints, const int64_t *keys, int64_t n)
{
    TR_TRY(tr__spill_bring(table, keys, n));
    tr_parallel_range(n, MIN_KEYS, confirm_range, &(search){table, slots, hints, keys});
    return take_found(table, slots, keys, n);
}

/* == all rows go ====================================================================================== */

static void delete_all(tr_table *t, tr_slots *slots)
{
    const uint64_t stride = tr_slots_stride(slots);

    for (uint32_t slot = tr_slots_used(slots); slot-- > 0;)
        if (tr_slots_row(tr_slots_rows(slots), stride, slot)->mark & TR_SLOT_LIVES)
            tr__table_delete_row(t, slots, slot);
}

void tr_table_clear(tr_table *table, uint64_t step, uint64_t clock)
{
    tr_changes_forget(&table->changes);
    tr_table_make_final(table);                        /* undoing must not put old rows into slots that are used again */
    delete_all(table, table->slots);
    if (table->candidates)
        delete_all(table, table->candidates);
    tr__spill_clear(table);
    tr__table_notes_of(table)->ahead = clock - step;
    table->step = clock;
}
