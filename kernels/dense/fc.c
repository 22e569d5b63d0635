/* fc.c - a fully connected layer:  Out = activation(Input W + Bias).
 *
 * It calls the functions that mul, elementwise_add and the activations call; what it saves are two passes over
 * Out. The activations are those whose gradient reads Out alone, so that the sum before them need not be kept.
 *
 * Backward, with dZ = dOut * activation'(Out):  dInput = dZ W^T,  dW = Input^T dZ,  dBias = sum of dZ's rows. */
#ifndef T

#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"
#include "kernels/math/arrays/activation.h"
#include "kernels/math/arrays/elementwise.h"
#include "kernels/math/arrays/reduce.h"
#include "kernels/math/products/blas.h"

/* -- interface ------------------------------------------------------------------------------ */

enum { INPUT, W, BIAS };                              enum { OUT };                 /* fc: inputs, outputs */
enum { G_INPUT, G_W, G_BIAS, G_OUT, G_DOUT };         enum { G_DINPUT, G_DW, G_DBIAS };         /* fc_grad */

typedef struct attrs {
    int32_t     in_num_col_dims;
    tr_act activation_type;
} attrs;

static const tr_op_proto proto = {
    .doc = "A fully connected layer: Out = activation(Input W + Bias). An Input of higher rank is flattened to a "
           "matrix first.",
    .in = TR_SLOTS({"Input", "[n..., k...] float"}, TR_SLOT("W", "[k, m]", ", k the product of Input's k, same dtype", TR_SLOT_WIDE),
                   TR_SLOT("Bias", "[m] or [1, m]", ", same dtype", TR_SLOT_OPTIONAL | TR_SLOT_WIDE)),
    .out = TR_SLOTS({"Out", "[n..., m]; has Input's sequences"}),
    TR_ATTRS_OF(attrs,
        TR_ATTR(attrs, in_num_col_dims, INT, "how many of Input's dimensions are rows", .number = 1,
                .range = TR_AT_LEAST(1)),
        TR_ATTR(attrs, activation_type, STRING, "the function applied to the sum; empty: none", .text = "",
                .range = TR_ONE_OF({"", TR_ACT_identity}, {"relu", TR_ACT_relu}, {"sigmoid", TR_ACT_sigmoid}, {"tanh", TR_ACT_tanh})),
        TR_ATTR_IGNORED("use_mkldnn", BOOL),
        TR_ATTR_IGNORED("@ALL_KERNELS_MUST_COMPUTE_RUNTIME_SHAPE@", BOOL, .number = true)),
};

/* -- shapes ----------------------------------------------------------------------------------- */

static tr_status infer(const tr_infer *io)
{
    const attrs   *a = io->attrs;
    const tr_shape x = io->in[INPUT].shape, w = io->in[W].shape;
    const int      rows = a->in_num_col_dims;

    if (rows >= x.rank)
        return tr_fail(TR_ESHAPE, "fc: Input is %s; in_num_col_dims is %d, which leaves no columns",
                       TR_SHAPE_STR(x), rows);
    const int64_t width = tr_shape_product(&x, rows, x.rank);
    if (width >= 0 && w.dim[0] >= 0 && width != w.dim[0])
        return tr_fail(TR_ESHAPE, "fc: Input is %s with rows of %lld, so W must be [%lld, m]; got %s",
                       TR_SHAPE_STR(x), (long long)width, (long long)width, TR_SHAPE_STR(w));
    io->out[OUT] = io->in[INPUT];
    io->out[OUT].shape.rank = rows + 1;
    io->out[OUT].shape.dim[rows] = w.dim[1];
    return TR_OK;
}

/* -- kernels: the end of this file, once for each type ---------------------------------------- */

#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------ */

static tr_status parts(tr_composite *c)
{
    const attrs *a = tr_composite_attrs(c);
    const char  *sum = "product";

    TR_TRY(tr_composite_add(c, "mul(X=Input, Y=W) {x_num_col_dims=%d} -> product", a->in_num_col_dims));
    if (tr_composite_count(c, "Bias") > 0) {
        TR_TRY(tr_composite_add(c, "reshape(X=Bias) {shape=[-1]} -> row"));
        TR_TRY(tr_composite_add(c, "elementwise_add(X=product, Y=row) -> sum"));
        sum = "sum";
    }
    return tr_composite_add(c, "%s(X=%s) -> Out", a->activation_type == TR_ACT_identity ? "assign" : tr_act_name(a->activation_type), sum);
}

static const tr_grad_rule grad = {
    .op = "fc_grad",
    .reads = {TR_IN(INPUT), TR_IN(W), TR_IN_SHAPE(BIAS), TR_OUT(OUT), TR_DOUT(OUT)},
    .makes = {TR_DIN(INPUT), TR_DIN(W), TR_DIN(BIAS)},
    .second = tr__second_body, .parts = parts,
};

TR_REGISTER_OP(fc, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(fc), .grad = &grad);
TR_REGISTER_OP(fc_grad, .grad_of = &tr_op_record_fc, .kernels = TR_FLOAT_KERNELS(fc_grad));

#else /* -- kernels ---------------------------------------------------------------------------- */

static tr_status NAME(fc)(const tr_run *io)
{
    const attrs  *a = io->attrs;
    const int64_t k = io->in[W]->shape.dim[0], n = io->in[W]->shape.dim[1];
    const int64_t m = tr_shape_product(&io->in[INPUT]->shape, 0, a->in_num_col_dims);
    const tr_act  act = a->activation_type;
    T            *out = io->out[OUT]->data;

    TR_TRY(tr_blas_init());
    NAME(tr_gemm)(false, false, m, n, k, 1, io->in[INPUT]->data, k, io->in[W]->data, n, 0, out, n);
    if (io->in[BIAS])
        NAME(tr_bias_act)(out, out, io->in[BIAS]->data, m, n, act, 0, 0);
    else if (act != TR_ACT_identity)
        NAME(tr_act_apply)(act, out, out, m * n, 0, 0);
    return TR_OK;
}

/* *dz = dOut * activation'(Out) */
static tr_status NAME(before_activation)(const T **dz, const tr_run *io)
{
    const tr_tensor *out = io->in[G_OUT], *dout = io->in[G_DOUT];
    const tr_act     act = ((const attrs *)io->attrs)->activation_type;
    T               *scratch;

    *dz = dout->data;
    if (act == TR_ACT_identity)
        return TR_OK;
    TR_TRY(tr_run_scratch((void **)&scratch, io, (size_t)tr_tensor_count(dout) * sizeof *scratch));
    NAME(tr_act_grad)(act, scratch, dout->data, NULL, out->data, tr_tensor_count(dout), 0, 0);
    *dz = scratch;
    return TR_OK;
}

static tr_status NAME(fc_grad)(const tr_run *io)
{
    const attrs  *a = io->attrs;
    const int64_t k = io->in[G_W]->shape.dim[0], n = io->in[G_W]->shape.dim[1];
    const int64_t m = tr_shape_product(&io->in[G_INPUT]->shape, 0, a->in_num_col_dims);
    const T      *x = io->in[G_INPUT]->data, *w = io->in[G_W]->data, *dz;

    TR_TRY(tr_blas_init());
    TR_TRY(NAME(before_activation)(&dz, io));
    if (io->out[G_DINPUT])
        NAME(tr_gemm)(false, true, m, k, n, 1, dz, n, w, n, 0, io->out[G_DINPUT]->data, k);
    if (io->out[G_DW])
        NAME(tr_gemm)(true, false, k, n, m, 1, x, k, dz, n, 0, io->out[G_DW]->data, n);
    if (io->out[G_DBIAS])
        NAME(tr_reduce_apply)(TR_REDUCE_SUM, io->out[G_DBIAS]->data, dz, 1, m, n);
    return TR_OK;
}

#endif
