/* shape.h - a rank and that many dimensions, held by value. -1 is a dimension not known before the run. */
#pragma once

#include "framework/trireme.h"

typedef struct tr_shape {
    int     rank;
    int64_t dim[TR_MAX_RANK];
} tr_shape;

/* tr_shape s = TR_SHAPE(2, 3);  the dimensions are those written; at least one. */
#define TR_SHAPE(...)                                                                      \
    ((tr_shape){.rank = (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),          \
                .dim = {__VA_ARGS__}})

tr_shape tr_shape_of(int rank, const int64_t *dims);
bool     tr_shape_equal(const tr_shape *a, const tr_shape *b);
/* Equal where both are known. */
bool     tr_shape_fits(const tr_shape *a, const tr_shape *b);
bool     tr_shape_is_known(const tr_shape *shape);             /* no -1 in it */
/* Product of the dimensions [from, to); 1 when empty; -1 when one of them is unknown; TR_SIZE_MAX when it is larger. */
int64_t  tr_shape_product(const tr_shape *shape, int from, int to);
int64_t  tr_shape_numel(const tr_shape *shape);
/* "[64, ?, 3]" in one of a few rotating buffers of the thread: for messages. */
const char *tr_shape_str(const tr_shape *shape);
#define TR_SHAPE_STR(shape) tr_shape_str(&(shape))
