/* rank_table.h - sequences from the longest to the shortest, so that at every step those still going come first.
 *
 * The table hangs on the variable that lod_rank_table writes, and keeps its memory from run to run. */
#pragma once

#include "framework/operators/op.h"

typedef struct tr_rank {
    int64_t index;                    /* which sequence */
    int64_t length;                   /* in parts of the level below */
} tr_rank;

typedef struct tr_rank_table {
    int64_t   count, capacity;
    tr_rank  *rank;                   /* longest first; among equals in their order */
    int64_t  *place;                  /* of each sequence in `rank` */
    int       level;                  /* of the sequences, in the LoD of what the table was made from */
    tr_tensor source;                 /* only its LoD */
} tr_rank_table;

/* For shape inference: the input is a rank table. */
tr_status tr__check_rank_table(const tr_infer *io, const char *slot, const tr_meta *meta);
/* The table in an input slot. */
tr_status tr__rank_table_of(const tr_rank_table **out, const tr_run *io, int slot);
/* How many sequences are longer than `step`. */
int64_t   tr__rank_table_active(const tr_rank_table *table, int64_t step);
/* The length of the longest. */
int64_t   tr__rank_table_steps(const tr_rank_table *table);
