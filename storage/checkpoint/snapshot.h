/* snapshot.h - a copy of arrays, taken at the speed of memory and written to disk while the originals change. Tables are not copied: the
 * writer reads the rows of that moment while updates go on (table.h).
 *
 * The copy's memory is reused by the next snapshot, and a thread can prepare it before the first one. So training waits for the copying
 * alone.
 *
 * What must stay true: one thread takes snapshots. It takes no second one before the first is written. */
#ifndef TR_STORAGE_SNAPSHOT_H
#define TR_STORAGE_SNAPSHOT_H

#include "storage/checkpoint/checkpoint.h"

typedef struct tr_snapshot tr_snapshot;

tr_snapshot *tr_snapshot_new(void);
void         tr_snapshot_free(tr_snapshot *snapshot);
/* The number of bytes that the copies of these arrays take. */
size_t       tr_snapshot_bytes(int count, const tr_checkpoint_item *states);
/* Reserve memory for so many bytes, with all its pages. */
tr_status    tr_snapshot_reserve(tr_snapshot *snapshot, size_t bytes);
/* Copy the arrays and their descriptions. The thread that updates calls this and tr_snapshot_end, between two updates. */
/* number, since: of tr_tables_snapshot. */
tr_status    tr_snapshot_take(tr_snapshot *snapshot, int count, const tr_checkpoint_item *states, uint64_t number, uint64_t since);
/* The snapshot is written: tables need not keep old rows any longer. */
void         tr_snapshot_end(tr_snapshot *snapshot);
/* Write the copies as the part `folder`/`name`. */
tr_status    tr_snapshot_write(tr_part **out, const tr_snapshot *snapshot, const char *folder, const char *name, tr_checkpoint_rows rows);

#endif
