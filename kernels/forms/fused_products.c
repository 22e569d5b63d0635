/* fused_products.c - fused operators of saved programs that multiply, add and activate: fused_elemwise_activation,
 * fusion_repeated_fc_relu, fusion_squared_mat_sub, fusion_transpose_flatten_concat, conv2d_fusion.
 *
 * Each is made of the operators that Fluid had fused; what is faster fused the plan fuses again. */
#include <stdio.h>
#include <string.h>

#include "framework/base/size.h"
#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"
#include "kernels/base/check.h"
#include "kernels/elementwise/broadcast.h"
#include "kernels/images/conv_attrs.h"
#include "kernels/images/image_attrs.h"
#include "kernels/math/arrays/activation.h"

enum { X, Y };

/* -- fused_elemwise_activation ---------------------------------------------------------------------- */
enum { E_OUT, E_INTERMEDIATE };

typedef struct elemwise_attrs {
    tr_broadcast_attrs broadcast;
    float              scale;
    tr_strings         functor_list;
} elemwise_attrs;

static const tr_op_proto elemwise_proto = {
    .doc = "Out = outer(X, inner(Y)) where the first function takes two tensors, outer(inner(X, Y)) where the second does.",
    .in = TR_SLOTS({"X", "any shape, float"}, {"Y", "a run of X's dimensions, or X's are a run of Y's; same dtype as X"}),
    .out = TR_SLOTS({"Out", "like the larger one of X and Y"}, {"IntermediateOut", "what the second function gives", TR_SLOT_INTERMEDIATE}),
    TR_ATTRS_OF(elemwise_attrs, TR_BROADCAST_ATTR, TR_ATTR(elemwise_attrs, scale, FLOAT, "the factor of the function scale"),
                                TR_ATTR_IGNORED("save_intermediate_out", BOOL),
                                TR_ATTR(elemwise_attrs, functor_list, STRINGS, "one of elementwise_add and elementwise_mul, and one of scale, relu, "
                                        "tanh and sigmoid; the second is computed first", .required = true)),
};

static bool is_binary(const char *name) { return strcmp(name, "elementwise_add") == 0 || strcmp(name, "elementwise_mul") == 0; }

static bool is_unary(const char *name)
{
    return strcmp(name, "scale") == 0 || strcmp(name, "relu") == 0 || strcmp(name, "tanh") == 0 || strcmp(name, "sigmoid") == 0;
}

static tr_status check_functors(const void *attributes)
{
    const elemwise_attrs *a = attributes;
    const tr_strings     *list = &a->functor_list;

    if (list->count == 2 && ((is_binary(list->item[0]) && is_unary(list->item[1])) || (is_unary(list->item[0]) && is_binary(list->item[1]))))
        return TR_OK;
    return tr_fail(TR_ERANGE, "fused_elemwise_activation: attribute 'functor_list' must be one of elementwise_add and elementwise_mul, and "
                   "one of scale, relu, tanh and sigmoid; got %d names%s%s%s%s", list->count, list->count > 0 ? ": " : "",
                   list->count > 0 ? list->item[0] : "", list->count > 1 ? ", " : "", list->count > 1 ? list->item[1] : "");
}

static tr_status infer_elemwise(const tr_infer *io)
{
    const elemwise_attrs *a = io->attrs;

    TR_TRY(tr__broadcast_check_either(io));
    io->out[E_OUT] = io->in[tr__broadcast_is_swapped(&io->in[X].shape, &io->in[Y].shape) ? Y : X];
    io->out[E_INTERMEDIATE] = is_binary(a->functor_list.item[0]) ? io->in[Y] : io->out[E_OUT];
    return TR_OK;
}

/* Both functions of two tensors take them in any order, so the larger one comes first. */
static tr_status add_binary(tr_composite *c, const elemwise_attrs *a, const char *type, const char *y, const char *to)
{
    const tr_shape x_shape = tr_composite_declared(c, "X"), y_shape = tr_composite_declared(c, "Y");
    const bool     is_swapped = tr__broadcast_is_swapped(&x_shape, &y_shape);

    return tr_composite_add(c, "%s(X=%s, Y=%s) {axis=%d} -> %s", type, is_swapped ? y : "X", is_swapped ? "X" : y, a->broadcast.axis, to);
}

static tr_status add_unary(tr_composite *c, const elemwise_attrs *a, const char *type, const char *from, const char *to)
{
    if (strcmp(type, "scale") == 0)
        return tr_composite_add(c, "scale(X=%s) {scale=%.9g} -> %s", from, (double)a->scale, to);
    return tr_composite_add(c, "%s(X=%s) -> %s", type, from, to);
}

static tr_status expand_elemwise(tr_composite *c)
{
    const elemwise_attrs *a = tr_composite_attrs(c);
    const char           *outer = a->functor_list.item[0], *inner = a->functor_list.item[1];

    if (is_binary(outer)) {
        TR_TRY(add_unary(c, a, inner, "Y", "IntermediateOut"));
        return add_binary(c, a, outer, "IntermediateOut", "Out");
    }
    TR_TRY(add_binary(c, a, inner, "Y", "IntermediateOut"));
    return add_unary(c, a, outer, "IntermediateOut", "Out");
}

static const tr_grad_rule elemwise_rule = {
    .op = "fused_elemwise_activation_grad",
    .reads = {TR_IN(X), TR_IN(Y), TR_OUT(E_OUT), TR_OUT(E_INTERMEDIATE), TR_DOUT(E_OUT)},
    .makes = {TR_DIN(X), TR_DIN(Y)},
    .second = tr__second_body,
};
TR_REGISTER_OP(fused_elemwise_activation, .proto = &elemwise_proto, .check = check_functors, .infer = infer_elemwise,
               .expand = expand_elemwise, .types = TR_FLOAT_TYPES, .grad = &elemwise_rule);
TR_REGISTER_OP(fused_elemwise_activation_grad, .grad_of = &tr_op_record_fused_elemwise_activation);

/* -- fusion_repeated_fc_relu ------------------------------------------------------------------------- */
enum { R_X, R_W, R_BIAS };
enum { R_RELU, R_OUT };

static const tr_op_proto repeated_proto = {
    .doc = "Fully connected layers with relu, one after the other: relu(... relu(X W[0] + Bias[0]) W[1] + Bias[1] ...).",
    .in = TR_SLOTS(TR_SLOT("X", "[rows, width, ...]", " float"), {"W", "[width before, width], of each layer", TR_SLOT_REPEATED},
                   {"Bias", "[width] or [1, width], of each layer", TR_SLOT_REPEATED}),
    .out = TR_SLOTS({"ReluOut", "what each layer but the last gives", TR_SLOT_REPEATED | TR_SLOT_INTERMEDIATE}, {"Out", "[rows, last width]"}),
};

static tr_status infer_repeated(const tr_infer *io)
{
    const tr_meta_list *w = &io->ins[R_W], *bias = &io->ins[R_BIAS];
    const tr_shape      x = io->in[R_X].shape;
    int64_t             width = tr_shape_product(&x, 1, x.rank);

    if (w->count == 0 || w->count != bias->count)
        return tr_fail(TR_ERANGE, "%s: there must be as many W as Bias, one at least; got %d and %d", io->type, w->count, bias->count);
    for (int i = 0; i < w->count; i++) {
        TR_TRY(tr__check_rank(io, "W", &w->item[i], 2));
        TR_TRY(tr__check_shape(io, "W", &w->item[i], &TR_SHAPE(width, -1)));
        width = w->item[i].shape.dim[1];
        if (!tr_shape_fits(&bias->item[i].shape, &TR_SHAPE(width)))
            TR_TRY(tr__check_shape(io, "Bias", &bias->item[i], &TR_SHAPE(1, width)));
        if (i < io->outs[R_RELU].count)
            io->outs[R_RELU].item[i] = tr_meta_dense(io->in[R_X].dtype, TR_SHAPE(x.dim[0], width));
    }
    io->out[R_OUT] = io->in[R_X];
    io->out[R_OUT].shape = TR_SHAPE(x.dim[0], width);
    return TR_OK;
}

static tr_status expand_repeated(tr_composite *c)
{
    const int layers = tr_composite_count(c, "W");
    char      from[24] = "X", to[24];

    for (int i = 0; i < layers; i++) {
        snprintf(to, sizeof to, i == layers - 1 ? "Out" : "ReluOut.%d", i);
        TR_TRY(tr_composite_add(c, "mul(X=%s, Y=W.%d) -> product%d", from, i, i));
        TR_TRY(tr_composite_add(c, "elementwise_add(X=product%d, Y=Bias.%d) -> sum%d", i, i, i));
        TR_TRY(tr_composite_add(c, "relu(X=sum%d) -> %s", i, to));
        memcpy(from, to, sizeof from);
    }
    return TR_OK;
}

TR_REGISTER_OP(fusion_repeated_fc_relu, .proto = &repeated_proto, .infer = infer_repeated, .expand = expand_repeated, .types = TR_FLOAT_TYPES);

/* -- fusion_squared_mat_sub ---------------------------------------------------------------------------- */
enum { Q_X2, Q_Y2, Q_XY2, Q_OUT };

typedef struct squared_attrs {
    float scalar;
} squared_attrs;

static const tr_op_proto squared_proto = {
    .doc = "Out = scalar ((X Y)^2 - X^2 Y^2), squares element by element.",
    .in = TR_SLOTS(TR_SLOT("X", "[n, k]", " float"), TR_SLOT("Y", "[k, m]", ", same dtype")),
    .out = TR_SLOTS(TR_SLOT("SquaredX", "like X", "; X^2", TR_SLOT_INTERMEDIATE),
                    TR_SLOT("SquaredY", "like Y", "; Y^2", TR_SLOT_INTERMEDIATE),
                    TR_SLOT("SquaredXY", "[n, m]", "; (X Y)^2", TR_SLOT_INTERMEDIATE), TR_SLOT("Out", "[n, m]", "")),
    TR_ATTRS_OF(squared_attrs, TR_ATTR(squared_attrs, scalar, FLOAT, "the factor", .number = 1)),
};

static tr_status expand_squared(tr_composite *c)
{
    const squared_attrs *a = tr_composite_attrs(c);

    TR_TRY(tr_composite_add(c, "square(X=X) -> SquaredX"));
    TR_TRY(tr_composite_add(c, "square(X=Y) -> SquaredY"));
    TR_TRY(tr_composite_add(c, "mul(X=X, Y=Y) -> product"));
    TR_TRY(tr_composite_add(c, "square(X=product) -> SquaredXY"));
    TR_TRY(tr_composite_add(c, "mul(X=SquaredX, Y=SquaredY) -> squares"));
    TR_TRY(tr_composite_add(c, "elementwise_sub(X=SquaredXY, Y=squares) -> difference"));
    return tr_composite_add(c, "scale(X=difference) {scale=%.9g} -> Out", (double)a->scalar);
}

TR_REGISTER_OP(fusion_squared_mat_sub, .proto = &squared_proto, .expand = expand_squared, .types = TR_FLOAT_TYPES);

/* -- fusion_transpose_flatten_concat ----------------------------------------------------------------------- */
typedef struct flatten_attrs {
    tr_ints trans_axis;
    int32_t flatten_axis, concat_axis;
} flatten_attrs;

static const tr_op_proto flatten_proto = {
    .doc = "Transposes several tensors, flattens each to a matrix and lays the matrices side by side.",
    .in = TR_SLOTS({"X", "tensors of one rank and type", TR_SLOT_REPEATED}),
    .out = TR_SLOTS({"Out", "a matrix"}),
    TR_ATTRS_OF(flatten_attrs, TR_ATTR(flatten_attrs, trans_axis, INTS, "the new order of the dimensions", .required = true),
                               TR_ATTR(flatten_attrs, flatten_axis, INT, "how many of the transposed dimensions are rows", .required = true,
                                       .range = TR_AT_LEAST(0)),
                               TR_ATTR(flatten_attrs, concat_axis, INT, "0: one below the other; 1: side by side", .required = true,
                                       .range = TR_BETWEEN(0, 1))),
};

static tr_status flat_shape(tr_shape *out, const tr_infer *io, const tr_meta *x)
{
    const flatten_attrs *a = io->attrs;
    const int            rank = x->shape.rank;
    unsigned             seen = 0;
    tr_shape             turned = {.rank = rank};

    for (int d = 0; d < a->trans_axis.count && a->trans_axis.count == rank; d++) {
        const int from = a->trans_axis.item[d];
        seen |= from >= 0 && from < rank ? 1u << from : 0;
        turned.dim[d] = from >= 0 && from < rank ? x->shape.dim[from] : 0;
    }
    if (a->trans_axis.count != rank || seen != (1u << rank) - 1)
        return tr_fail(TR_ESHAPE, "%s: attribute 'trans_axis' must name each of the %d dimensions of X %s once", io->type, rank,
                       TR_SHAPE_STR(x->shape));
    if (a->flatten_axis > rank)
        return tr_fail(TR_ESHAPE, "%s: flatten_axis is %d, but X %s has %d dimensions", io->type, a->flatten_axis, TR_SHAPE_STR(x->shape), rank);
    *out = TR_SHAPE(tr_shape_product(&turned, 0, a->flatten_axis), tr_shape_product(&turned, a->flatten_axis, rank));
    return TR_OK;
}

static tr_status infer_flatten(const tr_infer *io)
{
    const flatten_attrs *a = io->attrs;
    const tr_meta_list  *x = &io->ins[X];
    const int            joined = a->concat_axis, other = 1 - joined;
    tr_shape             out, next;

    if (x->count == 0)
        return tr_fail(TR_ERANGE, "%s: X must be one tensor at least", io->type);
    TR_TRY(tr__check_dense_list(io, "X", x));
    TR_TRY(flat_shape(&out, io, &x->item[0]));
    for (int i = 1; i < x->count; i++) {
        TR_TRY(flat_shape(&next, io, &x->item[i]));
        if (next.dim[other] >= 0 && out.dim[other] >= 0 && next.dim[other] != out.dim[other])
            return tr_fail(TR_ESHAPE, "%s: X[%d] %s becomes %s, which does not fit beside %s", io->type, i, TR_SHAPE_STR(x->item[i].shape),
                           TR_SHAPE_STR(next), TR_SHAPE_STR(out));
        out.dim[joined] = out.dim[joined] < 0 || next.dim[joined] < 0 ? -1 : tr_size_add(out.dim[joined], next.dim[joined]);
        out.dim[other] = out.dim[other] < 0 ? next.dim[other] : out.dim[other];
    }
    io->out[0] = tr_meta_dense(x->item[0].dtype, out);
    return TR_OK;
}

static tr_status expand_flatten(tr_composite *c)
{
    const flatten_attrs *a = tr_composite_attrs(c);
    const int            count = tr_composite_count(c, "X");
    const char          *axes = tr_composite_ints(c, &a->trans_axis);

    for (int i = 0; i < count; i++) {
        TR_TRY(tr_composite_add(c, "transpose2(X=X.%d) {axis=[%s]} -> turned%d", i, axes, i));
        TR_TRY(tr_composite_add(c, "flatten2(X=turned%d) {axis=%d} -> flat%d", i, a->flatten_axis, i));
    }
    return tr_composite_add(c, "concat(X=[%s]) {axis=%d} -> Out", tr_composite_names(c, "flat", count), a->concat_axis);
}

TR_REGISTER_OP(fusion_transpose_flatten_concat, .proto = &flatten_proto, .infer = infer_flatten, .expand = expand_flatten,
               .types = TR_FLOAT_TYPES);

/* -- conv2d_fusion ---------------------------------------------------------------------------------------------- */
enum { C_INPUT, C_FILTER, C_BIAS, C_RESIDUAL, C_CACHE };
enum { C_OUTPUT, C_OUTPUTS };

typedef struct conv_fusion_attrs {
    tr_conv_attrs conv;
    tr_ints       split_channels;
    tr_act        activation;
} conv_fusion_attrs;

static const tr_op_proto conv_proto = {
    .doc = "Output = activation(Input * Filter + ResidualData + Bias), and its channels apart.",
    .in = TR_SLOTS(TR_SLOT("Input", "[batch, channels, height, width]", " float"),
                   TR_SLOT("Filter", "[out channels, channels / groups, window height, window width]", ""),
                   {"Bias", "[out channels]", TR_SLOT_OPTIONAL}, {"ResidualData", "like Output", TR_SLOT_OPTIONAL},
                   {"AlgoCache", "is not read", TR_SLOT_OPTIONAL | TR_SLOT_ANY_KIND | TR_SLOT_ANY_TYPE}),
    .out = TR_SLOTS({"Output", "[batch, out channels, height, width]"},
                    {"Outputs", "the channels of Output, split_channels[i] of them each", TR_SLOT_OPTIONAL | TR_SLOT_REPEATED}),
    TR_ATTRS_OF(conv_fusion_attrs, TR_ATTR_IGNORED("is_test", BOOL), TR_CONV_ATTRS("1, 1", "0, 0", "[height, width]"),
                                   TR_ATTR_IGNORED("use_cudnn", BOOL),
                                   TR_ATTR_ONLY("fuse_relu_before_depthwise_conv", BOOL, "add the operator relu before it"),
                                   TR_ATTR_IGNORED("use_mkldnn", BOOL), TR_ATTR_ONLY_PLAIN("use_quantizer", BOOL),
                                   TR_ATTR_ONLY("fuse_relu", BOOL, "set activation to relu"),
                                   TR_ATTR_ONLY("fuse_residual_connection", BOOL, "give ResidualData"),
                                   TR_ATTR_ONLY_PLAIN("Scale_in", FLOAT, .number = 1), TR_ATTR_ONLY_PLAIN("Scale_out", FLOAT, .number = 1),
                                   TR_ATTR_ONLY_PLAIN("Scale_in_eltwise", FLOAT, .number = 1),
                                   TR_ATTR_ONLY_PLAIN("Scale_weights", FLOATS, .text = "1.0"),
                                   TR_ATTR_ONLY_PLAIN("force_fp32_output", BOOL), TR_ATTR_ONLY_NCHW,
                                   TR_ATTR_IGNORED("workspace_size_MB", INT, .number = 4096), TR_ATTR_IGNORED("exhaustive_search", BOOL),
                                   TR_ATTR(conv_fusion_attrs, activation, STRING, "of the sum", .text = "relu",
                                           .range = TR_ONE_OF({"identity", TR_ACT_identity}, {"relu", TR_ACT_relu}, {"sigmoid", TR_ACT_sigmoid}, {"tanh", TR_ACT_tanh})),
                                   TR_ATTR(conv_fusion_attrs, split_channels, INTS, "how many channels each of Outputs gets"),
                                   TR_ATTR_IGNORED("search_times", INT, .number = -1)),
};

TR_DECLARE_OP(conv2d);

static tr_status check_conv(const void *attributes)
{
    const conv_fusion_attrs *a = attributes;
    return tr__conv_check("conv2d_fusion", &a->conv, 2);
}

/* Outputs[i] has split_channels[i] of Output's channels. */
static tr_status infer_split(const tr_infer *io)
{
    const conv_fusion_attrs *a = io->attrs;
    const tr_shape           out = io->out[C_OUTPUT].shape;
    int64_t                  sum = 0;

    if (io->outs[C_OUTPUTS].count == 0)
        return TR_OK;
    for (int i = 0; i < a->split_channels.count && i < io->outs[C_OUTPUTS].count; i++) {
        tr_shape part = out;
        part.dim[1] = a->split_channels.item[i];
        sum += a->split_channels.item[i];
        io->outs[C_OUTPUTS].item[i] = tr_meta_dense(io->in[C_INPUT].dtype, part);
    }
    if (a->split_channels.count != io->outs[C_OUTPUTS].count || (out.dim[1] >= 0 && sum != out.dim[1]))
        return tr_fail(TR_ESHAPE, "%s: there are %d Outputs and %d split_channels, which add up to %lld; Output is %s", io->type,
                       io->outs[C_OUTPUTS].count, a->split_channels.count, (long long)sum, TR_SHAPE_STR(out));
    return TR_OK;
}

static tr_status infer_conv(const tr_infer *io)
{
    const tr_meta in[] = {io->in[C_INPUT], io->in[C_FILTER], io->in[C_BIAS], {.kind = TR_KIND_NONE}};
    tr_infer      conv = *io;

    conv.in = in;
    TR_TRY(tr_op_record_conv2d.infer(&conv));
    if (io->in[C_RESIDUAL].kind != TR_KIND_NONE)
        TR_TRY(tr__check_shape(io, "ResidualData", &io->in[C_RESIDUAL], &io->out[C_OUTPUT].shape));
    return infer_split(io);
}

static tr_status expand_conv(tr_composite *c)
{
    const conv_fusion_attrs *a = tr_composite_attrs(c);
    const bool               has_residual = tr_composite_count(c, "ResidualData") > 0, is_plain = a->activation == TR_ACT_identity;
    const char              *sum = is_plain ? "Output" : "sum";

    TR_TRY(tr_composite_add(c, "conv2d(Input=Input, Filter=Filter, Bias=Bias) {strides=[%s], paddings=[%s], dilations=[%s], groups=%d} -> %s",
                            tr_composite_ints(c, &a->conv.strides), tr_composite_ints(c, &a->conv.paddings),
                            tr_composite_ints(c, &a->conv.dilations), a->conv.groups, has_residual ? "convolved" : sum));
    if (has_residual)
        TR_TRY(tr_composite_add(c, "elementwise_add(X=convolved, Y=ResidualData) -> %s", sum));
    if (!is_plain)
        TR_TRY(tr_composite_add(c, "%s(X=sum) -> Output", tr_act_name(a->activation)));
    if (tr_composite_count(c, "Outputs") == 0)
        return TR_OK;
    return tr_composite_add(c, "split(X=Output) {axis=1, sections=[%s]} -> Outputs", tr_composite_ints(c, &a->split_channels));
}

TR_REGISTER_OP(conv2d_fusion, .proto = &conv_proto, .check = check_conv, .infer = infer_conv, .expand = expand_conv, .types = TR_FLOAT_TYPES);
