/* table_check.h - the inside of a sparse table, held against itself. */
#pragma once

#include "storage/table/table.h"

/* TR_EINTERNAL names what is wrong. Every living row must be found, every entry must lead to one, and no row may be lost. */
tr_status tr_slots_check(const tr_slots *slots);
tr_status tr_table_check(const tr_table *table);
/* Call `each` for the rows of a virtual shard until it fails. */
tr_status tr_table_each(const tr_table *table, uint32_t shard, tr_status (*each)(void *payload, const tr_table_row *row),
                        void *payload);
