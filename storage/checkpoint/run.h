/* run.h - the run that a checkpoint belongs to: all launches of a training that go on from each other. A folder belongs to one run.
 *
 * Why: the newest checkpoints of a folder stay, and a training goes on from the newest. With checkpoints of two trainings in one folder
 * the one would remove the other's, or go on from the other's model.
 *
 * What must stay true: a process has one run of its own in each folder (own_run.h), to which its checkpoints there belong. A process
 * decides it once, before its first step or at its first checkpoint (tr_checkpoint_claim). All functions may be called by any thread. */
#ifndef TR_STORAGE_CHECKPOINT_RUN_H
#define TR_STORAGE_CHECKPOINT_RUN_H

#include "storage/checkpoint/folder.h"

/* What a manifest says of its run, and of the order of checkpoints. Borrowed. */
typedef struct tr__run_stamp {
    tr_checkpoint_run run;            /* number 0: none is written */
    uint64_t          order;
} tr__run_stamp;

/* Make the stamp of the next checkpoint of step `step` in this folder. TR_EEXIST: another run has a checkpoint of this step there. */
tr_status tr__run_stamp_next(tr__run_stamp *out, const char *folder, int64_t step);

/* Say anew that this process writes into a folder that cannot be locked, and say that it does so no longer. */
void      tr__claim_renew(const char *folder);
void      tr__claim_end(const char *folder);

/* The part of tr_checkpoint_claim that decides about the run. */
tr_status tr__run_enter(char **said, const char *folder, tr_checkpoint_entry entry, const char *command);

#endif
