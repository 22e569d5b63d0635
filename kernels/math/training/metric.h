/* metric.h - counting how good predictions are. */
#ifndef TR_MATH_METRIC_H
#define TR_MATH_METRIC_H

#include "framework/trireme.h"

/* Rows among whose k guesses the label is. */
int64_t tr_count_hits(const int64_t *guesses, const int64_t *labels, int64_t rows, int64_t k);

/* The area under a curve through the thresholds, from the highest to the lowest; positive[b] and negative[b] count the
 * examples whose prediction lies in bucket b. ROC: true over false positive rate. PR: precision over recall, where
 * precision at recall 0 is that of the highest bucket with a prediction in it. By trapezoids; 0 where there are no
 * positive or (ROC) no negative examples. */
double tr_roc_area(const int64_t *positive, const int64_t *negative, int64_t buckets);
double tr_pr_area(const int64_t *positive, const int64_t *negative, int64_t buckets);

#define TR_TEMPLATE "kernels/math/training/metric.h"
#include "kernels/math/tools/each_float.h"

#elif defined(T)

/* Add one to positive[b] or negative[b] for each example, b = floor(p * (buckets - 1)), by its label. p has a prediction
 * every `stride` elements. Returns the first example whose prediction is not in 0 .. 1 or whose label is neither 0 nor 1,
 * or -1. */
int64_t NAME(tr_count_buckets)(int64_t *positive, int64_t *negative, const T *p, int64_t stride,
                               const int64_t *labels, int64_t n, int64_t buckets);

#endif
