/* table_description.h - what the parts of a checkpoint say of sparse tables, and what must hold of it. */
#ifndef TR_PSERVER_TABLE_DESCRIPTION_H
#define TR_PSERVER_TABLE_DESCRIPTION_H

#include "pserver/checkpoint/checkpoint.h"

/* The table that is described; its name is the description's. */
tr_job_table tr__described_table(const Trireme__Checkpoint__Table *from);
/* Bytes of one of its rows, or of a key that waits for a row. */
uint64_t     tr__described_stride(const Trireme__Checkpoint__Table *table, bool are_candidates);
/* A part's description of this table; NULL: it has none. */
const Trireme__Checkpoint__Table *tr__find_description(const tr_part *part, const char *name);

#endif
