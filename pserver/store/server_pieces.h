/* server_pieces.h - blocks whose updates are computed piece by piece, while other gradients are still on their way.
 *
 * The operators of such a block work point by point (TR_POINTWISE: SGD, Adam, weight decay, clipping by value; no norm), and touch no
 * variable of another block. They leave the server's program and become a small program, which runs on views of some elements: the same
 * operators, so the same bits. A piece that has just arrived still lies in the cache. Values that all blocks read and no gradient changes
 * (learning-rate schedules) are computed before the first piece of an update.
 *
 * What must stay true: every operator reads one of the two buffers and writes the other one (twins.h). So computing a piece again, or a
 * part of an update that never counts, changes nothing. */
#ifndef TR_PSERVER_SERVER_PIECES_H
#define TR_PSERVER_SERVER_PIECES_H

#include "framework/trireme.h"

typedef struct tr_server_pieces tr_server_pieces;

typedef struct tr_piece_block {
    const char *param, *grad;
    uint64_t    bytes;
} tr_piece_block;

/* Take the operators of all blocks that can be computed piece by piece out of block 0 of `program`. No operator there writes a variable
 * that it reads. Program and scope are borrowed. Other blocks stay in the program. */
tr_status tr_server_pieces_new(tr_server_pieces **out, tr_program *program, tr_scope *scope, uint32_t count,
                               const tr_piece_block *blocks);
void      tr_server_pieces_free(tr_server_pieces *pieces);
bool      tr_server_pieces_has(const tr_server_pieces *pieces, uint32_t block);
/* Compute the elements at byte `offset` of a block that it has; `grad` are their `bytes` bytes of gradient. */
tr_status tr_server_pieces_run(tr_server_pieces *pieces, uint32_t block, uint64_t offset, uint64_t bytes, const void *grad);
/* The update is over. */
void      tr_server_pieces_next(tr_server_pieces *pieces);

#endif
