/* table_rows.c - reads and writes rows, in batches by key and by slot. */
#include "framework/base/compiler.h"
#include "framework/base/memory.h"
#include "framework/threads/threadpool.h"
#include "kernels/math/tools/cast.h"
#include "storage/table/first_values.h"
#include "storage/table/table_state.h"
#include "storage/util/row_copy.h"

#include <stdlib.h>
#include <string.h>

/* == looking up ===================================================================================== */

enum { BATCH = 512 };
enum { AHEAD = 16 };                  /* how many rows ahead memory is prefetched */

/* Prefetch the first `bytes` bytes of the row. */
TR_INLINE void ask_for(const tr_table *t, uint32_t slot, uint64_t bytes)
{
    if (slot == TR_SLOT_NONE)
        return;
    const char *row = (const char *)tr__table_row(t, slot);
    for (uint64_t at = 0; at < bytes; at += TR_CACHE_LINE)
        __builtin_prefetch(row + at);
    __builtin_prefetch(row + bytes - 1);
}

/* The rows as they were before the update at the clock `undone` made some; 0: as they are. */
TR_INLINE void read_rows(const tr_table *t, char *out, uint32_t *slot, const int64_t *keys, int n, uint64_t undone, uint64_t value_bytes)
{
    const uint64_t bytes = sizeof(tr_slot_row) + value_bytes;

    for (int i = 0; i < n && i < AHEAD; i++)
        ask_for(t, slot[i], bytes);
    for (int i = 0; i < n; i++, out += value_bytes) {
        if (i + AHEAD < n)
            ask_for(t, slot[i + AHEAD], bytes);
        slot[i] = tr_slots_confirm(t->slots, t->rows, t->stride, slot[i], keys[i]);
        if (TR_LIKELY(slot[i] != TR_SLOT_NONE && !tr__is_made_by(t, tr__table_row(t, slot[i]), undone)))
            tr_row_copy(out, tr__row_values(tr__table_row(t, slot[i])), value_bytes);
        else if (tr__table_reads_zeros(&t->config, keys[i]))
            memset(out, 0, value_bytes);
        else
            tr__table_put_first_value(&t->config, out, keys[i]);
    }
}

/* Copies of a length that the compiler knows are a few instructions, and let the CPU look further ahead. CALL(..., bytes) does so for 1,
 * 8, 10, 16 and 32 floats. */
#define BY_ROW_BYTES(bytes, call, ...)          \
    switch (bytes) {                            \
    case 4:                                     \
        call(__VA_ARGS__, 4);                   \
        break;                                  \
    case 32:                                    \
        call(__VA_ARGS__, 32);                  \
        break;                                  \
    case 40:                                    \
        call(__VA_ARGS__, 40);                  \
        break;                                  \
    case 64:                                    \
        call(__VA_ARGS__, 64);                  \
        break;                                  \
    case 128:                                   \
        call(__VA_ARGS__, 128);                 \
        break;                                  \
    default:                                    \
        call(__VA_ARGS__, bytes);               \
    }

static void pull_batch(const tr_table *t, char *out, uint32_t *slot, const int64_t *keys, int n, uint64_t undone)
{
    tr_slots_guess(t->slots, slot, keys, n);
    BY_ROW_BYTES(t->value_bytes, read_rows, t, out, slot, keys, n, undone);
}

typedef struct pulling {
    const tr_table *table;
    char           *out;
    uint32_t       *slots;            /* NULL: nobody wants them */
    const int64_t  *keys;
    uint64_t        undone;
} pulling;

static void pull_range(void *payload, int64_t begin, int64_t end)
{
    const pulling *p = payload;
    uint32_t       slot[BATCH];

    for (int64_t i = begin; i < end; i += BATCH)
        pull_batch(p->table, p->out + (uint64_t)i * p->table->value_bytes, p->slots ? p->slots + i : slot, p->keys + i,
                   end - i < BATCH ? (int)(end - i) : BATCH, p->undone);
}

static tr_status pull(tr_table *table, void *out, uint32_t *slots, const int64_t *keys, int64_t n, uint64_t undone)
{
    TR_TRY(tr__spill_begin(table, keys, n));
    tr_parallel_range(n, 2 * BATCH, pull_range, &(pulling){table, out, slots, keys, undone});
    tr__spill_end(table);
    return TR_OK;
}

tr_status tr_table_pull(tr_table *table, void *out, const int64_t *keys, int64_t n)
{
    return pull(table, out, NULL, keys, n, table->undone);
}

tr_status tr_table_pull_places(tr_table *table, void *out, uint32_t *slots, const int64_t *keys, int64_t n)
{
    return pull(table, out, slots, keys, n, table->undone);
}

/* -- rows before the last update ---------------------------------------------------------------------- */

typedef struct wanted {
    uint32_t slot;
    int64_t  at;                      /* index among the requested keys */
} wanted;

typedef struct before {
    const tr_table *table;
    wanted         *wanted;           /* sorted by slot */
    int64_t         count;
    char           *out;
} before;

static int by_slot(const void *a, const void *b)
{
    const uint32_t x = ((const wanted *)a)->slot, y = ((const wanted *)b)->slot;
    return (x > y) - (x < y);
}

static void take_before(void *payload, uint64_t slot, const char *row)
{
    const before *b = payload;
    const wanted  key = {(uint32_t)slot, 0};
    const wanted *found = bsearch(&key, b->wanted, (size_t)b->count, sizeof key, by_slot);

    if (found)
        memcpy(b->out + (uint64_t)found->at * b->table->value_bytes, tr__row_values((tr_slot_row *)(uintptr_t)row), b->table->value_bytes);
}

tr_status tr_table_pull_before(tr_table *table, void *out, const int64_t *keys, int64_t n)
{
    uint32_t *slots = malloc(((size_t)n + 1) * sizeof *slots);
    before    b = {table, malloc(((size_t)n + 1) * sizeof(wanted)), 0, out};

    if (!slots || !b.wanted) {
        free(slots);
        free(b.wanted);
        return tr_fail(TR_ENOMEM, "no memory for the slots of %lld keys", (long long)n);
    }
    const tr_status status = pull(table, out, NULL, keys, n, table->step);
    if (status == TR_OK)
        tr_slots_find(table->slots, slots, keys, n);
    for (int64_t i = 0; status == TR_OK && i < n; i++)
        if (slots[i] != TR_SLOT_NONE)
            b.wanted[b.count++] = (wanted){slots[i], i};
    qsort(b.wanted, (size_t)b.count, sizeof *b.wanted, by_slot);
    tr_undo_each(table->undo, take_before, &b);
    free(b.wanted);
    free(slots);
    return status;
}

/* == tiles of an update ================================================================================ */

TR_INLINE void gather_row(const tr_table *t, tr_slot_row *row, float *values, float *const *states, int64_t at, uint64_t bytes)
{
    if (t->config.dtype == TR_FP32)
        tr_row_copy(values + at, tr__row_values(row), bytes);
    else
        tr_cast(values + at, TR_FP32, tr__row_values(row), t->config.dtype, t->config.width);
    const float *from = tr__row_states(t, row);
    for (int s = 0; s < t->config.states; s++)
        tr_row_copy(states[s] + at, from + s * t->config.width, bytes);
}

TR_INLINE void gather_rows(const tr_table *t, const uint32_t *slots, int64_t n, float *values, float *const *states, uint64_t bytes)
{
    const int64_t width = t->config.width;

    for (int64_t i = 0; i < n; i++) {
        if (i + AHEAD < n)
            ask_for(t, slots[i + AHEAD], t->stride);
        if (TR_LIKELY(slots[i] != TR_SLOT_NONE)) {
            gather_row(t, tr__table_row(t, slots[i]), values, states, i * width, bytes);
            continue;
        }
        memset(values + i * width, 0, bytes);
        for (int s = 0; s < t->config.states; s++)
            memset(states[s] + i * width, 0, bytes);
    }
}

void tr_table_gather(const tr_table *table, const uint32_t *slots, int64_t n, float *values, float *const *states)
{
    BY_ROW_BYTES((uint64_t)table->config.width * sizeof(float), gather_rows, table, slots, n, values, states);
}

static void touch(tr_slot_row *row, uint64_t step)
{
    if ((row->mark & TR__TOUCHES) != TR__TOUCHES)
        row->mark++;
    row->last = (uint32_t)step;
}

TR_INLINE void scatter_row(const tr_table *t, tr_slot_row *row, const float *values, const float *const *states, int64_t at,
                           uint64_t bytes)
{
    if (t->config.dtype == TR_FP32)
        tr_row_copy(tr__row_values(row), values + at, bytes);
    else
        tr_cast(tr__row_values(row), t->config.dtype, values + at, TR_FP32, t->config.width);
    float *to = tr__row_states(t, row);
    for (int s = 0; s < t->config.states; s++)
        tr_row_copy(to + s * t->config.width, states[s] + at, bytes);
    touch(row, t->step);
}

TR_INLINE void scatter_rows(const tr_table *t, const uint32_t *slots, int64_t n, const float *values, const float *const *states,
                            uint64_t bytes)
{
    for (int64_t i = 0; i < n; i++)
        if (TR_LIKELY(slots[i] != TR_SLOT_NONE))
            scatter_row(t, tr__table_row(t, slots[i]), values, states, i * t->config.width, bytes);
}

/* Rows of the log stay in their slots until the update is final. */
static tr_status log_rows(tr_table *t, const uint32_t *slots, int64_t n)
{
    TR_TRY(tr_undo_log(t->undo, t->rows, slots, n));
    tr__spill_pin(t, slots, n);
    return TR_OK;
}

tr_status tr_table_keep(tr_table *table, const uint32_t *slots, int64_t n)
{
    if (!table->logs_when_set)
        TR_TRY(log_rows(table, slots, n));
    if (table->snapshot)
        tr_slots_snapshot_keep(table->snapshot, slots, n);
    tr__spill_change(table, slots, n);
    return TR_OK;
}

void tr_table_scatter(const tr_table *table, const uint32_t *slots, int64_t n, const float *values, const float *const *states)
{
    BY_ROW_BYTES((uint64_t)table->config.width * sizeof(float), scatter_rows, table, slots, n, values, states);
}

/* == rows in and out ================================================================================== */

tr_status tr_table_set_values(tr_table *table, int64_t key, const void *values)
{
    uint32_t slot;

    if (!tr__table_is_chosen(&table->config, key))
        return TR_OK;
    if (!table->logs_when_set)                     /* no update touches the row */
        tr_changes_forget(&table->changes);
    TR_TRY(tr__spill_bring(table, &key, 1));
    tr_slots_find(table->slots, &slot, &key, 1);
    if (slot == TR_SLOT_NONE)
        TR_TRY(tr__table_make_row(&slot, table, key));
    if (table->logs_when_set)
        TR_TRY(log_rows(table, &slot, 1));
    if (table->snapshot)
        tr_slots_snapshot_keep(table->snapshot, &slot, 1);
    tr__spill_change(table, &slot, 1);
    memcpy(tr__row_values(tr__table_row(table, slot)), values, table->value_bytes);
    return TR_OK;
}
