/* table.h - a sparse table: int64 key -> row of values and optimizer state, on one server or in one process.
 *
 * A row is made at its first update. A key without a row still has a first value: a pure function of (random key, key, column), the same as
 * element key * width + column of a dense parameter. So it changes no bit where rows live or when they are made. Looking up changes
 * nothing.
 *
 * An update: begin(step); take the slots of its keys, which makes rows; for tiles of rows gather, compute, scatter. The next begin, or an
 * eviction, makes the update final. A table in named segments (segment.h) is consistent after a kill at any instruction. Attaching rolls
 * back the updates beyond a given step (undo.h); rows that those made stay, with their first values.
 *
 * Admission: a key gets a row when updates have touched it `entry_count` times (the update that completes the count is not applied). Only a
 * share `entry_probability` of all keys gets one, chosen by a hash. Other keys read zeros then. Eviction goes through one virtual shard a
 * step. Neither depends on the number of servers.
 *
 * Memory: with a spill folder the rows that were not used for the longest time lie on disk (cold.h). Every call first brings the rows of
 * its keys into memory, so results do not depend on where rows were (table_spill.c). Slots are valid until the next call with keys. Rows on
 * disk of a table in named segments survive a kill as well, and rows of the last update stay in memory until it is final.
 *
 * What must stay true: one thread updates, and no thread looks up meanwhile. Any number of threads may look up at the same time. */
#pragma once

#include "storage/cold/cold.h"
#include "storage/slots/slots.h"
#include "storage/table/table_config.h"

/* a row's mark counts its updates up to this number: these bits belong to the table */
#define TR__TOUCHES (TR_SLOT_LIVES - 1)

/* The part of the table that is here, and its memory. */
typedef struct tr_table_segment {
    const char *name;                 /* name of the segments; NULL: anonymous memory */
    uint32_t    first_shard, shard_count;
    uint64_t    max_bytes;            /* limit of the rows' bytes; 0: the machine's memory */
    const char *spill;                /* folder on a disk of this machine: rows beyond `memory` lie in a file there. NULL: all are in memory */
    uint64_t    memory;               /* with `spill`: bytes of the rows in memory and of the index of all rows */
    bool        logs_when_set;        /* an update has many scatters, all of rows that tr_table_set_values has set in this update. Then only
                                       * that call logs the rows */
} tr_table_segment;

typedef struct tr_table tr_table;

tr_status tr_table_check_config(const tr_table_config *config);
tr_status tr_table_create(tr_table **out, const tr_table_config *config, const tr_table_segment *place);
/* Attach, and roll back the updates after step `step`. TR_EFORMAT: the segments have another table. */
tr_status tr_table_attach(tr_table **out, const tr_table_config *config, const tr_table_segment *place, uint64_t step);
/* Roll back the last update if it is of a later step. Nothing may have been updated since. */
void      tr_table_go_back(tr_table *table, uint64_t step);
/* Give a table that was just made and filled another configuration, whose rows have the same type, width and states: other admission, other
 * first values. `place` is that of tr_table_create, but it may have a spill folder now. Keys that are counted and have no row yet are
 * dropped if the new one counts none. TR_ESHAPE: its rows are others. */
tr_status tr_table_configure(tr_table *table, const tr_table_config *config, const tr_table_segment *place);
void      tr_table_free(tr_table *table);
/* Remove the segments of this name. */
void      tr_table_remove(const char *name);
const tr_table_config *tr_table_get_config(const tr_table *table);
/* The folder of its rows on disk, and *memory for all others; NULL: all rows are in memory. */
const char *tr_table_spill(uint64_t *memory, const tr_table *table);
/* The virtual shards that are here. */
void      tr_table_range(const tr_table *table, uint32_t *first_shard, uint32_t *shard_count);
/* Bytes of a packed row, with its header and states. */
uint64_t  tr_table_stride(const tr_table_config *config);
/* Bytes of a row's values. */
int64_t   tr_table_row_bytes(const tr_table_config *config);

/* -- looking up -------------------------------------------------------------------------------------- */

/* Read the values of `n` keys, one after the other, in the table's type. Only a table with rows on disk can fail. */
tr_status tr_table_pull(tr_table *table, void *out, const int64_t *keys, int64_t n);
/* The same, and their slots: hints for an update of these keys. */
tr_status tr_table_pull_places(tr_table *table, void *out, uint32_t *slots, const int64_t *keys, int64_t n);
/* The same as before the last update; the keys must be distinct. Rows that this update made have their first values. */
tr_status tr_table_pull_before(tr_table *table, void *out, const int64_t *keys, int64_t n);

/* Look-ups of these keys come soon: begin to read those of their rows that lie on disk. It changes no result. */
tr_status tr_table_expect(tr_table *table, const int64_t *keys, int64_t n);

/* -- an update ---------------------------------------------------------------------------------------- */

/* Begin an update. Steps are numbered from 1 and ascend. */
tr_status tr_table_begin(tr_table *table, uint64_t step);
/* Find the slots of `n` distinct keys, and make new rows where they are due. TR_SLOT_NONE: the key is not admitted (yet). */
tr_status tr_table_take(tr_table *table, uint32_t *slots, const int64_t *keys, int64_t n);
/* The same with hints: slots that the keys had earlier, or TR_SLOT_NONE. A row knows its key, so a wrong hint is harmless. */
tr_status tr_table_take_hinted(tr_table *table, uint32_t *slots, const uint32_t *hints, const int64_t *keys, int64_t n);
/* Copy values and states of rows, [n, width] each, as float32; zeros for TR_SLOT_NONE. */
void      tr_table_gather(const tr_table *table, const uint32_t *slots, int64_t n, float *values, float *const *states);
/* Before rows are written: keep what they have for undoing the update, and for a snapshot that is being read. */
tr_status tr_table_keep(tr_table *table, const uint32_t *slots, int64_t n);
/* Write them back, rounded to the table's type, and count the update in each row. Threads may do so at a time, each with other rows. */
void      tr_table_scatter(const tr_table *table, const uint32_t *slots, int64_t n, const float *values, const float *const *states);
/* Between updates: remove the rows of this step's shard that are due. *removed may be NULL. */
tr_status tr_table_evict(tr_table *table, uint64_t step, uint64_t *removed);
/* Between updates: the last update can no longer be undone. */
void      tr_table_make_final(tr_table *table);
/* The clock of the table, by which rows age: the step of the last update, or what tr_table_clear has made of it. */
uint64_t  tr_table_clock(const tr_table *table);

/* -- rows in and out ----------------------------------------------------------------------------------- */

typedef struct tr_table_row {
    int64_t      key;
    uint32_t     touches, last;       /* number of updates, and the step of the last */
    const void  *values;              /* values, in the table's type */
    const float *states;              /* states, [states, width] */
} tr_table_row;

/* Set the values of a row, in the table's type; a new row gets first states. A key outside the share that can have rows gets none. Call
 * it between updates, unless the table logs here (logs_when_set). */
tr_status tr_table_set_values(tr_table *table, int64_t key, const void *values);
/* Remove all rows and candidates, between updates: others are put in. They are as old as at `clock`, the clock of the table that they come from; `step`
 * is the last update here. The last update becomes final. */
void      tr_table_clear(tr_table *table, uint64_t step, uint64_t clock);
/* Make or replace a row. Between updates. */
tr_status tr_table_put(tr_table *table, const tr_table_row *row);

/* Pack the rows of a shard. Each row has its key (i64), updates, last step (u32), values in the table's type, padded to 4, and states
 * (f32), padded to 8: in all `row_bytes` of the report. *out is malloc'ed. */
tr_status tr_table_pack(const tr_table *table, uint32_t shard, void **out, uint64_t *bytes);
/* The same, but only rows that an update after `since` touched; 0: all. */
tr_status tr_table_pack_newer(const tr_table *table, uint32_t shard, uint32_t since, void **out, uint64_t *bytes);
/* Add packed rows of a table of the same type, width and states. TR_EFORMAT: the bytes are no such rows. */
tr_status tr_table_unpack(tr_table *table, const void *rows, uint64_t bytes);
/* Pack and unpack candidates, which are keys that are counted and have no row yet. A candidate is packed as key, updates, last step, 16 bytes each. */
tr_status tr_table_pack_candidates(const tr_table *table, uint32_t shard, void **out, uint64_t *bytes);
tr_status tr_table_unpack_candidates(tr_table *table, const void *rows, uint64_t bytes);

/* -- a snapshot: the table of this moment, read while updates go on (slots_snapshot.h) ----------------------------- */

/* Begin a snapshot, between updates. An earlier snapshot is dropped. `number`: it is remembered by this number, and a later snapshot may be
 * of changes since this one; 0: it is not. `since`: read only what has changed since that snapshot, if the table remembers it; 0: all. */
tr_status tr_table_snapshot(tr_table *table, uint64_t number, uint64_t since);
/* Is only read what has changed? */
bool      tr_table_snapshot_has_changes(const tr_table *table);
/* The rows of the table at that moment. */
uint64_t  tr_table_snapshot_rows(const tr_table *table);
/* Pack a shard as tr_table_pack would have done at that moment. Another thread may call it; each shard once. */
tr_status tr_table_snapshot_read(const tr_table *table, uint32_t shard, void **out, uint64_t *bytes);
tr_status tr_table_snapshot_read_candidates(const tr_table *table, uint32_t shard, void **out, uint64_t *bytes);
/* Of changes: the keys of a shard that had a row (or were counted) and have none any more, i64 each. They come before the shard's rows. */
tr_status tr_table_snapshot_read_removed(const tr_table *table, uint32_t shard, bool are_candidates, void **out, uint64_t *bytes);
/* Remove keys that have lost their rows, or are not counted any more, from a table that has the rows of the earlier snapshot. Between
 * updates. */
tr_status tr_table_unpack_removed(tr_table *table, bool are_candidates, const void *keys, uint64_t bytes);
/* End the snapshot, between updates: its reader has finished. */
void      tr_table_snapshot_end(tr_table *table);

typedef struct tr_table_report {
    uint64_t rows, candidates;        /* candidates: keys that are not admitted yet */
    uint64_t row_bytes;               /* bytes of one row with its states and header */
    uint64_t bytes;                   /* memory of the process in all */
    uint64_t index_bytes;             /* of these: the indices of rows and of candidates */
    uint64_t undo_bytes;              /* of these: the log of the last update */
    uint64_t looked_up, found_hot;    /* of a table with a spill folder: keys of all calls; those of them that had a row in memory */
    tr_cold_report cold;              /* its rows on disk */
} tr_table_report;

void      tr_table_get_report(const tr_table *table, tr_table_report *report);
/* For measuring. */
const tr_slots *tr_table_slots(const tr_table *table);
