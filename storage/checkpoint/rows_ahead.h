/* rows_ahead.h - reads the rows of a checkpoint's tables: a thread reads and compares checksums, while the caller puts earlier rows into
 * tables. So a restore takes the longer of both, and memory for two runs of rows.
 *
 * Several readers may read one checkpoint together, such as the servers of a job. Each takes the rows of its own shards, and compares
 * an equal share of all bytes that belong to no table. Together they compare every byte. */
#pragma once

#include "storage/checkpoint/checkpoint.h"
#include "storage/table/table.h"

typedef struct tr_rows_wanted {
    const char *table;                /* rows of this table; NULL: of all tables */
    uint32_t    first_shard, shard_count;
    int reader, readers;      /* compare the share of this reader, of so many, of the bytes that belong to no table; 0, 0: compare none */
} tr_rows_wanted;

/* Take packed rows of a table, or keys that wait for a row or were removed: see tr__rows_put. Rows that the checkpoint has coded
 * (row_code.h) are decoded here. Called on the thread of the caller, in the order in which rows of a key count. */
typedef tr_status (*tr_take_rows)(void *payload, const tr_part_tensor *what, const void *rows, uint64_t bytes);
/* Put what was read into its table. */
tr_status tr__rows_put(tr_table *table, const tr_part_tensor *what, const void *rows, uint64_t bytes);

tr_status tr__checkpoint_read_rows(const tr_checkpoint *checkpoint, const tr_rows_wanted *wanted, tr_take_rows take, void *payload);
