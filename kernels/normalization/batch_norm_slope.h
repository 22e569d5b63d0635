/* batch_norm_slope.h - what the gradient of batch_norm computes, in lines of other operators: for gradients of gradients. */
#pragma once

#include "framework/composites/composite.h"
#include "framework/gradients/grad_maker.h"

typedef struct tr_batch_norm_attrs {
    bool  is_test, use_global_stats;
    float momentum, epsilon;
    enum { TR_CHANNELS_SECOND, TR_CHANNELS_LAST } data_layout;
} tr_batch_norm_attrs;

/* The dimension of the channels. */
int  tr__batch_norm_axis(const tr_batch_norm_attrs *a, int rank);
/* Are the statistics the running ones? */
bool tr__batch_norm_is_given(const tr_batch_norm_attrs *a);

/* Of the gradient rule: `.body` and `.rest`. */
tr_status tr__batch_norm_slope(tr_composite *c);
tr_status tr__batch_norm_end(tr_grad_maker *maker);
