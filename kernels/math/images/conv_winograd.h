/* conv_winograd.h - convolutions of floats with filters of 2x2 to 5x5 taps, by fewer multiplications, for CPUs with AVX-512 or AVX2.
 *
 * A tile of 6x6 inputs gives 4x4 outputs of a 3x3 filter, or 2x2 of a 5x5 one. Both sides are taken to their values at six points
 * in each direction (S. Winograd, 1980; A. Lavin, S. Gray, "Fast algorithms for convolutional neural networks", 2015), multiplied
 * there, and taken back: 36 multiplications instead of 144 (3x3) or 100 (5x5) for each pair of channels. Filters of 2x2 give 5x5 outputs, those of 4x4
 * 3x3. All three passes go this way.
 *
 * With a stride of 2 the four phases of an input, by even and odd rows and columns, are inputs of their own, with filters of 2x2 (3x3) taps. A tile then
 * gives 5x5 (4x4) outputs by 121 multiplications instead of 225 (400).
 *
 * The price is a larger error. The points are 0, +-sqrt(1/2), +-sqrt(2) and infinity, which round less than 0, +-1, +-2. In tests with
 * random numbers an element differs from the exact result by at most TR_WINOGRAD_ERROR * 2^-24 * (the largest input) * (the sum of the sizes of
 * a filter's weights), with a stride of 2 TR_WINOGRAD_ERROR_STRIDED; docs/adr/0031. Results have the same bits for any number of threads.
 *
 * A call returns false, having done nothing, where another way is better or the only one. */
#pragma once

#include "kernels/math/images/conv_shape.h"

enum { TR_WINOGRAD_ERROR = 8, TR_WINOGRAD_ERROR_STRIDED = 16 };

/* Whether tr__winograd would do it. */
bool tr__winograd_takes(const tr_conv_shape *s);
/* bias may be NULL */
bool tr__winograd(float *out, const float *x, const float *filter, const float *bias, const tr_conv_shape *s);
bool tr__winograd_grad_input(float *dx, const float *dout, const float *filter, const tr_conv_shape *s);
bool tr__winograd_grad_filter(float *dfilter, const float *dout, const float *x, const tr_conv_shape *s);
