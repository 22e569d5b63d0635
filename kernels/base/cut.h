/* cut.h - a tensor seen as [pre][n][post] around one axis, which is how the functions of kernels/math take it. */
#pragma once

#include "framework/tensors/shape.h"

typedef struct tr_cut {
    int64_t pre, n, post;
} tr_cut;

/* `axis` may be negative: -1 is the last. The shape is known. */
static inline tr_cut tr__cut_at(const tr_shape *shape, int axis)
{
    if (axis < 0)
        axis += shape->rank;
    return (tr_cut){tr_shape_product(shape, 0, axis), shape->dim[axis],
                    tr_shape_product(shape, axis + 1, shape->rank)};
}
