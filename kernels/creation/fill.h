/* fill.h - every element of a tensor one value. */
#ifndef TR_KERNELS_FILL_H
#define TR_KERNELS_FILL_H

#include "framework/tensors/tensor.h"

/* Every element of `out` = value, as the type that out has. */
void tr__fill(tr_tensor *out, double value);

#endif
