/* durable_board.h - the posts of a board in memory that outlives its process.
 *
 * A log: each post is written behind the last one, and then one store counts it, so that a kill at any instruction leaves it whole or
 * not there. There are two halves. When one is full, what is still needed is written into the other, and one store switches. The memory
 * grows with what is in it, to two halves at most. */
#ifndef TR_PSERVER_DURABLE_BOARD_H
#define TR_PSERVER_DURABLE_BOARD_H

#include "pserver/core/store.h"

typedef struct tr_durable_board {
    const tr_store *store;
    uint8_t        *memory;           /* the store's; NULL: nothing is kept */
    uint64_t        bytes;
    uint64_t        side;             /* where posts are written */
} tr_durable_board;

/* What an earlier process has kept; false: nothing. */
bool           tr_durable_board_attach(tr_durable_board *durable, const tr_store *store);
/* An empty one with halves of `half` bytes, where the store has memory. */
void           tr_durable_board_create(tr_durable_board *durable, const tr_store *store, uint64_t half);
/* The next one behind `*at`, which is 0 at first; NULL: there are no more. */
const uint8_t *tr_durable_board_next(const tr_durable_board *durable, uint64_t *at, size_t *size);
/* Write one. False: this half is full. Without memory, or when there is no more of it, all is well and nothing is kept any more. */
bool           tr_durable_board_add(tr_durable_board *durable, const uint8_t *packed, size_t size);
/* Write into the other half from here on, which is empty; and let that count. */
void           tr_durable_board_begin(tr_durable_board *durable);
void           tr_durable_board_switch(tr_durable_board *durable);

#endif
