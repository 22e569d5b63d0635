/* bilinear_tensor_product.c - how two rows go together, in several ways:  Out[n,i] = X[n] Weight[i] Y[n]^T + Bias[i].
 *
 * Made of products: X times all the matrices at once, then each row of that times Y. */
#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"
#include "kernels/base/check.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { X, Y, WEIGHT, BIAS };
enum { OUT };

static const tr_op_proto proto = {
    .doc = "Out[n,i] = X[n] Weight[i] Y[n]^T + Bias[i].",
    .in = TR_SLOTS({"X", "[rows, x] float"}, {"Y", "[rows, y], same dtype"}, {"Weight", "[size, x, y]"},
                   {"Bias", "[1, size] or [size]", TR_SLOT_OPTIONAL}),
    .out = TR_SLOTS({"Out", "[rows, size]"}),
};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status infer(const tr_infer *io)
{
    static const char *const names[] = {"X", "Y", "Weight", "Bias"};
    const tr_shape           x = io->in[X].shape, y = io->in[Y].shape, weight = io->in[WEIGHT].shape;

    TR_TRY(tr__check_rank(io, "X", &io->in[X], 2));
    TR_TRY(tr__check_rank(io, "Y", &io->in[Y], 2));
    TR_TRY(tr__check_rank(io, "Weight", &io->in[WEIGHT], 3));
    for (int slot = Y; slot <= BIAS; slot++)
        if (io->in[slot].kind != TR_KIND_NONE)
            TR_TRY(tr__check_dtype(io, names[slot], &io->in[slot], io->in[X].dtype));
    TR_TRY(tr__check_shape(io, "Y", &io->in[Y], &TR_SHAPE(x.dim[0], -1)));
    TR_TRY(tr__check_shape(io, "Weight", &io->in[WEIGHT], &TR_SHAPE(-1, x.dim[1], y.dim[1])));
    if (io->in[BIAS].kind != TR_KIND_NONE && !tr_shape_fits(&io->in[BIAS].shape, &TR_SHAPE(weight.dim[0])))
        TR_TRY(tr__check_shape(io, "Bias", &io->in[BIAS], &TR_SHAPE(1, weight.dim[0])));
    io->out[OUT] = tr_meta_dense(io->in[X].dtype, TR_SHAPE(x.dim[0], weight.dim[0]));
    return TR_OK;
}

/* -- parts -------------------------------------------------------------------------------------- */
static tr_status expand(tr_composite *c)
{
    const bool has_bias = tr_composite_count(c, "Bias") > 0;

    TR_TRY(tr_composite_add(c, "transpose2(X=Weight) {axis=[1, 0, 2]} -> turned"));
    TR_TRY(tr_composite_add(c, "mul(X=X, Y=turned) -> halves"));
    TR_TRY(tr_composite_add(c, "unsqueeze2(X=Y) {axes=[2]} -> columns"));
    TR_TRY(tr_composite_add(c, "matmul(X=halves, Y=columns) -> products"));
    TR_TRY(tr_composite_add(c, "squeeze2(X=products) {axes=[2]} -> %s", has_bias ? "sums" : "Out"));
    return has_bias ? tr_composite_add(c, "elementwise_add(X=sums, Y=Bias) -> Out") : TR_OK;
}

/* -- gradient and registration ------------------------------------------------------------------ */
static const tr_grad_rule grad = {
    .op = "bilinear_tensor_product_grad",
    .reads = {TR_IN(X), TR_IN(Y), TR_IN(WEIGHT), TR_IN(BIAS), TR_OUT(OUT), TR_DOUT(OUT)},
    .makes = {TR_DIN(X), TR_DIN(Y), TR_DIN(WEIGHT), TR_DIN(BIAS)},
    .second = tr__second_body,
};
TR_REGISTER_OP(bilinear_tensor_product, .proto = &proto, .infer = infer, .expand = expand, .types = TR_FLOAT_TYPES, .grad = &grad);
TR_REGISTER_OP(bilinear_tensor_product_grad, .grad_of = &tr_op_record_bilinear_tensor_product);
