/* conv.h - convolution of 1 to 3 dimensions as matrix products.
 *
 * Images are [batch][channels][depth][height][width], filters [out_channels][in_channels / groups][kernel...]. A 2-d
 * convolution has depth 1 (in, out, kernel, stride and dilation 1, pad 0). Each image's patches are laid out as the
 * columns of a matrix in the thread's own scratch memory and multiplied by the filter matrix; 1x1 convolutions
 * multiply the image itself. Images are the slices; the filter's gradient is summed in image order by a tree that
 * the shape alone determines. tr_blas_init comes first. */
#ifndef TR_MATH_CONV_H
#define TR_MATH_CONV_H

#include "kernels/math/images/conv_shape.h"

#define TR_TEMPLATE "kernels/math/images/conv.h"
#include "kernels/math/tools/each_float.h"

#elif defined(T)

/* out = conv(x, filter) [+ bias[channel]]; bias may be NULL. */
void NAME(tr_conv)(T *out, const T *x, const T *filter, const T *bias, const tr_conv_shape *s);
/* dx = the gradient of x: overwritten, not added to. Also the forward pass of a transposed convolution, where
 * `dout` is its input and `dx` its output. */
void NAME(tr_conv_grad_input)(T *dx, const T *dout, const T *filter, const tr_conv_shape *s);
/* dfilter = the gradient of the filter: overwritten. */
void NAME(tr_conv_grad_filter)(T *dfilter, const T *dout, const T *x, const tr_conv_shape *s);

#endif
