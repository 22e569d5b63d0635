/* conv_shape.h - the sizes of a convolution (conv.h). */
#pragma once

#include "framework/trireme.h"

typedef struct tr_conv_shape {
    int64_t batch, in_channels, out_channels, groups;
    int64_t in[3], out[3];                 /* depth, height, width */
    int64_t kernel[3], stride[3], pad[3], dilation[3];
} tr_conv_shape;
