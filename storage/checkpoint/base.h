/* base.h - checkpoints of changes: rows of tables that have changed since another checkpoint, the base. Everything else is written whole.
 *
 * The manifest of such a checkpoint names all files that it needs, with their checksums: its own parts, and before them parts in the
 * folders of checkpoints beside it, as far as their rows still count. So it is read like any other one, and a base that is missing, or
 * another one than was meant, is found as any damage is. A server that does not remember the base (changes.h) writes its shards whole; then
 * nothing of them is inherited.
 *
 * What must stay true: a checkpoint is removed only when none that stays needs a file of its folder; nor does another checkpoint that takes
 * its place remove such a file. */
#pragma once

#include "storage/checkpoint/folder.h"

/* Read the manifest of a base beside `folder`. TR_EFORMAT: it is not there, or is damaged, or another one. */
tr_status tr__base_read(tr_manifest **out, const char *folder, const tr_checkpoint_base *base);
/* Leave in a part of the base, which has the step `step`, only the rows that still count beside these parts, and let it say where it lies.
 * False: none count. */
bool      tr__base_inherit(tr_part *part, int64_t step, int count, tr_part *const *parts);
/* Mark the checkpoints of a folder that have files which this one needs. */
void      tr__base_mark(bool *stays, const tr_folder *all, const tr_manifest *manifest);
