/* spp.c - spatial pyramid pooling: pools of 1, 4, 16, ... windows that cover an image of any size. (He et al., 2014) And spp_take, the
 * gradient of its gradient.
 *
 * Level l has 2^l x 2^l windows of ceil(extent / 2^l) elements; what they cover beyond the image is as padding on both sides.
 * A window of padding alone gives 0. Backward: a maximum's gradient goes to the first element that equals it, an
 * average's to all. spp_take takes from another tensor what spp has taken from X: which elements are the largest is a constant. */
#ifndef T

#include <math.h>
#include <string.h>

#include "framework/base/size.h"
#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"
#include "framework/gradients/grad_second.h"
#include "framework/threads/threadpool.h"
#include "kernels/base/check.h"

/* -- interface ------------------------------------------------------------------------------ */
enum { X };
enum { OUT };
enum { G_X, G_OUT, G_DOUT };
enum { G_DX };
enum { T_FROM = 2 };                              /* of spp_take: after X and Out */
enum { TG_DOUT = 3 };                              /* of its gradient: after X, Out and From */

typedef struct attrs {
    int32_t pyramid_height;
    enum { POOL_MAX, POOL_AVERAGE } pooling_type;
} attrs;

static const tr_attr_def attr_defs[] = {
    TR_ATTR(attrs, pyramid_height, INT, "how many levels", .required = true, .range = TR_BETWEEN(1, 12)),
    TR_ATTR(attrs, pooling_type, STRING, "what to take of a window", .required = true,
            .range = TR_ONE_OF({"max", POOL_MAX}, {"avg", POOL_AVERAGE})),
    {.name = NULL},
};

static const tr_op_proto proto = {
    .doc = "The maxima or averages of 1, 4, 16, ... windows of each channel, level by level.",
    .in = TR_SLOTS(TR_SLOT("X", "[batch, channels, height, width]", " float")),
    .out = TR_SLOTS({"Out", "[batch, channels (4^pyramid_height - 1) / 3]; of each level all channels, row by row"}),
    .attr = attr_defs, .attrs_size = sizeof(attrs),
};

static const tr_op_proto take_proto = {
    .doc = "Takes from From what spp has taken from X: the elements at the places of the largest ones, or averages.",
    .in = TR_SLOTS(TR_SLOT("X", "[batch, channels, height, width]", " float"), {"Out", "of spp"},
                   TR_SLOT("From", "[batch, channels, height, width]", "")),
    .out = TR_SLOTS({"Taken", "like Out"}),
    .attr = attr_defs, .attrs_size = sizeof(attrs),
};

/* Windows of all levels below `level`. */
static int64_t windows_before(int level) { return (((int64_t)1 << 2 * level) - 1) / 3; }

/* -- shapes ----------------------------------------------------------------------------------- */
static tr_status infer(const tr_infer *io)
{
    const attrs   *a = io->attrs;
    const tr_shape x = io->in[X].shape;

    const int64_t width = x.dim[1] < 0 ? -1 : tr_size_mul(x.dim[1], windows_before(a->pyramid_height));
    io->out[OUT] = tr_meta_dense(io->in[X].dtype, TR_SHAPE(x.dim[0], width));
    return TR_OK;
}

static tr_status infer_take(const tr_infer *io)
{
    TR_TRY(infer(io));
    return tr__check_shape(io, "Out", &io->in[G_OUT], &io->out[OUT].shape);
}

/* -- kernels ---------------------------------------------------------------------------------- */

/* Window `o` of `windows` along an axis of n elements: [begin, end), perhaps empty. */
static void window_of(int64_t *begin, int64_t *end, int64_t n, int64_t windows, int64_t o)
{
    const int64_t size = (n + windows - 1) / windows, pad = (size * windows - n + 1) / 2;

    *begin = o * size - pad > 0 ? o * size - pad : 0;
    *end = (o + 1) * size - pad < n ? (o + 1) * size - pad : n;
}

#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ---------------------------------------------------------------- */
static tr_status back(tr_composite *c)
{
    const attrs *a = tr_composite_attrs(c);

    return tr_composite_add(c, "spp_take_grad(X=X, Out=Out, From=X, Taken@GRAD=Out@GRAD) {pyramid_height=%d, pooling_type=%s} -> From@GRAD=X@GRAD",
                            a->pyramid_height, a->pooling_type == POOL_MAX ? "max" : "avg");
}

static const tr_grad_rule grad = {
    .op = "spp_grad", .reads = {TR_IN(X), TR_OUT(OUT), TR_DOUT(OUT)}, .makes = {TR_DIN(X)}, .second = tr__second_body, .body = back,
};
static const tr_grad_rule take_grad = {
    .op = "spp_take_grad", .reads = {TR_IN(X), TR_IN(G_OUT), TR_IN_SHAPE(T_FROM), TR_DOUT(OUT)}, .makes = {TR_DIN(T_FROM)},
    .second = tr__second_linear,
};
TR_REGISTER_OP(spp_take, .locality = TR_ROWWISE, .proto = &take_proto, .infer = infer_take, .kernels = TR_FLOAT_KERNELS(spp_take), .grad = &take_grad);
TR_REGISTER_OP(spp_take_grad, .locality = TR_ROWWISE, .grad_of = &tr_op_record_spp_take, .kernels = TR_FLOAT_KERNELS(spp_take_grad));
TR_REGISTER_OP(spp, .locality = TR_ROWWISE, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(spp), .grad = &grad);
TR_REGISTER_OP(spp_grad, .locality = TR_ROWWISE, .grad_of = &tr_op_record_spp, .kernels = TR_FLOAT_KERNELS(spp_grad));

#else /* the kernels, for each T */

typedef struct {
    const attrs *a;
    const T     *x, *out, *d, *from;              /* from: where spp_take takes; otherwise x */
    T           *to;
    int64_t      channels, height, width;
} NAME(job);

/* A window of a plane. */
typedef struct {
    int64_t top, bottom, left, right;
} NAME(box);

/* The value of a window of a plane at `at`, of which `out` is the largest element. */
static T NAME(take)(const NAME(job) *j, int64_t at, const NAME(box) *b, const T *out)
{
    const bool is_max = j->a->pooling_type == POOL_MAX;
    const T    count = (T)((b->bottom - b->top) * (b->right - b->left)), *plane = j->x + at, *from = j->from + at;
    T          value = is_max ? -(T)INFINITY : 0;

    if (b->bottom <= b->top || b->right <= b->left)
        return 0;
    for (int64_t y = b->top; y < b->bottom; y++)
        for (int64_t i = y * j->width + b->left; i < y * j->width + b->right; i++) {
            if (!is_max)
                value += from[i];
            else if (out && plane[i] == *out)
                return from[i];
            else
                value = plane[i] > value || plane[i] != plane[i] ? plane[i] : value;
        }
    return !is_max ? value / count : out ? 0 : value;
}

static void NAME(give)(const NAME(job) *j, T *dplane, const T *plane, T value, T d, const NAME(box) *b)
{
    const bool is_max = j->a->pooling_type == POOL_MAX;
    const T    count = (T)((b->bottom - b->top) * (b->right - b->left));

    for (int64_t y = b->top; y < b->bottom; y++)
        for (int64_t i = y * j->width + b->left; i < y * j->width + b->right; i++) {
            if (!is_max)
                dplane[i] += d / count;
            if (!is_max || plane[i] != value)
                continue;
            dplane[i] += d;
            return;
        }
}

/* All windows of plane p: their values into Out, or their gradients into the plane's. */
static void NAME(plane)(const NAME(job) *j, int64_t p, bool gradient)
{
    const int64_t size = j->height * j->width, n = p / j->channels, c = p % j->channels;
    const int64_t row = n * j->channels * windows_before(j->a->pyramid_height);

    for (int level = 0; level < j->a->pyramid_height; level++) {
        const int64_t across = (int64_t)1 << level, first = row + j->channels * windows_before(level) + c * across * across;
        for (int64_t o = 0; o < across * across; o++) {
            NAME(box) b;
            window_of(&b.top, &b.bottom, j->height, across, o / across);
            window_of(&b.left, &b.right, j->width, across, o % across);
            if (gradient)
                NAME(give)(j, j->to + p * size, j->x + p * size, j->out[first + o], j->d[first + o], &b);
            else
                j->to[first + o] = NAME(take)(j, p * size, &b, j->out ? &j->out[first + o] : NULL);
        }
    }
}

static void NAME(take_range)(void *payload, int64_t begin, int64_t end)
{
    for (int64_t p = begin; p < end; p++)
        NAME(plane)(payload, p, false);
}

static void NAME(give_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;

    memset(j->to + begin * j->height * j->width, 0, (size_t)((end - begin) * j->height * j->width) * sizeof(T));
    for (int64_t p = begin; p < end; p++)
        NAME(plane)(payload, p, true);
}

static NAME(job) NAME(job_of)(const tr_run *io, const tr_tensor *x)
{
    return (NAME(job)){.a = io->attrs, .x = x->data, .from = x->data, .channels = x->shape.dim[1], .height = x->shape.dim[2], .width = x->shape.dim[3]};
}

static void NAME(run_planes)(const tr_tensor *x, tr_range_fn fn, NAME(job) *j)
{
    const int64_t work = j->height * j->width * j->a->pyramid_height + windows_before(j->a->pyramid_height);

    tr_parallel_range(x->shape.dim[0] * x->shape.dim[1], 1 + 16384 / work, fn, j);
}

static tr_status NAME(spp)(const tr_run *io)
{
    NAME(job) j = NAME(job_of)(io, io->in[X]);

    j.to = io->out[OUT]->data;
    NAME(run_planes)(io->in[X], NAME(take_range), &j);
    return TR_OK;
}

static tr_status NAME(spp_take)(const tr_run *io)
{
    NAME(job) j = NAME(job_of)(io, io->in[X]);

    j.to = io->out[OUT]->data;
    j.out = io->in[G_OUT]->data;
    j.from = io->in[T_FROM]->data;
    NAME(run_planes)(io->in[X], NAME(take_range), &j);
    return TR_OK;
}

static void NAME(give_back)(const tr_run *io, const tr_tensor *dout)
{
    NAME(job) j = NAME(job_of)(io, io->in[G_X]);

    j.to = io->out[G_DX]->data;
    j.out = io->in[G_OUT]->data;
    j.d = dout->data;
    NAME(run_planes)(io->in[G_X], NAME(give_range), &j);
}

static tr_status NAME(spp_grad)(const tr_run *io)
{
    NAME(give_back)(io, io->in[G_DOUT]);
    return TR_OK;
}

static tr_status NAME(spp_take_grad)(const tr_run *io)
{
    NAME(give_back)(io, io->in[TG_DOUT]);
    return TR_OK;
}

#endif
