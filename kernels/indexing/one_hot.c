/* one_hot.c - Out[i][X[i]] = 1, all else 0. */
#include <inttypes.h>
#include <string.h>

#include "kernels/base/check.h"
#include "kernels/base/shapes.h"
#include "kernels/math/arrays/rows.h"
#include "kernels/math/tools/cast.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { X };
enum { OUT };

typedef struct attrs {
    int32_t depth, dtype;
} attrs;

static const tr_op_proto proto = {
    .doc = "Numbers as rows that hold a 1 at the number's place and 0 elsewhere.",
    .in = TR_SLOTS(TR_SLOT("X", "[n, ...]", ", the last dimension 1, int32 or int64; numbers from 0 to depth - 1")),
    .out = TR_SLOTS({"Out", "[..., depth] of type dtype"}),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, depth, INT, "how many numbers there are", .required = true,
                               .range = TR_GREATER(0)),
                       TR_ATTR(attrs, dtype, INT, "type of Out, as VarType.Type has it", .number = TR_FP32)),
};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status infer(const tr_infer *io)
{
    const attrs   *a = io->attrs;
    const tr_meta *x = &io->in[X];
    tr_dtype       dtype;

    TR_TRY(tr__dtype_from_attr(&dtype, io, a->dtype));
    TR_TRY(tr__check_ids(io, "X", x, true));
    const int last = x->shape.rank - 1;
    if (x->shape.dim[last] != 1 && x->shape.dim[last] >= 0)
        return tr_fail(TR_ESHAPE, "%s: the last dimension of X must be 1, got %s", io->type, TR_SHAPE_STR(x->shape));
    io->out[OUT] = *x;
    io->out[OUT].dtype = dtype;
    io->out[OUT].shape.dim[last] = a->depth;
    return TR_OK;
}

/* -- kernel ---------------------------------------------------------------------------------------- */
static tr_status run(const tr_run *io)
{
    const attrs     *a = io->attrs;
    const tr_tensor *x = io->in[X];
    tr_tensor       *out = io->out[OUT];
    const int64_t    count = tr_tensor_count(x), size = tr_dtype_size(out->dtype), row = a->depth * size;
    const uint8_t    one = 1;
    uint8_t          value[16];
    int64_t         *place;

    TR_TRY(tr_run_scratch((void **)&place, io, (size_t)count * sizeof *place));
    tr_cast(place, TR_INT64, x->data, x->dtype, count);
    const int64_t bad = tr_rows_check(place, count, a->depth, -1);
    if (bad >= 0)
        return tr_fail(TR_ERANGE, "one_hot: number %" PRId64 " at position %" PRId64 " of '%s' is not in [0, %d)",
                       place[bad], bad, tr_run_in_name(io, X, 0), a->depth);
    tr_cast(value, out->dtype, &one, TR_UINT8, 1);
    memset(out->data, 0, (size_t)(count * row));
    for (int64_t i = 0; i < count; i++)
        memcpy((char *)out->data + i * row + place[i] * size, value, (size_t)size);
    return TR_OK;
}

/* -- registration ---------------------------------------------------------------------------------- */
TR_REGISTER_OP(one_hot, .locality = TR_ROWWISE, .proto = &proto, .infer = infer, .run = run);
