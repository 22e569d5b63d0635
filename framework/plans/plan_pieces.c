/* plan_pieces.c - see plan_pieces.h. */
#include "framework/plans/plan_pieces.h"

#include <stdlib.h>
#include <string.h>

#include "framework/base/size.h"

/* The number of the first piece that ends at `place` or above. */
static int first_ending_from(const tr_pieces *pieces, int64_t place)
{
    int low = 0, high = pieces->count;

    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (pieces->at[middle].high >= place)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static bool make_room(tr_pieces *pieces)
{
    if (pieces->count < pieces->capacity)
        return true;
    const int capacity = pieces->capacity ? 2 * pieces->capacity : 4;
    tr_piece *at = realloc(pieces->at, (size_t)capacity * sizeof *at);
    if (!at)
        return false;
    pieces->at = at;
    pieces->capacity = capacity;
    return true;
}

bool tr__pieces_add(tr_pieces *pieces, int64_t low, int64_t high)
{
    const int first = first_ending_from(pieces, low);
    int       next = first;

    if (!make_room(pieces))
        return false;
    tr_piece *const at = pieces->at;
    for (; next < pieces->count && at[next].low <= high; next++) {        /* these become part of it */
        low = at[next].low < low ? at[next].low : low;
        high = at[next].high > high ? at[next].high : high;
    }
    memmove(&at[first + 1], &at[next], (size_t)(pieces->count - next) * sizeof *at);
    at[first] = (tr_piece){low, high};
    pieces->count += 1 - (next - first);
    return true;
}

int tr__pieces_climb(int64_t *offset, const tr_pieces *pieces, int64_t bytes)
{
    const int first = first_ending_from(pieces, tr_size_add(*offset, 1));
    int       next = first;

    for (; next < pieces->count && pieces->at[next].low < tr_size_add(*offset, bytes); next++)
        *offset = pieces->at[next].high;
    return next - first;
}

void tr__pieces_deinit(tr_pieces *pieces)
{
    free(pieces->at);
    *pieces = (tr_pieces){0};
}
