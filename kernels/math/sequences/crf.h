/* crf.h - conditional random fields over chains: rows of scores for tags, sequence after sequence, as in sequence.h.
 *
 * `w` is [tags + 2][tags]: scores of beginning with a tag, of ending with one, then of going from tag i (row 2 + i) to j.
 * Forward and backward go through exponentials, with every row of alpha and beta scaled to the sum 1, which keeps them in
 * range for any length; greatest scores are taken out of a row first. */
#ifndef TR_MATH_CRF_H
#define TR_MATH_CRF_H

#include "framework/trireme.h"

#define TR_TEMPLATE "kernels/math/sequences/crf.h"
#include "kernels/math/tools/each_float.h"

#elif defined(T)

typedef struct NAME(tr_crf) {
    int64_t        count, tags;
    const int64_t *offset, *label;
    const T       *w_exp;             /* exp(w) */
    T             *x_exp;             /* [rows][tags]: exp(x - the greatest of the row) */
    T             *alpha;             /* [rows][tags] */
} NAME(tr_crf);

/* cost[i] = -log of the probability of sequence i's labels; 0 for an empty one. Writes x_exp and alpha. */
void NAME(tr_crf_cost)(T *cost, const NAME(tr_crf) *c, const T *x, const T *w);
/* dx = dcost * (probability of a tag in a row - 1 where it is the label); all of it. `beta` is room for [rows][tags]. What
 * the gradient of w needs goes to `from` and `to`, [rows][tags]: the expected transitions are from^T to, times w_exp. */
void NAME(tr_crf_grad)(T *dx, T *beta, T *from, T *to, const NAME(tr_crf) *c, const T *dcost);
/* All of dw from dx and expected = from^T to, [tags][tags]. */
void NAME(tr_crf_grad_w)(T *dw, const NAME(tr_crf) *c, const T *dx, const T *expected, const T *dcost);

/* The best tags of each row; `score` and `back` are room for [rows][tags]. The smallest of equally good tags. */
void NAME(tr_crf_decode)(int64_t *path, T *score, int32_t *back, const T *x, const T *w, const int64_t *offset, int64_t count,
                         int64_t tags);

#endif
