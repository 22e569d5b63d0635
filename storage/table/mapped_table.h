/* mapped_table.h - a sparse table for serving: lookups in mapped files of rows (row_file.h).
 *
 * The oldest file has all rows; each newer one has the rows that changed. A key's row is that of the newest file that has it. A key
 * without a row reads its first value, as in the table that was exported. Any number of threads may look up. */
#pragma once

#include "storage/table/row_file.h"

typedef struct tr_mapped_table tr_mapped_table;

tr_mapped_table *tr_mapped_table_new(void);
void             tr_mapped_table_free(tr_mapped_table *table);
/* Add a file of rows that are newer than those of the files before. Files with other shards of the same rows follow it; *next: the first
 * shard of the file that comes next, TR_SHARDS: all are there. TR_EFORMAT: it is damaged, belongs to another table, or has other shards. */
tr_status              tr_mapped_table_add(tr_mapped_table *table, const char *path, uint32_t *next);
/* The configuration in the files; there must be one file at least. */
const tr_table_config *tr_mapped_table_config(const tr_mapped_table *table);
/* Read the values of `n` keys, one after the other, in the table's type. TR_EFORMAT, TR_EIO: a file is damaged, or was changed in its
 * place. */
tr_status        tr_mapped_table_pull(const tr_mapped_table *table, void *out, const int64_t *keys, int64_t n);
