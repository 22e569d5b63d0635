/* slots_snapshot.h - rows as they were at one moment, read by one thread while another thread changes them.
 *
 * Nothing is copied at that moment. Before the owner changes a row for the first time, it keeps the old content aside. The reader takes a
 * shard's unchanged rows from their places and the others from the kept contents, which are then dropped. So the owner waits only while
 * some rows are copied. Memory is needed only for rows that change before they are read: at most for all of them.
 *
 * What must stay true: the owner changes a row, or the index, between lock and unlock or after tr_slots_snapshot_keep. The reader reads
 * each shard once. */
#pragma once

#include "storage/slots/slots.h"

typedef struct tr_slots_snapshot tr_slots_snapshot;

/* Begin: the moment is now. The slots must outlive the snapshot. */
tr_status tr_slots_snapshot_new(tr_slots_snapshot **out, const tr_slots *slots);
void      tr_slots_snapshot_free(tr_slots_snapshot *snapshot);

/* -- the owner's thread -- */

/* The owner will change these rows; TR_SLOT_NONE in `slots` is skipped. On failure the snapshot is lost and the reader is told. The
 * owner goes on. */
void      tr_slots_snapshot_keep(tr_slots_snapshot *snapshot, const uint32_t *slots, int64_t n);
/* Lock and unlock around making and removing rows, which change the index. `snapshot` may be NULL. */
void      tr_slots_snapshot_lock(tr_slots_snapshot *snapshot);
void      tr_slots_snapshot_unlock(tr_slots_snapshot *snapshot);
/* Called between lock and unlock: a row was made; a row will be removed. `snapshot` may be NULL. */
void      tr_slots_snapshot_made(tr_slots_snapshot *snapshot, uint32_t slot);
void      tr_slots_snapshot_remove(tr_slots_snapshot *snapshot, uint32_t slot);

/* -- the reader's thread -- */

/* Read the rows of a shard at that moment, `stride` bytes each. *out is malloc'ed. */
tr_status tr_slots_snapshot_read(tr_slots_snapshot *snapshot, uint32_t shard, void **out, uint64_t *bytes);
