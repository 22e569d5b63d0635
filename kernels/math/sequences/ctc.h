/* ctc.h - connectionist temporal classification: the cost of labels whose alignment with a longer sequence is not known.
 *
 * Sequences as in sequence.h. A path names a class for each row; without repetitions, then without blanks, it is a sequence
 * of labels. The cost is -log of the sum of the probabilities (softmax of each row) of all paths that give the labels.
 * Sums are made of logarithms in double, so that no length underflows. */
#ifndef TR_MATH_CTC_H
#define TR_MATH_CTC_H

#include "framework/trireme.h"

/* The offsets of each sequence's working memory: work_at[i] for sequence i; returns how many doubles all need. */
int64_t tr_ctc_work(int64_t *work_at, const int64_t *offset, const int64_t *label_offset, int64_t count);

#define TR_TEMPLATE "kernels/math/sequences/ctc.h"
#include "kernels/math/tools/each_float.h"

#elif defined(T)

typedef struct NAME(tr_ctc) {
    const T       *x;                 /* [rows][classes] */
    const int64_t *offset;
    const int32_t *label;             /* all in 0 .. classes - 1, none is `blank` */
    const int64_t *label_offset;
    int64_t        count, classes, blank;
    const int64_t *work_at;           /* of tr_ctc_work */
    double        *work;
} NAME(tr_ctc);

/* cost[i], and dx, all of it, as if each cost had the gradient 1. Where a sequence is too short for its labels both are 0;
 * where scores of -infinity rule the labels out, the cost is infinite and dx is 0. */
void NAME(tr_ctc_cost)(T *cost, T *dx, const NAME(tr_ctc) *c);

#endif
