/* recurrent.h - the order in which recurrent networks go through sequences of any lengths, without padding.
 *
 * Sequences are ranked by length, the longest first (equal ones as they come). Step t is a block of rows: row t of every
 * sequence that is longer than t, in the order of rank. So the sequences still alive at step t are the first ones
 * of step t - 1, each step is one product of matrices, and row r of a step continues row r of the step before. "Batch order" is
 * that of all steps' rows, one step after the other; states that precede step 0 are in the order of rank. */
#ifndef TR_MATH_RECURRENT_H
#define TR_MATH_RECURRENT_H

#include "framework/trireme.h"

typedef struct tr_batches {
    int64_t        count, steps, rows;
    const int64_t *rank;              /* [count]: rank[r] is the sequence that is r-th in length */
    const int64_t *start;             /* [steps + 1]: the first row of each step */
    const int64_t *row;               /* [rows]: which row of the sequences a row in batch order is */
} tr_batches;

/* How many numbers tr_batches_make needs to write to. */
int64_t tr_batches_size(const int64_t *offset, int64_t count);
/* Sequence i is the rows offset[i] .. offset[i + 1] - 1, last row first where `is_reverse`. */
void tr_batches_make(tr_batches *out, int64_t *memory, const int64_t *offset, int64_t count, bool is_reverse);

static inline int64_t tr_batches_alive(const tr_batches *b, int64_t step)
{
    return b->start[step + 1] - b->start[step];
}

/* out[k] is what row k's sequence had one step earlier: of `state`, which is in batch order; in step 0 of `first`, or
 * zeros where that is NULL. */
void tr_batches_previous(void *out, const void *state, const void *first, const tr_batches *b, int64_t row_bytes);
/* The same in the order of the rows themselves, with `first` in that of the sequences. */
void tr_sequences_previous(void *out, const void *state, const void *first, const int64_t *offset, int64_t count,
                           bool is_reverse, int64_t row_bytes);

#define TR_TEMPLATE "kernels/math/sequences/recurrent.h"
#include "kernels/math/tools/each_float.h"

#elif defined(T)

/* The rows of x in batch order, with `bias` (NULL: none) added to each. */
void NAME(tr_batches_take)(T *out, const T *x, const T *bias, const tr_batches *b, int64_t width);

#endif
