/* snapshot.h - a copy of arrays, taken at the speed of memory, written while its originals go on changing. Tables are not
 * copied: their rows of the moment are read while they go on (table.h).
 *
 * The memory of the copy is kept from one snapshot to the next, and can be made ready in the background before the first:
 * what a training waits for is the copying alone.
 *
 * What must stay true: one thread takes; between take and the end of the writing nothing else is taken. */
#ifndef TR_PSERVER_SNAPSHOT_H
#define TR_PSERVER_SNAPSHOT_H

#include "pserver/checkpoint/checkpoint.h"

typedef struct tr_snapshot tr_snapshot;

tr_snapshot *tr_snapshot_new(void);
void         tr_snapshot_free(tr_snapshot *snapshot);
/* Bytes that the copies of these arrays take. */
size_t       tr_snapshot_bytes(int count, const tr_checkpoint_item *states);
/* Memory for so many bytes, with all its pages. */
tr_status    tr_snapshot_reserve(tr_snapshot *snapshot, size_t bytes);
/* Copy the arrays, and what is said of them. By the one that updates, between updates, as tr_snapshot_end. */
tr_status    tr_snapshot_take(tr_snapshot *snapshot, int count, const tr_checkpoint_item *states);
/* Nothing is written any more: tables need not keep what changes. */
void         tr_snapshot_end(tr_snapshot *snapshot);
/* Write the copies as the part `folder`/`name`. */
tr_status    tr_snapshot_write(tr_part **out, const tr_snapshot *snapshot, const char *folder, const char *name);

#endif
