/* table_state.h - the inside of a table, shared by table.c (start and end), table_admission.c (which keys get rows), table_evict.c (which lose
 * them), table_rows.c (reading
 * and writing rows), table_shards.c (whole shards), table_spill.c, table_cool.c and table_spill_rows.c (rows on disk). */
#pragma once

#include "storage/table/changes.h"
#include "storage/slots/slots_snapshot.h"
#include "storage/table/table.h"
#include "storage/table/undo.h"

#include <pthread.h>

typedef struct tr__spill tr__spill;

struct tr_table {
    tr_table_config config;
    tr_slots       *slots, *candidates;
    tr_undo        *undo;
    uint64_t        step;             /* the table's clock at the update that was begun last: its step plus what the notes say */
    uint64_t        undone;           /* the clock of an update that was undone, until one is begun: rows that it made are there; or 0 */
    uint64_t        value_bytes, values_padded;
    char           *rows;
    uint64_t        stride;
    uint32_t       *list;             /* memory for a shard's slots */
    uint64_t        list_capacity;
    uint32_t        first_shard, shard_count;
    bool            logs_when_set;
    tr__spill      *spill;            /* its rows on disk; NULL: all rows are in memory */
    tr_slots_snapshot   *snapshot, *candidates_snapshot;     /* while a snapshot is read; else NULL */
    uint64_t        snapshot_rows;    /* at that moment */
    bool            has_changes;      /* only what has changed since an earlier snapshot is read: */
    uint32_t        changed_after;    /* rows that were touched after this clock */
    tr_removed_key *removed;          /* and these keys, by their shards */
    uint64_t        removed_count;
    tr_changes      changes;
};

/* What a table keeps in its rows' segment. */
typedef struct tr__table_notes {
    uint64_t digest;                  /* of the settings that make two tables' rows mean the same */
    uint64_t ahead;                   /* the table's clock minus the number of an update: rows of another run may have been put in (tr_table_clear) */
    uint64_t is_spilled;              /* it has rows on disk, without which it is not whole */
} tr__table_notes;

static inline tr__table_notes *tr__table_notes_of(const tr_table *t)
{
    return tr_slots_notes(t->slots);
}

static inline tr_slot_row *tr__table_row(const tr_table *t, uint32_t slot)
{
    return tr_slots_row(t->rows, t->stride, slot);
}

static inline char *tr__row_values(tr_slot_row *row)
{
    return (char *)(row + 1);
}

static inline float *tr__row_states(const tr_table *t, tr_slot_row *row)
{
    return (float *)(tr__row_values(row) + t->values_padded);
}

/* Did the update at this clock make this row, of a key that was counted? The key reads zeros up to this update, which was computed from
 * them. Clock 0: no update. */
static inline bool tr__is_made_by(const tr_table *t, const tr_slot_row *row, uint64_t clock)
{
    return clock && t->candidates && !(row->mark & TR__TOUCHES) && row->last == (uint32_t)clock;
}

/* Is this key in the share that can have rows? */
bool tr__table_is_chosen(const tr_table_config *config, int64_t key);
/* Does a key without a row read zeros, because it waits for its row or never gets one? */
bool tr__table_reads_zeros(const tr_table_config *config, int64_t key);
/* Make a row with first values for a key that has none; or a candidate, a counted key without updates so far. */
tr_status tr__table_make_row(uint32_t *out, tr_table *t, int64_t key);
/* Make a row with these contents, for a key that has none; or write them into a row. */
tr_status tr__table_copy_row(uint32_t *out, tr_table *t, const tr_table_row *row);
void      tr__table_write_row(tr_table *t, uint32_t slot, const tr_table_row *row);
tr_status tr__table_make_candidate(uint32_t *out, tr_table *t, int64_t key);
/* Remove a row, or a candidate: of t->slots, or t->candidates. */
void      tr__table_delete_row(tr_table *t, tr_slots *slots, uint32_t slot);
/* The same for a row that lies on disk from now on. */
void      tr__table_take_out(tr_table *t, tr_slots *slots, uint32_t slot);

/* -- table_spill.c, table_cool.c, table_spill_rows.c: rows on disk ------------------------------------------------------ */

#define TR__NO_RECORD UINT32_MAX
enum { TR__PINNED = UINT8_MAX };      /* in `used`: the row stays until the last update is final */

struct tr__spill {
    tr_cold        *cold;
    char           *folder;
    uint64_t        memory;           /* bytes of hot rows and of both indices */
    uint64_t        batch;            /* rows that become cold at a time, so that writes are large */
    uint64_t        pinned;           /* slots that are TR__PINNED in `used` */
    /* of each slot: */
    uint8_t        *used;             /* the call that used it last; 0: none since the hand looked; TR__PINNED */
    uint32_t       *record;           /* the record that has the same contents; TR__NO_RECORD: none */
    uint64_t        capacity;
    uint8_t         call;             /* number of this call, 1 to 254 and again from 1 */
    uint64_t        hand, rounds;     /* the next slot that the hand looks at, and how often it has begun anew */
    double          usual;            /* updates of a row that becomes cold: the mean of the last ones */
    uint32_t       *slots;            /* memory for a call: the slots of its keys */
    int64_t         slots_capacity;
    uint64_t        looked_up, found_hot;
    tr_cold_age    *ages;             /* memory for those of a shard */
    uint64_t        ages_capacity;
    pthread_mutex_t lock;
};

/* Make the rows on disk of a table that has its slots, or attach to them. Without a spill folder *out is NULL. */
tr_status tr__spill_new(tr__spill **out, const tr_table *table, const tr_table_segment *place, bool is_new);
void      tr__spill_free(tr__spill *spill);
/* The table has another configuration. */
tr_status tr__spill_configure(tr_table *table);

/* What the slot's row had on disk is of no use any more. */
void      tr__spill_lose_record(tr__spill *spill, uint32_t slot);

/* Make room for `more` hot rows. If all hot rows are needed now, there are more of them until the next call. */
tr_status tr__spill_make_room(tr_table *table, uint64_t more);
/* Bound the file, when rows on disk were removed. */
tr_status tr__spill_tidy(tr_table *table);
/* When the index of the cold rows has grown, there may be fewer hot rows. Slots at the end are given up, some thousand in a call, when none
 * of their rows must stay and nobody reads them for a snapshot. */
tr_status tr__spill_keep_to_memory(tr_table *table);

/* All of these do nothing for a table without a spill folder. */

/* Let the rows of these keys be hot, for one call of a thread: others wait until tr__spill_end. On failure nothing has begun. */
tr_status tr__spill_begin(tr_table *table, const int64_t *keys, int64_t n);
void      tr__spill_end(tr_table *table);
/* Both, for a thread that is alone with the table. */
tr_status tr__spill_bring(tr_table *table, const int64_t *keys, int64_t n);
/* A row was made in this slot; these rows will change; this row will be removed. */
void      tr__spill_made(tr_table *table, uint32_t slot);
void      tr__spill_change(tr_table *table, const uint32_t *slots, int64_t n);
void      tr__spill_remove(tr_table *table, uint32_t slot);
/* These rows were logged for undoing the update: they stay hot until it is final. The same for all rows of the log; the log will be
 * emptied. */
void      tr__spill_pin(tr_table *table, const uint32_t *slots, int64_t n);
void      tr__spill_pin_logged(tr_table *table);
void      tr__spill_unpin_logged(tr_table *table);
/* All rows were removed. */
void      tr__spill_clear(tr_table *table);
uint64_t  tr__spill_rows(const tr_table *table);
void      tr__spill_report(tr_table_report *report, const tr_table *table);

/* Append the cold rows of a shard to packed rows, which are malloc'ed: those that an update after `since` touched; 0: all. On failure the
 * rows are freed. */
tr_status tr__spill_pack(const tr_table *table, uint32_t shard, uint32_t since, void **rows, uint64_t *bytes);
/* By the reader of the snapshot: pack all rows of a shard that such an update touched, hot and cold ones. `since` is the same in all calls. */
tr_status tr__spill_snapshot_read(const tr_table *table, uint32_t shard, uint32_t since, void **rows, uint64_t *bytes);
tr_status tr__spill_snapshot(const tr_table *table);
void      tr__spill_snapshot_end(const tr_table *table);
