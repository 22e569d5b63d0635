/* tensor_finite.h - the search for NaN and infinity. */
#pragma once

#include "framework/tensors/tensor.h"

/* No element is NaN or infinite. Whole numbers never are. */
bool tr__tensor_is_finite(const tr_tensor *tensor);
