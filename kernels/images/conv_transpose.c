/* conv_transpose.c - conv2d_transpose, depthwise_conv2d_transpose and conv3d_transpose: what the gradient of a
 * convolution's input computes.
 *
 * Output[n,o, y stride - pad + i dilation, ...] += Input[n,c,y,...] Filter[c,o,i,...], c running over the channels of o's
 * group. The forward pass is tr_conv_grad_input, the gradient of Input a convolution of Output's gradient. Several extents
 * of Output fit one of Input when the stride is larger than 1: output_size chooses, otherwise it is the smallest. */
#ifndef T

#include "framework/base/size.h"
#include "framework/gradients/grad_second.h"
#include "kernels/base/check.h"
#include "kernels/images/conv_attrs.h"
#include "kernels/images/image_attrs.h"
#include "kernels/math/arrays/elementwise.h"
#include "kernels/math/arrays/reduce.h"
#include "kernels/math/products/blas.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { INPUT, FILTER, BIAS };
enum { OUTPUT };
enum { G_INPUT, G_FILTER, G_BIAS, G_DOUTPUT };
enum { G_DINPUT, G_DFILTER, G_DBIAS };

#define OUTPUT_SIZE(extents)                                                                                     \
    TR_ATTR(tr_conv_attrs, output_size, INTS, "the extents of Output: " extents "; none given: the smallest that fit")

static const tr_attr_def attr_defs[] = {
    TR_ATTR_IGNORED("is_test", BOOL),
    OUTPUT_SIZE("[height, width]"),
    TR_CONV_ATTRS("1, 1", "0, 0", "[height, width]"),
    TR_ATTR_IGNORED("use_cudnn", BOOL),
    TR_ATTR_IGNORED("use_mkldnn", BOOL),
    TR_ATTR_ONLY("fuse_relu", BOOL, "add the operator relu after it"),
    TR_ATTR_ONLY_NCHW,
    TR_ATTR_IGNORED("workspace_size_MB", INT, .number = 4096),
    {.name = NULL},
};

static const tr_attr_def attr_defs_3d[] = {
    OUTPUT_SIZE("[depth, height, width]"),
    TR_CONV_ATTRS("1, 1, 1", "0, 0, 0", "[depth, height, width]"),
    TR_ATTR_IGNORED("use_cudnn", BOOL),
    TR_ATTR_IGNORED("use_mkldnn", BOOL),
    TR_ATTR_ONLY_NCDHW,
    TR_ATTR_IGNORED("workspace_size_MB", INT, .number = 4096),
    {.name = NULL},
};

static const tr_op_proto proto = {
    .doc = "Transposed convolution of images: the gradient of a convolution's input, and Bias.",
    .in = TR_SLOTS(TR_SLOT("Input", "[batch, channels, height, width]", " float"),
                   TR_SLOT("Filter", "[input channels, out channels / groups, window height, window width]", "", TR_SLOT_WIDE),
                   {"Bias", "[out channels]", TR_SLOT_OPTIONAL | TR_SLOT_WIDE}),
    .out = TR_SLOTS({"Output", "[batch, out channels, height, width]"}),
    .attr = attr_defs,
    .attrs_size = sizeof(tr_conv_attrs),
};

static const tr_op_proto proto_3d = {
    .doc = "Transposed convolution of volumes: the gradient of a convolution's input.",
    .in = TR_SLOTS(TR_SLOT("Input", "[batch, channels, depth, height, width]", " float"),
                   TR_SLOT("Filter", "[input channels, out channels / groups, window depth, window height, window width]", "",
                           TR_SLOT_WIDE),
                   {"Bias", "[out channels]", TR_SLOT_OPTIONAL | TR_SLOT_WIDE}),
    .out = TR_SLOTS({"Output", "[batch, out channels, depth, height, width]"}),
    .attr = attr_defs_3d,
    .attrs_size = sizeof(tr_conv_attrs),
};

static tr_status check(const char *type, const tr_conv_attrs *a, int spatial)
{
    TR_TRY(tr__conv_check(type, a, spatial));
    return a->output_size.count == 0 ? TR_OK : tr__check_extents(type, "output_size", &a->output_size, spatial, 1);
}

static tr_status check_2d(const void *attrs) { return check("conv2d_transpose", attrs, 2); }
static tr_status check_3d(const void *attrs) { return check("conv3d_transpose", attrs, 3); }

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status infer_extent(const tr_infer *io, tr_shape *out, int axis)
{
    const tr_conv_attrs *a = io->attrs;
    const int            i = axis - 2;
    const int64_t        in = io->in[INPUT].shape.dim[axis], window = tr__conv_window(a, &io->in[FILTER].shape, i);
    const int64_t        wanted = a->output_size.count > 0 ? a->output_size.item[i] : -1;

    out->dim[axis] = wanted;
    if (in < 0 || window < 0)
        return TR_OK;
    if (in < 1 || io->in[FILTER].shape.dim[axis] < 1)
        return tr_fail(TR_ESHAPE, "%s: nothing to spread: Input is %s, Filter %s", io->type, TR_SHAPE_STR(io->in[INPUT].shape),
                       TR_SHAPE_STR(io->in[FILTER].shape));
    const int64_t smallest = tr_size_add(tr_size_mul(in - 1, a->strides.item[i]), window) - 2 * (int64_t)a->paddings.item[i];
    if (smallest < 1)
        return tr_fail(TR_ESHAPE, "%s: padding %d leaves nothing of dimension %d of Output; Input is %s, Filter %s", io->type,
                       a->paddings.item[i], axis, TR_SHAPE_STR(io->in[INPUT].shape), TR_SHAPE_STR(io->in[FILTER].shape));
    if (wanted >= 0 && (wanted < smallest || wanted >= smallest + a->strides.item[i]))
        return tr_fail(TR_ESHAPE, "%s: output_size[%d] must be in [%lld, %lld) for Input %s, got %lld", io->type, i,
                       (long long)smallest, (long long)(smallest + a->strides.item[i]), TR_SHAPE_STR(io->in[INPUT].shape),
                       (long long)wanted);
    out->dim[axis] = wanted >= 0 ? wanted : smallest;
    return TR_OK;
}

static tr_status check_channels(const tr_infer *io)
{
    const tr_conv_attrs *a = io->attrs;
    const tr_shape       x = io->in[INPUT].shape, w = io->in[FILTER].shape;

    if (x.dim[1] >= 0 && w.dim[0] >= 0 && x.dim[1] != w.dim[0])
        return tr_fail(TR_ESHAPE, "%s: Input %s has %lld channels, but Filter %s is for %lld", io->type, TR_SHAPE_STR(x),
                       (long long)x.dim[1], TR_SHAPE_STR(w), (long long)w.dim[0]);
    if (w.dim[0] >= 0 && w.dim[0] % a->groups != 0)
        return tr_fail(TR_ESHAPE, "%s: %lld channels (Filter %s) cannot be cut into %d groups", io->type, (long long)w.dim[0],
                       TR_SHAPE_STR(w), a->groups);
    return TR_OK;
}

static tr_status infer(const tr_infer *io)
{
    const tr_conv_attrs *a = io->attrs;
    const tr_meta       *input = &io->in[INPUT], *filter = &io->in[FILTER];
    tr_shape             out = {.rank = input->shape.rank, .dim = {input->shape.dim[0]}};

    TR_TRY(check_channels(io));
    out.dim[1] = filter->shape.dim[1] < 0 ? -1 : tr_size_mul(filter->shape.dim[1], a->groups);
    if (io->in[BIAS].kind != TR_KIND_NONE)
        TR_TRY(tr__check_shape(io, "Bias", &io->in[BIAS], &TR_SHAPE(out.dim[1])));
    for (int axis = 2; axis < out.rank; axis++)
        TR_TRY(infer_extent(io, &out, axis));
    TR_TRY(tr__conv_check_scratch(io, &out, &filter->shape, &input->shape));
    io->out[OUTPUT] = tr_meta_dense(input->dtype, out);
    return TR_OK;
}

static int64_t pixels_of(const tr_conv_shape *s) { return s->in[0] * s->in[1] * s->in[2]; }

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------- */
#define TRANSPOSED(type_, proto_, check_)                                                                   \
    static const tr_grad_rule type_##_rule = {                                                                      \
        .op = #type_ "_grad",                                                                                       \
        .reads = {TR_IN(INPUT), TR_IN(FILTER), TR_IN_SHAPE(BIAS), TR_DOUT(OUTPUT)},                                 \
        .makes = {TR_DIN(INPUT), TR_DIN(FILTER), TR_DIN(BIAS)},                                                     \
        .second = tr__second_bilinear,                                                                              \
    };                                                                                                              \
    TR_REGISTER_OP(type_, .proto = &proto_, .check = check_, .infer = infer,                                       \
                   .kernels = TR_FLOAT_KERNELS(conv_transpose), .grad = &type_##_rule);                             \
    TR_REGISTER_OP(type_##_grad, .grad_of = &tr_op_record_##type_, .kernels = TR_FLOAT_KERNELS(conv_transpose_grad))

TRANSPOSED(conv2d_transpose, proto, check_2d);
TRANSPOSED(depthwise_conv2d_transpose, proto, check_2d);
TRANSPOSED(conv3d_transpose, proto_3d, check_3d);

#else /* the kernels, for each T */

static tr_status NAME(conv_transpose)(const tr_run *io)
{
    const tr_tensor    *x = io->in[INPUT], *w = io->in[FILTER], *bias = io->in[BIAS];
    tr_tensor          *y = io->out[OUTPUT];
    const tr_conv_shape s = tr__conv_shape(io->attrs, &y->shape, &w->shape, &x->shape);

    TR_TRY(tr_blas_init());
    NAME(tr_conv_grad_input)(y->data, x->data, w->data, &s);
    if (bias)
        NAME(tr_binary_apply)(TR_BINARY_ADD, y->data, y->data, bias->data, s.batch, s.in_channels, pixels_of(&s));
    return TR_OK;
}

static tr_status NAME(conv_transpose_grad)(const tr_run *io)
{
    const tr_tensor    *x = io->in[G_INPUT], *w = io->in[G_FILTER], *dy = io->in[G_DOUTPUT];
    const tr_conv_shape s = tr__conv_shape(io->attrs, &dy->shape, &w->shape, &x->shape);

    TR_TRY(tr_blas_init());
    if (io->out[G_DINPUT])
        NAME(tr_conv)(io->out[G_DINPUT]->data, dy->data, w->data, NULL, &s);
    if (io->out[G_DFILTER])
        NAME(tr_conv_grad_filter)(io->out[G_DFILTER]->data, x->data, dy->data, &s);
    if (io->out[G_DBIAS]) {                 /* over pixels first, then over images: both trees depend on the shape */
        T *sums;
        TR_TRY(tr_run_scratch((void **)&sums, io, (size_t)(s.batch * s.in_channels) * sizeof(T)));
        NAME(tr_reduce_apply)(TR_REDUCE_SUM, sums, dy->data, s.batch * s.in_channels, pixels_of(&s), 1);
        NAME(tr_reduce_apply)(TR_REDUCE_SUM, io->out[G_DBIAS]->data, sums, 1, s.batch, s.in_channels);
    }
    return TR_OK;
}

#endif
