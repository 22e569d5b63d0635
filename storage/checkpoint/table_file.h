/* table_file.h - a part of a sparse table as a file of its own: rows for NumPy, which save_persistables writes, or rows for serving.
 *
 * A process that runs alone writes and reads such files itself. In a job each server writes and reads those with its shards. */
#pragma once

#include "storage/checkpoint/place.h"
#include "storage/table/table.h"
#include "storage/trireme_checkpoint.h"

/* Write packed rows (tr_table_pack), all of the shards of `file`, and fill in what is said of them. The file is there whole or not at all.
 * TR_ENOTFOUND: this host does not see its folder. */
tr_status tr_table_file_write(tr_table_file *file, const tr_table_config *config, const void *packed, uint64_t bytes);
/* Read the rows of a file for NumPy, and keep those of `count` shards from `first` on, malloc'ed. TR_ENOTFOUND: this host does not see the
 * file. TR_EFORMAT: it is damaged. */
tr_status tr_table_file_read(void **packed, uint64_t *bytes, const tr_table_file *file, const tr_table_config *config, uint32_t first,
                             uint32_t count);
/* Of packed rows, the newest update that has touched one. */
uint32_t  tr_table_file_last(const void *packed, uint64_t bytes, uint64_t stride);
