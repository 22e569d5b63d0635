/* bilinear_tensor_product.c - how two rows go together, in several ways:  Out[n,i] = X[n] Weight[i] Y[n]^T + Bias[i].
 *
 * Made of products: X times all the matrices at once, then each row of that times Y. */
#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { X, Y, WEIGHT, BIAS };
enum { OUT };

static const tr_op_proto proto = {
    .doc = "Out[n,i] = X[n] Weight[i] Y[n]^T + Bias[i].",
    .in = TR_SLOTS(TR_SLOT("X", "[rows, x]", " float"), TR_SLOT("Y", "[rows, y]", ", same dtype"), TR_SLOT("Weight", "[size, x, y]", ""),
                   TR_SLOT("Bias", "[size] or [1, size]", "", TR_SLOT_OPTIONAL)),
    .out = TR_SLOTS(TR_SLOT("Out", "[rows, size]", "")),
};

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
TR_REGISTER_OP(bilinear_tensor_product, .proto = &proto, .expand = expand, .types = TR_FLOAT_TYPES, .grad = &grad);
TR_REGISTER_OP(bilinear_tensor_product_grad, .grad_of = &tr_op_record_bilinear_tensor_product);
