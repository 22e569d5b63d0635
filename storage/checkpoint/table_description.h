/* table_description.h - the descriptions of sparse tables in the parts of a checkpoint, and their checks. */
#ifndef TR_STORAGE_TABLE_DESCRIPTION_H
#define TR_STORAGE_TABLE_DESCRIPTION_H

#include "framework/base/status.h"
#include "storage/trireme_table.h"
#include "storage/checkpoint/row_code.h"
#include "storage/checkpoint/checkpoint_messages.h"

/* Convert a description to a tr_job_table. The name points into the description. */
tr_job_table tr__described_table(const Trireme__Checkpoint__Table *from);
/* How the rows of a tensor are coded; its tensor must have a code. */
tr_row_code  tr__described_code(const tr_part_tensor *of);
/* Bytes of a row of the table, coded or not, of a key that waits for a row, or of one that was removed. */
uint64_t     tr__described_stride(const Trireme__Checkpoint__Table *table, const tr_part_tensor *of);
/* Find a part's description of this table; NULL: it has none. The descriptions must be sorted by their names, as those of checked parts
 * are. */
const Trireme__Checkpoint__Table *tr__find_description(const tr_part *part, const char *name);

void      tr__tables_sort(tr_part *part);
/* Does a part have only the changes of a table? */
bool      tr__tables_have_changes(const tr_part *part);

/* Check the descriptions of tables in all parts, which are sorted by their names then, and that all shards of each table are there. */
tr_status tr__tables_check(tr_manifest *manifest);

#endif
