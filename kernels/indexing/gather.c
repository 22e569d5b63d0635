/* gather.c - rows of X by number:  Out[i] = X[Index[i]].
 *
 * The gradient adds the rows of dOut up where Index names a row more than once. */
#ifndef T

#include <inttypes.h>
#include <string.h>

#include "framework/gradients/grad_second.h"
#include "kernels/base/selected_rows.h"
#include "kernels/math/arrays/rows.h"
#include "kernels/math/tools/cast.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { X, INDEX };
enum { OUT };
enum { G_X, G_INDEX, G_DOUT };
enum { G_DX };

static const tr_op_proto proto = {
    .doc = "Takes rows of X: Out[i] = X[Index[i]].",
    .in = TR_SLOTS(TR_SLOT("X", "[n, ...]", " of any type"), {"Index", "[m] or [m, 1] int32 or int64; row numbers", TR_SLOT_INDEX}),
    .out = TR_SLOTS({"Out", "[m, ...]"}),
};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status infer(const tr_infer *io)
{
    const tr_meta *index = &io->in[INDEX];
    tr_shape       out = io->in[X].shape;

    if (index->shape.rank != 1 && !(index->shape.rank == 2 && (index->shape.dim[1] == 1 || index->shape.dim[1] < 0)))
        return tr_fail(TR_ESHAPE, "%s: Index must be [m] or [m, 1], got %s", io->type, TR_SHAPE_STR(index->shape));
    out.dim[0] = index->shape.dim[0];
    io->out[OUT] = tr_meta_dense(io->in[X].dtype, out);
    return TR_OK;
}

/* The row numbers as int64, checked: Index itself or a copy in scratch memory. */
static tr_status row_numbers(const int64_t **out, const tr_run *io, const char *type, int slot, int64_t height)
{
    const tr_tensor *index = io->in[slot];
    const int64_t    count = tr_tensor_count(index);
    void            *wide;

    *out = index->data;
    if (index->dtype != TR_INT64) {
        TR_TRY(tr_run_scratch(&wide, io, (size_t)count * sizeof **out));
        tr_cast(wide, TR_INT64, index->data, index->dtype, count);
        *out = wide;
    }
    const int64_t bad = tr_rows_check(*out, count, height, -1);
    if (bad >= 0)
        return tr_fail(TR_ERANGE, "%s: number %" PRId64 " at position %" PRId64 " of '%s' is no row of X, which has %"
                       PRId64, type, (*out)[bad], bad, tr_run_in_name(io, slot, 0), height);
    return TR_OK;
}

/* -- kernels --------------------------------------------------------------------------------------- */
static tr_status run(const tr_run *io)
{
    const tr_tensor *x = io->in[X];
    const int64_t   *index;

    TR_TRY(row_numbers(&index, io, "gather", INDEX, x->shape.dim[0]));
    tr_rows_gather(io->out[OUT]->data, x->data, index, tr_tensor_count(io->in[INDEX]),
                   tr__rows_width(x) * tr_dtype_size(x->dtype), -1);
    return TR_OK;
}

#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------- */
static const tr_grad_rule grad = {
    .op = "gather_grad", .reads = {TR_IN_SHAPE(X), TR_IN(INDEX), TR_DOUT(OUT)}, .makes = {TR_DIN(X)},
    .second = tr__second_linear,
};

TR_REGISTER_OP(gather, .proto = &proto, .infer = infer, .run = run, .grad = &grad);
TR_REGISTER_OP(gather_grad, .grad_of = &tr_op_record_gather, .kernels = TR_FLOAT_KERNELS(gather_grad),
               .key = TR_KEY_IN_SLOT, .key_slot = G_DOUT);

#else /* the gradient, for each T */

static tr_status NAME(gather_grad)(const tr_run *io)
{
    tr_tensor     *dx = io->out[G_DX];
    const int64_t *index;

    TR_TRY(row_numbers(&index, io, "gather_grad", G_INDEX, dx->shape.dim[0]));
    memset(dx->data, 0, (size_t)tr_tensor_count(dx) * sizeof(T));
    NAME(tr_rows_scatter_add)(dx->data, index, io->in[G_DOUT]->data, tr_tensor_count(io->in[G_INDEX]),
                              tr__rows_width(dx), -1);
    return TR_OK;
}

#endif
