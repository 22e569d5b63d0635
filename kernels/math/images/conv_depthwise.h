/* conv_depthwise.h - convolutions whose filters see one channel each.
 *
 * A product of matrices has nothing to share here, so each plane is gone through by itself (phases.h). Where neighbouring rows of outputs
 * read neighbouring rows of the plane, all rows of a band are one loop. It computes the gaps between rows, too, which nobody reads. In the gradient of the filter they
 * count as 0 times an element of the plane: an element that is not finite spoils the gradient of its channel. Floats of the usual sizes need no such layout on most
 * CPUs: depthwise_direct.h. */
#ifndef TR_MATH_CONV_DEPTHWISE_H
#define TR_MATH_CONV_DEPTHWISE_H

#include "kernels/math/images/conv_shape.h"

#define TR_TEMPLATE "kernels/math/images/conv_depthwise.h"
#include "kernels/math/tools/each_float.h"

#elif defined(T)

/* As the functions of conv.h; false where it is no such convolution: nothing is done then. */
bool NAME(tr__conv_depthwise)(T *out, const T *x, const T *filter, const T *bias, const tr_conv_shape *s);
bool NAME(tr__conv_depthwise_grad_input)(T *dx, const T *dout, const T *filter, const tr_conv_shape *s);
bool NAME(tr__conv_depthwise_grad_filter)(T *dfilter, const T *dout, const T *x, const tr_conv_shape *s);

#endif
