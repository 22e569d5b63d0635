/* depthwise_direct.h - depthwise convolutions of 3x3 and 5x5 floats straight from the planes, for CPUs with AVX-512 or AVX2.
 *
 * Vectors run along the rows of a plane. Some rows of outputs are summed in registers, so that a row of inputs is loaded once for all of them.
 * Padding is never written: masks leave out the columns beyond the plane's sides, and rows beyond its ends are passed over.
 * In the filter's gradient an element that is not finite spoils the gradient of its channel, as in conv_depthwise.h.
 *
 * Planes are the slices; of the filter's gradient, channels, whose images are summed in order. A call returns false, having done nothing,
 * where conv_depthwise.c has to do it: other sizes, strides, dilations and CPUs, and the input's gradient with a stride of 2. */
#pragma once

#include "kernels/math/images/conv_shape.h"

/* bias may be NULL */
bool tr__depthwise_direct(float *out, const float *x, const float *filter, const float *bias, const tr_conv_shape *s);
bool tr__depthwise_direct_grad_input(float *dx, const float *dout, const float *filter, const tr_conv_shape *s);
bool tr__depthwise_direct_grad_filter(float *dfilter, const float *dout, const float *x, const tr_conv_shape *s);
