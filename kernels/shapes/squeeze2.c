/* squeeze2.c - squeeze, unsqueeze, flatten and their forms with XShape: dimensions of 1 dropped, added, or all
 * dimensions made two. */
#include "kernels/base/check.h"
#include "kernels/shapes/view.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { X = TR_VIEW_X };
enum { OUT = TR_VIEW_OUT, XSHAPE = TR_VIEW_XSHAPE };

typedef struct axes_attrs {
    tr_ints axes;
} axes_attrs;

typedef struct flatten_attrs {
    int32_t axis;
} flatten_attrs;

static const tr_slot_def in_slots[] = {{"X", "[...] of any type"}, {.name = NULL}};
static const tr_slot_def out_slots[] = {{"Out", "the elements of X; may share X's memory"}, {.name = NULL}};
static const tr_slot_def out_slots2[] = {{"Out", "the elements of X; may share X's memory"}, TR_SLOT_XSHAPE,
                                         {.name = NULL}};

static const tr_attr_def squeeze_attrs[] = {
    TR_ATTR(axes_attrs, axes, INTS, "dimensions of 1 to drop; none given: all of 1"), {.name = NULL},
};
static const tr_attr_def unsqueeze_attrs[] = {
    TR_ATTR(axes_attrs, axes, INTS, "places in Out of the new dimensions, one after the other", .required = true),
    {.name = NULL},
};
static const tr_attr_def flatten_attr_defs[] = {
    TR_ATTR(flatten_attrs, axis, INT, "Out is [dimensions before it, dimensions from it on]", .number = 1,
            .range = TR_AT_LEAST(0)),
    {.name = NULL},
};

#define PROTO(name, about, outs, attrs, attrs_type) \
    static const tr_op_proto name = {.doc = about, .in = in_slots, .out = outs, .attr = attrs, \
                                     .attrs_size = sizeof(attrs_type)}

PROTO(squeeze_proto, "X without its dimensions of 1.", out_slots, squeeze_attrs, axes_attrs);
PROTO(squeeze2_proto, "X without its dimensions of 1.", out_slots2, squeeze_attrs, axes_attrs);
PROTO(unsqueeze_proto, "X with new dimensions of 1.", out_slots, unsqueeze_attrs, axes_attrs);
PROTO(unsqueeze2_proto, "X with new dimensions of 1.", out_slots2, unsqueeze_attrs, axes_attrs);
PROTO(flatten_proto, "X as a matrix.", out_slots, flatten_attr_defs, flatten_attrs);
PROTO(flatten2_proto, "X as a matrix.", out_slots2, flatten_attr_defs, flatten_attrs);

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status mark_squeezed(bool *drop, const tr_infer *io)
{
    const axes_attrs *a = io->attrs;
    const tr_shape    x = io->in[X].shape;
    int               axis;

    for (int i = 0; i < x.rank && a->axes.count == 0; i++)
        drop[i] = x.dim[i] == 1;
    for (int i = 0; i < a->axes.count; i++) {
        TR_TRY(tr__check_axis(&axis, io, "axes", a->axes.item[i], x.rank));
        if (x.dim[axis] != 1 && x.dim[axis] != -1)
            return tr_fail(TR_ESHAPE, "%s: dimension %d of X %s is not 1 and cannot be dropped", io->type, axis,
                           TR_SHAPE_STR(x));
        drop[axis] = true;
    }
    return TR_OK;
}

static tr_status infer_squeeze(const tr_infer *io)
{
    const tr_shape x = io->in[X].shape;
    tr_shape       out = {.rank = 0};
    bool           drop[TR_MAX_RANK] = {false};

    TR_TRY(tr__check_min_rank(io, "X", &io->in[X], 1));
    TR_TRY(mark_squeezed(drop, io));
    for (int i = 0; i < x.rank; i++)
        if (!drop[i])
            out.dim[out.rank++] = x.dim[i];
    if (out.rank == 0)
        out = TR_SHAPE(1);
    io->out[OUT] = tr__view_meta(&io->in[X], &out);
    return TR_OK;
}

static tr_status infer_unsqueeze(const tr_infer *io)
{
    const axes_attrs *a = io->attrs;
    tr_shape          out = io->in[X].shape;
    int               axis;

    if (out.rank + a->axes.count > TR_MAX_RANK)
        return tr_fail(TR_ESHAPE, "%s: X %s with %d new dimensions has more than %d", io->type, TR_SHAPE_STR(out),
                       a->axes.count, TR_MAX_RANK);
    for (int i = 0; i < a->axes.count; i++) {
        TR_TRY(tr__check_axis(&axis, io, "axes", a->axes.item[i], out.rank + 1));
        for (int j = out.rank; j > axis; j--)
            out.dim[j] = out.dim[j - 1];
        out.dim[axis] = 1;
        out.rank++;
    }
    io->out[OUT] = tr__view_meta(&io->in[X], &out);
    return TR_OK;
}

static tr_status infer_flatten(const tr_infer *io)
{
    const flatten_attrs *a = io->attrs;
    const tr_shape       x = io->in[X].shape;

    if (a->axis > x.rank)
        return tr_fail(TR_ERANGE, "%s: axis is %d; X %s has %d dimensions", io->type, a->axis, TR_SHAPE_STR(x), x.rank);
    const tr_shape out = TR_SHAPE(tr_shape_product(&x, 0, a->axis), tr_shape_product(&x, a->axis, x.rank));
    io->out[OUT] = tr__view_meta(&io->in[X], &out);
    return TR_OK;
}

static tr_status with_xshape(const tr_infer *io, tr_infer_fn infer)
{
    TR_TRY(infer(io));
    return tr__view_xshape(&io->out[XSHAPE], io, &io->in[X]);
}

static tr_status infer_squeeze2(const tr_infer *io)   { return with_xshape(io, infer_squeeze); }
static tr_status infer_unsqueeze2(const tr_infer *io) { return with_xshape(io, infer_unsqueeze); }
static tr_status infer_flatten2(const tr_infer *io)   { return with_xshape(io, infer_flatten); }

/* -- registration ---------------------------------------------------------------------------------- */
TR_VIEW_OP(squeeze, squeeze_proto, infer_squeeze, tr__view_run);
TR_VIEW_OP(squeeze2, squeeze2_proto, infer_squeeze2, tr__view_run);
TR_VIEW_OP(unsqueeze, unsqueeze_proto, infer_unsqueeze, tr__view_run);
TR_VIEW_OP(unsqueeze2, unsqueeze2_proto, infer_unsqueeze2, tr__view_run);
TR_VIEW_OP(flatten, flatten_proto, infer_flatten, tr__view_run);
TR_VIEW_OP(flatten2, flatten2_proto, infer_flatten2, tr__view_run);

/* -- flatten_contiguous_range: of later versions of Fluid ---------------------------------------- */

typedef struct range_attrs {
    int32_t start_axis, stop_axis;
} range_attrs;

static const tr_op_proto flatten_contiguous_range_proto = {
    .doc = "X with the dimensions from start_axis to stop_axis made one.",
    .in = in_slots, .out = out_slots2,
    TR_ATTRS_OF(range_attrs, TR_ATTR(range_attrs, start_axis, INT, "the first of them; negative counts from the end", .number = 1),
                             TR_ATTR(range_attrs, stop_axis, INT, "the last of them", .number = -1)),
};

static tr_status infer_flatten_contiguous_range(const tr_infer *io)
{
    const range_attrs *a = io->attrs;
    const tr_shape     x = io->in[X].shape;
    tr_shape           out = {.rank = 0};
    int                start, stop;

    TR_TRY(tr__check_min_rank(io, "X", &io->in[X], 1));
    TR_TRY(tr__check_axis(&start, io, "start_axis", a->start_axis, x.rank));
    TR_TRY(tr__check_axis(&stop, io, "stop_axis", a->stop_axis, x.rank));
    if (start > stop)
        return tr_fail(TR_ERANGE, "%s: start_axis %d is behind stop_axis %d of X %s", io->type, a->start_axis, a->stop_axis, TR_SHAPE_STR(x));
    for (int i = 0; i < x.rank; i++)
        if (i <= start || i > stop)
            out.dim[out.rank++] = i == start ? tr_shape_product(&x, start, stop + 1) : x.dim[i];
    io->out[OUT] = tr__view_meta(&io->in[X], &out);
    return tr__view_xshape(&io->out[XSHAPE], io, &io->in[X]);
}

TR_VIEW_OP(flatten_contiguous_range, flatten_contiguous_range_proto, infer_flatten_contiguous_range, tr__view_run);
