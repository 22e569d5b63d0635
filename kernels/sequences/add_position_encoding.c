/* add_position_encoding.c - Out = alpha X + beta P, where P tells each row its place t in its sequence.
 *
 * With h = width / 2: P[t, k] = sin(t / 10000^(k / (h - 1))) for k < h, and P[t, h + k] is the cosine of the same
 * (Vaswani et al., 2017). P is a constant, so dX = alpha dOut. */
#ifndef T

#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"
#include "kernels/math/arrays/elementwise.h"
#include "kernels/math/sequences/sequence.h"
#include "kernels/sequences/sequence.h"

/* -- interface ---------------------------------------------------------------------------------- */
enum { X };
enum { OUT };
enum { G_X, G_DOUT };
enum { G_DX };

typedef struct attrs {
    float alpha, beta;
} attrs;

static const tr_op_proto proto = {
    .doc = "Out = alpha X + beta P, P the sines and cosines of each row's place",
    .in = TR_SLOTS({"X", "[sequences, length, width], or [rows, width] of sequences; float, of even width"}),
    .out = TR_SLOTS(TR_SLOT("Out", "like X", ", with its sequences; may share X's memory")),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, alpha, FLOAT, "factor of X", .number = 1, .range = TR_AT_LEAST(0)),
                       TR_ATTR(attrs, beta, FLOAT, "factor of P", .number = 1, .range = TR_AT_LEAST(0))),
};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status infer(const tr_infer *io)
{
    const tr_shape x = io->in[X].shape;

    if (x.rank != 2 && x.rank != 3)
        return tr_fail(TR_ESHAPE, "%s: X must have rank 2 (sequences) or 3, got %s", io->type, TR_SHAPE_STR(x));
    if (x.dim[x.rank - 1] > 0 && x.dim[x.rank - 1] % 2 != 0)
        return tr_fail(TR_ESHAPE, "%s: the width of X must be even, got %s", io->type, TR_SHAPE_STR(x));
    return TR_OK;
}

/* -- kernels ------------------------------------------------------------------------------------ */
#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------ */
static tr_status slope(tr_composite *c)
{
    return tr_composite_add(c, "scale(X=Out@GRAD) {scale=%.9g} -> X@GRAD", (double)((const attrs *)tr_composite_attrs(c))->alpha);
}

static const tr_grad_rule grad = {
    .op = "add_position_encoding_grad", .reads = {TR_IN_SHAPE(X), TR_DOUT(OUT)}, .makes = {TR_DIN(X)},
    .second = tr__second_body, .body = slope,
};

TR_REGISTER_OP(add_position_encoding, .proto = &proto, .infer = infer,
               .kernels = TR_FLOAT_KERNELS(add_position_encoding), .grad = &grad, .inplace = {{X, OUT}}, .inplace_count = 1);
TR_REGISTER_OP(add_position_encoding_grad, .grad_of = &tr_op_record_add_position_encoding,
               .kernels = TR_FLOAT_KERNELS(add_position_encoding_grad), .inplace = {{G_DOUT, G_DX}}, .inplace_count = 1);

#else /* the kernels, for each T */

static tr_status NAME(add_position_encoding)(const tr_run *io)
{
    const attrs     *a = io->attrs;
    const tr_tensor *x = io->in[X];
    const int64_t   *dim = x->shape.dim;
    const T         *from = x->data;
    T               *out = io->out[OUT]->data;
    tr_sequences     s;

    for (int64_t i = 0; x->shape.rank == 3 && i < dim[0]; i++)
        NAME(tr_add_positions)(out + i * dim[1] * dim[2], from + i * dim[1] * dim[2], dim[1], dim[2],
                               (T)a->alpha, (T)a->beta);
    if (x->shape.rank == 3)
        return TR_OK;
    TR_TRY(tr__sequences_of(&s, io, X, 0));
    for (int64_t i = 0; i < s.count; i++)
        NAME(tr_add_positions)(out + s.offset[i] * dim[1], from + s.offset[i] * dim[1], s.offset[i + 1] - s.offset[i],
                               dim[1], (T)a->alpha, (T)a->beta);
    return TR_OK;
}

static tr_status NAME(add_position_encoding_grad)(const tr_run *io)
{
    const attrs *a = io->attrs;

    NAME(tr_scale)(io->out[G_DX]->data, io->in[G_DOUT]->data, (T)a->alpha, 0, tr_tensor_count(io->out[G_DX]));
    return TR_OK;
}

#endif
