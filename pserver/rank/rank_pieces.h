/* rank_pieces.h - pieces of updates (tr_store.piece) on their way from the communication thread to the main thread of a server.
 *
 * Where the server has several threads, its communication thread copies the next chunk out of MPI while the main thread computes the chunks
 * before it. So a push and its update need not take as long as both together. A small piece is computed at once, because waking a thread
 * takes as long. So is every piece on a server with one thread: a second thread would take a core from a trainer that computes.
 *
 * What must stay true: the driver puts pieces in, and calls tr__pieces_are_done before it runs the program itself. The owner computes all
 * pieces before it runs the rest of the update. So no two threads run the program at a time. */
#pragma once

#include "pserver/rank/rank.h"

typedef struct tr__pieces tr__pieces;

tr__pieces *tr__pieces_new(tr__rank *rank);
void        tr__pieces_free(tr__pieces *pieces);
/* As tr_store.piece: compute the piece now, or let the main thread do so. */
tr_status   tr__pieces_put(tr__pieces *pieces, uint32_t block, uint64_t offset, uint64_t bytes, const void *grad);
/* Does no piece wait, and is none being computed, and did none fail? */
bool        tr__pieces_are_done(tr__pieces *pieces);
/* Called in the main thread's loop: compute the pieces. */
void        tr__pieces_serve(tr__pieces *pieces);
/* By the owner, before it runs the rest of an update: compute the pieces that are left. Returns the failure of the first piece that
 * failed. */
tr_status   tr__pieces_finish(tr__pieces *pieces);
