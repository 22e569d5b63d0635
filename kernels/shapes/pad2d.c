/* pad2d.c - rows and columns around images: of one value, the nearest pixel's, or those of the image reflected.
 *
 * Each row and each column of Out has a source in X, or none. Backward: a pixel's gradient is the sum over the pixels that it
 * is the source of. */
#ifndef T

#include <string.h>

#include "framework/base/size.h"
#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"
#include "framework/gradients/grad_second.h"
#include "framework/threads/threadpool.h"

/* -- interface ------------------------------------------------------------------------------ */
enum { X, PADDINGS };
enum { OUT };
enum { G_X, G_PADDINGS, G_DOUT };
enum { G_DX };

typedef struct attrs {
    tr_ints paddings;
    float   pad_value;
    enum { MODE_CONSTANT, MODE_REFLECT, MODE_EDGE } mode;
    enum { NCHW, NHWC } data_format;
} attrs;

enum { TOP, BOTTOM, LEFT, RIGHT, SIDES };

static const tr_op_proto proto = {
    .doc = "Images with rows and columns added.",
    .in = TR_SLOTS(TR_SLOT("X", "[batch, channels, height, width]", " float, or as data_format says"),
                   TR_SLOT("Paddings", "[4]", " int32, instead of the attribute", TR_SLOT_OPTIONAL | TR_SLOT_INT32)),
    .out = TR_SLOTS({"Out", "X with more rows and columns"}),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, paddings, INTS, "[top, bottom, left, right]", .text = "0, 0, 0, 0", .range = TR_AT_LEAST(0)),
                       TR_ATTR(attrs, pad_value, FLOAT, "what is added, in mode constant"),
                       TR_ATTR(attrs, mode, STRING, "a value, the image reflected without its edge, or its edge repeated",
                               .text = "constant",
                               .range = TR_ONE_OF({"constant", MODE_CONSTANT}, {"reflect", MODE_REFLECT}, {"edge", MODE_EDGE})),
                       TR_ATTR(attrs, data_format, STRING, "where the channels are", .text = "NCHW",
                               .range = TR_ONE_OF({"NCHW", NCHW}, {"NHWC", NHWC}))),
};

static tr_status check(const void *attrs_)
{
    const attrs *a = attrs_;

    if (a->paddings.count != SIDES && a->paddings.count != 0)
        return tr_fail(TR_EINVAL, "pad2d: paddings must be four numbers, [top, bottom, left, right]; got %d", a->paddings.count);
    return TR_OK;
}

/* -- shapes ----------------------------------------------------------------------------------- */

/* The dimension that is the height. */
static int height_axis(const attrs *a) { return a->data_format == NCHW ? 2 : 1; }

/* Out's extent, where X's and the paddings are known. */
static tr_status extent(int64_t *out, const attrs *a, const tr_shape *x, int side, const int32_t *paddings)
{
    const int64_t in = x->dim[height_axis(a) + side / 2], before = paddings[side], behind = paddings[side + 1];

    *out = -1;
    if (before < 0 || behind < 0)
        return tr_fail(TR_ERANGE, "pad2d: Paddings [%d, %d, %d, %d] must not be negative", paddings[TOP], paddings[BOTTOM],
                       paddings[LEFT], paddings[RIGHT]);
    if (in < 0)
        return TR_OK;
    const int64_t most = a->mode == MODE_CONSTANT ? INT32_MAX : in < 1 ? 0 : a->mode == MODE_EDGE ? INT32_MAX : in - 1;
    if (before > most || behind > most)
        return tr_fail(TR_ESHAPE, "pad2d: paddings %lld and %lld of X %s in mode %s must be at most %lld", (long long)before,
                       (long long)behind, TR_SHAPE_STR(*x), a->mode == MODE_EDGE ? "edge" : "reflect", (long long)most);
    *out = tr_size_add(in, before + behind);
    return TR_OK;
}

static tr_status infer(const tr_infer *io)
{
    const attrs   *a = io->attrs;
    const tr_shape x = io->in[X].shape;
    const int      height = height_axis(a);
    tr_shape       out = x;

    if (io->in[PADDINGS].kind != TR_KIND_NONE) {
        out.dim[height] = out.dim[height + 1] = -1;
    } else {
        if (a->paddings.count == 0)
            return tr_fail(TR_EINVAL, "pad2d: there are neither paddings, four numbers, nor the input Paddings");
        TR_TRY(extent(&out.dim[height], a, &x, TOP, a->paddings.item));
        TR_TRY(extent(&out.dim[height + 1], a, &x, LEFT, a->paddings.item));
    }
    io->out[OUT] = tr_meta_dense(io->in[X].dtype, out);
    return TR_OK;
}

/* -- kernels ---------------------------------------------------------------------------------- */

/* X is [planes][in[0]][in[1]][inner], Out has `out`. */
typedef struct work {
    const attrs *a;
    int64_t      planes, in[2], out[2], inner;
    int32_t      before[2];
} work;

static work work_of(const attrs *a, const tr_shape *x, const tr_shape *out, const tr_tensor *paddings)
{
    const int32_t *sides = paddings ? paddings->data : a->paddings.item;
    const int      height = height_axis(a);

    return (work){.a = a, .planes = tr_shape_product(x, 0, height), .in = {x->dim[height], x->dim[height + 1]},
                  .out = {out->dim[height], out->dim[height + 1]}, .inner = tr_shape_product(x, height + 2, 4),
                  .before = {sides[TOP], sides[LEFT]}};
}

/* The row (axis 0) or column (axis 1) of X that place `o` of Out shows; -1: none. */
static int64_t source(const work *w, int axis, int64_t o)
{
    const int64_t at = o - w->before[axis], last = w->in[axis] - 1;

    if (at >= 0 && at <= last)
        return at;
    if (w->a->mode == MODE_CONSTANT)
        return -1;
    if (w->a->mode == MODE_EDGE)
        return at < 0 ? 0 : last;
    return at < 0 ? -at : 2 * last - at;
}

static int64_t planes_of_slice(const work *w)
{
    const int64_t items = w->out[0] * w->out[1] * w->inner;
    return 1 + 16384 / (items > 0 ? items : 1);
}

#include "kernels/math/tools/each_float.h"

/* Out's shape from Paddings, which may hold anything. */
static tr_status resize(const tr_run *io)
{
    const attrs   *a = io->attrs;
    const tr_shape x = io->in[X]->shape;
    const int      height = height_axis(a);
    tr_shape       out = x;

    TR_TRY(extent(&out.dim[height], a, &x, TOP, io->in[PADDINGS]->data));
    TR_TRY(extent(&out.dim[height + 1], a, &x, LEFT, io->in[PADDINGS]->data));
    return tr_run_resize(io, OUT, 0, io->in[X]->dtype, &out);
}

static tr_status check_grad(const tr_run *io)
{
    const attrs   *a = io->attrs;
    const tr_shape x = io->in[G_X]->shape, dout = io->in[G_DOUT]->shape;
    const int      height = height_axis(a);
    int64_t        rows, columns;

    TR_TRY(extent(&rows, a, &x, TOP, io->in[G_PADDINGS]->data));
    TR_TRY(extent(&columns, a, &x, LEFT, io->in[G_PADDINGS]->data));
    if (rows != dout.dim[height] || columns != dout.dim[height + 1])
        return tr_fail(TR_ESHAPE, "pad2d_grad: Paddings make [%lld, %lld] of X %s, but Out@GRAD is %s", (long long)rows,
                       (long long)columns, TR_SHAPE_STR(x), TR_SHAPE_STR(dout));
    return TR_OK;
}

static tr_status pad2d_f32(const tr_run *io)
{
    TR_TRY(io->in[PADDINGS] ? resize(io) : TR_OK);
    return pad_f32(io);
}

static tr_status pad2d_f64(const tr_run *io)
{
    TR_TRY(io->in[PADDINGS] ? resize(io) : TR_OK);
    return pad_f64(io);
}

static tr_status pad2d_grad_f32(const tr_run *io)
{
    TR_TRY(io->in[G_PADDINGS] ? check_grad(io) : TR_OK);
    return pad_grad_f32(io);
}

static tr_status pad2d_grad_f64(const tr_run *io)
{
    TR_TRY(io->in[G_PADDINGS] ? check_grad(io) : TR_OK);
    return pad_grad_f64(io);
}

/* -- gradient and registration ---------------------------------------------------------------- */
/* Zeros are added to a gradient, whatever value is added to X. */
static tr_status without_value(tr_composite *c)
{
    const attrs *a = tr_composite_attrs(c);

    return tr_composite_add(c, "pad2d_grad(X=X, Paddings=Paddings, Out@GRAD=Out@GRAD) {paddings=[%s], data_format=%s} -> X@GRAD=X@GRAD",
                            tr_composite_ints(c, &a->paddings), a->data_format == NCHW ? "NCHW" : "NHWC");
}

static tr_status make_second(tr_grad_maker *maker)
{
    const tr_op_desc *op = tr_grad_forward(maker);
    const char       *mode = tr_op_desc_attr_string(op, "mode", 0, NULL);
    const bool        is_linear = tr_op_desc_attr_float(op, "pad_value", 0) == 0 || (mode && strcmp(mode, "constant") != 0);

    return is_linear ? tr__second_linear(maker) : tr__second_body(maker);
}

static const tr_grad_rule grad = {
    .op = "pad2d_grad", .reads = {TR_IN_SHAPE(X), TR_IN(PADDINGS), TR_DOUT(OUT)}, .makes = {TR_DIN(X)},
    .second = make_second, .body = without_value,
};
TR_REGISTER_OP(pad2d, .locality = TR_ROWWISE, .proto = &proto, .check = check, .infer = infer, .kernels = TR_FLOAT_KERNELS(pad2d), .grad = &grad);
TR_REGISTER_OP(pad2d_grad, .locality = TR_ROWWISE, .grad_of = &tr_op_record_pad2d, .kernels = TR_FLOAT_KERNELS(pad2d_grad));

#else /* the kernels, for each T */

typedef struct {
    const work *w;
    T          *to;
    const T    *from;
} NAME(job);

static void NAME(pad_planes)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    const work      *w = j->w;
    const T          value = w->a->pad_value;

    for (int64_t row = begin * w->out[0]; row < end * w->out[0]; row++) {
        const int64_t plane = row / w->out[0], y = source(w, 0, row % w->out[0]);
        T            *to = j->to + row * w->out[1] * w->inner;
        for (int64_t o = 0; o < w->out[1]; o++, to += w->inner) {
            const int64_t x = source(w, 1, o);
            if (x >= 0 && y >= 0)
                memcpy(to, j->from + ((plane * w->in[0] + y) * w->in[1] + x) * w->inner, (size_t)w->inner * sizeof(T));
            else
                for (int64_t i = 0; i < w->inner; i++)
                    to[i] = value;
        }
    }
}

static void NAME(add_planes)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    const work      *w = j->w;
    const int64_t    plane_size = w->in[0] * w->in[1] * w->inner;

    memset(j->to + begin * plane_size, 0, (size_t)((end - begin) * plane_size) * sizeof(T));
    for (int64_t row = begin * w->out[0]; row < end * w->out[0]; row++) {
        const int64_t plane = row / w->out[0], y = source(w, 0, row % w->out[0]);
        const T      *from = j->from + row * w->out[1] * w->inner;
        for (int64_t o = 0; o < w->out[1]; o++, from += w->inner) {
            const int64_t x = source(w, 1, o);
            for (int64_t i = 0; x >= 0 && y >= 0 && i < w->inner; i++)
                j->to[((plane * w->in[0] + y) * w->in[1] + x) * w->inner + i] += from[i];
        }
    }
}

static tr_status NAME(pad)(const tr_run *io)
{
    const work w = work_of(io->attrs, &io->in[X]->shape, &io->out[OUT]->shape, io->in[PADDINGS]);
    NAME(job)  j = {&w, io->out[OUT]->data, io->in[X]->data};

    tr_parallel_range(w.planes, planes_of_slice(&w), NAME(pad_planes), &j);
    return TR_OK;
}

static tr_status NAME(pad_grad)(const tr_run *io)
{
    const work w = work_of(io->attrs, &io->in[G_X]->shape, &io->in[G_DOUT]->shape, io->in[G_PADDINGS]);
    NAME(job)  j = {&w, io->out[G_DX]->data, io->in[G_DOUT]->data};

    tr_parallel_range(w.planes, planes_of_slice(&w), NAME(add_planes), &j);
    return TR_OK;
}

#endif
