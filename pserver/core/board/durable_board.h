/* durable_board.h - the posts of a board in memory that outlives its process.
 *
 * The memory holds a log. A post is appended first, and then a single store to the log's length commits it. So after a kill at any
 * instruction a post is there completely or not at all. The memory has two halves. When one half is full, the posts that are still needed
 * are copied to the other half, and a single store switches to it. The memory grows with its content, up to both halves. */
#pragma once

#include "pserver/core/base/store.h"

typedef struct tr_durable_board {
    const tr_store *store;
    uint8_t        *memory;           /* borrowed from the store; NULL: posts are not stored */
    uint64_t        bytes;
    uint64_t        side;             /* the half to which posts are appended */
} tr_durable_board;

/* Attach to the posts that an earlier process stored. False: there are none. */
bool           tr_durable_board_attach(tr_durable_board *durable, const tr_store *store);
/* Create an empty log with halves of `half` bytes, if the store has memory. */
void           tr_durable_board_create(tr_durable_board *durable, const tr_store *store, uint64_t half);
/* The next post, in the order of the log; *at is 0 for the first call. NULL: there are no more. */
const uint8_t *tr_durable_board_next(const tr_durable_board *durable, uint64_t *at, size_t *size);
/* Append a post. False: this half is full. Without memory, or when the store has no more, this returns true and stores nothing. */
bool           tr_durable_board_add(tr_durable_board *durable, const uint8_t *packed, size_t size);
/* begin: append to the other half, which is empty. switch: commit that half. */
void           tr_durable_board_begin(tr_durable_board *durable);
void           tr_durable_board_switch(tr_durable_board *durable);
