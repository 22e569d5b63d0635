/* part.h - a box of a larger tensor: slices, crops and pads copy one out, or put one in. */
#pragma once

#include "framework/tensors/tensor.h"

/* part = the box of `whole`, of part's extents, that begins at begin[d] of each dimension. */
void tr__part_take(tr_tensor *part, const tr_tensor *whole, const int64_t *begin);
/* The box of `whole` = part; the rest stays as it is. */
void tr__part_put(tr_tensor *whole, const tr_tensor *part, const int64_t *begin);
