/* conv_folded.h - convolutions of floats with a stride of 2 and few channels, such as the first one of a network for images.
 *
 * The even and odd rows and columns of a channel become channels of their own (conv_winograd_tiles.h), as arrays of their own: vectors of channels would be
 * mostly empty otherwise. What is left is a convolution with a stride of 1, by Winograd's algorithm. A call returns false, having done
 * nothing, where another way is better or the only one. */
#pragma once

#include "kernels/math/images/conv_shape.h"

/* bias may be NULL */
bool tr__conv_folded(float *out, const float *x, const float *filter, const float *bias, const tr_conv_shape *s);
