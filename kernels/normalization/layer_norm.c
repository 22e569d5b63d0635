/* layer_norm.c - normalise each row over its elements, then scale and shift each column.
 *
 * The dimensions before begin_norm_axis make the rows, the others the columns. Backward reads X, Scale and the saved
 * Mean and Variance. */
#ifndef T

#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"
#include "framework/tensors/half.h"
#include "kernels/base/body_lines.h"
#include "kernels/base/check.h"
#include "kernels/base/shapes.h"
#include "kernels/math/arrays/norm.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { X, SCALE, BIAS };
enum { Y, MEAN, VARIANCE };
enum { G_X, G_SCALE, G_BIAS, G_MEAN, G_VARIANCE, G_DY };
enum { G_DX, G_DSCALE, G_DBIAS };

typedef struct attrs {
    float   epsilon;
    int32_t begin_norm_axis;
} attrs;

static const tr_op_proto proto = {
    .doc = "Y = (X - mean) / sqrt(variance + epsilon) * Scale + Bias for each row of X.",
    .in = TR_SLOTS({"X", "[rows..., columns...] float; rows are the dimensions before begin_norm_axis"},
                   {"Scale", "[columns]", TR_SLOT_OPTIONAL | TR_SLOT_WIDE}, {"Bias", "[columns]", TR_SLOT_OPTIONAL | TR_SLOT_WIDE}),
    .out = TR_SLOTS(TR_SLOT("Y", "like X", "; may share X's memory"), {"Mean", "[rows]", TR_SLOT_INTERMEDIATE | TR_SLOT_WIDE},
                    {"Variance", "[rows]", TR_SLOT_INTERMEDIATE | TR_SLOT_WIDE}),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, epsilon, FLOAT, "added to the variance", .number = 1e-5,
                               .range = TR_BETWEEN(0, 0.001)),
                       TR_ATTR(attrs, begin_norm_axis, INT, "the first dimension that belongs to the columns",
                               .number = 1, .range = TR_GREATER(0))),
};

static tr_status infer(const tr_infer *io)
{
    const attrs   *a = io->attrs;
    const tr_shape x = io->in[X].shape;

    if (a->begin_norm_axis >= x.rank)
        return tr_fail(TR_ESHAPE, "%s: begin_norm_axis is %d; it must be below the rank of X %s", io->type,
                       a->begin_norm_axis, TR_SHAPE_STR(x));
    const int64_t rows = tr_shape_product(&x, 0, a->begin_norm_axis);
    const int64_t columns = tr_shape_product(&x, a->begin_norm_axis, x.rank);
    if (io->in[SCALE].kind != TR_KIND_NONE)
        TR_TRY(tr__check_shape(io, "Scale", &io->in[SCALE], &TR_SHAPE(columns)));
    if (io->in[BIAS].kind != TR_KIND_NONE)
        TR_TRY(tr__check_shape(io, "Bias", &io->in[BIAS], &TR_SHAPE(columns)));
    io->out[MEAN] = tr_meta_dense(tr__kept_type(io->in[X].dtype), TR_SHAPE(rows));
    io->out[VARIANCE] = io->out[MEAN];
    return TR_OK;
}

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------- */

/* With share = 1 / sqrt(variance + epsilon), normal = (X - mean) share and d = dY Scale:
 *     dX = share (d - mean of d - normal (mean of d normal)),  dScale = sum of dY normal,  dBias = sum of dY. */
static tr_status add_normal(tr_composite *c, const attrs *a)
{
    TR_TRY(tr__add_wide(c, "X", "x.wide"));
    TR_TRY(tr__add_wide(c, "Y@GRAD", "dy.wide"));
    TR_TRY(tr_composite_add(c, "flatten(X=x.wide) {axis=%d} -> x", a->begin_norm_axis));
    TR_TRY(tr_composite_add(c, "flatten(X=dy.wide) {axis=%d} -> dy", a->begin_norm_axis));
    TR_TRY(tr_composite_add(c, "reduce_mean(X=x) {dim=[1]} -> mean"));
    TR_TRY(tr_composite_add(c, "elementwise_sub(X=x, Y=mean) {axis=0} -> centred"));
    TR_TRY(tr_composite_add(c, "square(X=centred) -> squares"));
    TR_TRY(tr_composite_add(c, "reduce_mean(X=squares) {dim=[1]} -> variance"));
    TR_TRY(tr_composite_add(c, "scale(X=variance) {bias=%.9g} -> padded", (double)a->epsilon));
    TR_TRY(tr_composite_add(c, "rsqrt(X=padded) -> share"));
    return tr_composite_add(c, "elementwise_mul(X=centred, Y=share) {axis=0} -> normal");
}

static tr_status slope(tr_composite *c)
{
    const attrs *a = tr_composite_attrs(c);

    TR_TRY(add_normal(c, a));
    if (tr_composite_count(c, "Scale") > 0) {
        TR_TRY(tr__add_wide(c, "Scale", "scale"));
        TR_TRY(tr_composite_add(c, "elementwise_mul(X=dy, Y=scale) {axis=1} -> d"));
    } else {
        TR_TRY(tr_composite_add(c, "assign(X=dy) -> d"));
    }
    TR_TRY(tr_composite_add(c, "reduce_mean(X=d) {dim=[1]} -> level"));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=d, Y=normal) -> along"));
    TR_TRY(tr_composite_add(c, "reduce_mean(X=along) {dim=[1]} -> steep"));
    TR_TRY(tr_composite_add(c, "elementwise_sub(X=d, Y=level) {axis=0} -> shifted"));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=normal, Y=steep) {axis=0} -> drawn"));
    TR_TRY(tr_composite_add(c, "elementwise_sub(X=shifted, Y=drawn) -> rest"));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=rest, Y=share) {axis=0} -> dx"));
    TR_TRY(tr_composite_add(c, "flatten_grad(X=x.wide, Out@GRAD=dx) {axis=%d} -> X@GRAD=dx.wide", a->begin_norm_axis));
    TR_TRY(tr__add_narrow(c, "dx.wide", "X", "X@GRAD"));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=dy, Y=normal) -> pulled"));
    TR_TRY(tr_composite_add(c, "reduce_sum(X=pulled) {dim=[0]} -> dscale"));
    TR_TRY(tr__add_narrow(c, "dscale", "Scale", "Scale@GRAD"));
    TR_TRY(tr_composite_add(c, "reduce_sum(X=dy) {dim=[0]} -> dbias"));
    return tr__add_narrow(c, "dbias", "Bias", "Bias@GRAD");
}

static const tr_grad_rule grad = {
    .op = "layer_norm_grad",
    .reads = {TR_IN(X), TR_IN(SCALE), TR_IN_SHAPE(BIAS), TR_OUT(MEAN), TR_OUT(VARIANCE), TR_DOUT(Y)},
    .makes = {TR_DIN(X), TR_DIN(SCALE), TR_DIN(BIAS)},
    .second = tr__second_body,
    .body = slope,
};

TR_REGISTER_OP(layer_norm, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(layer_norm), .grad = &grad,
               .inplace = {{X, Y}}, .inplace_count = 1);
TR_REGISTER_OP(layer_norm_grad, .grad_of = &tr_op_record_layer_norm, .kernels = TR_FLOAT_KERNELS(layer_norm_grad),
               .inplace = {{G_DY, G_DX}}, .inplace_count = 1);

#else /* the kernels, for each T */

static tr_status NAME(layer_norm)(const tr_run *io)
{
    const attrs    *a = io->attrs;
    const tr_shape *x = &io->in[X]->shape;
    const int64_t   rows = tr_shape_product(x, 0, a->begin_norm_axis);
    const int64_t   cols = tr_shape_product(x, a->begin_norm_axis, x->rank);
    T              *spare;

    TR_TRY(tr_run_scratch((void **)&spare, io, 2 * (size_t)rows * sizeof(T)));
    NAME(tr_layer_norm)(io->out[Y]->data, io->out[MEAN] ? io->out[MEAN]->data : spare,
                        io->out[VARIANCE] ? io->out[VARIANCE]->data : spare + rows, io->in[X]->data,
                        io->in[SCALE] ? io->in[SCALE]->data : NULL, io->in[BIAS] ? io->in[BIAS]->data : NULL,
                        a->epsilon, rows, cols);
    return TR_OK;
}

static tr_status NAME(layer_norm_grad)(const tr_run *io)
{
    const attrs    *a = io->attrs;
    const tr_shape *x = &io->in[G_X]->shape;
    T              *dx = io->out[G_DX] ? io->out[G_DX]->data : NULL;
    T              *dscale = io->out[G_DSCALE] ? io->out[G_DSCALE]->data : NULL;
    T              *dbias = io->out[G_DBIAS] ? io->out[G_DBIAS]->data : NULL;

    NAME(tr_layer_norm_grad)(dx, dscale, dbias, io->in[G_DY]->data, io->in[G_X]->data, io->in[G_MEAN]->data,
                             io->in[G_VARIANCE]->data, io->in[G_SCALE] ? io->in[G_SCALE]->data : NULL, a->epsilon,
                             tr_shape_product(x, 0, a->begin_norm_axis),
                             tr_shape_product(x, a->begin_norm_axis, x->rank));
    return TR_OK;
}

#endif
