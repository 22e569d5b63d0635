/* group_norm.c - normalise each group of channels of each image by itself, then scale and shift each channel. (Wu and He, 2018)
 *
 * Backward reads X, Scale and the saved Mean and Variance. */
#ifndef T

#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"
#include "kernels/base/scratch.h"
#include "kernels/math/arrays/norm.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { X, SCALE, BIAS };
enum { Y, MEAN, VARIANCE };
enum { G_X, G_SCALE, G_BIAS, G_MEAN, G_VARIANCE, G_DY };
enum { G_DX, G_DSCALE, G_DBIAS };

typedef struct attrs {
    float   epsilon;
    int32_t groups;
} attrs;

static const tr_op_proto proto = {
    .doc = "Y = (X - mean) / sqrt(variance + epsilon) * Scale + Bias, with the mean and variance of each group of channels of an image.",
    .in = TR_SLOTS(TR_SLOT("X", "[batch, channels, ...]", " float"), TR_SLOT("Scale", "[channels]", "", TR_SLOT_OPTIONAL),
                   TR_SLOT("Bias", "[channels]", "", TR_SLOT_OPTIONAL)),
    .out = TR_SLOTS(TR_SLOT("Y", "like X", ""), {"Mean", "[batch, groups]", TR_SLOT_INTERMEDIATE},
                    {"Variance", "[batch, groups]", TR_SLOT_INTERMEDIATE}),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, epsilon, FLOAT, "added to the variance", .number = 1e-5, .range = TR_BETWEEN(0, 1)),
                       TR_ATTR(attrs, groups, INT, "into how many groups the channels are cut", .required = true, .range = TR_AT_LEAST(1))),
};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status infer(const tr_infer *io)
{
    const attrs   *a = io->attrs;
    const tr_shape x = io->in[X].shape;

    if (x.dim[1] >= 0 && (x.dim[1] % a->groups != 0 || x.dim[1] == 0))
        return tr_fail(TR_ESHAPE, "%s: the %lld channels of X %s cannot be cut into %d groups", io->type, (long long)x.dim[1],
                       TR_SHAPE_STR(x), a->groups);
    io->out[MEAN] = io->out[VARIANCE] = tr_meta_dense(io->in[X].dtype, TR_SHAPE(x.dim[0], a->groups));
    return TR_OK;
}

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------- */
static tr_status parts(tr_composite *c)
{
    const attrs *a = tr_composite_attrs(c);
    const char  *last = "normal";

    TR_TRY(tr_composite_add(c, "reshape(X=X) {shape=[0, %d, -1]} -> groups", a->groups));
    TR_TRY(tr_composite_add(c, "reduce_mean(X=groups) {dim=[2]} -> mean"));
    TR_TRY(tr_composite_add(c, "elementwise_sub(X=groups, Y=mean) {axis=0} -> centred"));
    TR_TRY(tr_composite_add(c, "square(X=centred) -> squares"));
    TR_TRY(tr_composite_add(c, "reduce_mean(X=squares) {dim=[2]} -> variance"));
    TR_TRY(tr_composite_add(c, "scale(X=variance) {bias=%.9g} -> padded", (double)a->epsilon));
    TR_TRY(tr_composite_add(c, "rsqrt(X=padded) -> share"));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=centred, Y=share) {axis=0} -> scaled"));
    TR_TRY(tr_composite_add(c, "reshape_grad(X=X, Out@GRAD=scaled) {shape=[0, %d, -1]} -> normal", a->groups));
    if (tr_composite_count(c, "Scale") > 0) {
        TR_TRY(tr_composite_add(c, "elementwise_mul(X=normal, Y=Scale) {axis=1} -> stretched"));
        last = "stretched";
    }
    if (tr_composite_count(c, "Bias") > 0)
        return tr_composite_add(c, "elementwise_add(X=%s, Y=Bias) {axis=1} -> Y", last);
    return tr_composite_add(c, "assign(X=%s) -> Y", last);
}

static const tr_grad_rule grad = {
    .op = "group_norm_grad",
    .reads = {TR_IN(X), TR_IN(SCALE), TR_IN_SHAPE(BIAS), TR_OUT(MEAN), TR_OUT(VARIANCE), TR_DOUT(Y)},
    .makes = {TR_DIN(X), TR_DIN(SCALE), TR_DIN(BIAS)},
    .second = tr__second_body, .parts = parts,
};

TR_REGISTER_OP(group_norm, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(group_norm), .grad = &grad);
TR_REGISTER_OP(group_norm_grad, .grad_of = &tr_op_record_group_norm, .kernels = TR_FLOAT_KERNELS(group_norm_grad));

#else /* the kernels, for each T */

static T *NAME(data_of)(const tr_tensor *tensor) { return tensor ? tensor->data : NULL; }

static tr_status NAME(group_norm)(const tr_run *io)
{
    const attrs    *a = io->attrs;
    const tr_shape *x = &io->in[X]->shape;
    T              *mean = NAME(data_of)(io->out[MEAN]), *variance = NAME(data_of)(io->out[VARIANCE]);
    const size_t    bytes = (size_t)(x->dim[0] * a->groups) * sizeof(T);

    TR_TRY(tr__scratch_pieces(io, (const tr_piece[]){{&mean, mean ? 0 : bytes}, {&variance, variance ? 0 : bytes}, {NULL, 0}}));
    NAME(tr_group_norm)(io->out[Y]->data, mean, variance, io->in[X]->data, NAME(data_of)(io->in[SCALE]), NAME(data_of)(io->in[BIAS]),
                        a->epsilon, x->dim[0], x->dim[1], tr_shape_product(x, 2, x->rank), a->groups);
    return TR_OK;
}

static tr_status NAME(group_norm_grad)(const tr_run *io)
{
    const attrs    *a = io->attrs;
    const tr_shape *x = &io->in[G_X]->shape;

    NAME(tr_group_norm_grad)(NAME(data_of)(io->out[G_DX]), NAME(data_of)(io->out[G_DSCALE]), NAME(data_of)(io->out[G_DBIAS]),
                             io->in[G_DY]->data, io->in[G_X]->data, io->in[G_MEAN]->data, io->in[G_VARIANCE]->data,
                             NAME(data_of)(io->in[G_SCALE]), a->epsilon, x->dim[0], x->dim[1], tr_shape_product(x, 2, x->rank), a->groups);
    return TR_OK;
}

#endif
