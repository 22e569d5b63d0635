/* pool_shape.h - the sizes of a pool (pool.h). */
#pragma once

#include "framework/trireme.h"

typedef struct tr_pool_shape {
    int64_t planes;
    int64_t in[3], out[3];                 /* depth, height, width */
    int64_t kernel[3], stride[3], pad[3];
    bool    adaptive, exclusive;
} tr_pool_shape;
