/* fsp.c - how channels of two images go together:  Out[n,i,j] = the mean over pixels of X[n,i] Y[n,j]. (Yim et al., A gift from
 * knowledge distillation, 2017)
 *
 * Made of a product of matrices and a division by the number of pixels. */
#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { X, Y };
enum { OUT };

static const tr_op_proto proto = {
    .doc = "The flow between two layers: Out[n,i,j] is the mean over all pixels of X[n,i] Y[n,j].",
    .in = TR_SLOTS(TR_SLOT("X", "[batch, channels, height, width]", " float"),
                   TR_SLOT("Y", "[batch, other channels, height, width]", ", same dtype")),
    .out = TR_SLOTS(TR_SLOT("Out", "[batch, channels, other channels]", "")),
};

/* -- parts -------------------------------------------------------------------------------------- */

/* The number of pixels, as a number of the type of X. */
static tr_status add_pixels(tr_composite *c)
{
    TR_TRY(tr_composite_add(c, "shape(Input=X) -> dims"));
    TR_TRY(tr_composite_add(c, "slice(Input=dims) {axes=[0], starts=[2], ends=[4]} -> extents"));
    TR_TRY(tr_composite_add(c, "cast(X=extents) {in_dtype=%d, out_dtype=%d} -> numbers", TR_INT32, tr_composite_dtype(c, "X")));
    return tr_composite_add(c, "reduce_prod(X=numbers) {dim=[0]} -> pixels");
}

static tr_status expand(tr_composite *c)
{
    TR_TRY(add_pixels(c));
    TR_TRY(tr_composite_add(c, "reshape2(X=X) {shape=[0, 0, -1]} -> x"));
    TR_TRY(tr_composite_add(c, "reshape2(X=Y) {shape=[0, 0, -1]} -> y"));
    TR_TRY(tr_composite_add(c, "matmul(X=x, Y=y) {transpose_Y=true} -> sums"));
    return tr_composite_add(c, "elementwise_div(X=sums, Y=pixels) -> Out");
}

/* -- gradient and registration ------------------------------------------------------------------ */
static const tr_grad_rule grad = {
    .op = "fsp_grad", .reads = {TR_IN(X), TR_IN(Y), TR_OUT(OUT), TR_DOUT(OUT)}, .makes = {TR_DIN(X), TR_DIN(Y)},
    .second = tr__second_body,
};
TR_REGISTER_OP(fsp, .proto = &proto, .expand = expand, .types = TR_FLOAT_TYPES, .grad = &grad);
TR_REGISTER_OP(fsp_grad, .grad_of = &tr_op_record_fsp);
