/* sequence_softmax.c - within each sequence, Out = exp(X) / sum(exp(X)).
 *
 * Backward: dX = Out * (dOut - sum(Out * dOut)), from Out and its sequences alone; X's memory may be Out's. */
#ifndef T

#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"
#include "kernels/math/sequences/sequence.h"
#include "kernels/sequences/sequence.h"

/* -- interface ---------------------------------------------------------------------------------- */
enum { X };
enum { OUT };
enum { G_OUT, G_DOUT };
enum { G_DX };

static const tr_op_proto proto = {
    .doc = "Makes the numbers of each sequence positive with the sum 1.",
    .in = TR_SLOTS(TR_SLOT("X", "[rows, ...]", " float, one number in each row, of sequences")),
    .out = TR_SLOTS(TR_SLOT("Out", "like X", ", with its sequences; may share X's memory")),
    .attr = TR_ATTRS(TR_ATTR_IGNORED("use_cudnn", BOOL), TR_ATTR_IGNORED("data_format", STRING, .text = "AnyLayout")),
};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status infer(const tr_infer *io)
{
    const tr_shape x = io->in[X].shape;
    const int64_t  width = tr_shape_product(&x, 1, x.rank);

    if (width != 1 && width != -1)
        return tr_fail(TR_ESHAPE, "%s: X must have one number in each row, got %s", io->type, TR_SHAPE_STR(x));
    return TR_OK;
}

/* -- kernels ------------------------------------------------------------------------------------ */
#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------ */
static tr_status slope(tr_composite *c)
{
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=Out, Y=Out@GRAD) -> weighted"));
    TR_TRY(tr_composite_add(c, "sequence_pool(X=weighted) {pooltype=SUM} -> Out=total, MaxIndex=none"));
    TR_TRY(tr_composite_add(c, "sequence_expand_as(X=total, Y=Out) -> spread"));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=Out, Y=spread) -> drawn"));
    return tr_composite_add(c, "elementwise_sub(X=weighted, Y=drawn) -> X@GRAD");
}

static const tr_grad_rule grad = {
    .op = "sequence_softmax_grad", .reads = {TR_OUT(OUT), TR_DOUT(OUT)}, .makes = {TR_DIN(X)},
    .second = tr__second_body, .body = slope,
};

TR_REGISTER_OP(sequence_softmax, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(sequence_softmax),
               .grad = &grad, .inplace = {{X, OUT}}, .inplace_count = 1);
TR_REGISTER_OP(sequence_softmax_grad, .grad_of = &tr_op_record_sequence_softmax, .kernels = TR_FLOAT_KERNELS(sequence_softmax_grad), .inplace = {{G_DOUT, G_DX}}, .inplace_count = 1);

#else /* the kernels, for each T */

static tr_status NAME(sequence_softmax)(const tr_run *io)
{
    tr_sequences s;

    TR_TRY(tr__sequences_of(&s, io, X, 0));
    NAME(tr_sequence_softmax)(io->out[OUT]->data, io->in[X]->data, s.offset, s.count);
    return TR_OK;
}

static tr_status NAME(sequence_softmax_grad)(const tr_run *io)
{
    tr_sequences s;

    TR_TRY(tr__sequences_of(&s, io, G_OUT, 0));
    NAME(tr_sequence_softmax_grad)(io->out[G_DX]->data, io->in[G_DOUT]->data, io->in[G_OUT]->data, s.offset, s.count);
    return TR_OK;
}

#endif
