/* pool2d.c - the maximum or the average over the windows of each plane.
 *
 * Backward: a maximum's gradient goes to the first element of its window that equals Out, an average's to all. */
#ifndef T

#include "kernels/check.h"
#include "kernels/image_attrs.h"
#include "kernels/math/pool.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { X };
enum { OUT };
enum { G_X, G_OUT, G_DOUT };
enum { G_DX };

typedef struct attrs {
    enum { POOL_MAX, POOL_AVERAGE } pooling_type;
    tr_ints ksize, strides, paddings;
    bool    global_pooling, exclusive, adaptive, ceil_mode;
} attrs;

static const tr_op_proto proto = {
    .doc = "Takes the maximum or the average of each window of each channel.",
    .in = TR_SLOTS({"X", "[batch, channels, height, width] float"}),
    .out = TR_SLOTS({"Out", "[batch, channels, height, width]"}),
    .attr = TR_ATTRS(
        TR_ATTR(attrs, pooling_type, STRING, "what to take of a window", .required = true,
                .range = TR_ONE_OF({"max", POOL_MAX}, {"avg", POOL_AVERAGE})),
        TR_ATTR(attrs, ksize, INTS, "the window: [height, width]; with adaptive the size of Out", .required = true),
        TR_ATTR(attrs, global_pooling, BOOL, "the window is the whole plane; ksize and paddings do not count"),
        TR_ATTR(attrs, strides, INTS, "steps of the window: [height, width]", .text = "1, 1"),
        TR_ATTR(attrs, paddings, INTS, "padding around the plane: [height, width]", .text = "0, 0"),
        TR_ATTR(attrs, exclusive, BOOL, "an average does not count the padding", .number = 1),
        TR_ATTR(attrs, adaptive, BOOL, "choose the windows so that Out is ksize"), TR_ATTR_IGNORED("use_cudnn", BOOL),
        TR_ATTR(attrs, ceil_mode, BOOL, "a window that begins within the plane counts, though it ends beyond"),
        TR_ATTR_IGNORED("use_mkldnn", BOOL), TR_ATTR_ONLY_PLAIN("use_quantizer", BOOL), TR_ATTR_ONLY_NCHW,
        TR_ATTR_IGNORED("is_test", BOOL)),
    .attrs_size = sizeof(attrs),
};

static tr_status check(const void *attrs_)
{
    const attrs *a = attrs_;

    TR_TRY(tr__check_pair("pool2d", "strides", &a->strides, 1));
    if (a->global_pooling)
        return TR_OK;
    TR_TRY(tr__check_pair("pool2d", "ksize", &a->ksize, 1));
    TR_TRY(tr__check_pair("pool2d", "paddings", &a->paddings, 0));
    for (int i = 0; i < 2 && !a->adaptive; i++)
        if (a->paddings.item[i] >= a->ksize.item[i])
            return tr_fail(TR_EINVAL, "pool2d: padding %d must be smaller than the window (%d): a window of padding "
                           "alone has no value", a->paddings.item[i], a->ksize.item[i]);
    return TR_OK;
}

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status infer_extent(const tr_infer *io, tr_shape *out, int axis)
{
    const attrs  *a = io->attrs;
    const int     i = axis - 2;
    const int64_t in = io->in[X].shape.dim[axis];

    if (a->global_pooling) {
        out->dim[axis] = 1;
        return TR_OK;
    }
    const int64_t kernel = a->ksize.item[i], stride = a->strides.item[i], pad = a->paddings.item[i];
    out->dim[axis] = a->adaptive ? kernel : -1;
    if (in < 0 || a->adaptive)
        return TR_OK;
    if (in + 2 * pad < kernel)
        return tr_fail(TR_ESHAPE, "%s: the window of %lld is larger than X %s with padding %lld along dimension %d",
                       io->type, (long long)kernel, TR_SHAPE_STR(io->in[X].shape), (long long)pad, axis);
    out->dim[axis] = tr_pool_extent(in, kernel, stride, pad, a->ceil_mode);
    return TR_OK;
}

static tr_status infer(const tr_infer *io)
{
    tr_shape out = io->in[X].shape;

    TR_TRY(tr__check_rank(io, "X", &io->in[X], 4));
    TR_TRY(infer_extent(io, &out, 2));
    TR_TRY(infer_extent(io, &out, 3));
    io->out[OUT] = tr_meta_dense(io->in[X].dtype, out);
    return TR_OK;
}

static tr_pool_shape pool_shape(const attrs *a, const tr_shape *x, const tr_shape *out)
{
    tr_pool_shape s = {.planes = x->dim[0] * x->dim[1], .in = {1}, .out = {1}, .kernel = {1}, .stride = {1},
                       .pad = {0}, .adaptive = a->adaptive && !a->global_pooling, .exclusive = a->exclusive};

    for (int i = 0; i < 2; i++) {
        s.in[i + 1] = x->dim[i + 2];
        s.out[i + 1] = out->dim[i + 2];
        s.kernel[i + 1] = a->global_pooling ? x->dim[i + 2] : a->ksize.item[i];
        s.stride[i + 1] = a->strides.item[i];
        s.pad[i + 1] = a->global_pooling ? 0 : a->paddings.item[i];
    }
    return s;
}

/* -- kernels -------------------------------------------------------------------------------------- */
#define TR_TEMPLATE "kernels/pool2d.c"
#include "kernels/math/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------- */
static const tr_grad_rule grad = {
    .op = "pool2d_grad",
    .reads = {TR_IN(X), TR_OUT(OUT), TR_DOUT(OUT)},
    .makes = {TR_DIN(X)},
};

TR_REGISTER_OP(pool2d, .proto = &proto, .check = check, .infer = infer, .kernels = TR_FLOAT_KERNELS(pool2d),
               .grad = &grad);
TR_REGISTER_OP(pool2d_grad, .grad_of = &tr_op_record_pool2d, .kernels = TR_FLOAT_KERNELS(pool2d_grad));

#else /* the kernels, for each T */

static tr_status NAME(pool2d)(const tr_run *io)
{
    const attrs        *a = io->attrs;
    const tr_tensor    *x = io->in[X];
    tr_tensor          *out = io->out[OUT];
    const tr_pool_shape s = pool_shape(a, &x->shape, &out->shape);

    if (a->pooling_type == POOL_MAX)
        NAME(tr_max_pool)(out->data, NULL, x->data, &s);
    else
        NAME(tr_avg_pool)(out->data, x->data, &s);
    return TR_OK;
}

static tr_status NAME(pool2d_grad)(const tr_run *io)
{
    const attrs        *a = io->attrs;
    const tr_tensor    *x = io->in[G_X], *dout = io->in[G_DOUT];
    const tr_pool_shape s = pool_shape(a, &x->shape, &dout->shape);

    if (a->pooling_type == POOL_MAX)
        NAME(tr_max_pool_grad)(io->out[G_DX]->data, dout->data, x->data, io->in[G_OUT]->data, &s);
    else
        NAME(tr_avg_pool_grad)(io->out[G_DX]->data, dout->data, &s);
    return TR_OK;
}

#endif
