/* table_cool.c - which rows of a table with a spill folder become cold, and when.
 *
 * A clock hand goes over the slots: a row that no call has used since the hand looked at it becomes cold. If it has changed since it was
 * read from disk, it is appended to the log. Otherwise its record on disk is used again.
 *
 * What must stay true: rows become cold in tr__spill_make_room and tr__spill_keep_to_memory alone. Neither touches rows of the present
 * call, nor those of the last update before it is final. */
#include "storage/table/table_state.h"

#include <stdlib.h>

enum { AT_A_TIME = 1024 };

/* == how many ===================================================================================== */

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

/* == rows become cold ================================================================================ */

/* A block that held this record is tidied away. */
static bool lost_record(void *payload, int64_t key, uint32_t record)
{
    const tr_table *t = payload;
    const uint32_t  slot = tr_slots_find_one(t->slots, key);

    if (slot == TR_SLOT_NONE || t->spill->record[slot] != record)
        return false;
    t->spill->record[slot] = TR__NO_RECORD;
    return true;
}

/* The row of the slot has this record, which is held. */
static tr_status make_cold(tr_table *t, uint32_t slot, uint32_t record)
{
    const int64_t key = tr__table_row(t, slot)->key;

    tr_cold_begin_move(t->spill->cold, key, record);
    const tr_status status = tr_cold_put(t->spill->cold, key, record);
    if (status == TR_OK) {
        t->spill->record[slot] = TR__NO_RECORD;
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

enum { RARELY = 3, ROUNDS = 4 };

/* A row with two, four or eight times as many updates as rows that become cold is looked at in every second, fourth or eighth round. So a
 * row that is used often stays through a pause, and a row that was used often once does not stay for ever. */
static bool is_passed_over(const tr__spill *s, const tr_slot_row *row)
{
    int class = 0;

    for (double touches = (row->mark & TR__TOUCHES) / 2.0; class < RARELY && touches >= s->usual; touches /= 2)
        class++;
    return s->rounds & ((1u << class) - 1);
}

/* The next slot whose row no call has used since the hand looked at it. *steps: slots that the hand may still pass; in its last two rounds
 * it looks at all. */
static uint32_t next_victim(const tr_table *t, uint64_t *steps)
{
    enum { MANY = 1024 };
    tr__spill     *s = t->spill;
    const uint64_t used = tr_slots_used(t->slots);

    for (; *steps; --*steps) {
        const uint32_t slot = (uint32_t)(s->hand < used ? s->hand : 0);
        const tr_slot_row *row = tr__table_row(t, slot);
        s->rounds += slot < s->hand;
        s->hand = (uint64_t)slot + 1;
        if (s->used[slot] == s->call || s->used[slot] == TR__PINNED || !(row->mark & TR_SLOT_LIVES) ||
            (*steps > 2 * used && is_passed_over(s, row)))
            continue;
        if (!s->used[slot]) {
            s->usual += ((row->mark & TR__TOUCHES) - s->usual) / MANY;
            return slot;
        }
        s->used[slot] = 0;
    }
    return TR_SLOT_NONE;
}

/* Rows that are becoming cold; those that must be written are collected. */
typedef struct cooling {
    uint32_t slots[AT_A_TIME];
    int64_t  changed;
} cooling;

static tr_status cool(tr_table *t, cooling *c, uint32_t slot)
{
    tr__spill *s = t->spill;

    if (s->record[slot] != TR__NO_RECORD && tr_cold_may_put(s->cold, s->record[slot]))
        return make_cold(t, slot, s->record[slot]);
    tr__spill_lose_record(s, slot);
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

tr_status tr__spill_keep_to_memory(tr_table *t)
{
    enum { SHARE = 32, SOME = 4096 };
    const uint64_t most = most_rows(t), used = tr_slots_used(t->slots);

    if (t->spill->pinned || t->snapshot || used <= most + most / SHARE + t->spill->batch)
        return TR_OK;
    return trim(t, (uint32_t)(used - most > SOME ? used - SOME : most));
}

tr_status tr__spill_tidy(tr_table *t)
{
    return t->spill ? tr_cold_tidy(t->spill->cold, lost_record, t) : TR_OK;
}

tr_status tr__spill_make_room(tr_table *t, uint64_t more)
{
    tr__spill     *s = t->spill;
    const uint64_t hot = tr_slots_count(t->slots), most = most_rows(t);
    uint64_t       steps = ROUNDS * (uint64_t)tr_slots_used(t->slots);

    if (hot + more <= most)
        return TR_OK;
    uint64_t surplus = hot + more - most, count = 1;
    surplus = surplus > s->batch ? surplus : s->batch;
    for (; surplus && count; surplus -= count < surplus ? count : surplus)
        TR_TRY(cool_some(t, surplus, &steps, &count));
    return tr__spill_tidy(t);
}
