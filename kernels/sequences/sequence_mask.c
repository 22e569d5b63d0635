/* sequence_mask.c - lengths become rows of ones and zeros:  Y[..., j] = 1 if j < X[...], else 0. */
#include "kernels/base/shapes.h"
#include "kernels/math/arrays/elementwise.h"
#include "kernels/math/tools/cast.h"

#include <string.h>

/* -- interface ---------------------------------------------------------------------------------- */
enum { X };
enum { Y };

typedef struct attrs {
    int32_t maxlen, out_dtype;
} attrs;

static const tr_op_proto proto = {
    .doc = "Y[..., j] = 1 if j < X[...], else 0",
    .in = TR_SLOTS({"X", "[...] numbers: lengths"}),
    .out = TR_SLOTS({"Y", "[..., maxlen] of type out_dtype"}),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, maxlen, INT, "width of Y; -1: the greatest of X", .number = -1,
                               .range = TR_AT_LEAST(-1)),
                       TR_ATTR(attrs, out_dtype, INT, "Y's type", .required = true)),
};

static tr_status check(const void *attrs_)
{
    const attrs *a = attrs_;

    if (a->maxlen == 0)
        return tr_fail(TR_ERANGE, "sequence_mask: maxlen must be -1 or greater than 0, got 0");
    return TR_OK;
}

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status infer(const tr_infer *io)
{
    const attrs *a = io->attrs;
    tr_shape     y = io->in[X].shape;
    tr_dtype     dtype;

    TR_TRY(tr__dtype_from_attr(&dtype, io, a->out_dtype));
    if (y.rank + 1 > TR_MAX_RANK)
        return tr_fail(TR_ESHAPE, "%s: X %s has too many dimensions for one more", io->type, TR_SHAPE_STR(y));
    y.dim[y.rank++] = a->maxlen;
    io->out[Y] = tr_meta_dense(dtype, y);
    return TR_OK;
}

/* -- kernel ------------------------------------------------------------------------------------- */
static int64_t greatest(const int64_t *length, int64_t count)
{
    int64_t most = 0;

    for (int64_t i = 0; i < count; i++)
        most = length[i] > most ? length[i] : most;
    return most;
}

static tr_status run(const tr_run *io)
{
    const attrs     *a = io->attrs;
    const tr_tensor *x = io->in[X];
    const int64_t    count = tr_tensor_count(x), size = tr_dtype_size((tr_dtype)a->out_dtype);
    tr_shape         shape = x->shape;
    int64_t         *length;
    uint64_t         one = 0;

    TR_TRY(tr_run_scratch((void **)&length, io, (size_t)count * sizeof *length));
    tr_cast(length, TR_INT64, x->data, x->dtype, count);
    const int64_t width = a->maxlen > 0 ? a->maxlen : greatest(length, count);
    shape.dim[shape.rank++] = width;
    TR_TRY(tr_run_resize(io, Y, 0, (tr_dtype)a->out_dtype, &shape));
    tr_cast(&one, (tr_dtype)a->out_dtype, &(int64_t){1}, TR_INT64, 1);
    for (int64_t i = 0; i < count; i++) {
        char         *row = (char *)io->out[Y]->data + i * width * size;
        const int64_t ones = length[i] < 0 ? 0 : length[i] < width ? length[i] : width;
        tr_fill(row, &one, size, ones);
        memset(row + ones * size, 0, (size_t)((width - ones) * size));
    }
    return TR_OK;
}

TR_REGISTER_OP(sequence_mask, .proto = &proto, .check = check, .infer = infer, .run = run);
