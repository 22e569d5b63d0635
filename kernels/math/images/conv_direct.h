/* conv_direct.h - convolution without columns, for CPUs with 512-bit vectors.
 *
 * One small product serves all three passes: a tile C[i][j] += A[row[i] + col[t]] * B[brow[t] + j] with i over 6 or 8
 * rows, j over up to 4 vectors and t over the sum, its operands addressed by tables of offsets. Then
 *     forward       i = filters, t = taps, j = positions:  A the filter, B the padded image itself, shifted by the tap;
 *     input's       i = taps, t = filters, j = outputs:    A the filter, B the output's gradient; C is added at its place;
 *     filter's      i = taps, t = outputs, j = filters:    A the padded image, B the output's gradient, transposed.
 * Positions of the forward pass run through whole padded rows, so that they are contiguous; what lies beyond an output
 * row is computed in vain and dropped. That needs strides of 1.
 *
 * A call returns false, having done nothing, where the way through columns (conv.c) is as good or the only one. */
#ifndef TR_MATH_CONV_DIRECT_H
#define TR_MATH_CONV_DIRECT_H

#include "kernels/math/images/conv_shape.h"

/* For tests: whether calls may take this way (they do by default). */
void tr__conv_direct_allow(bool allow);

#define TR_TEMPLATE "kernels/math/images/conv_direct.h"
#include "kernels/math/tools/each_float.h"

#elif defined(T)

bool NAME(tr__conv_direct)(T *out, const T *x, const T *filter, const T *bias, const tr_conv_shape *s);
bool NAME(tr__conv_direct_grad_input)(T *dx, const T *dout, const T *filter, const tr_conv_shape *s);
bool NAME(tr__conv_direct_grad_filter)(T *dfilter, const T *dout, const T *x, const tr_conv_shape *s);

#endif
