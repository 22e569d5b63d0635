/* conv.c - conv2d, depthwise_conv2d and conv3d:  Output = Input * Filter (cross-correlation, as everywhere in this field).
 *
 * Output[n,o,y,x] = sum_{c,i,j} Input[n,c, y stride - pad + i dilation, x stride - pad + j dilation] Filter[o,c,i,j],
 * c running over the channels of o's group. depthwise_conv2d is the same operator; its name says that each channel
 * is a group. conv3d has one more dimension, the depth. A window may be larger than the padded image by less than a stride, as in Fluid, where the
 * division rounds towards 0: elements beyond the image count as zeros. Backward: dInput reads Filter, dFilter reads Input; neither reads Output. */
#ifndef T

#include "framework/base/size.h"
#include "framework/gradients/grad_second.h"
#include "framework/operators/op.h"
#include "kernels/images/conv_attrs.h"
#include "kernels/images/image_attrs.h"
#include "kernels/math/arrays/reduce.h"
#include "kernels/math/products/blas.h"
#include "kernels/math/tools/window.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { INPUT, FILTER, BIAS, RESIDUAL };
enum { OUTPUT };
enum { G_INPUT, G_FILTER, G_BIAS, G_DOUTPUT };
enum { G_DINPUT, G_DFILTER, G_DBIAS };

static const tr_attr_def attr_defs[] = {
    TR_ATTR_IGNORED("is_test", BOOL),
    TR_CONV_ATTRS("1, 1", "0, 0", "[height, width]"),
    TR_ATTR_IGNORED("use_cudnn", BOOL),
    TR_ATTR_ONLY("fuse_relu_before_depthwise_conv", BOOL, "add the operator relu before it"),
    TR_ATTR_IGNORED("use_mkldnn", BOOL),
    TR_ATTR_ONLY_PLAIN("use_quantizer", BOOL),
    TR_ATTR_ONLY("fuse_relu", BOOL, "add the operator relu after it"),
    TR_ATTR_ONLY("fuse_residual_connection", BOOL, "add the residual data by elementwise_add"),
    TR_ATTR_ONLY_PLAIN("Scale_in", FLOAT, .number = 1),
    TR_ATTR_ONLY_PLAIN("Scale_out", FLOAT, .number = 1),
    TR_ATTR_ONLY_PLAIN("Scale_in_eltwise", FLOAT, .number = 1),
    TR_ATTR_ONLY_PLAIN("Scale_weights", FLOATS, .text = "1.0"),
    TR_ATTR_ONLY_PLAIN("force_fp32_output", BOOL),
    TR_ATTR_ONLY_NCHW,
    TR_ATTR_IGNORED("workspace_size_MB", INT, .number = 4096),
    TR_ATTR_IGNORED("exhaustive_search", BOOL),
    {.name = NULL},
};

static const tr_attr_def attr_defs_3d[] = {
    TR_ATTR_IGNORED("is_test", BOOL),
    TR_CONV_ATTRS("1, 1, 1", "0, 0, 0", "[depth, height, width]"),
    TR_ATTR_IGNORED("use_cudnn", BOOL),
    TR_ATTR_IGNORED("use_mkldnn", BOOL),
    TR_ATTR_ONLY("fuse_relu", BOOL, "add the operator relu after it"),
    TR_ATTR_ONLY("fuse_residual_connection", BOOL, "add the residual data by elementwise_add"),
    TR_ATTR_ONLY_NCDHW,
    TR_ATTR_ONLY_PLAIN("force_fp32_output", BOOL),
    TR_ATTR_IGNORED("workspace_size_MB", INT, .number = 4096),
    TR_ATTR_IGNORED("exhaustive_search", BOOL),
    {.name = NULL},
};

static const tr_op_proto proto = {
    .doc = "Convolution of images: Output = Input * Filter + Bias.",
    .in = TR_SLOTS(TR_SLOT("Input", "[batch, channels, height, width]", " float"),
                   TR_SLOT("Filter", "[out channels, channels / groups, window height, window width]", "", TR_SLOT_WIDE),
                   TR_SLOT("Bias", "[out channels]", "", TR_SLOT_OPTIONAL | TR_SLOT_WIDE),
                   {"ResidualData", "must be absent: fused additions are the plan's business", TR_SLOT_OPTIONAL}),
    .out = TR_SLOTS({"Output", "[batch, out channels, height, width]"}),
    .attr = attr_defs,
    .attrs_size = sizeof(tr_conv_attrs),
};

static const tr_op_proto proto_3d = {
    .doc = "Convolution of volumes: Output = Input * Filter + Bias.",
    .in = TR_SLOTS(TR_SLOT("Input", "[batch, channels, depth, height, width]", " float"),
                   TR_SLOT("Filter", "[out channels, channels / groups, window depth, window height, window width]", "", TR_SLOT_WIDE),
                   TR_SLOT("Bias", "[out channels]", "", TR_SLOT_OPTIONAL | TR_SLOT_WIDE),
                   {"ResidualData", "must be absent: fused additions are the plan's business", TR_SLOT_OPTIONAL}),
    .out = TR_SLOTS({"Output", "[batch, out channels, depth, height, width]"}),
    .attr = attr_defs_3d,
    .attrs_size = sizeof(tr_conv_attrs),
};

static tr_status check_2d(const void *attrs) { return tr__conv_check("conv2d", attrs, 2); }
static tr_status check_3d(const void *attrs) { return tr__conv_check("conv3d", attrs, 3); }

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status check_channels(const tr_infer *io)
{
    const tr_conv_attrs *a = io->attrs;
    const tr_shape       x = io->in[INPUT].shape, w = io->in[FILTER].shape;

    if (x.dim[1] >= 0 && w.dim[1] >= 0 && x.dim[1] != tr_size_mul(w.dim[1], a->groups))
        return tr_fail(TR_ESHAPE, "%s: Input %s has %lld channels, but Filter %s with groups %d is for %lld", io->type,
                       TR_SHAPE_STR(x), (long long)x.dim[1], TR_SHAPE_STR(w), a->groups,
                       (long long)tr_size_mul(w.dim[1], a->groups));
    if (w.dim[0] >= 0 && w.dim[0] % a->groups != 0)
        return tr_fail(TR_ESHAPE, "%s: %lld output channels (Filter %s) cannot be cut into %d groups", io->type,
                       (long long)w.dim[0], TR_SHAPE_STR(w), a->groups);
    return TR_OK;
}

static tr_status infer_extent(const tr_infer *io, tr_shape *out, int axis)
{
    const tr_conv_attrs *a = io->attrs;
    const int            i = axis - 2;
    const int64_t        in = io->in[INPUT].shape.dim[axis], kernel = io->in[FILTER].shape.dim[axis];
    const int64_t        window = tr__conv_window(a, &io->in[FILTER].shape, i);

    out->dim[axis] = -1;
    if (in < 0 || kernel < 0)
        return TR_OK;
    out->dim[axis] = kernel < 1 ? 0 : tr_window_places(in, window, a->strides.item[i], 2 * (int64_t)a->paddings.item[i], false);
    if (out->dim[axis] < 1)
        return tr_fail(TR_ESHAPE, "%s: the window of Filter %s covers %lld, more than Input %s with padding %d has "
                       "along dimension %d, by a stride (%d) or more", io->type, TR_SHAPE_STR(io->in[FILTER].shape), (long long)window,
                       TR_SHAPE_STR(io->in[INPUT].shape), a->paddings.item[i], axis, a->strides.item[i]);
    return TR_OK;
}

static tr_status infer(const tr_infer *io)
{
    const tr_meta *input = &io->in[INPUT], *filter = &io->in[FILTER];
    tr_shape       out = {.rank = input->shape.rank, .dim = {input->shape.dim[0], filter->shape.dim[0]}};

    TR_TRY(check_channels(io));
    if (io->in[RESIDUAL].kind != TR_KIND_NONE)
        return tr_fail(TR_EUNSUPPORTED, "%s: ResidualData is not supported; add it by elementwise_add", io->type);
    for (int axis = 2; axis < out.rank; axis++)
        TR_TRY(infer_extent(io, &out, axis));
    TR_TRY(tr__conv_check_scratch(io, &input->shape, &filter->shape, &out));
    io->out[OUTPUT] = tr_meta_dense(input->dtype, out);
    return TR_OK;
}

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------- */
#define CONV(type_, proto_, check_)                                                                         \
    static const tr_grad_rule type_##_rule = {                                                                      \
        .op = #type_ "_grad",                                                                                       \
        .reads = {TR_IN(INPUT), TR_IN(FILTER), TR_IN_SHAPE(BIAS), TR_DOUT(OUTPUT)},                                 \
        .makes = {TR_DIN(INPUT), TR_DIN(FILTER), TR_DIN(BIAS)},                                                     \
        .second = tr__second_bilinear,                                                                              \
    };                                                                                                              \
    TR_REGISTER_OP(type_, .proto = &proto_, .check = check_, .infer = infer, .kernels = TR_FLOAT_KERNELS(conv),    \
                   .grad = &type_##_rule);                                                                          \
    TR_REGISTER_OP(type_##_grad, .grad_of = &tr_op_record_##type_, .kernels = TR_FLOAT_KERNELS(conv_grad))

CONV(conv2d, proto, check_2d);
CONV(depthwise_conv2d, proto, check_2d);
CONV(conv3d, proto_3d, check_3d);

#else /* the kernels, for each T */

static tr_status NAME(conv)(const tr_run *io)
{
    const tr_tensor    *x = io->in[INPUT], *w = io->in[FILTER], *bias = io->in[BIAS];
    tr_tensor          *y = io->out[OUTPUT];
    const tr_conv_shape s = tr__conv_shape(io->attrs, &x->shape, &w->shape, &y->shape);

    TR_TRY(tr_blas_init());
    NAME(tr_conv)(y->data, x->data, w->data, bias ? bias->data : NULL, &s);
    return TR_OK;
}

static tr_status NAME(conv_grad)(const tr_run *io)
{
    const tr_tensor    *x = io->in[G_INPUT], *w = io->in[G_FILTER], *dy = io->in[G_DOUTPUT];
    const tr_conv_shape s = tr__conv_shape(io->attrs, &x->shape, &w->shape, &dy->shape);

    TR_TRY(tr_blas_init());
    if (io->out[G_DINPUT])
        NAME(tr_conv_grad_input)(io->out[G_DINPUT]->data, dy->data, w->data, &s);
    if (io->out[G_DFILTER])
        NAME(tr_conv_grad_filter)(io->out[G_DFILTER]->data, dy->data, x->data, &s);
    if (io->out[G_DBIAS]) {                 /* over pixels first, then over images: both trees depend on the shape */
        const int64_t pixels = s.out[0] * s.out[1] * s.out[2];
        T            *sums;
        TR_TRY(tr_run_scratch((void **)&sums, io, (size_t)(s.batch * s.out_channels) * sizeof(T)));
        NAME(tr_reduce_apply)(TR_REDUCE_SUM, sums, dy->data, s.batch * s.out_channels, pixels, 1);
        NAME(tr_reduce_apply)(TR_REDUCE_SUM, io->out[G_DBIAS]->data, sums, 1, s.batch, s.out_channels);
    }
    return TR_OK;
}

#endif
