/* image_shuffle.c - pixel_shuffle, shuffle_channel and space_to_depth: images whose elements change places.
 *
 * Each is a transposition of the image seen with more dimensions, so the gradient is the transposition back:
 *
 *     pixel_shuffle    [n, c, r, r, h, w]           -> [n, c, h, r, w, r]       (Shi et al., 2016)
 *     shuffle_channel  [n, g, c / g, h w]           -> [n, c / g, g, h w]       (Zhang et al., ShuffleNet, 2018)
 *     space_to_depth   [n, b, b, c / b^2, h, w]     -> [n, c / b^2, h, b, w, b]
 *
 * space_to_depth is that of Fluid, which is the reorganization of Darknet: what lies in memory then is read as
 * [n, c b^2, h / b, w / b]. */
#include "framework/base/size.h"
#include "framework/gradients/grad_second.h"
#include "framework/operators/op.h"
#include "kernels/math/arrays/transpose.h"

/* -- interface ------------------------------------------------------------------------------ */
enum { X };
enum { OUT };
enum { G_X, G_DOUT };
enum { G_DX };

typedef struct pixel_attrs { int32_t upscale_factor; } pixel_attrs;
typedef struct channel_attrs { int32_t group; } channel_attrs;
typedef struct space_attrs { int64_t blocksize; } space_attrs;

static const tr_op_proto pixel_proto = {
    .doc = "Makes r x r pixels of one with r^2 times as many channels: Out[n, c, r y + i, r x + j] = X[n, c r^2 + i r + j, y, x].",
    .in = TR_SLOTS(TR_SLOT("X", "[n, c, h, w]", ", c a multiple of r^2, r being upscale_factor")),
    .out = TR_SLOTS({"Out", "[n, c, h r, w r]"}),
    TR_ATTRS_OF(pixel_attrs, TR_ATTR(pixel_attrs, upscale_factor, INT, "r", .number = 1, .range = TR_AT_LEAST(1))),
};
static const tr_op_proto channel_proto = {
    .doc = "Mixes the groups of channels: Out[n, i groups + j] = X[n, j c / groups + i].",
    .in = TR_SLOTS(TR_SLOT("X", "[n, c, h, w]", "")),
    .out = TR_SLOTS(TR_SLOT("Out", "like X", "")),
    TR_ATTRS_OF(channel_attrs, TR_ATTR(channel_attrs, group, INT, "how many groups the channels are", .number = 1, .range = TR_AT_LEAST(1))),
};
static const tr_op_proto space_proto = {
    .doc = "Makes channels of blocks of b x b pixels, in the order of Darknet's reorganization.",
    .in = TR_SLOTS(TR_SLOT("X", "[n, c, h, w]", "; c is a multiple of b^2, h and w are of b")),
    .out = TR_SLOTS({"Out", "[n, c b^2, h / b, w / b]"}),
    TR_ATTRS_OF(space_attrs, TR_ATTR(space_attrs, blocksize, LONG, "b", .number = 2, .range = TR_BETWEEN(2, INT32_MAX))),
};

/* -- shapes ----------------------------------------------------------------------------------- */
static tr_status check_multiple(const tr_infer *io, int axis, int64_t of)
{
    const tr_shape x = io->in[X].shape;

    if (x.dim[axis] >= 0 && x.dim[axis] % of != 0)
        return tr_fail(TR_ESHAPE, "%s: dimension %d of X %s must be a multiple of %lld", io->type, axis, TR_SHAPE_STR(x),
                       (long long)of);
    return TR_OK;
}

static int64_t times(int64_t dim, int64_t factor) { return dim < 0 ? -1 : tr_size_mul(dim, factor); }
static int64_t over(int64_t dim, int64_t divisor) { return dim < 0 ? -1 : dim / divisor; }

static tr_status infer_pixel(const tr_infer *io)
{
    const int64_t  r = ((const pixel_attrs *)io->attrs)->upscale_factor;
    const tr_shape x = io->in[X].shape;

    TR_TRY(check_multiple(io, 1, r * r));
    io->out[OUT] = tr_meta_dense(io->in[X].dtype, TR_SHAPE(x.dim[0], over(x.dim[1], r * r), times(x.dim[2], r), times(x.dim[3], r)));
    return TR_OK;
}

static tr_status infer_channel(const tr_infer *io)
{
    return check_multiple(io, 1, ((const channel_attrs *)io->attrs)->group);
}

static tr_status infer_space(const tr_infer *io)
{
    const int64_t  b = ((const space_attrs *)io->attrs)->blocksize;
    const tr_shape x = io->in[X].shape;

    TR_TRY(check_multiple(io, 1, b * b));
    TR_TRY(check_multiple(io, 2, b));
    TR_TRY(check_multiple(io, 3, b));
    io->out[OUT] = tr_meta_dense(io->in[X].dtype, TR_SHAPE(x.dim[0], times(x.dim[1], b * b), over(x.dim[2], b), over(x.dim[3], b)));
    return TR_OK;
}

/* -- kernels ---------------------------------------------------------------------------------- */

/* X seen with more dimensions, and how they move. */
typedef struct view {
    int     rank, perm[6];
    int64_t dim[6];
} view;

static view pixel_view(const tr_shape *x, const void *attrs)
{
    const int64_t r = ((const pixel_attrs *)attrs)->upscale_factor;
    return (view){6, {0, 1, 4, 2, 5, 3}, {x->dim[0], x->dim[1] / (r * r), r, r, x->dim[2], x->dim[3]}};
}

static view channel_view(const tr_shape *x, const void *attrs)
{
    const int64_t groups = ((const channel_attrs *)attrs)->group;
    return (view){4, {0, 2, 1, 3}, {x->dim[0], groups, x->dim[1] / groups, x->dim[2] * x->dim[3]}};
}

static view space_view(const tr_shape *x, const void *attrs)
{
    const int64_t b = ((const space_attrs *)attrs)->blocksize;
    return (view){6, {0, 3, 4, 1, 5, 2}, {x->dim[0], b, b, x->dim[1] / (b * b), x->dim[2], x->dim[3]}};
}

static void move(tr_tensor *out, const tr_tensor *x, const view *v)
{
    tr_transpose(out->data, x->data, v->rank, v->dim, v->perm, tr_dtype_size(x->dtype));
}

static void move_back(tr_tensor *dx, const tr_tensor *dout, const view *v)
{
    view back = {.rank = v->rank};

    for (int i = 0; i < v->rank; i++) {
        back.dim[i] = v->dim[v->perm[i]];
        back.perm[v->perm[i]] = i;
    }
    move(dx, dout, &back);
}

/* -- gradients and registration ----------------------------------------------------------------- */
#define SHUFFLE(type_, proto_, infer_, view_)                                                                  \
    static tr_status run_##type_(const tr_run *io)                                                             \
    {                                                                                                          \
        const view v = view_(&io->in[X]->shape, io->attrs);                                                    \
        move(io->out[OUT], io->in[X], &v);                                                                     \
        return TR_OK;                                                                                          \
    }                                                                                                          \
    static tr_status run_##type_##_grad(const tr_run *io)                                                      \
    {                                                                                                          \
        const view v = view_(&io->in[G_X]->shape, io->attrs);                                                  \
        move_back(io->out[G_DX], io->in[G_DOUT], &v);                                                          \
        return TR_OK;                                                                                          \
    }                                                                                                          \
    static const tr_grad_rule type_##_rule = {                                                                 \
        .op = #type_ "_grad", .reads = {TR_IN_SHAPE(X), TR_DOUT(OUT)}, .makes = {TR_DIN(X)},                   \
        .second = tr__second_linear,                                                                                   \
    };                                                                                                         \
    TR_REGISTER_OP(type_, .locality = TR_ROWWISE, .proto = &proto_, .infer = infer_, .run = run_##type_, .grad = &type_##_rule);       \
    TR_REGISTER_OP(type_##_grad, .locality = TR_ROWWISE, .grad_of = &tr_op_record_##type_, .run = run_##type_##_grad)

SHUFFLE(pixel_shuffle, pixel_proto, infer_pixel, pixel_view);
SHUFFLE(shuffle_channel, channel_proto, infer_channel, channel_view);
SHUFFLE(space_to_depth, space_proto, infer_space, space_view);
