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
#ifndef TR_STORAGE_CHECKPOINT_H
#define TR_STORAGE_CHECKPOINT_H

#include "framework/base/status.h"
#include "storage/checkpoint/checkpoint_messages.h"
#include "storage/trireme_checkpoint.h"

enum { TR_CHECKPOINT_CHUNK = 1 << 20, TR_CHECKPOINT_ALIGN = 64, TR_MANIFEST_HEADER = 24, TR_MANIFEST_MOST = 1 << 30 };

/* A random number that tells this snapshot from all others. */
uint64_t  tr_checkpoint_new_number(void);
/* "part-00000-of-00002.9f3c0123456789ab.data"; malloc'ed. */
char     *tr_part_name(int index, int count, uint64_t snapshot);
/* The folder of a step's checkpoint beside `folder`; malloc'ed. */
char     *tr__checkpoint_beside(const char *folder, int64_t step);
/* The folder in which the file of this part lies: `folder`, or one beside it; malloc'ed. */
char     *tr__part_folder(const tr_part *part, const char *folder);
/* Pack the description of a part, for a message; malloc'ed. */
uint8_t  *tr_part_pack(size_t *size, const tr_part *part);
/* Unpack it. NULL: damaged. Free it by tr_part_free. */
tr_part  *tr_part_parse(const uint8_t *bytes, size_t size);
void      tr_part_free(tr_part *part);

/* Begin a snapshot of the tables among these states, and end it. Between the two calls tr_part_write writes the rows as they were at the
 * first call, whatever updates change meanwhile. The thread that updates makes both calls, between two updates. */
/* `number` is the checkpoint's (tr_checkpoint_new_number), `since` that of an earlier one: a table that remembers it has its changes since
 * then written, any other all rows; 0: all rows. */
tr_status tr_tables_snapshot(int count, const tr_checkpoint_item *states, uint64_t number, uint64_t since);
void      tr_tables_snapshot_end(int count, const tr_checkpoint_item *states);
/* Write the part `folder`/`name`; missing folders are made. *out describes the part. Tables need a snapshot. On failure the file is
 * removed, and the folder, too, if it is empty. */
tr_status tr_part_write(tr_part **out, const char *folder, const char *name, tr_checkpoint_rows rows, int count,
                        const tr_checkpoint_item *states);
/* A checkpoint was given up: remove its part `name`, if there is one, and the folder if it is empty then. */
void      tr_part_remove(const char *folder, const char *name);
/* Write the manifest of DIR/step-... when all `parts` are there. Files in the folder that no checkpoint of DIR needs any more are
 * removed. dir: DIR, whose checkpoints have runs and an order (run.h); NULL: this is none of them. With facts->base its folder lies beside `folder` (changes.h): TR_EFORMAT, it
 * is not there any more. groups: sizes of the trainers' host groups, "4,4,2"; NULL: it is no job. */
tr_status tr_manifest_write(const char *dir, const char *folder, const tr_checkpoint_facts *facts, const char *groups, uint64_t snapshot,
                            int part_count, tr_part *const *parts);
/* Write this manifest, and remove files as tr_manifest_write does. */
tr_status tr__manifest_put(const char *dir, const char *folder, const tr_manifest *manifest);
/* Keep the newest `keep` checkpoints of this process's run (at least one), and remove older ones and older incomplete folders. A failure to
 * remove is ignored. */
void      tr_checkpoint_prune(const char *dir, int keep);

/* Remove the note of where this launch began: no later start will need it. */
void      tr__beginning_remove(const char *folder);

/* Parse and check a manifest: its own checksum, and all rules that concern the manifest alone. `path` is for messages. */
tr_status tr_manifest_parse(tr_manifest **out, const uint8_t *bytes, size_t size, const char *path);
/* The manifest of one checkpoint. */
tr_status tr_manifest_read(tr_manifest **out, const char *folder);
/* The same, but TR_ENOTFOUND: there is none. */
tr_status tr__manifest_find(tr_manifest **out, const char *folder);
void      tr_manifest_free(tr_manifest *manifest);
/* The run that it names; its number is 0 where it names none. */
tr_checkpoint_run tr__run_of_manifest(const tr_manifest *manifest);
/* Describe a table of a part. */
Trireme__Checkpoint__Table *tr__table_describe(const tr_job_table *table);
const tr_manifest *tr__checkpoint_manifest(const tr_checkpoint *checkpoint);
/* A sparse table of all parts. */
typedef struct tr__whole_table {
    const Trireme__Checkpoint__Table *about;           /* of one part */
    int64_t rows, updates;            /* the most updates of all parts: servers that make updates independently count them separately */
} tr__whole_table;
/* The tables, sorted by name. */
const tr__whole_table *tr__checkpoint_tables_of(int *count, const tr_checkpoint *checkpoint);
/* The folder in which a server had rows of a table, and *memory for all others; NULL: all were in memory. */
const char *tr__checkpoint_spill(uint64_t *memory, const tr_checkpoint *checkpoint, int index);
/* Read the whole file, malloc'ed. */
uint8_t  *tr_manifest_pack(size_t *size, const tr_manifest *manifest);
/* Read bytes of a part from `offset` on, verified. `at` is the folder. Opens the file in each call. */
tr_status tr_part_read(const tr_part *part, const char *folder, uint64_t offset, uint64_t bytes, void *to);

#endif
