/* pool.c - pool2d, pool3d, and max_pool2d_with_index, max_pool3d_with_index: the maximum or the average over the windows of
 * each plane (volume).
 *
 * A window may be larger than the plane by less than a stride, as in Fluid, where the division rounds towards 0: it sees what there is. With
 * ceil_mode a window may see padding alone: its maximum is -FLT_MAX, as in Fluid, its average 0.
 *
 * Backward: a maximum's gradient goes to the first element of its window that equals Out, an average's to all. With an index
 * it goes where Mask says. */
#ifndef T

#include <string.h>

#include "framework/base/memory.h"
#include "framework/base/size.h"
#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"
#include "framework/gradients/grad_second.h"
#include "kernels/base/check.h"
#include "kernels/images/image_attrs.h"
#include "kernels/math/images/pool.h"
#include "kernels/math/tools/window.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { X };
enum { OUT, MASK };
enum { G_X, G_OUT, G_DOUT };
enum { G_MASK = 1 };                  /* of the pools with an index */
enum { G_DX };

typedef struct attrs {
    enum { POOL_MAX, POOL_AVERAGE } pooling_type;
    tr_ints ksize, strides, paddings;
    bool    global_pooling, exclusive, adaptive, ceil_mode;
} attrs;

#define WINDOW_ATTRS(ones, zeros, extents)                                                                                    \
    TR_ATTR(attrs, ksize, INTS, "the window: " extents "; with adaptive the size of Out", .required = true),                  \
    TR_ATTR(attrs, global_pooling, BOOL, "the window is the whole plane; ksize and paddings do not count"),                   \
    TR_ATTR(attrs, strides, INTS, "steps of the window: " extents, .text = ones),                                             \
    TR_ATTR(attrs, paddings, INTS, "padding around the plane: " extents, .text = zeros),                                      \
    TR_ATTR(attrs, adaptive, BOOL, "choose the windows so that Out is ksize")
#define POOL_ATTRS                                                                                                            \
    TR_ATTR(attrs, pooling_type, STRING, "what to take of a window", .required = true,                                        \
            .range = TR_ONE_OF({"max", POOL_MAX}, {"avg", POOL_AVERAGE})),                                                    \
    TR_ATTR(attrs, exclusive, BOOL, "an average does not count the padding", .number = 1),                                    \
    TR_ATTR(attrs, ceil_mode, BOOL, "a window that begins within the plane counts, though it ends beyond"),                   \
    TR_ATTR_IGNORED("use_cudnn", BOOL), TR_ATTR_IGNORED("use_mkldnn", BOOL), TR_ATTR_IGNORED("is_test", BOOL)

static const tr_attr_def attrs_2d[] = {WINDOW_ATTRS("1, 1", "0, 0", "[height, width]"), POOL_ATTRS,
                                       TR_ATTR_ONLY_PLAIN("use_quantizer", BOOL), TR_ATTR_ONLY_NCHW, {.name = NULL}};
static const tr_attr_def attrs_3d[] = {WINDOW_ATTRS("1, 1, 1", "0, 0, 0", "[depth, height, width]"), POOL_ATTRS,
                                       TR_ATTR_ONLY_NCDHW, {.name = NULL}};
static const tr_attr_def index_attrs_2d[] = {WINDOW_ATTRS("1, 1", "0, 0", "[height, width]"), {.name = NULL}};
static const tr_attr_def index_attrs_3d[] = {WINDOW_ATTRS("1, 1, 1", "0, 0, 0", "[depth, height, width]"), {.name = NULL}};

#define IMAGE  "[batch, channels, height, width]"
#define VOLUME "[batch, channels, depth, height, width]"
#define PLACE  "int32 like Out; each maximum's place in its plane, row by row, the first of equal ones"

#define PROTO(name, about, shape, attr_list, ...)                                                                             \
    static const tr_op_proto name = {.doc = about, .in = TR_SLOTS(TR_SLOT("X", shape, " float")),                                     \
                                     .out = TR_SLOTS({"Out", shape}, ##__VA_ARGS__), .attr = attr_list,                       \
                                     .attrs_size = sizeof(attrs)}

PROTO(proto_2d, "Takes the maximum or the average of each window of each channel.", IMAGE, attrs_2d);
PROTO(proto_3d, "Takes the maximum or the average of each window of each channel.", VOLUME, attrs_3d);
PROTO(index_proto_2d, "Takes the maximum of each window of each channel, and says where it is.", IMAGE, index_attrs_2d,
      {"Mask", PLACE, TR_SLOT_ANY_TYPE});
PROTO(index_proto_3d, "Takes the maximum of each window of each channel, and says where it is.", VOLUME, index_attrs_3d,
      {"Mask", PLACE, TR_SLOT_ANY_TYPE});

static tr_status check(const char *type, const attrs *a, int spatial)
{
    TR_TRY(tr__check_extents(type, "strides", &a->strides, spatial, 1));
    if (a->global_pooling)
        return TR_OK;
    TR_TRY(tr__check_extents(type, "ksize", &a->ksize, spatial, 1));
    TR_TRY(tr__check_extents(type, "paddings", &a->paddings, spatial, 0));
    for (int i = 0; i < spatial && !a->adaptive; i++)
        if (a->paddings.item[i] >= a->ksize.item[i])
            return tr_fail(TR_EINVAL, "%s: padding %d must be smaller than the window (%d): a window of padding "
                           "alone has no value", type, a->paddings.item[i], a->ksize.item[i]);
    return TR_OK;
}

static tr_status check_2d(const void *a)       { return check("pool2d", a, 2); }
static tr_status check_3d(const void *a)       { return check("pool3d", a, 3); }
static tr_status check_index_2d(const void *a) { return check("max_pool2d_with_index", a, 2); }
static tr_status check_index_3d(const void *a) { return check("max_pool3d_with_index", a, 3); }

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status infer_extent(const tr_infer *io, tr_shape *out, int axis)
{
    const attrs  *a = io->attrs;
    const int     i = axis - 2;
    const int64_t in = io->in[X].shape.dim[axis];

    if (a->global_pooling) {
        out->dim[axis] = 1;
        return TR_OK;
    }
    const int64_t kernel = a->ksize.item[i], stride = a->strides.item[i], pad = a->paddings.item[i];
    out->dim[axis] = a->adaptive ? kernel : -1;
    if (in < 0 || a->adaptive)
        return TR_OK;
    out->dim[axis] = tr_window_places(in, kernel, stride, 2 * pad, a->ceil_mode);
    if (out->dim[axis] < 1)
        return tr_fail(TR_ESHAPE, "%s: the window of %lld is larger than X %s with padding %lld along dimension %d, by a stride (%lld) or more",
                       io->type, (long long)kernel, TR_SHAPE_STR(io->in[X].shape), (long long)pad, axis, (long long)stride);
    return TR_OK;
}

/* The kernels copy a plane with its padding, each row cut into phases (phases.h): fail where that is more than the machine has. */
static tr_status check_scratch(const tr_infer *io, const tr_shape *out)
{
    enum { VECTOR = 16 };
    const attrs   *a = io->attrs;
    const tr_shape x = io->in[X].shape;
    int64_t        padded = 8;

    if (a->global_pooling || a->adaptive)
        return TR_OK;
    for (int i = 0; i < x.rank - 2; i++) {
        const int64_t stride = a->strides.item[i];
        const int64_t reach = tr_window_reach(x.dim[i + 2], a->ksize.item[i], stride, 2 * (int64_t)a->paddings.item[i], out->dim[i + 2]);
        const int64_t phases = stride < reach ? stride : reach;
        padded = tr_size_mul(padded, i < x.rank - 3 ? reach : tr_size_add(reach, tr_size_mul(VECTOR, phases)));
    }
    if (padded > (int64_t)tr__array_limit())
        return tr_fail(TR_ENOMEM, "%s: a plane of X %s with the given paddings needs more memory than this machine has", io->type,
                       TR_SHAPE_STR(x));
    return TR_OK;
}

static tr_status infer(const tr_infer *io)
{
    tr_shape out = io->in[X].shape;

    for (int axis = 2; axis < out.rank; axis++)
        TR_TRY(infer_extent(io, &out, axis));
    if (tr_shape_is_known(&out))
        TR_TRY(check_scratch(io, &out));
    io->out[OUT] = tr_meta_dense(io->in[X].dtype, out);
    return TR_OK;
}

/* A plane has a place for each maximum, and an int32 can say which. */
static tr_status infer_index(const tr_infer *io)
{
    TR_TRY(infer(io));
    const tr_shape x = io->in[X].shape;
    const int64_t  places = tr_shape_product(&x, 2, x.rank);
    if (places == 0 || places > INT32_MAX)
        return tr_fail(TR_ESHAPE, "%s: X is %s; a plane must have 1 to %d elements", io->type, TR_SHAPE_STR(x), INT32_MAX);
    io->out[MASK] = tr_meta_dense(TR_INT32, io->out[OUT].shape);
    return TR_OK;
}

static tr_pool_shape pool_shape(const attrs *a, const tr_shape *x, const tr_shape *out)
{
    const int     before = 5 - x->rank;              /* dimensions of 1 in front of the spatial ones */
    tr_pool_shape s = {.planes = x->dim[0] * x->dim[1], .in = {1, 1, 1}, .out = {1, 1, 1}, .kernel = {1, 1, 1},
                       .stride = {1, 1, 1}, .adaptive = a->adaptive && !a->global_pooling, .exclusive = a->exclusive};

    for (int i = 0; i + before < 3; i++) {
        s.in[i + before] = x->dim[i + 2];
        s.out[i + before] = out->dim[i + 2];
        s.kernel[i + before] = a->global_pooling ? x->dim[i + 2] : a->ksize.item[i];
        s.stride[i + before] = a->strides.item[i];
        s.pad[i + before] = a->global_pooling ? 0 : a->paddings.item[i];
    }
    return s;
}

/* Places in a plane: those of another program's Mask may be anything. */
static tr_status check_places(const tr_run *io, const tr_tensor *mask)
{
    const tr_shape x = io->in[G_X]->shape;
    const int64_t  places = tr_shape_product(&x, 2, x.rank);
    const int32_t *place = mask->data;

    for (int64_t i = 0; i < tr_tensor_count(mask); i++)
        if (place[i] < 0 || place[i] >= places)
            return tr_fail(TR_ERANGE, "Mask has place %d; a plane of X %s has places 0 to %lld", place[i], TR_SHAPE_STR(x),
                           (long long)places - 1);
    return TR_OK;
}

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------- */
/* The spatial dimensions of paddings that make ceil_mode superfluous: a window that begins within the plane then ends within it. */
static const char *ends_of(tr_composite *c, const attrs *a)
{
    const char *ends = "0, 0, 0, 0";

    for (int i = 0; i < a->strides.count; i++)
        ends = tr_composite_text(c, "%s, 0, %d", ends, a->strides.item[i] - 1);
    return ends;
}

/* Which elements are the largest ones is constant almost everywhere: the gradient goes to their places. */
static tr_status max_back(tr_composite *c)
{
    const attrs *a = tr_composite_attrs(c);
    const char  *x = "X", *dx = "X@GRAD";

    if (a->ceil_mode && !a->global_pooling && !a->adaptive) {
        TR_TRY(tr_composite_add(c, "pad(X=X) {paddings=[%s], pad_value=-3.4e+38} -> padded", ends_of(c, a)));
        x = "padded";
        dx = "dpadded";
    }
    TR_TRY(tr_composite_add(c, "max_pool%dd_with_index(X=%s) {ksize=[%s], strides=[%s], paddings=[%s], global_pooling=%s, adaptive=%s} -> Out=largest, "
                            "Mask=places", a->strides.count, x, tr_composite_ints(c, &a->ksize), tr_composite_ints(c, &a->strides),
                            tr_composite_ints(c, &a->paddings), a->global_pooling ? "true" : "false", a->adaptive ? "true" : "false"));
    TR_TRY(tr_composite_add(c, "take_places_grad(X=%s, Places=places, Out@GRAD=Out@GRAD) -> X@GRAD=%s", x, dx));
    if (x[0] == 'X')
        return TR_OK;
    return tr_composite_add(c, "pad_grad(X=X, Out@GRAD=dpadded) {paddings=[%s]} -> X@GRAD=X@GRAD", ends_of(c, a));
}

static tr_status index_back(tr_composite *c)
{
    return tr_composite_add(c, "take_places_grad(X=X, Places=Mask, Out@GRAD=Out@GRAD) -> X@GRAD=X@GRAD");
}

/* An average is linear. */
static tr_status make_second(tr_grad_maker *maker)
{
    const char *way = tr_op_desc_attr_string(tr_grad_forward(maker), "pooling_type", 0, NULL);

    return way && strcmp(way, "avg") == 0 ? tr__second_linear(maker) : tr__second_body(maker);
}

#define POOL(type_, proto_, check_, infer_, kernel_, body_, ...)                                                        \
    static const tr_grad_rule type_##_rule = {                                                                     \
        .op = #type_ "_grad", .reads = {__VA_ARGS__, TR_DOUT(OUT)}, .makes = {TR_DIN(X)},                          \
        .second = make_second, .body = body_,                                                                     \
    };                                                                                                             \
    TR_REGISTER_OP(type_, .locality = TR_ROWWISE, .proto = &proto_, .check = check_, .infer = infer_, .kernels = TR_FLOAT_KERNELS(kernel_), \
                   .grad = &type_##_rule);                                                                         \
    TR_REGISTER_OP(type_##_grad, .locality = TR_ROWWISE, .grad_of = &tr_op_record_##type_, .kernels = TR_FLOAT_KERNELS(kernel_##_grad))

POOL(pool2d, proto_2d, check_2d, infer, pool, max_back, TR_IN(X), TR_OUT(OUT));
POOL(pool3d, proto_3d, check_3d, infer, pool, max_back, TR_IN(X), TR_OUT(OUT));
POOL(max_pool2d_with_index, index_proto_2d, check_index_2d, infer_index, index_pool, index_back, TR_IN_SHAPE(X), TR_OUT(MASK));
POOL(max_pool3d_with_index, index_proto_3d, check_index_3d, infer_index, index_pool, index_back, TR_IN_SHAPE(X), TR_OUT(MASK));

#else /* the kernels, for each T */

static tr_status NAME(pool)(const tr_run *io)
{
    const attrs        *a = io->attrs;
    const tr_tensor    *x = io->in[X];
    tr_tensor          *out = io->out[OUT];
    const tr_pool_shape s = pool_shape(a, &x->shape, &out->shape);

    if (a->pooling_type == POOL_MAX)
        NAME(tr_max_pool)(out->data, NULL, x->data, &s);
    else
        NAME(tr_avg_pool)(out->data, x->data, &s);
    return TR_OK;
}

static tr_status NAME(pool_grad)(const tr_run *io)
{
    const attrs        *a = io->attrs;
    const tr_tensor    *x = io->in[G_X], *dout = io->in[G_DOUT];
    const tr_pool_shape s = pool_shape(a, &x->shape, &dout->shape);

    if (a->pooling_type == POOL_MAX)
        NAME(tr_max_pool_grad)(io->out[G_DX]->data, dout->data, x->data, io->in[G_OUT]->data, &s);
    else
        NAME(tr_avg_pool_grad)(io->out[G_DX]->data, dout->data, &s);
    return TR_OK;
}

static tr_status NAME(index_pool)(const tr_run *io)
{
    tr_tensor          *out = io->out[OUT];
    const tr_pool_shape s = pool_shape(io->attrs, &io->in[X]->shape, &out->shape);

    NAME(tr_max_pool)(out->data, io->out[MASK]->data, io->in[X]->data, &s);
    return TR_OK;
}

static tr_status NAME(index_pool_grad)(const tr_run *io)
{
    const tr_tensor    *mask = io->in[G_MASK], *dout = io->in[G_DOUT];
    const tr_pool_shape s = pool_shape(io->attrs, &io->in[G_X]->shape, &dout->shape);

    TR_TRY(check_places(io, mask));
    NAME(tr_max_pool_mask_grad)(io->out[G_DX]->data, dout->data, mask->data, &s);
    return TR_OK;
}

#endif
