/* conv_attrs.h - what convolutions and transposed convolutions have in common: attributes, checks, the shape that
 * math/images/conv.h wants.
 *
 * A transposed convolution is the gradient of a convolution's input: its Output is the image, its Input what the
 * convolution would make of it. So both are described by (image, filter, result). */
#pragma once

#include "framework/operators/op.h"
#include "kernels/math/images/conv.h"

typedef struct tr_conv_attrs {
    tr_ints strides, paddings, dilations;
    tr_ints output_size;              /* of transposed ones */
    int32_t groups;
} tr_conv_attrs;

#define TR_CONV_ATTRS(ones, zeros, extents)                                                                  \
    TR_ATTR(tr_conv_attrs, strides, INTS, "steps of the window: " extents, .text = ones),                    \
    TR_ATTR(tr_conv_attrs, paddings, INTS, "zeros around the image: " extents, .text = zeros),               \
    TR_ATTR(tr_conv_attrs, groups, INT, "the channels of a group see only those of the same group",          \
            .number = 1, .range = TR_AT_LEAST(1)),                                                           \
    TR_ATTR(tr_conv_attrs, dilations, INTS, "distance of the filter's elements: " extents, .text = ones)

/* For `.check`: lists for `spatial` dimensions. */
tr_status tr__conv_check(const char *type, const tr_conv_attrs *a, int spatial);
/* The extent of the window along dimension i of the spatial ones; -1 where the kernel is not known. */
int64_t   tr__conv_window(const tr_conv_attrs *a, const tr_shape *filter, int i);
/* The kernels copy an image with its padding, or the patches under the windows: fail where that is more than the machine has. */
tr_status tr__conv_check_scratch(const tr_infer *io, const tr_shape *image, const tr_shape *filter, const tr_shape *result);

tr_conv_shape tr__conv_shape(const tr_conv_attrs *a, const tr_shape *image, const tr_shape *filter, const tr_shape *result);
