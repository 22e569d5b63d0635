/* transpose2.c - transpose and transpose2: dimension i of Out is dimension axis[i] of X.
 *
 * The gradient is the inverse permutation; it needs no data of X. */
#include "framework/gradients/grad_second.h"
#include "kernels/math/arrays/transpose.h"
#include "kernels/shapes/view.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { X };
enum { OUT, XSHAPE };
enum { G_X, G_DOUT };
enum { G_DX };

typedef struct attrs {
    tr_ints axis;
} attrs;

static const tr_slot_def in_slots[] = {{"X", "[...] of any type"}, {.name = NULL}};
static const tr_attr_def attr_defs[] = {
    TR_ATTR(attrs, axis, INTS, "a permutation: dimension i of Out is dimension axis[i] of X", .required = true),
    TR_ATTR_IGNORED("use_mkldnn", BOOL), TR_ATTR_IGNORED("data_format", STRING, .text = "AnyLayout"), {.name = NULL},
};

static const tr_op_proto proto = {
    .doc = "X with its dimensions in another order.",
    .in = in_slots,
    .out = TR_SLOTS({"Out", "[X's dimensions, permuted]"}),
    .attr = attr_defs,
    .attrs_size = sizeof(attrs),
};

static const tr_op_proto proto2 = {
    .doc = "X with its dimensions in another order.",
    .in = in_slots,
    .out = TR_SLOTS({"Out", "[X's dimensions, permuted]"}, TR_SLOT_XSHAPE),
    .attr = attr_defs,
    .attrs_size = sizeof(attrs),
};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status infer(const tr_infer *io)
{
    const attrs   *a = io->attrs;
    const tr_shape x = io->in[X].shape;
    tr_shape       out = x;
    bool           seen[TR_MAX_RANK] = {false};

    if (a->axis.count != x.rank)
        return tr_fail(TR_ESHAPE, "%s: axis names %d dimensions, but X is %s", io->type, a->axis.count,
                       TR_SHAPE_STR(x));
    for (int i = 0; i < x.rank; i++) {
        const int from = a->axis.item[i];
        if (from < 0 || from >= x.rank || seen[from])
            return tr_fail(TR_EINVAL, "%s: axis must be a permutation of 0 to %d; its element %d is %d", io->type,
                           x.rank - 1, i, from);
        seen[from] = true;
        out.dim[i] = x.dim[from];
    }
    io->out[OUT] = tr_meta_dense(io->in[X].dtype, out);
    return TR_OK;
}

static tr_status infer2(const tr_infer *io)
{
    TR_TRY(infer(io));
    return tr__view_xshape(&io->out[XSHAPE], io, &io->in[X]);
}

/* -- kernels --------------------------------------------------------------------------------------- */
static tr_status run(const tr_run *io)
{
    const attrs     *a = io->attrs;
    const tr_tensor *x = io->in[X];

    tr_transpose(io->out[OUT]->data, x->data, x->shape.rank, x->shape.dim, a->axis.item, tr_dtype_size(x->dtype));
    return TR_OK;
}

static tr_status run_grad(const tr_run *io)
{
    const attrs     *a = io->attrs;
    const tr_tensor *dout = io->in[G_DOUT];
    int              inverse[TR_MAX_RANK];

    for (int i = 0; i < a->axis.count; i++)
        inverse[a->axis.item[i]] = i;
    tr_transpose(io->out[G_DX]->data, dout->data, dout->shape.rank, dout->shape.dim, inverse,
                 tr_dtype_size(dout->dtype));
    return TR_OK;
}

/* -- gradient and registration ------------------------------------------------------------------- */
#define TRANSPOSE(type_, proto_, infer_)                                                                       \
    static const tr_grad_rule type_##_rule = {                                                                 \
        .op = #type_ "_grad", .reads = {TR_IN_SHAPE(X), TR_DOUT(OUT)}, .makes = {TR_DIN(X)},                   \
        .second = tr__second_linear,                                                                           \
    };                                                                                                         \
    TR_REGISTER_OP(type_, .proto = &proto_, .infer = infer_, .run = run, .grad = &type_##_rule);               \
    TR_REGISTER_OP(type_##_grad, .grad_of = &tr_op_record_##type_, .run = run_grad)

TRANSPOSE(transpose, proto, infer);
TRANSPOSE(transpose2, proto2, infer2);
