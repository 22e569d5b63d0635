/* gather_nd.c - elements or slices of X by several numbers each, taken or added to: gather_nd and scatter_nd_add.
 *
 *     gather_nd        Out[i...] = X[Index[i...]]
 *     scatter_nd_add   Out = X, then Out[Index[i...]] += Updates[i...]
 *
 * The last dimension of Index has q numbers, one for each of the first q dimensions of X; the rest of X is a slice. So X is rows of
 * slices, and a line of Index is the number of a row.
 *
 * Backward: the gradient of gather_nd's X is scatter_nd_add to zeros; those of scatter_nd_add are Out@GRAD, and what gather_nd takes of it. */
#ifndef T

#include <inttypes.h>
#include <string.h>

#include "framework/gradients/grad_second.h"
#include "kernels/base/check.h"
#include "kernels/base/grad_ops.h"
#include "kernels/math/arrays/rows.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { X, INDEX, UPDATES };
enum { OUT };
enum { G_X, G_INDEX, G_DOUT };
enum { G_DX };

#define INDEX_DOC " int32 or int64; numbers in the first q dimensions of X, from 0 on"

static const tr_op_proto gather_proto = {
    .doc = "Takes elements or slices of X by several numbers each: Out[i...] = X[Index[i...]].",
    .in = TR_SLOTS(TR_SLOT("X", "[n, ...]", " of any type"), TR_SLOT("Index", "[..., q]", INDEX_DOC, TR_SLOT_INDEX)),
    .out = TR_SLOTS({"Out", "Index's dimensions but the last, then X's after the first q; [1] where none is left"}),
};
static const tr_op_proto scatter_proto = {
    .doc = "X with elements or slices added: Out[Index[i...]] = X[Index[i...]] + Updates[i...]. Several updates of one place add up, in their order.",
    .in = TR_SLOTS(TR_SLOT("X", "[n, ...]", ""), TR_SLOT("Index", "[..., q]", INDEX_DOC, TR_SLOT_INDEX),
                   {"Updates", "Index's dimensions but the last, then X's after the first q; of X's type"}),
    .out = TR_SLOTS(TR_SLOT("Out", "like X", "")),
};

/* -- shapes ------------------------------------------------------------------------------------- */

/* The shape of what Index names; its rank is not known (0) where the last dimension of Index is not. */
static tr_status picked_shape(tr_shape *out, const tr_infer *io)
{
    const tr_shape x = io->in[X].shape, index = io->in[INDEX].shape;

    const int64_t q = index.dim[index.rank - 1];
    *out = (tr_shape){.rank = 0};
    if (q < 0)
        return TR_OK;
    if (q > x.rank)
        return tr_fail(TR_ESHAPE, "%s: a line of Index %s has %lld numbers, but X %s has %d dimensions", io->type, TR_SHAPE_STR(index),
                       (long long)q, TR_SHAPE_STR(x), x.rank);
    if (index.rank - 1 + x.rank - q > TR_MAX_RANK)
        return tr_fail(TR_ESHAPE, "%s: Index %s of X %s makes a rank above %d", io->type, TR_SHAPE_STR(index), TR_SHAPE_STR(x), TR_MAX_RANK);
    for (int i = 0; i + 1 < index.rank; i++)
        out->dim[out->rank++] = index.dim[i];
    for (int i = (int)q; i < x.rank; i++)
        out->dim[out->rank++] = x.dim[i];
    if (out->rank == 0)
        *out = TR_SHAPE(1);
    return TR_OK;
}

static tr_status infer_gather(const tr_infer *io)
{
    tr_shape out;

    TR_TRY(picked_shape(&out, io));
    io->out[OUT] = tr_meta_dense(io->in[X].dtype, out);
    return TR_OK;
}

static tr_status infer_scatter(const tr_infer *io)
{
    tr_shape updates;

    TR_TRY(picked_shape(&updates, io));
    return updates.rank > 0 ? tr__check_shape(io, "Updates", &io->in[UPDATES], &updates) : TR_OK;
}

/* -- rows --------------------------------------------------------------------------------------- */

/* Lines of Index, and the slices of X that they name. */
typedef struct rows {
    int64_t  count, width;            /* lines; elements of a slice */
    int64_t *number;                  /* of the row, for each line */
} rows;

static int64_t number_at(const tr_tensor *index, int64_t i)
{
    return index->dtype == TR_INT32 ? ((const int32_t *)index->data)[i] : ((const int64_t *)index->data)[i];
}

/* The row that a line of q numbers names; -1: none. */
static int64_t row_of(const tr_tensor *index, int64_t line, int q, const tr_shape *x)
{
    int64_t row = 0;

    for (int k = 0; k < q; k++) {
        const int64_t number = number_at(index, line * q + k);
        if (number < 0 || number >= x->dim[k])
            return -1;
        row = row * x->dim[k] + number;
    }
    return row;
}

static tr_status find_rows(rows *out, const tr_run *io, const char *type, const tr_shape *x)
{
    const tr_tensor *index = io->in[INDEX];
    const int        q = (int)index->shape.dim[index->shape.rank - 1];

    *out = (rows){.count = tr_shape_product(&index->shape, 0, index->shape.rank - 1), .width = tr_shape_product(x, q, x->rank)};
    TR_TRY(tr_run_scratch((void **)&out->number, io, (size_t)(out->count + 1) * sizeof *out->number));
    for (int64_t i = 0; i < out->count; i++) {
        out->number[i] = row_of(index, i, q, x);
        for (int k = 0; out->number[i] < 0 && k < q; k++)
            if (number_at(index, i * q + k) < 0 || number_at(index, i * q + k) >= x->dim[k])
                return tr_fail(TR_ERANGE, "%s: number %" PRId64 " at position %d of line %" PRId64 " of '%s' must be from 0 to %" PRId64 ": X is %s",
                               type, number_at(index, i * q + k), k, i, tr_run_in_name(io, INDEX, 0), x->dim[k] - 1, TR_SHAPE_STR(*x));
    }
    return TR_OK;
}

/* -- kernels --------------------------------------------------------------------------------------- */
static tr_status gather_nd(const tr_run *io)
{
    const tr_tensor *x = io->in[X];
    rows             r;

    TR_TRY(find_rows(&r, io, "gather_nd", &x->shape));
    tr_rows_gather(io->out[OUT]->data, x->data, r.number, r.count, r.width * tr_dtype_size(x->dtype), -1);
    return TR_OK;
}

#include "kernels/math/tools/each_number.h"

/* -- gradients and registration --------------------------------------------------------------------- */
static const tr_grad_rule gather_rule = {
    .op = "gather_nd_grad", .reads = {TR_IN_SHAPE(X), TR_IN(INDEX), TR_DOUT(OUT)}, .makes = {TR_DIN(X)},
    .second = tr__second_linear,
};
TR_REGISTER_OP(gather_nd, .proto = &gather_proto, .infer = infer_gather, .run = gather_nd, .grad = &gather_rule);
TR_REGISTER_OP(gather_nd_grad, .grad_of = &tr_op_record_gather_nd, .kernels = TR_FLOAT_KERNELS(gather_nd_grad), .key = TR_KEY_IN_SLOT,
               .key_slot = G_DOUT);

static tr_status make_scatter_grad(tr_grad_maker *maker)
{
    const tr_op_desc *forward = tr_grad_forward(maker);

    TR_TRY(tr__grad_pass(maker, "X", 0));
    tr_op_desc *gather = tr__grad_from_dout(maker, "gather_nd", "Updates", 0);
    if (!gather)
        return TR_OK;
    const char *index = tr_grad_saved(maker, tr_op_desc_input(forward, "Index", 0), false);
    tr_op_desc_set_input(gather, "Index", 1, &index);
    return tr_grad_append(maker, gather);
}

static const tr_grad_rule scatter_rule = {.make = make_scatter_grad};
TR_REGISTER_OP(scatter_nd_add, .proto = &scatter_proto, .infer = infer_scatter, .kernels = TR_NUMBER_KERNELS(scatter_nd_add), .grad = &scatter_rule,
               .inplace = {{X, OUT}}, .inplace_count = 1);

#else /* the kernels, for each T */

static tr_status NAME(scatter_nd_add)(const tr_run *io)
{
    const tr_tensor *x = io->in[X];
    tr_tensor       *out = io->out[OUT];
    rows             r;

    TR_TRY(find_rows(&r, io, "scatter_nd_add", &x->shape));
    if (out->data != x->data && tr_tensor_count(x) > 0)
        memcpy(out->data, x->data, (size_t)tr_tensor_bytes(x));
    NAME(tr_rows_scatter_add)(out->data, r.number, io->in[UPDATES]->data, r.count, r.width, -1);
    return TR_OK;
}

#if T_IS_FLOATING
static tr_status NAME(gather_nd_grad)(const tr_run *io)
{
    tr_tensor *dx = io->out[G_DX];
    rows       r;

    TR_TRY(find_rows(&r, io, "gather_nd_grad", &dx->shape));
    if (tr_tensor_count(dx) > 0)
        memset(dx->data, 0, (size_t)tr_tensor_bytes(dx));
    NAME(tr_rows_scatter_add)(dx->data, r.number, io->in[G_DOUT]->data, r.count, r.width, -1);
    return TR_OK;
}
#endif

#endif
