/* sequence_reverse.c - each sequence with its rows in the opposite order. Backward is the same again, with X's sequences:
 * a gradient need not have any. */
#include "framework/gradients/grad_second.h"
#include "kernels/math/sequences/sequence.h"
#include "kernels/sequences/sequence.h"

/* -- interface ---------------------------------------------------------------------------------- */
enum { X };
enum { Y };
enum { G_X, G_DY };
enum { G_DX };

static const tr_op_proto proto = {
    .doc = "Reverses the order of the rows within each sequence.",
    .in = TR_SLOTS(TR_SLOT("X", "[rows, ...]", " of any type, of sequences")),
    .out = TR_SLOTS(TR_SLOT("Y", "like X", ", with its sequences")),
};

/* -- kernels ------------------------------------------------------------------------------------ */
static tr_status reverse(const tr_run *io, tr_tensor *out, const tr_tensor *from)
{
    tr_sequences s;

    TR_TRY(tr__sequences_of(&s, io, X, 0));
    tr_sequence_reverse(out->data, from->data, s.offset, s.count, tr__row_bytes(out));
    return TR_OK;
}

static tr_status run(const tr_run *io) { return reverse(io, io->out[Y], io->in[X]); }
static tr_status run_grad(const tr_run *io) { return reverse(io, io->out[G_DX], io->in[G_DY]); }

/* -- gradient and registration ------------------------------------------------------------------ */
static const tr_grad_rule grad = {
    .op = "sequence_reverse_grad", .reads = {TR_IN_SHAPE(X), TR_DOUT(Y)}, .makes = {TR_DIN(X)},
    .second = tr__second_linear,
};

TR_REGISTER_OP(sequence_reverse, .proto = &proto, .run = run, .grad = &grad);
TR_REGISTER_OP(sequence_reverse_grad, .grad_of = &tr_op_record_sequence_reverse, .run = run_grad);
