/* scratch.h - several arrays in the one piece of scratch memory that a kernel may have.
 *
 *     TR_TRY(tr__scratch_pieces(io, (const tr_piece[]){{&cell, bytes}, {&gate, is_given ? 0 : more}, {NULL, 0}}));
 *
 * Each pointer is set to its array, 64-byte aligned and not cleared; one of 0 bytes is left as it is. */
#pragma once

#include "framework/operators/op.h"

typedef struct tr_piece {
    void  *pointer;                   /* the address of a pointer to data; NULL ends the list */
    size_t bytes;
} tr_piece;

tr_status tr__scratch_pieces(const tr_run *io, const tr_piece *pieces);
