/* slots_snapshot.h - rows as they were at one moment, read by one thread while another goes on changing them.
 *
 * At the moment nothing is copied. Before the owner changes a row for the first time since, its old content is kept aside;
 * the reader takes a shard's rows from where they lie, and those that were changed from there. What is kept aside is
 * dropped when its shard was read. So the owner waits for some rows to be copied and no longer, and memory is taken for rows that
 * change before they are read alone: at most for all of them.
 *
 * What must stay true: the owner changes a row, or the index, between lock and unlock or behind tr_slots_snapshot_keep; the
 * reader reads each shard once. */
#ifndef TR_PSERVER_SLOTS_CUT_H
#define TR_PSERVER_SLOTS_CUT_H

#include "pserver/table/slots.h"

typedef struct tr_slots_snapshot tr_slots_snapshot;

/* The moment is now. The slots outlive it. */
tr_status tr_slots_snapshot_new(tr_slots_snapshot **out, const tr_slots *slots);
void      tr_slots_snapshot_free(tr_slots_snapshot *snapshot);

/* -- the owner's thread -- */

/* These rows will be changed: those of `slots` that are not TR_SLOT_NONE. On failure the snapshot is lost, and the reader hears of
 * it; the owner goes on. */
void      tr_slots_snapshot_keep(tr_slots_snapshot *snapshot, const uint32_t *slots, int64_t n);
/* Around making and removing rows, which change the index. `snapshot` may be NULL. */
void      tr_slots_snapshot_lock(tr_slots_snapshot *snapshot);
void      tr_slots_snapshot_unlock(tr_slots_snapshot *snapshot);
/* Between these: a row was made, one will be removed. `snapshot` may be NULL. */
void      tr_slots_snapshot_made(tr_slots_snapshot *snapshot, uint32_t slot);
void      tr_slots_snapshot_remove(tr_slots_snapshot *snapshot, uint32_t slot);

/* -- the reader's thread -- */

/* The rows of a shard at the moment, `stride` bytes each. `*out` is malloc'ed. */
tr_status tr_slots_snapshot_read(tr_slots_snapshot *snapshot, uint32_t shard, void **out, uint64_t *bytes);

#endif
