/* rows_ahead.h - reads the rows of a checkpoint's tables: a thread reads and compares checksums, while the caller puts earlier rows into
 * tables. So a restore takes the longer of both, and memory for two runs of rows.
 *
 * Several readers may read one checkpoint together, such as the servers of a job. Each takes the rows of its own shards, and compares
 * an equal share of all bytes that belong to no table. Together they compare every byte. */
#pragma once

#include "storage/checkpoint/checkpoint.h"

typedef struct tr_rows_wanted {
    const char *table;                /* rows of this table; NULL: of all tables */
    uint32_t    first_shard, shard_count;
    int reader, readers;      /* compare the share of this reader, of so many, of the bytes that belong to no table; 0, 0: compare none */
} tr_rows_wanted;

/* Take packed rows of a table (tr_table_unpack), or keys that wait for a row. Called on the thread of the caller. */
typedef tr_status (*tr_take_rows)(void *payload, const Trireme__Checkpoint__Table *table, const void *rows, uint64_t bytes,
                                  bool are_candidates);

tr_status tr__checkpoint_read_rows(const tr_checkpoint *checkpoint, const tr_rows_wanted *wanted, tr_take_rows take, void *payload);
