/* fill.h - every element of a tensor one value. */
#pragma once

#include "framework/tensors/tensor.h"

/* Every element of `out` = value, as the type that out has. */
void tr__fill(tr_tensor *out, double value);
