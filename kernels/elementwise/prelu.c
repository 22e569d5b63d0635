/* prelu.c - like relu, but with a slope for what is below 0 that is learnt:  Out = X > 0 ? X : Alpha X. (He et al., 2015)
 *
 * Alpha is one number (mode all), one for each channel (channel), or one for each element of a sample (element).
 * Backward: dX = X > 0 ? dOut : Alpha dOut, and dAlpha is the sum of dOut min(X, 0) over what a number was used for. */
#ifndef T

#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"
#include "framework/threads/threadpool.h"
#include "kernels/base/check.h"
#include "kernels/base/cut.h"
#include "kernels/math/arrays/elementwise.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { X, ALPHA };
enum { OUT };
enum { G_X, G_ALPHA, G_DOUT };
enum { G_DX, G_DALPHA };

typedef struct attrs {
    enum { ALL, CHANNEL, ELEMENT } mode;
} attrs;

static const tr_op_proto proto = {
    .doc = "Out = X > 0 ? X : Alpha X.",
    .in = TR_SLOTS({"X", "[batch, ...] float; with mode channel [batch, channels, ...]"},
                   {"Alpha", "one element; as many as channels; or as many as a sample has elements; of any shape"}),
    .out = TR_SLOTS(TR_SLOT("Out", "like X", "")),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, mode, STRING, "what has a slope of its own", .text = "all",
                               .range = TR_ONE_OF({"all", ALL}, {"channel", CHANNEL}, {"element", ELEMENT}))),
};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status infer(const tr_infer *io)
{
    const attrs   *a = io->attrs;
    const tr_shape x = io->in[X].shape;

    TR_TRY(tr__check_min_rank(io, "X", &io->in[X], a->mode == CHANNEL ? 2 : 1));
    const int64_t wanted = a->mode == ALL ? 1 : a->mode == CHANNEL ? x.dim[1] : tr_shape_product(&x, 1, x.rank);
    const int64_t given = tr_shape_numel(&io->in[ALPHA].shape);
    if (wanted >= 0 && given >= 0 && wanted != given)
        return tr_fail(TR_ESHAPE, "%s: X is %s, so Alpha must have %lld elements; got %s, which has %lld", io->type, TR_SHAPE_STR(x),
                       (long long)wanted, TR_SHAPE_STR(io->in[ALPHA].shape), (long long)given);
    return TR_OK;
}

/* X as [pre][n][post], n being the slopes. */
static tr_cut cut_of(const attrs *a, const tr_shape *x)
{
    if (a->mode == CHANNEL)
        return tr__cut_at(x, 1);
    return a->mode == ALL ? (tr_cut){1, 1, tr_shape_numel(x)} : (tr_cut){x->dim[0], tr_shape_product(x, 1, x->rank), 1};
}

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------- */
static tr_status parts(tr_composite *c)
{
    const attrs *a = tr_composite_attrs(c);

    TR_TRY(tr_composite_add(c, "relu(X=X) -> above"));
    TR_TRY(tr_composite_add(c, "elementwise_sub(X=X, Y=above) -> below"));
    TR_TRY(tr_composite_add(c, "reshape(X=Alpha) {shape=[-1]} -> slopes"));
    if (a->mode != ELEMENT) {
        TR_TRY(tr_composite_add(c, "elementwise_mul(X=below, Y=slopes) {axis=%d} -> bent", a->mode == CHANNEL ? 1 : -1));
    } else {
        TR_TRY(tr_composite_add(c, "flatten(X=below) {axis=1} -> rows"));
        TR_TRY(tr_composite_add(c, "elementwise_mul(X=rows, Y=slopes) {axis=1} -> bent_rows"));
        TR_TRY(tr_composite_add(c, "flatten_grad(X=X, Out@GRAD=bent_rows) {axis=1} -> bent"));
    }
    return tr_composite_add(c, "elementwise_add(X=above, Y=bent) -> Out");
}

static const tr_grad_rule grad = {
    .op = "prelu_grad", .reads = {TR_IN(X), TR_IN(ALPHA), TR_DOUT(OUT)}, .makes = {TR_DIN(X), TR_DIN(ALPHA)},
    .second = tr__second_body, .parts = parts,
};
TR_REGISTER_OP(prelu, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(prelu), .grad = &grad,
               .inplace = {{X, OUT}}, .inplace_count = 1);
TR_REGISTER_OP(prelu_grad, .grad_of = &tr_op_record_prelu, .kernels = TR_FLOAT_KERNELS(prelu_grad));

#else /* the kernels, for each T */

typedef struct {
    T       *to;
    const T *x, *alpha, *from;           /* to = x > 0 ? from : alpha from */
    tr_cut   cut;
} NAME(job);

static void NAME(bend_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;

    for (int64_t i = begin; i < end; i++) {
        const T slope = j->alpha[i / j->cut.post % j->cut.n];
        j->to[i] = j->x[i] > 0 ? j->from[i] : slope * j->from[i];
    }
}

static void NAME(below_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;

    for (int64_t i = begin; i < end; i++)
        j->to[i] = j->x[i] > 0 ? 0 : j->x[i];
}

static tr_status NAME(prelu)(const tr_run *io)
{
    const tr_tensor *x = io->in[X];
    NAME(job)        j = {.to = io->out[OUT]->data, .x = x->data, .from = x->data, .alpha = io->in[ALPHA]->data,
                          .cut = cut_of(io->attrs, &x->shape)};

    tr_parallel_range(tr_tensor_count(x), 8192, NAME(bend_range), &j);
    return TR_OK;
}

static tr_status NAME(prelu_grad)(const tr_run *io)
{
    const tr_tensor *x = io->in[G_X];
    const int64_t    count = tr_tensor_count(x);
    NAME(job)        j = {.x = x->data, .from = io->in[G_DOUT]->data, .alpha = io->in[G_ALPHA]->data, .cut = cut_of(io->attrs, &x->shape)};

    if (io->out[G_DX]) {
        j.to = io->out[G_DX]->data;
        tr_parallel_range(count, 8192, NAME(bend_range), &j);
    }
    if (io->out[G_DALPHA]) {
        TR_TRY(tr_run_scratch((void **)&j.to, io, (size_t)count * sizeof(T)));
        tr_parallel_range(count, 8192, NAME(below_range), &j);
        NAME(tr_binary_grad)(TR_BINARY_MUL, NULL, io->out[G_DALPHA]->data, j.from, j.to, j.alpha, j.cut.pre, j.cut.n, j.cut.post);
    }
    return TR_OK;
}

#endif
