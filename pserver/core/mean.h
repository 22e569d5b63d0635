/* mean.h - the weighted mean of gradients, summed in the order of the trainers.
 *
 * While all weights are equal the sum is the plain sum, scaled once at the end; from the first weight that
 * differs on, each part is multiplied by its own. A part without weight is left out, whatever it holds: the mean over an
 * empty batch is no number. The result is a function of the ordered list of parts alone:
 * not of arrival, of slicing, nor of the number of servers. One trainer's mean is its gradient, bit by bit.
 *
 * What must stay true: parts are added in the order of the trainers; the first with a weight is copied (or lies in `sum`
 * already, when it was received there). */
#ifndef TR_PSERVER_MEAN_H
#define TR_PSERVER_MEAN_H

#include "framework/trireme.h"

typedef struct tr_mean {
    int    turn;                      /* index of the trainer whose part is next */
    int    parts;                     /* that came */
    int    count;                     /* of them with a weight */
    bool   is_whole;                  /* all parts are in, and `sum` is the mean */
    bool   is_uneven;                 /* a weight differed from the first */
    double first, total;              /* the first of them; their sum */
} tr_mean;

/* `part` may be `sum` itself when it is the first. `count` elements, of TR_FP32 or TR_FP64. */
void tr_mean_add(tr_mean *mean, tr_dtype dtype, void *sum, const void *part, int64_t count, double weight);
void tr_mean_finish(tr_mean *mean, tr_dtype dtype, void *sum, int64_t count);

#endif
