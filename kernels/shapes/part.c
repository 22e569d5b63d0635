/* part.c - see part.h. */
#include "kernels/shapes/part.h"

#include "kernels/math/arrays/transpose.h"

/* Strides of `x` in items, and the distance of item `begin` in bytes. */
static int64_t lay_out(int64_t *strides, const tr_tensor *x, const int64_t *begin)
{
    int64_t stride = 1, offset = 0;

    for (int d = x->shape.rank - 1; d >= 0; d--) {
        strides[d] = stride;
        offset += begin[d] * stride;
        stride *= x->shape.dim[d];
    }
    return offset * tr_dtype_size(x->dtype);
}

static const int64_t origin[TR_MAX_RANK];

void tr__part_take(tr_tensor *part, const tr_tensor *whole, const int64_t *begin)
{
    int64_t       from[TR_MAX_RANK], to[TR_MAX_RANK];
    const int64_t offset = lay_out(from, whole, begin);

    lay_out(to, part, origin);
    tr_copy_strided(part->data, to, (const char *)whole->data + offset, from, part->shape.rank, part->shape.dim,
                    tr_dtype_size(part->dtype));
}

void tr__part_put(tr_tensor *whole, const tr_tensor *part, const int64_t *begin)
{
    int64_t       from[TR_MAX_RANK], to[TR_MAX_RANK];
    const int64_t offset = lay_out(to, whole, begin);

    lay_out(from, part, origin);
    tr_copy_strided((char *)whole->data + offset, to, part->data, from, part->shape.rank, part->shape.dim,
                    tr_dtype_size(part->dtype));
}
