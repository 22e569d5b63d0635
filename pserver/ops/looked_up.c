/* looked_up.c - see looked_up.h. */
#include "pserver/ops/looked_up.h"

#include <string.h>

#include "kernels/base/check.h"

tr_status tr__looked_up_infer(const tr_infer *io, int ids, int64_t width)
{
    const tr_meta *keys = &io->in[ids];

    TR_TRY(tr__check_ids(io, "Ids", keys, false));
    TR_TRY(tr__check_min_rank(io, "Ids", keys, 1));
    const int last = keys->shape.rank - 1;
    if (keys->shape.dim[last] != 1 && keys->shape.dim[last] != -1)
        return tr_fail(TR_ESHAPE, "%s: the last dimension of Ids must be 1, got %s", io->type, TR_SHAPE_STR(keys->shape));
    io->out[0] = *keys;
    io->out[0].dtype = TR_FP32;
    io->out[0].shape.dim[last] = width;
    return TR_OK;
}

void tr__looked_up_clear(float *rows, const int64_t *keys, int64_t count, int64_t width, int64_t padding)
{
    for (int64_t i = 0; padding != -1 && i < count; i++)
        if (keys[i] == padding)
            memset(rows + i * width, 0, (size_t)width * sizeof *rows);
}
