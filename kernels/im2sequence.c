/* im2sequence.c - an image's patches, from left to right and from top to bottom, as the rows of a sequence.
 *
 * Padding is up, left, down, right. A window that begins inside the padded image belongs to it, so the last ones may reach
 * beyond its edge, where there are zeros. Y, where it is given, holds each image's true height and width before it was
 * scaled down by out_stride: then images give sequences of different lengths. */
#ifndef T

#include <string.h>

#include "framework/grad_second.h"
#include "framework/size.h"
#include "kernels/check.h"
#include "kernels/math/cast.h"
#include "kernels/math/conv.h"
#include "kernels/math/transpose.h"
#include "kernels/sequence.h"

/* -- interface ---------------------------------------------------------------------------------- */
enum { X, Y };
enum { OUT };
enum { G_X, G_Y, G_DOUT };
enum { G_DX };

typedef struct attrs {
    tr_ints kernels, strides, paddings, out_stride;
} attrs;

static const tr_op_proto proto = {
    .doc = "Makes a sequence of each image: one row for each window.",
    .in = TR_SLOTS({"X", "[images, channels, height, width] float"},
                   {"Y", "[images, 2], or [2 images], numbers: true height and width of each image before out_stride", TR_SLOT_OPTIONAL | TR_SLOT_ANY_TYPE}),
    .out = TR_SLOTS({"Out", "[windows, channels * kernel height * kernel width], a sequence for each image"}),
    .attr = TR_ATTRS(TR_ATTR(attrs, kernels, INTS, "height and width of a window", .required = true),
                     TR_ATTR(attrs, strides, INTS, "steps down and to the right", .text = "1,1"),
                     TR_ATTR(attrs, paddings, INTS, "zeros above, on the left, below, on the right", .text = "0,0,0,0"),
                     TR_ATTR(attrs, out_stride, INTS, "what true sizes are divided by, rounded up", .text = "1,1")),
    .attrs_size = sizeof(attrs),
};

static tr_status check(const void *attrs_)
{
    const attrs *a = attrs_;

    TR_TRY(tr__check_pair("im2sequence", "kernels", &a->kernels, 1));
    TR_TRY(tr__check_pair("im2sequence", "strides", &a->strides, 1));
    TR_TRY(tr__check_pair("im2sequence", "out_stride", &a->out_stride, 1));
    if (a->paddings.count != 4)
        return tr_fail(TR_EINVAL, "im2sequence: paddings must be 4 numbers, got %d", a->paddings.count);
    for (int i = 0; i < 4; i++)
        if (a->paddings.item[i] < 0)
            return tr_fail(TR_ERANGE, "im2sequence: paddings must be 0 or more, got %d", a->paddings.item[i]);
    return TR_OK;
}

/* -- shapes ------------------------------------------------------------------------------------- */

/* Windows along axis 0 (down) or 1 (to the right) of an image that is `size` there. */
static int64_t windows(const attrs *a, int axis, int64_t size)
{
    const int64_t stride = a->strides.item[axis];
    const int64_t room = size + a->paddings.item[axis] + a->paddings.item[axis + 2] - a->kernels.item[axis];

    return room < 0 ? 0 : 1 + (room + stride - 1) / stride;
}

static tr_status infer(const tr_infer *io)
{
    const attrs   *a = io->attrs;
    const tr_shape x = io->in[X].shape;
    const bool     has_sizes = io->in[Y].kind != TR_KIND_NONE;

    TR_TRY(tr__check_dense(io, "X", &io->in[X]));
    TR_TRY(tr__check_rank(io, "X", &io->in[X], 4));
    if (has_sizes)
        TR_TRY(io->in[Y].shape.rank == 1 ? tr__check_shape(io, "Y", &io->in[Y], &TR_SHAPE(x.dim[0] < 0 ? -1 : tr_size_mul(x.dim[0], 2)))
                                         : tr__check_shape(io, "Y", &io->in[Y], &TR_SHAPE(x.dim[0], 2)));
    const int64_t window = tr_size_mul(a->kernels.item[0], a->kernels.item[1]);
    tr_shape      out = TR_SHAPE(-1, x.dim[1] < 0 ? -1 : tr_size_mul(x.dim[1], window));
    for (int axis = 0; axis < 2; axis++)
        if (x.dim[2 + axis] >= 0 && windows(a, axis, x.dim[2 + axis]) == 0)
            return tr_fail(TR_ESHAPE, "%s: X is %s, too small for a window of %d x %d", io->type, TR_SHAPE_STR(x),
                           a->kernels.item[0], a->kernels.item[1]);
    if (!has_sizes && x.dim[0] >= 0 && x.dim[2] >= 0 && x.dim[3] >= 0)
        out.dim[0] = tr_size_mul(x.dim[0], tr_size_mul(windows(a, 0, x.dim[2]), windows(a, 1, x.dim[3])));
    io->out[OUT] = tr__meta_with_sequences(io->in[X].dtype, out, 1);
    return TR_OK;
}

/* -- kernels ------------------------------------------------------------------------------------ */

/* Image i: how many windows, down and to the right. Sizes of images that Y does not tell are those of X; that of a single image is, as in
 * Fluid. */
static void windows_of(int64_t *down, int64_t *right, const tr_run *io, int64_t i)
{
    const attrs     *a = io->attrs;
    const tr_tensor *y = io->in[Y];
    int64_t          size[2] = {io->in[X]->shape.dim[2], io->in[X]->shape.dim[3]};

    if (y && io->in[X]->shape.dim[0] > 1) {
        tr_cast(size, TR_INT64, (const char *)y->data + i * 2 * tr_dtype_size(y->dtype), y->dtype, 2);
        for (int axis = 0; axis < 2; axis++)
            size[axis] = (size[axis] + a->out_stride.item[axis] - 1) / a->out_stride.item[axis];
    }
    *down = windows(a, 0, size[0]);
    *right = windows(a, 1, size[1]);
}

static tr_conv_shape shape_of(const tr_run *io, int64_t down, int64_t right)
{
    const attrs    *a = io->attrs;
    const tr_shape *x = &io->in[X]->shape;

    return (tr_conv_shape){
        .batch = 1, .in_channels = x->dim[1], .groups = 1, .in = {1, x->dim[2], x->dim[3]}, .out = {1, down, right},
        .kernel = {1, a->kernels.item[0], a->kernels.item[1]}, .stride = {1, a->strides.item[0], a->strides.item[1]},
        .pad = {0, a->paddings.item[0], a->paddings.item[1]}, .dilation = {1, 1, 1},
    };
}

static int64_t window_size(const tr_run *io)
{
    const attrs *a = io->attrs;
    return io->in[X]->shape.dim[1] * a->kernels.item[0] * a->kernels.item[1];
}

/* The sequences of Out, in scratch memory. */
static tr_status find_sequences(tr_sequences *s, const tr_run *io)
{
    const int64_t images = io->in[X]->shape.dim[0];
    int64_t      *offset;

    TR_TRY(tr_run_scratch((void **)&offset, io, (size_t)(images + 1) * sizeof *offset));
    offset[0] = 0;
    for (int64_t i = 0; i < images; i++) {
        int64_t down, right;
        windows_of(&down, &right, io, i);
        offset[i + 1] = offset[i] + down * right;
    }
    *s = (tr_sequences){images, offset};
    return TR_OK;
}

#define TR_TEMPLATE "kernels/im2sequence.c"
#include "kernels/math/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------ */
static const tr_grad_rule grad = {
    .op = "im2sequence_grad", .reads = {TR_IN_SHAPE(X), TR_IN(Y), TR_DOUT(OUT)}, .makes = {TR_DIN(X)},
    .second = tr__second_linear,
};

TR_REGISTER_OP(im2sequence, .proto = &proto, .check = check, .infer = infer, .kernels = TR_FLOAT_KERNELS(im2sequence),
               .grad = &grad);
TR_REGISTER_OP(im2sequence_grad, .grad_of = &tr_op_record_im2sequence, .kernels = TR_FLOAT_KERNELS(im2sequence_grad));

#else /* the kernels, for each T */

/* One image's windows are columns first, and then transposed into rows. */
static tr_status NAME(im2sequence)(const tr_run *io)
{
    const tr_tensor *x = io->in[X];
    const int64_t    size = window_size(io), image = tr_shape_product(&x->shape, 1, 4);
    tr_sequences     s;
    T               *columns;

    TR_TRY(find_sequences(&s, io));
    const int64_t most = tr__sequences_longest(&s);
    TR_TRY(tr_run_resize(io, OUT, 0, x->dtype, &TR_SHAPE(s.offset[s.count], size)));
    TR_TRY(tr__sequences_put(io->out[OUT], NULL, 0, &s));
    TR_TRY(tr_run_scratch((void **)&columns, io, (size_t)(most * size) * sizeof(T)));
    T *out = io->out[OUT]->data;
    for (int64_t i = 0, down, right; i < x->shape.dim[0]; i++, out += down * right * size) {
        windows_of(&down, &right, io, i);
        const tr_conv_shape shape = shape_of(io, down, right);
        NAME(tr_im2col)(columns, (const T *)x->data + i * image, &shape, x->shape.dim[1]);
        tr_transpose(out, columns, 2, (const int64_t[]){size, down * right}, (const int[]){1, 0}, sizeof(T));
    }
    return TR_OK;
}

static tr_status NAME(im2sequence_grad)(const tr_run *io)
{
    tr_tensor    *dx = io->out[G_DX];
    const int64_t size = window_size(io), image = tr_shape_product(&dx->shape, 1, 4);
    const T      *dout = io->in[G_DOUT]->data;
    tr_sequences  s;
    T            *columns;

    TR_TRY(find_sequences(&s, io));
    TR_TRY(tr__check_rows(io, G_DOUT, s.offset[s.count]));
    TR_TRY(tr_run_scratch((void **)&columns, io, (size_t)(tr__sequences_longest(&s) * size) * sizeof(T)));
    memset(dx->data, 0, (size_t)tr_tensor_bytes(dx));
    for (int64_t i = 0, down, right; i < dx->shape.dim[0]; i++, dout += down * right * size) {
        windows_of(&down, &right, io, i);
        const tr_conv_shape shape = shape_of(io, down, right);
        tr_transpose(columns, dout, 2, (const int64_t[]){down * right, size}, (const int[]){1, 0}, sizeof(T));
        NAME(tr_col2im)((T *)dx->data + i * image, columns, &shape, dx->shape.dim[1]);
    }
    return TR_OK;
}

#endif
