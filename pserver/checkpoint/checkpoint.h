/* checkpoint.h - the inside of checkpoints: names, the manifest, and the functions by which a job writes one.
 *
 * Several processes write the parts of one checkpoint, a file each. Each process hands a description of its part (a Part) to the process
 * that writes the manifest.
 *
 *     tr_part_write                       each writer: the file is on the disk when the call returns
 *     tr_manifest_write                   one process, when all parts are there
 *     tr_checkpoint_prune                 the same process: removes older checkpoints, and half-written files
 *
 * What must stay true: a file is never overwritten, because its name has the snapshot's random number. Only the rename of the manifest
 * makes a checkpoint valid. Parsing trusts nothing. */
#ifndef TR_PSERVER_CHECKPOINT_H
#define TR_PSERVER_CHECKPOINT_H

#include "framework/status.h"
#include "pserver/trireme_checkpoint.h"
#include "proto/checkpoint.pb-c.h"

typedef Trireme__Checkpoint__Manifest tr_manifest;
typedef Trireme__Checkpoint__Part     tr_part;
typedef Trireme__Checkpoint__Tensor   tr_part_tensor;

enum { TR_CHECKPOINT_CHUNK = 1 << 20, TR_CHECKPOINT_ALIGN = 64, TR_MANIFEST_HEADER = 24 };

/* A random number that tells this cut from all others. */
uint64_t  tr_checkpoint_new_number(void);
/* "part-00000-of-00002.9f3c0123456789ab.data"; malloc'ed. */
char     *tr_part_name(int index, int count, uint64_t snapshot);
/* A part as bytes, for a message; malloc'ed. */
uint8_t  *tr_part_pack(size_t *size, const tr_part *part);
/* NULL: damaged. Free it by tr_part_free. */
tr_part  *tr_part_parse(const uint8_t *bytes, size_t size);
void      tr_part_free(tr_part *part);

/* Begin a snapshot of the tables among these states, and end it. Between the two calls tr_part_write writes the rows as they were at the
 * first call, whatever updates change meanwhile. The thread that updates makes both calls, between two updates. */
tr_status tr_tables_snapshot(int count, const tr_checkpoint_item *states);
void      tr_tables_snapshot_end(int count, const tr_checkpoint_item *states);
/* Write `folder`/`name`, and the folders on the way. *out describes it. Tables have a snapshot.
 * On failure the file is gone, and the folder too when nothing else is in it. */
tr_status tr_part_write(tr_part **out, const char *folder, const char *name, int count, const tr_checkpoint_item *states);
/* A checkpoint was given up: remove its part `name`, if there is one, and the folder if it is empty then. */
void      tr_part_remove(const char *folder, const char *name);
/* Write the manifest of DIR/step-...: `parts` are there. Files of the folder that it does not name are removed. */
tr_status tr_manifest_write(const char *folder, const tr_checkpoint_facts *facts, uint64_t snapshot, int part_count,
                            tr_part *const *parts);
/* Leave the newest `keep` checkpoints (at least one), and nothing half written that is older. Failing to remove something
 * is no failure. */
void      tr_checkpoint_prune(const char *dir, int keep);

/* Nobody will ask any more where this launch began. */
void      tr__beginning_remove(const char *folder);

/* Like tr_checkpoint_list. with_incomplete: list folders without a manifest, too. */
int       tr__checkpoint_list_all(int64_t *steps, int room, const char *folder, bool with_incomplete);

/* The manifest of a file's bytes, checked: its own checksum, and that it makes sense by itself. `path` is for messages. */
tr_status tr_manifest_parse(tr_manifest **out, const uint8_t *bytes, size_t size, const char *path);
void      tr_manifest_free(tr_manifest *manifest);
/* The description of a table that stands in a part. */
Trireme__Checkpoint__Table *tr__table_describe(const tr_job_table *table);
/* Check the descriptions of tables in all parts, and that all shards of each table are there. */
tr_status tr__tables_check(const tr_manifest *manifest);
const tr_manifest *tr__checkpoint_manifest(const tr_checkpoint *checkpoint);
/* The file's bytes, malloc'ed. */
uint8_t  *tr_manifest_pack(size_t *size, const tr_manifest *manifest);
/* Bytes from offset on of a part, verified; `at` is the folder. Opens the file each time. */
tr_status tr_part_read(const tr_part *part, const char *folder, uint64_t offset, uint64_t bytes, void *to);

#endif
