/* shape.c - see shape.h. */
#include "framework/tensors/shape.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/size.h"

tr_shape tr_shape_of(int rank, const int64_t *dims)
{
    tr_shape shape = {.rank = rank};
    assert(rank >= 0 && rank <= TR_MAX_RANK);
    if (rank > 0)
        memcpy(shape.dim, dims, (size_t)rank * sizeof *dims);
    return shape;
}

bool tr_shape_equal(const tr_shape *a, const tr_shape *b)
{
    return a->rank == b->rank && memcmp(a->dim, b->dim, (size_t)a->rank * sizeof a->dim[0]) == 0;
}

bool tr_shape_fits(const tr_shape *a, const tr_shape *b)
{
    if (a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i] && a->dim[i] >= 0 && b->dim[i] >= 0)
            return false;
    return true;
}

bool tr_shape_is_known(const tr_shape *shape)
{
    for (int i = 0; i < shape->rank; i++)
        if (shape->dim[i] < 0)
            return false;
    return true;
}

int64_t tr_shape_product(const tr_shape *shape, int from, int to)
{
    int64_t product = 1;
    for (int i = from; i < to; i++) {
        if (shape->dim[i] < 0)
            return -1;
        product = tr_size_mul(product, shape->dim[i]);
    }
    return product;
}

int64_t tr_shape_numel(const tr_shape *shape)
{
    return tr_shape_product(shape, 0, shape->rank);
}

const char *tr_shape_str(const tr_shape *shape)
{
    static _Thread_local char     buffers[8][TR_MAX_RANK * 22 + 8];
    static _Thread_local unsigned next;
    char  *text = buffers[next++ % 8];
    size_t used = 0;

    used += (size_t)sprintf(text + used, "[");
    for (int i = 0; i < shape->rank; i++) {
        if (i > 0)
            used += (size_t)sprintf(text + used, ", ");
        if (shape->dim[i] < 0)
            used += (size_t)sprintf(text + used, "?");
        else
            used += (size_t)sprintf(text + used, "%" PRId64, shape->dim[i]);
    }
    sprintf(text + used, "]");
    return text;
}
