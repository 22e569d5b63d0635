/* table_report.h - the memory of a table, and its hot keys.
 *
 * No key is counted for this. A row's header has the number of updates that touched it. So one pass over all headers finds the hottest
 * keys exactly, and training pays nothing. The numbers of evicted rows are lost. */
#pragma once

#include "storage/trireme_table.h"
#include "storage/table/table.h"

/* Between updates: find the `most` keys with the most updates, in falling order; of equal ones the smaller key comes first. Returns
 * their number. */
int64_t   tr_table_hot_keys(tr_table_hot_key *out, const tr_table *table, int64_t most);
void      tr_table_describe(tr_table_part *out, const tr_table *table);
void      tr_table_describe_disk(tr_table_disk *out, const tr_table *table);
/* The same as bytes for a message; *out is malloc'ed. */
tr_status tr_table_part_pack(const tr_table *table, void **out, uint64_t *bytes);
tr_status tr_table_disk_pack(const tr_table *table, void **out, uint64_t *bytes);
