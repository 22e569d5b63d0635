/* pad.c - pad and pad_constant_like: a tensor within a larger one of one value.
 *
 * pad adds before and after each dimension; pad_constant_like puts Y at the front of a tensor of X's shape. Backward takes the
 * part out again; no data of X or Y is read. */
#include <stdio.h>

#include "framework/base/size.h"
#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"
#include "kernels/base/check.h"
#include "kernels/creation/fill.h"
#include "kernels/shapes/part.h"

/* -- interface ------------------------------------------------------------------------------ */
enum { X, Y };
enum { OUT };
enum { G_X, G_DOUT };                 /* of pad_constant_like G_X is Y */
enum { G_DX };

typedef struct attrs {
    tr_ints paddings;
    float   pad_value;
} attrs;

static const tr_op_proto pad_proto = {
    .doc = "X with pad_value before and after each dimension.",
    .in = TR_SLOTS(TR_SLOT("X", "[n, ...]", " float or integer")),
    .out = TR_SLOTS({"Out", "X's dimensions and their paddings"}),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, paddings, INTS, "how many before and behind, for each dimension: two numbers each",
                               .required = true, .range = TR_AT_LEAST(0)),
                       TR_ATTR(attrs, pad_value, FLOAT, "what is added")),
};
static const tr_op_proto like_proto = {
    .doc = "Y at the front of a tensor like X, which is pad_value elsewhere.",
    .in = TR_SLOTS(TR_SLOT("X", "[n, ...]", "; only its shape is read"), {"Y", "X's rank and type, no dimension larger than X's"}),
    .out = TR_SLOTS(TR_SLOT("Out", "like X", "")),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, pad_value, FLOAT, "what is added")),
};

/* -- shapes ----------------------------------------------------------------------------------- */
static tr_status infer_pad(const tr_infer *io)
{
    const attrs *a = io->attrs;
    tr_shape     out = io->in[X].shape;

    if (a->paddings.count != 2 * out.rank)
        return tr_fail(TR_EINVAL, "%s: X %s needs %d paddings, two for each dimension; got %d", io->type, TR_SHAPE_STR(out),
                       2 * out.rank, a->paddings.count);
    for (int d = 0; d < out.rank; d++)
        if (out.dim[d] >= 0)
            out.dim[d] = tr_size_add(out.dim[d], (int64_t)a->paddings.item[2 * d] + a->paddings.item[2 * d + 1]);
    io->out[OUT] = tr_meta_dense(io->in[X].dtype, out);
    return TR_OK;
}

static tr_status infer_like(const tr_infer *io)
{
    const tr_shape x = io->in[X].shape, y = io->in[Y].shape;

    TR_TRY(tr__check_rank(io, "Y, as X,", &io->in[Y], x.rank));
    TR_TRY(tr__check_dtype(io, "Y", &io->in[Y], io->in[X].dtype));
    for (int d = 0; d < x.rank; d++)
        if (x.dim[d] >= 0 && y.dim[d] > x.dim[d])
            return tr_fail(TR_ESHAPE, "%s: Y %s does not fit into X %s", io->type, TR_SHAPE_STR(y), TR_SHAPE_STR(x));
    return TR_OK;
}

/* dOut is known to be no smaller than Y. */
static tr_status infer_like_grad(const tr_infer *io)
{
    const tr_shape y = io->in[G_X].shape, dout = io->in[G_DOUT].shape;

    TR_TRY(tr__check_rank(io, "Out@GRAD, as Y,", &io->in[G_DOUT], y.rank));
    for (int d = 0; d < y.rank; d++)
        if (dout.dim[d] >= 0 && y.dim[d] > dout.dim[d])
            return tr_fail(TR_ESHAPE, "%s: Y %s does not fit into Out@GRAD %s", io->type, TR_SHAPE_STR(y), TR_SHAPE_STR(dout));
    return TR_OK;
}

/* The begin of X in Out. */
static void places(int64_t *begin, const attrs *a)
{
    for (int d = 0; d < TR_MAX_RANK; d++)
        begin[d] = 2 * d < a->paddings.count ? a->paddings.item[2 * d] : 0;
}

/* -- kernels ---------------------------------------------------------------------------------- */
static tr_status put(const tr_run *io, const tr_tensor *part)
{
    const attrs *a = io->attrs;
    int64_t      begin[TR_MAX_RANK];

    places(begin, a);
    tr__fill(io->out[OUT], a->pad_value);
    tr__part_put(io->out[OUT], part, begin);
    return TR_OK;
}

static tr_status run_pad(const tr_run *io)  { return put(io, io->in[X]); }
static tr_status run_like(const tr_run *io) { return put(io, io->in[Y]); }

static tr_status run_grad(const tr_run *io)
{
    int64_t begin[TR_MAX_RANK];

    places(begin, io->attrs);
    tr__part_take(io->out[G_DX], io->in[G_DOUT], begin);
    return TR_OK;
}

/* -- gradients and registration ----------------------------------------------------------------- */

static tr_status cut_out(tr_composite *c)
{
    const attrs *a = tr_composite_attrs(c);
    char         offsets[TR_MAX_RANK * 12 + 1] = "";
    size_t       used = 0;

    for (int d = 0; d < TR_MAX_RANK && 2 * d < a->paddings.count; d++)
        used += (size_t)snprintf(offsets + used, sizeof offsets - used, "%s%d", d ? ", " : "", a->paddings.item[2 * d]);
    return tr_composite_add(c, "crop(X=Out@GRAD, Y=X) {offsets=[%s]} -> X@GRAD", offsets);
}

static tr_status cut_front(tr_composite *c) { return tr_composite_add(c, "crop(X=Out@GRAD, Y=Y) -> Y@GRAD"); }

static const tr_grad_rule pad_rule = {
    .op = "pad_grad", .reads = {TR_IN_SHAPE(X), TR_DOUT(OUT)}, .makes = {TR_DIN(X)}, .second = tr__second_body, .body = cut_out,
};
TR_REGISTER_OP(pad, .proto = &pad_proto, .infer = infer_pad, .run = run_pad, .grad = &pad_rule);
TR_REGISTER_OP(pad_grad, .grad_of = &tr_op_record_pad, .run = run_grad);

static const tr_grad_rule like_rule = {
    .op = "pad_constant_like_grad", .reads = {TR_IN_SHAPE(Y), TR_DOUT(OUT)}, .makes = {TR_DIN(Y)},
    .second = tr__second_body, .body = cut_front,
};
TR_REGISTER_OP(pad_constant_like, .proto = &like_proto, .infer = infer_like, .run = run_like, .grad = &like_rule);
TR_REGISTER_OP(pad_constant_like_grad, .grad_of = &tr_op_record_pad_constant_like, .infer = infer_like_grad, .run = run_grad);
