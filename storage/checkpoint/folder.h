/* folder.h - what a folder of checkpoints holds: DIR/step-000000100, DIR/step-000000200, and so on.
 *
 * The newest checkpoint is the one that was written last. Its step need not be the highest: a training may go on from an older checkpoint. So each
 * manifest has a number that rises in the folder (`order`). Checkpoints of older versions lack it; the highest step is the newest of them. */
#ifndef TR_STORAGE_CHECKPOINT_FOLDER_H
#define TR_STORAGE_CHECKPOINT_FOLDER_H

#include "storage/checkpoint/checkpoint.h"

typedef struct tr_folder_item {
    int64_t     step;
    uint64_t    order;
    tr_manifest *manifest;            /* NULL: there is none, or it is damaged */
    bool        has_manifest;
} tr_folder_item;

typedef struct tr_folder {
    tr_folder_item *item;             /* the newest first */
    int             count;
} tr_folder;

/* Read the manifests of a folder, and list its incomplete checkpoints, too. A folder that does not exist holds none. A failure: a store does
 * not answer; there is nothing to free. */
tr_status tr_folder_scan(tr_folder *out, const char *dir);
void tr_folder_free(tr_folder *folder);
/* The run of a checkpoint; its number is 0 where that is not known. */
tr_checkpoint_run tr_folder_run(const tr_folder_item *item);
/* The number of a run, unless it is that of run `except` or not known: the newest checkpoint of such a run. -1: there is none. */
int  tr_folder_find_other(const tr_folder *folder, uint64_t except);

/* Remove files of parts in the folder of one checkpoint that are not among these parts, and that no checkpoint of `dir` (NULL: there are
 * none) builds on. */
void tr__checkpoint_clean(const char *folder, const char *dir, int part_count, tr_part *const *parts);
/* Remove one checkpoint, or what there is of it. */
void tr__checkpoint_remove(const char *folder);

#endif
