/* reshape2.c - reshape and reshape2: the elements of X in a given shape.
 *
 * In the attribute, 0 keeps X's dimension at that place and one -1 is what remains. The input Shape, where it is
 * given, takes the attribute's place when the program runs; only the rank is known before. */
#include <inttypes.h>

#include "kernels/base/check.h"
#include "kernels/shapes/view.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { X = TR_VIEW_X, SHAPE };
enum { OUT = TR_VIEW_OUT, XSHAPE = TR_VIEW_XSHAPE };

typedef struct attrs {
    tr_ints shape;
} attrs;

static const tr_slot_def in_slots[] = {
    {"X", "[...] of any type"},
    {"Shape", "[rank] int32; takes the place of the attribute", TR_SLOT_OPTIONAL},
    {.name = NULL},
};

static const tr_attr_def attr_defs[] = {
    TR_ATTR(attrs, shape, INTS, "the new dimensions; 0 keeps X's, one -1 is what remains", .required = true),
    {.name = NULL},
};

static const tr_op_proto proto = {
    .doc = "The elements of X, in their order, in another shape.",
    .in = in_slots,
    .out = TR_SLOTS({"Out", "the elements of X; may share X's memory"}),
    .attr = attr_defs,
    .attrs_size = sizeof(attrs),
};

static const tr_op_proto proto2 = {
    .doc = "The elements of X, in their order, in another shape.",
    .in = in_slots,
    .out = TR_SLOTS({"Out", "the elements of X; may share X's memory"}, TR_SLOT_XSHAPE),
    .attr = attr_defs,
    .attrs_size = sizeof(attrs),
};

/* -- shapes ------------------------------------------------------------------------------------- */

/* The wanted dimensions with 0 replaced; *open is the place of -1, or -1. */
static tr_status fill_kept(tr_shape *out, int *open, const char *type, const tr_shape *x, const tr_shape *wanted)
{
    *open = -1;
    out->rank = wanted->rank;
    for (int i = 0; i < wanted->rank; i++) {
        const int64_t dim = wanted->dim[i];
        if (dim < -1 || (dim == -1 && *open >= 0) || (dim == 0 && i >= x->rank))
            return tr_fail(TR_ESHAPE, "%s: cannot make %s of X %s: dimension %d is %" PRId64 "; one may be -1, and 0 "
                           "needs a dimension of X at its place", type, tr_shape_str(wanted), tr_shape_str(x), i, dim);
        out->dim[i] = dim == 0 ? x->dim[i] : dim;
        if (dim == -1)
            *open = i;
    }
    return TR_OK;
}

/* Elements of X and of the known part of out, without the kept dimensions, which are the same on both sides.
 * Returns false when X's are not known yet. */
static bool count_rest(int64_t *x_count, int64_t *out_count, const tr_shape *x, const tr_shape *wanted)
{
    *x_count = *out_count = 1;
    for (int i = 0; i < x->rank; i++) {
        if (i < wanted->rank && wanted->dim[i] == 0)
            continue;
        if (x->dim[i] < 0)
            return false;
        *x_count *= x->dim[i];
    }
    for (int i = 0; i < wanted->rank; i++)
        if (wanted->dim[i] > 0)
            *out_count *= wanted->dim[i];
    return true;
}

static tr_status resolve(tr_shape *out, const char *type, const tr_shape *x, const tr_shape *wanted)
{
    int64_t x_count, out_count;
    int     open;

    TR_TRY(fill_kept(out, &open, type, x, wanted));
    if (!count_rest(&x_count, &out_count, x, wanted))
        return TR_OK;
    if (open >= 0 && x_count % out_count == 0)
        out->dim[open] = x_count / out_count;
    else if (open >= 0 || x_count != out_count)
        return tr_fail(TR_ESHAPE, "%s: X %s cannot become %s: beside the kept dimensions there are %" PRId64
                       " elements, not %s%" PRId64, type, tr_shape_str(x), tr_shape_str(wanted), x_count,
                       open >= 0 ? "a multiple of " : "", out_count);
    return TR_OK;
}

static tr_status wanted_shape(tr_shape *wanted, const tr_infer *io)
{
    const attrs *a = io->attrs;

    if (a->shape.count < 1 || a->shape.count > TR_MAX_RANK)
        return tr_fail(TR_ESHAPE, "%s: shape has %d dimensions; it may have 1 to %d", io->type, a->shape.count,
                       TR_MAX_RANK);
    wanted->rank = a->shape.count;
    for (int i = 0; i < a->shape.count; i++)
        wanted->dim[i] = a->shape.item[i];
    return TR_OK;
}

/* Of Shape only the number of dimensions is known before the run. */
static tr_status infer_by_input(const tr_infer *io, tr_shape *out)
{
    const tr_meta *shape = &io->in[SHAPE];

    TR_TRY(tr__check_dtype(io, "Shape", shape, TR_INT32));
    TR_TRY(tr__check_rank(io, "Shape", shape, 1));
    if (shape->shape.dim[0] == 0 || shape->shape.dim[0] > TR_MAX_RANK)
        return tr_fail(TR_ESHAPE, "%s: Shape must hold 1 to %d dimensions, got %s", io->type, TR_MAX_RANK,
                       TR_SHAPE_STR(shape->shape));
    if (shape->shape.dim[0] > 0)
        out->rank = (int)shape->shape.dim[0];
    for (int i = 0; i < out->rank; i++)
        out->dim[i] = -1;
    return TR_OK;
}

static tr_status infer(const tr_infer *io)
{
    tr_shape wanted, out;

    TR_TRY(wanted_shape(&wanted, io));
    if (io->for_gradient) {               /* Shape may have decided: tr__view_grad_infer counts the elements */
        io->out[OUT] = tr_meta_dense(io->in[X].dtype, (tr_shape){.rank = 0});
        return TR_OK;
    }
    if (io->in[SHAPE].kind != TR_KIND_NONE) {
        TR_TRY(infer_by_input(io, &wanted));
        io->out[OUT] = tr_meta_dense(io->in[X].dtype, wanted);
        return TR_OK;
    }
    TR_TRY(resolve(&out, io->type, &io->in[X].shape, &wanted));
    io->out[OUT] = tr__view_meta(&io->in[X], &out);
    return TR_OK;
}

static tr_status infer2(const tr_infer *io)
{
    TR_TRY(infer(io));
    return tr__view_xshape(&io->out[XSHAPE], io, &io->in[X]);
}

/* -- kernel --------------------------------------------------------------------------------------- */
static tr_status run(const tr_run *io)
{
    const tr_tensor *x = io->in[X], *shape = io->in[SHAPE];
    tr_shape         wanted, out;

    if (!shape)
        return tr__view_run(io);
    wanted.rank = (int)shape->shape.dim[0];
    for (int i = 0; i < wanted.rank; i++)
        wanted.dim[i] = ((const int32_t *)shape->data)[i];
    TR_TRY(resolve(&out, "reshape", &x->shape, &wanted));
    TR_TRY(tr_run_resize(io, OUT, 0, x->dtype, &out));
    return tr__view_run(io);
}

/* -- registration ---------------------------------------------------------------------------------- */
TR_VIEW_OP(reshape, proto, infer, run);
TR_VIEW_OP(reshape2, proto2, infer2, run);
