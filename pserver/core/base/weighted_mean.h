/* weighted_mean.h - the weighted mean of gradients, summed in the order of the trainers.
 *
 * While all weights are equal, the parts are added unscaled, and the sum is scaled once at the end. From the first weight that differs
 * on, each part is multiplied by its own weight. A part of weight 0 is ignored, because the mean over an empty batch is NaN. Without any
 * weight a mean gradient is 0. But a number, such as a loss, then has the value that one process computes from no samples: that of the
 * first trainer (tr_mean_keep). The result depends only on the ordered list of parts: not on the order of arrival, on the division into
 * chunks, or on the number of servers. The mean of one trainer is that trainer's gradient, bit by bit. Where trainers share hosts, each
 * host group (roster.h) is added up by itself, and these sums are added in the order of the groups.
 *
 * What must stay true: parts are added in the order of the trainers. The first part with a weight is copied, unless it was received
 * directly into `sum`. */
#pragma once

#include "framework/trireme.h"

typedef struct tr_mean {
    int    parts;                     /* number of parts that were added */
    int    count;                     /* number of these with a weight above 0 */
    bool   is_kept;                   /* without a weight so far: `sum` is the first part */
    bool   is_whole;                  /* all parts are added, and `sum` is the mean */
    bool   is_uneven;                 /* some weight differed from the first one */
    double first, total;              /* the first weight; the sum of all weights */
} tr_mean;

/* Add a part of `count` elements, of TR_FP32 or TR_FP64. The first part may be `sum` itself. */
void tr_mean_add(tr_mean *mean, tr_dtype dtype, void *sum, const void *part, int64_t count, double weight);
/* A part of this weight is in `sum` already, which another process has added up in the same order. */
void tr_mean_note(tr_mean *mean, double weight);
/* Add the parts of another mean, which is not finished, as one part. The first one may lie in `sum` itself. */
void tr_mean_join(tr_mean *mean, tr_dtype dtype, void *sum, const tr_mean *other, const void *other_sum, int64_t count);
/* After a part of weight 0 was added: keep it as the result, if no part has a weight. */
void tr_mean_keep(tr_mean *mean, tr_dtype dtype, void *sum, const void *part, int64_t count);
void tr_mean_finish(tr_mean *mean, tr_dtype dtype, void *sum, int64_t count);
