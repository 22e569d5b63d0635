/* table_state.h - the inside of a table, shared by table.c (life), table_admission.c (which keys have rows) and
 * table_rows.c (rows read and written). */
#ifndef TR_PSERVER_TABLE_STATE_H
#define TR_PSERVER_TABLE_STATE_H

#include "pserver/table/slots_snapshot.h"
#include "pserver/table/table.h"
#include "pserver/table/undo.h"

struct tr_table {
    tr_table_config config;
    tr_slots       *slots, *candidates;
    tr_undo        *undo;
    uint64_t        step;             /* of the update that was begun last */
    uint64_t        value_bytes, values_padded;
    char           *rows;
    uint64_t        stride;
    uint32_t       *list;             /* of a shard's slots */
    uint64_t        list_capacity;
    uint32_t        first_shard, shard_count;
    bool            logs_when_set;
    tr_slots_snapshot   *snapshot, *candidates_snapshot;     /* while somebody reads an earlier moment; else NULL */
};

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

/* Whether this key may ever have a row. */
bool tr__table_is_chosen(const tr_table_config *config, int64_t key);
/* Keys that wait for their row, or never get one, read zeros. */
bool tr__table_reads_zeros(const tr_table_config *config, int64_t key);
/* A row with first values, of a key that has none; a key that is counted, with no touch. */
tr_status tr__table_make_row(uint32_t *out, tr_table *t, int64_t key);
tr_status tr__table_make_candidate(uint32_t *out, tr_table *t, int64_t key);

#endif
