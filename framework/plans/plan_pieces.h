/* plan_pieces.h - which parts of a row of addresses are taken: pieces in their order, which neither overlap nor touch.
 *
 * A zeroed struct is empty. Adding joins pieces, so what is filled without holes is one piece. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct tr_piece {
    int64_t low, high;
} tr_piece;

typedef struct tr_pieces {
    tr_piece *at;
    int       count, capacity;
} tr_pieces;

/* False: no memory. */
bool tr__pieces_add(tr_pieces *pieces, int64_t low, int64_t high);
/* Move *offset up to where `bytes` are free, and return how many pieces it was moved over. */
int  tr__pieces_climb(int64_t *offset, const tr_pieces *pieces, int64_t bytes);
void tr__pieces_deinit(tr_pieces *pieces);

/* The end of the last one. */
static inline int64_t tr__pieces_end(const tr_pieces *pieces)
{
    return pieces->count ? pieces->at[pieces->count - 1].high : 0;
}
