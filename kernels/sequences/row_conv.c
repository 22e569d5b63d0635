/* row_conv.c - lookahead convolution: Out[t] = sum of X[t + i] * Filter[i], element by element, within each sequence. */
#ifndef T

#include "framework/gradients/grad_second.h"
#include "kernels/math/sequences/context.h"
#include "kernels/sequences/sequence.h"

/* -- interface ---------------------------------------------------------------------------------- */
enum { X, FILTER };
enum { OUT };
enum { G_X, G_FILTER, G_DOUT };
enum { G_DX, G_DFILTER };

static const tr_op_proto proto = {
    .doc = "Mixes each row with those that follow it: Out[t] = sum over i of X[t + i] * Filter[i].",
    .in = TR_SLOTS(TR_SLOT("X", "[rows, width]", " float, of sequences"),
                   TR_SLOT("Filter", "[ahead, width]", ": this row's factors, the next one's, ...")),
    .out = TR_SLOTS(TR_SLOT("Out", "like X", ", with its sequences")),
};

/* -- kernels ------------------------------------------------------------------------------------ */
#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------ */
static const tr_grad_rule grad = {
    .op = "row_conv_grad",
    .reads = {TR_IN(X), TR_IN(FILTER), TR_DOUT(OUT)},
    .makes = {TR_DIN(X), TR_DIN(FILTER)},
    .second = tr__second_bilinear,
};

TR_REGISTER_OP(row_conv, .proto = &proto, .kernels = TR_FLOAT_KERNELS(row_conv), .grad = &grad);
TR_REGISTER_OP(row_conv_grad, .grad_of = &tr_op_record_row_conv, .kernels = TR_FLOAT_KERNELS(row_conv_grad));

#else /* the kernels, for each T */

static tr_status NAME(row_conv)(const tr_run *io)
{
    const tr_shape *filter = &io->in[FILTER]->shape;
    tr_sequences    s;

    TR_TRY(tr__sequences_of(&s, io, X, 0));
    NAME(tr_row_conv)(io->out[OUT]->data, io->in[X]->data, io->in[FILTER]->data, filter->dim[0], s.offset, s.count,
                      filter->dim[1]);
    return TR_OK;
}

static tr_status NAME(row_conv_grad)(const tr_run *io)
{
    const tr_shape *filter = &io->in[G_FILTER]->shape;
    const T        *dout = io->in[G_DOUT]->data;
    tr_sequences    s;

    TR_TRY(tr__sequences_of(&s, io, G_X, 0));
    if (io->out[G_DX])
        NAME(tr_row_conv_grad_x)(io->out[G_DX]->data, dout, io->in[G_FILTER]->data, filter->dim[0], s.offset, s.count,
                                 filter->dim[1]);
    if (io->out[G_DFILTER])
        NAME(tr_row_conv_grad_filter)(io->out[G_DFILTER]->data, dout, io->in[G_X]->data, filter->dim[0], s.offset,
                                      s.count, filter->dim[1]);
    return TR_OK;
}

#endif
