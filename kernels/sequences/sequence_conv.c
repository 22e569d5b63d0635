/* sequence_conv.c - a convolution over time: the window of rows around each row, times a filter matrix.
 *
 * The windows are laid out as the rows of a matrix in scratch memory, [rows][contextLength * width], and multiplied by
 * Filter. Backward makes them again rather than keeping them, which would cost contextLength times X's memory. */
#ifndef T

#include <string.h>

#include "framework/gradients/grad_second.h"
#include "kernels/base/check.h"
#include "kernels/math/products/blas.h"
#include "kernels/math/sequences/context.h"
#include "kernels/sequences/sequence.h"

/* -- interface ---------------------------------------------------------------------------------- */
enum { X, PADDING, FILTER };
enum { OUT };
enum { G_X, G_PADDING, G_FILTER, G_DOUT };
enum { G_DX, G_DFILTER, G_DPADDING };

typedef struct attrs {
    bool    paddingTrainable;
    int32_t contextLength, contextStart, contextStride;
} attrs;

static const tr_op_proto proto = {
    .doc = "Out[t] = [X[t + contextStart], ..., X[t + contextStart + contextLength - 1]] Filter, within each sequence.",
    .in = TR_SLOTS(TR_SLOT("X", "[rows, width]", " float, of sequences"),
                   {"PaddingData", "[above + below, width]: what a window sees beyond a sequence's ends", TR_SLOT_OPTIONAL},
                   TR_SLOT("Filter", "[window, filters]", ", window being contextLength * width")),
    .out = TR_SLOTS({"Out", "[rows, filters], with X's sequences"}),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, paddingTrainable, BOOL, "see PaddingData beyond the ends; else zeros"),
                       TR_ATTR(attrs, contextLength, INT, "rows of a window", .required = true, .range = TR_GREATER(0)),
                       TR_ATTR(attrs, contextStart, INT, "where the window begins, from its row; negative is before it"),
                       TR_ATTR(attrs, contextStride, INT, "only 1 is supported", .number = 1, .range = TR_GREATER(0))),
};

static tr_status check(const void *attrs_)
{
    const attrs *a = attrs_;

    if (a->contextStride != 1)
        return tr_fail(TR_EUNSUPPORTED, "sequence_conv: contextStride must be 1, got %d", a->contextStride);
    return TR_OK;
}

static tr_window window_of(const attrs *a)
{
    return (tr_window){a->contextStart, a->contextLength};
}

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status check_padding(const tr_infer *io, const tr_window *w)
{
    const tr_shape expected = TR_SHAPE(tr_window_above(w) + tr_window_below(w), io->in[X].shape.dim[1]);

    if (io->in[PADDING].kind == TR_KIND_NONE)
        return tr_fail(TR_EINVAL, "%s: paddingTrainable is set, but PaddingData is missing", io->type);
    return tr__check_shape(io, "PaddingData", &io->in[PADDING], &expected);
}

static tr_status infer(const tr_infer *io)
{
    const attrs    *a = io->attrs;
    const tr_window w = window_of(a);
    const tr_meta  *x = &io->in[X], *filter = &io->in[FILTER];

    const tr_shape expected = TR_SHAPE(x->shape.dim[1] < 0 ? -1 : w.length * x->shape.dim[1], filter->shape.dim[1]);
    if (!tr_shape_fits(&expected, &filter->shape))
        return tr_fail(TR_ESHAPE, "%s: X is %s and contextLength %d, so Filter must have %lld rows; it is %s", io->type,
                       TR_SHAPE_STR(x->shape), a->contextLength, (long long)expected.dim[0], TR_SHAPE_STR(filter->shape));
    if (a->paddingTrainable)
        TR_TRY(check_padding(io, &w));
    io->out[OUT] = *x;
    io->out[OUT].shape.dim[1] = filter->shape.dim[1];
    return TR_OK;
}

/* -- kernels ------------------------------------------------------------------------------------ */
#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------ */
static tr_status make_second(tr_grad_maker *maker)
{
    const tr_op_desc *op = tr_grad_forward(maker);

    if (tr_op_desc_attr_int(op, "paddingTrainable", 0))
        return tr_fail(TR_EUNSUPPORTED, "gradients of gradients: %s with PaddingData has none; leave paddingTrainable out, or set stop_gradient of '%s'",
                       op->type, tr_op_desc_output_arg(op, 0));
    return tr__second_bilinear(maker);
}

static const tr_grad_rule grad = {
    .op = "sequence_conv_grad",
    .reads = {TR_IN(X), TR_IN(PADDING), TR_IN(FILTER), TR_DOUT(OUT)},
    .makes = {TR_DIN(X), TR_DIN(FILTER), TR_DIN(PADDING)},
    .second = make_second,
};

TR_REGISTER_OP(sequence_conv, .proto = &proto, .check = check, .infer = infer,
               .kernels = TR_FLOAT_KERNELS(sequence_conv), .grad = &grad);
TR_REGISTER_OP(sequence_conv_grad, .grad_of = &tr_op_record_sequence_conv,
               .kernels = TR_FLOAT_KERNELS(sequence_conv_grad));

#else /* the kernels, for each T */

/* Scratch memory for the windows of x. */
static tr_status NAME(window_rows)(T **rows, const tr_run *io, const tr_tensor *x, int64_t depth)
{
    return tr_run_scratch((void **)rows, io, (size_t)(x->shape.dim[0] * depth) * sizeof(T));
}

static tr_status NAME(sequence_conv)(const tr_run *io)
{
    const attrs     *a = io->attrs;
    const tr_window  w = window_of(a);
    const tr_tensor *x = io->in[X], *filter = io->in[FILTER];
    const T         *padding = a->paddingTrainable ? io->in[PADDING]->data : NULL;
    const int64_t    depth = filter->shape.dim[0], filters = filter->shape.dim[1];
    tr_sequences     s;
    T               *rows;

    TR_TRY(tr_blas_init());
    TR_TRY(tr__sequences_of(&s, io, X, 0));
    TR_TRY(NAME(window_rows)(&rows, io, x, depth));
    NAME(tr_context_rows)(rows, x->data, padding, &w, s.offset, s.count, x->shape.dim[1]);
    NAME(tr_gemm)(false, false, x->shape.dim[0], filters, depth, 1, rows, depth, filter->data, filters, 0,
                  io->out[OUT]->data, filters);
    return TR_OK;
}

static tr_status NAME(sequence_conv_grad)(const tr_run *io)
{
    const attrs     *a = io->attrs;
    const tr_window  w = window_of(a);
    const tr_tensor *x = io->in[G_X], *filter = io->in[G_FILTER];
    const T         *padding = a->paddingTrainable ? io->in[G_PADDING]->data : NULL, *dout = io->in[G_DOUT]->data;
    const int64_t    n = x->shape.dim[0], width = x->shape.dim[1];
    const int64_t    depth = filter->shape.dim[0], filters = filter->shape.dim[1];
    tr_tensor       *dx = io->out[G_DX], *dpadding = io->out[G_DPADDING], *dfilter = io->out[G_DFILTER];
    tr_sequences     s;
    T               *rows;

    TR_TRY(tr_blas_init());
    TR_TRY(tr__sequences_of(&s, io, G_X, 0));
    TR_TRY(NAME(window_rows)(&rows, io, x, depth));
    if (dfilter) {
        NAME(tr_context_rows)(rows, x->data, padding, &w, s.offset, s.count, width);
        NAME(tr_gemm)(true, false, depth, filters, n, 1, rows, depth, dout, filters, 0, dfilter->data, filters);
    }
    if (!dx && !dpadding)
        return TR_OK;
    NAME(tr_gemm)(false, true, n, depth, filters, 1, dout, filters, filter->data, filters, 0, rows, depth);
    NAME(tr_context_rows_grad)(dx ? dx->data : NULL, dpadding && padding ? dpadding->data : NULL, rows, &w, s.offset,
                               s.count, width);
    if (dpadding && !padding)
        memset(dpadding->data, 0, (size_t)tr_tensor_bytes(dpadding));
    return TR_OK;
}

#endif
