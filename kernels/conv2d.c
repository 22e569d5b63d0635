/* conv2d.c - conv2d and depthwise_conv2d:  Output = Input * Filter (cross-correlation, as everywhere in this field).
 *
 * Output[n,o,y,x] = sum_{c,i,j} Input[n,c, y stride - pad + i dilation, x stride - pad + j dilation] Filter[o,c,i,j],
 * c running over the channels of o's group. depthwise_conv2d is the same operator; its name says that each channel
 * is a group. Backward: dInput reads Filter, dFilter reads Input; neither reads Output. */
#ifndef T

#include "framework/memory.h"
#include "framework/size.h"
#include "kernels/check.h"
#include "kernels/image_attrs.h"
#include "kernels/math/blas.h"
#include "kernels/math/conv.h"
#include "kernels/math/reduce.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { INPUT, FILTER, BIAS, RESIDUAL };
enum { OUTPUT };
enum { G_INPUT, G_FILTER, G_BIAS, G_DOUTPUT };
enum { G_DINPUT, G_DFILTER, G_DBIAS };

typedef struct attrs {
    tr_ints strides, paddings, dilations;
    int32_t groups;
} attrs;

static const tr_attr_def attr_defs[] = {
    TR_ATTR_IGNORED("is_test", BOOL),
    TR_ATTR(attrs, strides, INTS, "steps of the window: [height, width]", .text = "1, 1"),
    TR_ATTR(attrs, paddings, INTS, "zeros around the image: [height, width]", .text = "0, 0"),
    TR_ATTR(attrs, groups, INT, "output channels of a group see only the input channels of that group", .number = 1,
            .range = TR_AT_LEAST(1)),
    TR_ATTR(attrs, dilations, INTS, "distance of the filter's elements: [height, width]", .text = "1, 1"),
    TR_ATTR_IGNORED("use_cudnn", BOOL),
    TR_ATTR_ONLY("fuse_relu_before_depthwise_conv", BOOL, "add the operator relu before it"),
    TR_ATTR_IGNORED("use_mkldnn", BOOL),
    TR_ATTR_ONLY_PLAIN("use_quantizer", BOOL),
    TR_ATTR_ONLY("fuse_relu", BOOL, "add the operator relu behind it"),
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

static const tr_op_proto proto = {
    .doc = "Convolution of images: Output = Input * Filter + Bias.",
    .in = TR_SLOTS({"Input", "[batch, channels, height, width] float"},
                   {"Filter", "[out channels, channels / groups, height, width]"},
                   {"Bias", "[out channels]", TR_SLOT_OPTIONAL},
                   {"ResidualData", "must be absent: fused additions are the plan's business", TR_SLOT_OPTIONAL}),
    .out = TR_SLOTS({"Output", "[batch, out channels, height, width]"}),
    .attr = attr_defs,
    .attrs_size = sizeof(attrs),
};

static tr_status check(const void *attrs_)
{
    const attrs *a = attrs_;

    TR_TRY(tr__check_pair("conv2d", "strides", &a->strides, 1));
    TR_TRY(tr__check_pair("conv2d", "paddings", &a->paddings, 0));
    return tr__check_pair("conv2d", "dilations", &a->dilations, 1);
}

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status check_channels(const tr_infer *io)
{
    const attrs   *a = io->attrs;
    const tr_shape x = io->in[INPUT].shape, w = io->in[FILTER].shape;

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
    const attrs  *a = io->attrs;
    const int     i = axis - 2;
    const int64_t in = io->in[INPUT].shape.dim[axis], kernel = io->in[FILTER].shape.dim[axis];

    out->dim[axis] = -1;
    if (in < 0 || kernel < 0)
        return TR_OK;
    const int64_t window = kernel < 1 ? 1 : tr_size_add(tr_size_mul(a->dilations.item[i], kernel - 1), 1);
    if (in + 2 * (int64_t)a->paddings.item[i] < window || kernel < 1)
        return tr_fail(TR_ESHAPE, "%s: the window of Filter %s covers %lld, more than Input %s with padding %d has "
                       "along dimension %d", io->type, TR_SHAPE_STR(io->in[FILTER].shape), (long long)window,
                       TR_SHAPE_STR(io->in[INPUT].shape), a->paddings.item[i], axis);
    out->dim[axis] = tr_conv_extent(in, kernel, a->strides.item[i], a->paddings.item[i], a->dilations.item[i]);
    return TR_OK;
}

/* The kernels copy an image with its padding, or the patches under the windows. A padding far beyond the image would make
 * them ask for any amount. */
static tr_status check_scratch(const tr_infer *io, const tr_shape *out)
{
    const attrs   *a = io->attrs;
    const tr_shape x = io->in[INPUT].shape, w = io->in[FILTER].shape;
    int64_t        padded = 8, patches = 8;

    if (!tr_shape_is_known(&x) || !tr_shape_is_known(&w))
        return TR_OK;
    for (int i = 0; i < 2; i++) {
        padded = tr_size_mul(padded, x.dim[i + 2] + 2 * (int64_t)a->paddings.item[i]);
        patches = tr_size_mul(patches, tr_size_mul(w.dim[i + 2], out->dim[i + 2]));
    }
    const int64_t largest = tr_size_mul(padded > patches ? padded : patches, x.dim[1] > w.dim[0] ? x.dim[1] : w.dim[0]);
    if (largest > (int64_t)tr__array_limit())
        return tr_fail(TR_ENOMEM, "%s: Input %s, Filter %s and padding [%d, %d] need more memory than this machine has", io->type,
                       TR_SHAPE_STR(x), TR_SHAPE_STR(w), a->paddings.item[0], a->paddings.item[1]);
    return TR_OK;
}

static tr_status infer(const tr_infer *io)
{
    const tr_meta *input = &io->in[INPUT], *filter = &io->in[FILTER];
    tr_shape       out = {.rank = 4};

    TR_TRY(tr__check_rank(io, "Input", input, 4));
    TR_TRY(tr__check_rank(io, "Filter", filter, 4));
    TR_TRY(tr__check_dtype(io, "Filter", filter, input->dtype));
    TR_TRY(check_channels(io));
    if (io->in[BIAS].kind != TR_KIND_NONE) {
        TR_TRY(tr__check_dtype(io, "Bias", &io->in[BIAS], input->dtype));
        TR_TRY(tr__check_shape(io, "Bias", &io->in[BIAS], &TR_SHAPE(filter->shape.dim[0])));
    }
    if (io->in[RESIDUAL].kind != TR_KIND_NONE)
        return tr_fail(TR_EUNSUPPORTED, "%s: ResidualData is not supported; add it by elementwise_add", io->type);
    out.dim[0] = input->shape.dim[0];
    out.dim[1] = filter->shape.dim[0];
    TR_TRY(infer_extent(io, &out, 2));
    TR_TRY(infer_extent(io, &out, 3));
    TR_TRY(check_scratch(io, &out));
    io->out[OUTPUT] = tr_meta_dense(input->dtype, out);
    return TR_OK;
}

static tr_conv_shape conv_shape(const attrs *a, const tr_shape *x, const tr_shape *w, const tr_shape *y)
{
    tr_conv_shape s = {.batch = x->dim[0], .in_channels = x->dim[1], .out_channels = w->dim[0], .groups = a->groups,
                       .in = {1}, .out = {1}, .kernel = {1}, .stride = {1}, .pad = {0}, .dilation = {1}};

    for (int i = 0; i < 2; i++) {
        s.in[i + 1] = x->dim[i + 2];
        s.out[i + 1] = y->dim[i + 2];
        s.kernel[i + 1] = w->dim[i + 2];
        s.stride[i + 1] = a->strides.item[i];
        s.pad[i + 1] = a->paddings.item[i];
        s.dilation[i + 1] = a->dilations.item[i];
    }
    return s;
}

/* -- kernels -------------------------------------------------------------------------------------- */
#define TR_TEMPLATE "kernels/conv2d.c"
#include "kernels/math/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------- */
#define GRAD(type_)                                                                     \
    static const tr_grad_rule type_##_rule = {                                          \
        .op = #type_ "_grad",                                                           \
        .reads = {TR_IN(INPUT), TR_IN(FILTER), TR_IN_SHAPE(BIAS), TR_DOUT(OUTPUT)},     \
        .makes = {TR_DIN(INPUT), TR_DIN(FILTER), TR_DIN(BIAS)},                         \
    }

GRAD(conv2d);
TR_REGISTER_OP(conv2d, .proto = &proto, .check = check, .infer = infer, .kernels = TR_FLOAT_KERNELS(conv2d),
               .grad = &conv2d_rule);
TR_REGISTER_OP(conv2d_grad, .grad_of = &tr_op_record_conv2d, .kernels = TR_FLOAT_KERNELS(conv2d_grad));

GRAD(depthwise_conv2d);
TR_REGISTER_OP(depthwise_conv2d, .proto = &proto, .check = check, .infer = infer, .kernels = TR_FLOAT_KERNELS(conv2d),
               .grad = &depthwise_conv2d_rule);
TR_REGISTER_OP(depthwise_conv2d_grad, .grad_of = &tr_op_record_depthwise_conv2d,
               .kernels = TR_FLOAT_KERNELS(conv2d_grad));

#else /* the kernels, for each T */

static tr_status NAME(conv2d)(const tr_run *io)
{
    const tr_tensor    *x = io->in[INPUT], *w = io->in[FILTER], *bias = io->in[BIAS];
    tr_tensor          *y = io->out[OUTPUT];
    const tr_conv_shape s = conv_shape(io->attrs, &x->shape, &w->shape, &y->shape);

    TR_TRY(tr_blas_init());
    NAME(tr_conv)(y->data, x->data, w->data, bias ? bias->data : NULL, &s);
    return TR_OK;
}

static tr_status NAME(conv2d_grad)(const tr_run *io)
{
    const tr_tensor    *x = io->in[G_INPUT], *w = io->in[G_FILTER], *dy = io->in[G_DOUTPUT];
    const tr_conv_shape s = conv_shape(io->attrs, &x->shape, &w->shape, &dy->shape);

    TR_TRY(tr_blas_init());
    if (io->out[G_DINPUT])
        NAME(tr_conv_grad_input)(io->out[G_DINPUT]->data, dy->data, w->data, &s);
    if (io->out[G_DFILTER])
        NAME(tr_conv_grad_filter)(io->out[G_DFILTER]->data, dy->data, x->data, &s);
    if (io->out[G_DBIAS]) {                 /* over pixels first, then over images: both trees depend on the shape */
        const int64_t pixels = s.out[1] * s.out[2];
        T            *sums;
        TR_TRY(tr_run_scratch((void **)&sums, io, (size_t)(s.batch * s.out_channels) * sizeof(T)));
        NAME(tr_reduce_apply)(TR_REDUCE_SUM, sums, dy->data, s.batch * s.out_channels, pixels, 1);
        NAME(tr_reduce_apply)(TR_REDUCE_SUM, io->out[G_DBIAS]->data, sums, 1, s.batch, s.out_channels);
    }
    return TR_OK;
}

#endif
