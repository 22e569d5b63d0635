/* sequence.h - arithmetic on sequences that lie one after the other in the rows of a matrix.
 *
 * Sequence i of `count` is the rows offset[i] .. offset[i + 1] - 1; offset[0] is 0, offsets never fall, and any sequence
 * may be empty. The work is cut into ranges of sequences, by the offsets alone; sums run from a sequence's first row to
 * its last. So no result depends on the number of threads. Arrays that are written do not overlap those that are read,
 * unless said otherwise. */
#ifndef TR_MATH_SEQUENCE_H
#define TR_MATH_SEQUENCE_H

#include "framework/trireme.h"

typedef enum tr_sequence_pool {
    TR_POOL_AVERAGE, TR_POOL_SUM, TR_POOL_SQRT, TR_POOL_MAX, TR_POOL_LAST, TR_POOL_FIRST
} tr_sequence_pool;

/* Some rows and where they go. */
typedef struct tr_part {
    int64_t to, from, rows;
} tr_part;

/* The rows of each part from `from` to `to`; parts do not overlap in `to`. */
void tr_parts_copy(void *to, const void *from, const tr_part *parts, int64_t count, int64_t row_bytes);
/* The way back: `to` and `from` change places. */
void tr_parts_turn(tr_part *parts, int64_t count);
/* Each sequence with its rows in the opposite order. */
void tr_sequence_reverse(void *out, const void *x, const int64_t *offset, int64_t count, int64_t row_bytes);

/* Item i, the rows item[i] .. item[i + 1] - 1 of x (row i where `item` is NULL), is written ref[i + 1] - ref[i] times, one
 * copy after the other, from row first[i] of `out` on. */
void tr_sequence_expand(void *out, const void *x, const int64_t *item, const int64_t *first, const int64_t *ref,
                        int64_t count, int64_t row_bytes);

#define TR_TEMPLATE "kernels/math/sequences/sequence.h"
#include "kernels/math/tools/each_float.h"

#elif defined(T)

/* Row i of out is the sum of sequence i (divided by its length, by the root of it), its greatest elements, its last or its
 * first row; `empty` everywhere where it has none. MAX writes to max_row[i][k] the row of x that out[i][k] is from, the
 * first of equal ones, and -1 for an empty sequence; the others do not look at max_row. */
void NAME(tr_sequence_pool_apply)(tr_sequence_pool pool, T *out, int32_t *max_row, const T *x, const int64_t *offset,
                                  int64_t count, int64_t width, T empty);
/* All of dx: zeros where nothing flows. */
void NAME(tr_sequence_pool_grad)(tr_sequence_pool pool, T *dx, const T *dout, const int32_t *max_row,
                                 const int64_t *offset, int64_t count, int64_t width);

/* Softmax over each sequence of single numbers; in place is fine. */
void NAME(tr_sequence_softmax)(T *out, const T *x, const int64_t *offset, int64_t count);
void NAME(tr_sequence_softmax_grad)(T *dx, const T *dout, const T *out, const int64_t *offset, int64_t count);

/* The gradient of tr_sequence_expand: each item's copies added up, the first one first. */
void NAME(tr_sequence_expand_grad)(T *dx, const T *dout, const int64_t *item, const int64_t *first, const int64_t *ref,
                                   int64_t count, int64_t width);

/* One sequence of `rows` rows: out = alpha x + beta p, with p[t][k] = sin(t / 10000^(k / (h - 1))) in the first half of a
 * row, h wide, and the cosines in the second. In place is fine. */
void NAME(tr_add_positions)(T *out, const T *x, int64_t rows, int64_t width, T alpha, T beta);

#endif
