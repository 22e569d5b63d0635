/* softmax.c - Out = exp(X) / sum(exp(X)) along one axis.
 *
 * Backward: dX = Out * (dOut - sum(Out * dOut)). It does not read X, so Out may lie in X's memory. An axis
 * other than the last is brought to the end and back: the functions work on rows. */
#ifndef T

#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"
#include "kernels/base/cut.h"
#include "kernels/math/arrays/softmax.h"
#include "kernels/math/arrays/transpose.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { X };
enum { OUT };
enum { G_OUT, G_DOUT };
enum { G_DX };

typedef struct attrs {
    int32_t axis;
} attrs;

static const tr_op_proto proto = {
    .doc = "Makes the numbers along `axis` positive with the sum 1: Out = exp(X) / sum(exp(X)).",
    .in = TR_SLOTS(TR_SLOT("X", "[n, ...]", " float")),
    .out = TR_SLOTS(TR_SLOT("Out", "like X", "; may share X's memory")),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, axis, INT, "the axis whose numbers sum up to 1; negative counts from the end",
                               .number = -1, .axis_of = "X"),
                       TR_ATTR_IGNORED("use_cudnn", BOOL), TR_ATTR_IGNORED("data_format", STRING, .text = "AnyLayout"),
                       TR_ATTR_IGNORED("use_mkldnn", BOOL), TR_ATTR_IGNORED("is_test", BOOL)),
};

/* [pre][n][post] -> [pre][post][n] */
static void axis_to_end(void *out, const void *x, const tr_cut *c, int64_t item_size)
{
    tr_transpose(out, x, 3, (const int64_t[]){c->pre, c->n, c->post}, (const int[]){0, 2, 1}, item_size);
}

static void axis_from_end(void *out, const void *x, const tr_cut *c, int64_t item_size)
{
    tr_transpose(out, x, 3, (const int64_t[]){c->pre, c->post, c->n}, (const int[]){0, 2, 1}, item_size);
}

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------- */
/* dX = Out (dOut - sum of Out dOut) */
static tr_status slope(tr_composite *c)
{
    const int axis = ((const attrs *)tr_composite_attrs(c))->axis;

    TR_TRY(tr_composite_add(c, "elementwise_mul(X=Out@GRAD, Y=Out) -> weighted"));
    TR_TRY(tr_composite_add(c, "reduce_sum(X=weighted) {dim=[%d], keep_dim=true} -> total", axis));
    TR_TRY(tr_composite_add(c, "reduce_sum_grad(X=weighted, Out=total, Out@GRAD=total) {dim=[%d], keep_dim=true} -> spread", axis));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=Out, Y=spread) -> drawn"));
    return tr_composite_add(c, "elementwise_sub(X=weighted, Y=drawn) -> X@GRAD");
}

static const tr_grad_rule grad = {
    .op = "softmax_grad",
    .reads = {TR_OUT(OUT), TR_DOUT(OUT)},
    .makes = {TR_DIN(X)},
    .second = tr__second_body,
    .body = slope,
};

TR_REGISTER_OP(softmax, .proto = &proto, .kernels = TR_FLOAT_KERNELS(softmax), .grad = &grad,
               .inplace = {{X, OUT}}, .inplace_count = 1);
TR_REGISTER_OP(softmax_grad, .grad_of = &tr_op_record_softmax, .kernels = TR_FLOAT_KERNELS(softmax_grad), .inplace = {{G_DOUT, G_DX}}, .inplace_count = 1);

#else /* the kernels, for each T */

static tr_status NAME(softmax)(const tr_run *io)
{
    const attrs *a = io->attrs;
    const T     *x = io->in[X]->data;
    T           *out = io->out[OUT]->data;
    const tr_cut c = tr__cut_at(&io->in[X]->shape, a->axis);
    T           *rows;

    if (c.post == 1) {
        NAME(tr_softmax)(out, x, c.pre, c.n);
        return TR_OK;
    }
    TR_TRY(tr_run_scratch((void **)&rows, io, (size_t)(c.pre * c.n * c.post) * sizeof(T)));
    axis_to_end(rows, x, &c, sizeof(T));
    NAME(tr_softmax)(rows, rows, c.pre * c.post, c.n);
    axis_from_end(out, rows, &c, sizeof(T));
    return TR_OK;
}

static tr_status NAME(softmax_grad)(const tr_run *io)
{
    const attrs  *a = io->attrs;
    const T      *out = io->in[G_OUT]->data, *dout = io->in[G_DOUT]->data;
    const tr_cut  c = tr__cut_at(&io->in[G_OUT]->shape, a->axis);
    const int64_t count = c.pre * c.n * c.post;
    T            *dx = io->out[G_DX]->data, *rows;

    if (c.post == 1) {
        NAME(tr_softmax_grad)(dx, dout, out, c.pre, c.n);
        return TR_OK;
    }
    TR_TRY(tr_run_scratch((void **)&rows, io, 2 * (size_t)count * sizeof(T)));
    axis_to_end(rows, out, &c, sizeof(T));
    axis_to_end(rows + count, dout, &c, sizeof(T));
    NAME(tr_softmax_grad)(rows + count, rows + count, rows, c.pre * c.post, c.n);
    axis_from_end(dx, rows + count, &c, sizeof(T));
    return TR_OK;
}

#endif
