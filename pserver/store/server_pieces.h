/* server_pieces.h - blocks whose updates are computed piece by piece, while the rest of the gradients is on its way.
 *
 * The operators of such a block work element by element (SGD, Adam, weight decay, clipping by value; not a norm), and touch
 * nothing of another block. They leave the server's program and become a small one of their own, on views of some elements:
 * the same operators, so the same bits. A piece that has just come lies in cache. What all blocks read and no gradient
 * changes (learning-rate schedules) is computed before the first piece of an update.
 *
 * What must stay true: every operator reads one side of the two buffers and writes the other, so that computing a piece
 * again, or part of an update that never counts, changes nothing. */
#ifndef TR_PSERVER_SERVER_PIECES_H
#define TR_PSERVER_SERVER_PIECES_H

#include "framework/trireme.h"

typedef struct tr_server_pieces tr_server_pieces;

typedef struct tr_piece_block {
    const char *param, *grad;
    uint64_t    bytes;
} tr_piece_block;

/* Take the operators of all blocks that can be computed by pieces out of block 0 of `program`, whose outputs are other variables
 * than its inputs. Program and scope are borrowed. A block that cannot is left to the program. */
tr_status tr_server_pieces_new(tr_server_pieces **out, tr_program *program, tr_scope *scope, uint32_t count,
                               const tr_piece_block *blocks);
void      tr_server_pieces_free(tr_server_pieces *pieces);
bool      tr_server_pieces_has(const tr_server_pieces *pieces, uint32_t block);
/* Compute the elements at byte `offset` of a block that it has; `grad` are their `bytes` bytes of gradient. */
tr_status tr_server_pieces_run(tr_server_pieces *pieces, uint32_t block, uint64_t offset, uint64_t bytes, const void *grad);
/* The update is over. */
void      tr_server_pieces_next(tr_server_pieces *pieces);

#endif
