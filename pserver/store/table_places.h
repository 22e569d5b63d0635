/* table_places.h - where the rows of a server's tables lie: in memory, or beyond so much memory on disk. */
#pragma once

#include "storage/table/table.h"

/* The folder that TRIREME_TABLE_SPILL names for the tables of all servers; NULL: none. */
const char *tr_table_spill_folder(void);
/* Complete the place of a table with rows of `stride` bytes, if all tables of the server together have rows of `strides` bytes. `spill` and
 * `memory` of the place are those of the program. If the environment names a folder and memory, these count instead: the tables share the
 * memory, so that each has as many rows there. TR_EINVAL: the environment names only one of them. */
tr_status tr_table_complete_place(tr_table_segment *place, uint64_t stride, uint64_t strides);
