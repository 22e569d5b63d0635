/* image_attrs.h - attributes that convolutions and pools know and do not honour. */
#pragma once

#include "framework/operators/op.h"

/* Images are [batch, channels, height, width]. */
#define TR_ATTR_ONLY_NCHW                                                                                     \
    TR_ATTR_ONLY("data_format", STRING, "transpose the images to [batch, channels, height, width] before",     \
                 .text = "AnyLayout", .range = TR_ONE_OF({"AnyLayout", 0}, {"NCHW", 0}))
/* Volumes are [batch, channels, depth, height, width]. */
#define TR_ATTR_ONLY_NCDHW                                                                                    \
    TR_ATTR_ONLY("data_format", STRING, "transpose the volumes to [batch, channels, depth, height, width] before", \
                 .text = "AnyLayout", .range = TR_ONE_OF({"AnyLayout", 0}, {"NCDHW", 0}, {"NCHW", 0}))
/* The attributes that quantized programs set. */
#define TR_ATTR_ONLY_PLAIN(attr_name, attr_type, ...)                                                         \
    TR_ATTR_ONLY(attr_name, attr_type, "use the program as it was before it was quantized", ##__VA_ARGS__)
