/* table_tile.h - the optimizer of a sparse table: the executor runs its operators on some rows at a time.
 *
 * The sub-block of lookup_sparse_table_update has the operators that an optimizer appends for a parameter. Here the parameter has a fixed
 * number of rows, the tile. The operators are planned once, as a program of their own. Then rows and their states are gathered into the
 * tile, the plan runs, and the rows are written back. Each thread has a tile of its own. Shapes never change, so a repeated update
 * allocates nothing. Values that are computed once an update (powers of beta, learning rates) are not in the sub-block: the tile gets
 * copies of them. */
#pragma once

#include "framework/operators/op.h"
#include "storage/table/table.h"

typedef struct tr_table_tile tr_table_tile;

typedef struct tr_table_tile_names {
    const char *param, *grad;
    tr_strings  states;               /* in the order of the table's states */
} tr_table_tile_names;

/* Make the tile for the operators of block `block` of the program. Names are those of the block's variables. */
tr_status tr_table_tile_new(tr_table_tile **out, tr_program *program, int block, const tr_table_tile_names *names,
                            const tr_table_config *config);
void      tr_table_tile_free(tr_table_tile *tile);
/* Set a number that the operators read, for all updates from now on. `value` has one element. */
tr_status tr_table_tile_set(tr_table_tile *tile, const char *name, const tr_tensor *value);
/* Begin update step `step`. Then update `n` distinct keys by their gradients, [n, width]. A step may have several such calls, each with
 * other keys. `hints`: slots that the keys may have (tr_table_take_hinted), or NULL. */
tr_status tr_table_tile_begin(tr_table *table, uint64_t step);
tr_status tr_table_tile_run(tr_table_tile *tile, tr_table *table, const int64_t *keys, const uint32_t *hints, const float *grads,
                            int64_t n);
