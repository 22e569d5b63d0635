/* norm.c - vectors along an axis, divided by their lengths:  Norm = sqrt(sum X^2 + epsilon), Out = X / Norm.
 *
 * Backward: dX = (dOut - Out sum(dOut Out)) / Norm. */
#ifndef T

#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"
#include "framework/threads/threadpool.h"
#include "kernels/base/check.h"
#include "kernels/base/cut.h"

#include <math.h>

/* -- interface -------------------------------------------------------------------------------- */
enum { X };
enum { NORM, OUT };
enum { G_NORM, G_OUT, G_DOUT };
enum { G_DX };

typedef struct attrs {
    int32_t axis;
    float   epsilon;
} attrs;

static const tr_op_proto proto = {
    .doc = "Divides vectors along an axis by their lengths: Out = X / sqrt(sum X^2 + epsilon).",
    .in = TR_SLOTS(TR_SLOT("X", "[n, ...]", " float")),
    .out = TR_SLOTS({"Norm", "like X, but 1 along the axis; the lengths", TR_SLOT_INTERMEDIATE}, TR_SLOT("Out", "like X", "")),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, axis, INT, "along which dimension; negative counts from the end", .required = true, .axis_of = "X"),
                       TR_ATTR(attrs, epsilon, FLOAT, "added to the sum of squares", .number = 1e-10, .range = TR_AT_LEAST(0))),
};

static tr_status infer(const tr_infer *io)
{
    tr_shape lengths = io->in[X].shape;

    lengths.dim[tr__axis(((const attrs *)io->attrs)->axis, &lengths)] = 1;
    io->out[NORM] = tr_meta_dense(io->in[X].dtype, lengths);
    return TR_OK;
}

/* The gradient does not read X, whose type and shape are Out's. */
static tr_status infer_grad(const tr_infer *io)
{
    const attrs *a = io->attrs;
    tr_shape     lengths = io->in[G_OUT].shape;
    int          axis;

    TR_TRY(tr__check_min_rank(io, "Out", &io->in[G_OUT], 1));
    TR_TRY(tr__check_axis(&axis, io, "axis", a->axis, lengths.rank));
    lengths.dim[axis] = 1;
    const tr_meta norm = tr_meta_dense(io->in[G_OUT].dtype, lengths);
    TR_TRY(tr__check_like(io, "Norm", &io->in[G_NORM], &norm));
    TR_TRY(tr__check_like(io, "Out@GRAD", &io->in[G_DOUT], &io->in[G_OUT]));
    return TR_OK;
}

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------- */
/* X@GRAD = (Out@GRAD - Out (sum of Out Out@GRAD)) / Norm */
static tr_status slope(tr_composite *c)
{
    const int axis = ((const attrs *)tr_composite_attrs(c))->axis;

    TR_TRY(tr_composite_add(c, "elementwise_mul(X=Out, Y=Out@GRAD) -> weighted"));
    TR_TRY(tr_composite_add(c, "reduce_sum(X=weighted) {dim=[%d], keep_dim=true} -> total", axis));
    TR_TRY(tr_composite_add(c, "reduce_sum_grad(X=Out, Out=total, Out@GRAD=total) {dim=[%d], keep_dim=true} -> spread", axis));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=Out, Y=spread) -> drawn"));
    TR_TRY(tr_composite_add(c, "elementwise_sub(X=Out@GRAD, Y=drawn) -> across"));
    TR_TRY(tr_composite_add(c, "reduce_sum_grad(X=Out, Out=Norm, Out@GRAD=Norm) {dim=[%d], keep_dim=true} -> lengths", axis));
    return tr_composite_add(c, "elementwise_div(X=across, Y=lengths) -> X@GRAD");
}

static tr_status length_part(tr_composite *c)
{
    const attrs *a = tr_composite_attrs(c);

    TR_TRY(tr_composite_add(c, "square(X=X) -> squares"));
    TR_TRY(tr_composite_add(c, "reduce_sum(X=squares) {dim=[%d], keep_dim=true} -> sum", a->axis));
    TR_TRY(tr_composite_add(c, "scale(X=sum) {bias=%.9g} -> padded", (double)a->epsilon));
    return tr_composite_add(c, "sqrt(X=padded) -> Norm");
}

static const tr_grad_rule grad = {
    .op = "norm_grad", .reads = {TR_OUT(NORM), TR_OUT(OUT), TR_DOUT(OUT)}, .makes = {TR_DIN(X)},
    .second = tr__second_body, .body = slope, .rest = tr__grad_by_parts, .parts = length_part,
};
TR_REGISTER_OP(norm, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(norm), .grad = &grad);
TR_REGISTER_OP(norm_grad, .grad_of = &tr_op_record_norm, .infer = infer_grad, .kernels = TR_FLOAT_KERNELS(norm_grad));

#else /* the kernels, for each T */

typedef struct {
    const T *x, *d;
    T       *to, *norm;
    T        epsilon;
    tr_cut   cut;
} NAME(job);

/* Lines [begin, end): one for each place before and after the axis. */
static void NAME(norm_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    const int64_t    step = j->cut.post;

    for (int64_t line = begin; line < end; line++) {
        const int64_t first = line / step * j->cut.n * step + line % step;
        double        sum = 0;
        for (int64_t i = 0; i < j->cut.n; i++)
            sum += (double)j->x[first + i * step] * (double)j->x[first + i * step];
        const T length = (T)sqrt(sum + (double)j->epsilon);
        if (j->norm)
            j->norm[line] = length;
        for (int64_t i = 0; i < j->cut.n; i++)
            j->to[first + i * step] = j->x[first + i * step] / length;
    }
}

/* x is Out, d its gradient. */
static void NAME(grad_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    const int64_t    step = j->cut.post;

    for (int64_t line = begin; line < end; line++) {
        const int64_t first = line / step * j->cut.n * step + line % step;
        double        sum = 0;
        for (int64_t i = 0; i < j->cut.n; i++)
            sum += (double)j->x[first + i * step] * (double)j->d[first + i * step];
        for (int64_t i = 0; i < j->cut.n; i++)
            j->to[first + i * step] = (j->d[first + i * step] - j->x[first + i * step] * (T)sum) / j->norm[line];
    }
}

static tr_status NAME(norm)(const tr_run *io)
{
    const attrs *a = io->attrs;
    NAME(job)    j = {.x = io->in[X]->data, .to = io->out[OUT]->data, .norm = io->out[NORM] ? io->out[NORM]->data : NULL,
                      .epsilon = (T)a->epsilon, .cut = tr__cut_at(&io->in[X]->shape, a->axis)};

    tr_parallel_range(j.cut.pre * j.cut.post, 1 + 16384 / (j.cut.n + 1), NAME(norm_range), &j);
    return TR_OK;
}

static tr_status NAME(norm_grad)(const tr_run *io)
{
    const attrs *a = io->attrs;
    NAME(job)    j = {.x = io->in[G_OUT]->data, .d = io->in[G_DOUT]->data, .norm = io->in[G_NORM]->data, .to = io->out[G_DX]->data,
                      .cut = tr__cut_at(&io->in[G_OUT]->shape, a->axis)};

    tr_parallel_range(j.cut.pre * j.cut.post, 1 + 16384 / (j.cut.n + 1), NAME(grad_range), &j);
    return TR_OK;
}

#endif
