/* unpool.c - what max_pool2d_with_index took goes back to where it was; the rest is 0. (Zeiler et al., 2011)
 *
 * Of several maxima from one place the last one counts. Backward: each takes the gradient of its place. */
#ifndef T

#include <string.h>

#include "framework/base/size.h"
#include "framework/gradients/grad_second.h"
#include "kernels/base/check.h"

/* -- interface ------------------------------------------------------------------------------ */
enum { X, INDICES };
enum { OUT };
enum { G_INDICES, G_DOUT };
enum { G_DX };

typedef struct attrs {
    tr_ints ksize, strides, paddings;
} attrs;

static const tr_op_proto proto = {
    .doc = "Puts each element of X at its place in a larger plane of zeros.",
    .in = TR_SLOTS(TR_SLOT("X", "[batch, channels, height, width]", " float; the maxima"),
                   TR_SLOT("Indices", "like X", ", int32; the place of each in its plane of Out, row by row", TR_SLOT_INT32)),
    .out = TR_SLOTS({"Out", "[batch, channels, (height - 1) stride - 2 padding + ksize, as much of the width]"}),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, ksize, INTS, "the window of the pool: [height, width]", .required = true),
                       TR_ATTR(attrs, strides, INTS, "its steps: [height, width]", .text = "1, 1"),
                       TR_ATTR(attrs, paddings, INTS, "its padding: [height, width]", .text = "0, 0"),
                       TR_ATTR_ONLY("unpooling_type", STRING, "no other way is known", .required = true,
                                    .range = TR_ONE_OF({"max", 0}))),
};

static tr_status check(const void *attrs_)
{
    const attrs *a = attrs_;

    TR_TRY(tr__check_pair("unpool", "ksize", &a->ksize, 1));
    TR_TRY(tr__check_pair("unpool", "strides", &a->strides, 1));
    return tr__check_pair("unpool", "paddings", &a->paddings, 0);
}

/* -- shapes ----------------------------------------------------------------------------------- */
static tr_status infer(const tr_infer *io)
{
    const attrs *a = io->attrs;
    tr_shape     out = io->in[X].shape;

    for (int i = 0; i < 2; i++) {
        int64_t *dim = &out.dim[i + 2];
        if (*dim < 0)
            continue;
        *dim = tr_size_add(tr_size_mul(*dim - 1, a->strides.item[i]), a->ksize.item[i]) - 2 * (int64_t)a->paddings.item[i];
        if (*dim < 1)
            return tr_fail(TR_ESHAPE, "%s: dimension %d of Out would be %lld for X %s", io->type, i + 2, (long long)*dim,
                           TR_SHAPE_STR(io->in[X].shape));
    }
    if (tr_shape_product(&out, 2, 4) > INT32_MAX)
        return tr_fail(TR_ESHAPE, "%s: the planes of Out %s have more places than int32 can tell apart", io->type, TR_SHAPE_STR(out));
    io->out[OUT] = tr_meta_dense(io->in[X].dtype, out);
    return TR_OK;
}

static tr_status infer_grad(const tr_infer *io)
{
    io->out[G_DX] = tr_meta_dense(io->in[G_DOUT].dtype, io->in[G_INDICES].shape);
    return TR_OK;
}

/* Places in a plane of `out`. */
static tr_status check_places(const tr_tensor *indices, const tr_shape *out)
{
    const int32_t *place = indices->data;
    const int64_t  places = out->dim[2] * out->dim[3];

    for (int64_t i = 0; i < tr_tensor_count(indices); i++)
        if (place[i] < 0 || place[i] >= places)
            return tr_fail(TR_ERANGE, "unpool: Indices has place %d; a plane of Out %s has places 0 to %lld", place[i],
                           tr_shape_str(out), (long long)places - 1);
    return TR_OK;
}

/* -- kernels ---------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ---------------------------------------------------------------- */
static const tr_grad_rule grad = {
    .op = "unpool_grad", .reads = {TR_IN(INDICES), TR_DOUT(OUT)}, .makes = {TR_DIN(X)},
    .second = tr__second_linear,
};
TR_REGISTER_OP(unpool, .locality = TR_ROWWISE, .proto = &proto, .check = check, .infer = infer, .kernels = TR_FLOAT_KERNELS(unpool), .grad = &grad);
TR_REGISTER_OP(unpool_grad, .locality = TR_ROWWISE, .grad_of = &tr_op_record_unpool, .infer = infer_grad, .kernels = TR_FLOAT_KERNELS(unpool_grad),
               .key = TR_KEY_IN_SLOT, .key_slot = G_DOUT);

#else /* the kernels, for each T */

static tr_status NAME(unpool)(const tr_run *io)
{
    const tr_tensor *indices = io->in[INDICES];
    tr_tensor       *out = io->out[OUT];
    const int64_t    plane = out->shape.dim[2] * out->shape.dim[3], in = indices->shape.dim[2] * indices->shape.dim[3];
    const int32_t   *place = indices->data;
    const T         *x = io->in[X]->data;
    T               *to = out->data;

    TR_TRY(check_places(indices, &out->shape));
    memset(to, 0, (size_t)tr_tensor_bytes(out));
    for (int64_t i = 0; i < tr_tensor_count(indices); i++)
        to[i / in * plane + place[i]] = x[i];
    return TR_OK;
}

static tr_status NAME(unpool_grad)(const tr_run *io)
{
    const tr_tensor *indices = io->in[G_INDICES], *dout = io->in[G_DOUT];
    const int64_t    plane = dout->shape.dim[2] * dout->shape.dim[3], in = indices->shape.dim[2] * indices->shape.dim[3];
    const int32_t   *place = indices->data;
    const T         *d = dout->data;
    T               *dx = io->out[G_DX]->data;

    TR_TRY(check_places(indices, &dout->shape));
    for (int64_t i = 0; i < tr_tensor_count(indices); i++)
        dx[i] = d[i / in * plane + place[i]];
    return TR_OK;
}

#endif
