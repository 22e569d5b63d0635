/* top_k.c - the k largest numbers of each row and their places, the largest first.
 *
 * Of equal numbers the earlier comes first. */
#ifndef T

#include <inttypes.h>

#include "framework/operators/op.h"
#include "kernels/math/arrays/reduce.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { X, K };
enum { OUT, INDICES };

typedef struct attrs {
    int32_t k;
} attrs;

static const tr_op_proto proto = {
    .doc = "The k largest numbers of each row of X, and where they stand.",
    .in = TR_SLOTS(TR_SLOT("X", "[..., n]", " float"),
                   TR_SLOT("K", "[1]", " int32; takes the place of the attribute", TR_SLOT_OPTIONAL | TR_SLOT_INT32)),
    .out = TR_SLOTS({"Out", "[..., k]; the largest first"}, {"Indices", "[..., k] int64; their places in the row", TR_SLOT_INT64}),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, k, INT, "how many", .number = 1, .range = TR_AT_LEAST(1))),
};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status infer(const tr_infer *io)
{
    const attrs *a = io->attrs;
    tr_shape     out = io->in[X].shape;

    const int64_t n = out.dim[out.rank - 1];
    const bool    given = io->in[K].kind != TR_KIND_NONE;
    if (!given && n >= 0 && a->k > n)
        return tr_fail(TR_ESHAPE, "%s: k is %d, but the rows of X %s have %" PRId64 " elements", io->type, a->k,
                       TR_SHAPE_STR(out), n);
    out.dim[out.rank - 1] = given ? -1 : a->k;
    io->out[OUT] = io->in[X];
    io->out[OUT].shape = out;
    io->out[INDICES] = io->out[OUT];
    io->out[INDICES].dtype = TR_INT64;
    return TR_OK;
}

/* With the input K the outputs get their shape now. */
static tr_status resize_outputs(const tr_run *io)
{
    const tr_tensor *x = io->in[X];
    const int32_t    k = *(const int32_t *)io->in[K]->data;
    tr_shape         shape = x->shape;
    const int64_t    n = shape.dim[shape.rank - 1];

    if (k < 1 || k > n)
        return tr_fail(TR_ERANGE, "top_k: K is %d; the rows of X %s have %" PRId64 " elements", k,
                       TR_SHAPE_STR(x->shape), n);
    shape.dim[shape.rank - 1] = k;
    TR_TRY(tr_run_resize(io, OUT, 0, x->dtype, &shape));
    return tr_run_resize(io, INDICES, 0, TR_INT64, &shape);
}

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- registration ---------------------------------------------------------------------------------- */
TR_REGISTER_OP(top_k, .locality = TR_ROWWISE, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(top_k));

#else /* the kernel, for each T */

static tr_status NAME(top_k)(const tr_run *io)
{
    const tr_shape *x = &io->in[X]->shape;
    const int       last = x->rank - 1;

    if (io->in[K])
        TR_TRY(resize_outputs(io));
    NAME(tr_top_k)(io->out[OUT]->data, io->out[INDICES]->data, io->in[X]->data, tr_shape_product(x, 0, last),
                   x->dim[last], io->out[OUT]->shape.dim[last]);
    return TR_OK;
}

#endif
