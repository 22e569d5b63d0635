/* gru.c - gated recurrent units over sequences of any length. gru_unit.c has one step of them.
 *
 * As lstm.c: batch order, one step at a time. What backward reads is in that order already: the activated gates,
 * r h' and the hidden states. */
#ifndef T

#include <string.h>

#include "kernels/base/check.h"
#include "kernels/base/scratch.h"
#include "kernels/base/shapes.h"
#include "kernels/math/arrays/reduce.h"
#include "kernels/math/products/blas.h"
#include "kernels/math/sequences/gru.h"
#include "kernels/recurrent/batch_order.h"
#include "kernels/recurrent/gru_inputs.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { INPUT, H0, WEIGHT, BIAS };
enum { GATE, RESET, BATCH_HIDDEN, HIDDEN };
enum { G_INPUT, G_H0, G_WEIGHT, G_BIAS, G_GATE, G_RESET, G_BATCH_HIDDEN, G_DHIDDEN };
enum { G_DINPUT, G_DH0, G_DWEIGHT, G_DBIAS };

typedef struct attrs {
    tr_act activation, gate_activation;
    bool   is_reverse, origin_mode;
} attrs;

static const tr_op_proto proto = {
    .doc = "Gated recurrent units: with update u, candidate c and the state before h', Hidden = (1 - u) h' + u c.",
    .in = TR_SLOTS({"Input", "[rows, 3 width], of sequences, " TR_GRU_INPUT_DOC},
                   {"H0", "[sequences, width]: the state before the first row", TR_SLOT_OPTIONAL},
                   {"Weight", TR_GRU_WEIGHT_DOC, TR_SLOT_WIDE},
                   {"Bias", "[1, 3 width], in the order of Input", TR_SLOT_OPTIONAL | TR_SLOT_WIDE}),
    .out = TR_SLOTS({"BatchGate", "[rows, 3 width]: the activated gates, step after step of the sequences ranked by length",
                     TR_SLOT_INTERMEDIATE | TR_SLOT_WIDE},
                    {"BatchResetHiddenPrev", "[rows, width], in the order of BatchGate: reset gate times h'",
                     TR_SLOT_INTERMEDIATE | TR_SLOT_WIDE},
                    {"BatchHidden", "Hidden, in the order of BatchGate", TR_SLOT_INTERMEDIATE | TR_SLOT_WIDE},
                    {"Hidden", "[rows, width], with Input's sequences"}),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, activation, STRING, "of the candidate", .text = "tanh", .range = TR_GATE_ACTIVATIONS),
                       TR_ATTR(attrs, gate_activation, STRING, "of update and reset gate", .text = "sigmoid",
                               .range = TR_GATE_ACTIVATIONS),
                       TR_ATTR(attrs, is_reverse, BOOL, "go through each sequence from its last row to its first"),
                       TR_ATTR(attrs, origin_mode, BOOL, TR_GRU_ORIGIN_DOC)),
};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status infer(const tr_infer *io)
{
    int64_t width;

    TR_TRY(tr__check_gru_inputs(&width, io, "H0", -1));
    io->out[HIDDEN] = io->in[INPUT];
    io->out[HIDDEN].shape.dim[1] = width;
    io->out[GATE] = tr_meta_dense(tr__kept_type(io->in[INPUT].dtype), io->in[INPUT].shape);
    io->out[RESET] = io->out[BATCH_HIDDEN] = tr_meta_dense(io->out[GATE].dtype, io->out[HIDDEN].shape);
    return TR_OK;
}

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------- */
static const tr_grad_rule grad = {
    .op = "gru_grad",
    .reads = {TR_IN_SHAPE(INPUT), TR_IN(H0), TR_IN(WEIGHT), TR_IN_SHAPE(BIAS), TR_OUT(GATE), TR_OUT(RESET),
              TR_OUT(BATCH_HIDDEN), TR_DOUT(HIDDEN)},
    .makes = {TR_DIN(INPUT), TR_DIN(H0), TR_DIN(WEIGHT), TR_DIN(BIAS)},
};

TR_REGISTER_OP(gru, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(gru), .grad = &grad);
TR_REGISTER_OP(gru_grad, .grad_of = &tr_op_record_gru, .kernels = TR_FLOAT_KERNELS(gru_grad), .key = TR_KEY_IN_SLOT,
               .key_slot = G_DHIDDEN);
#else /* the kernels, for each T */

static NAME(tr_gru) NAME(gru_of)(const attrs *a, const tr_tensor *weight)
{
    return (NAME(tr_gru)){.width = weight->shape.dim[0], .gate_act = a->gate_activation, .candidate_act = a->activation,
                          .origin_mode = a->origin_mode, .weight = weight->data};
}

static tr_status NAME(gru)(const tr_run *io)
{
    const attrs     *a = io->attrs;
    const tr_tensor *gate = io->out[GATE], *reset = io->out[RESET], *hidden = io->out[BATCH_HIDDEN];
    tr_sequences     s;
    tr_batches       b;
    NAME(tr_gru)     u = NAME(gru_of)(a, io->in[WEIGHT]);
    T               *ranked = NULL;
    int64_t         *order;

    TR_TRY(tr_blas_init());
    TR_TRY(tr__sequences_of(&s, io, INPUT, 0));
    TR_TRY(tr__check_first_state(io, H0, s.count));
    u.batches = &b;
    u.gate = gate ? gate->data : NULL;
    u.reset = reset ? reset->data : NULL;
    u.hidden = hidden ? hidden->data : NULL;
    TR_TRY(tr__scratch_pieces(io, (const tr_piece[]){
        {&order, (size_t)tr_batches_size(s.offset, s.count) * sizeof *order}, {&ranked, tr__bytes_of(io->in[H0])},
        {&u.gate, gate ? 0 : tr__bytes_of(io->in[INPUT])}, {&u.reset, reset ? 0 : tr__bytes_of(io->out[HIDDEN])},
        {&u.hidden, hidden ? 0 : tr__bytes_of(io->out[HIDDEN])}, {NULL, 0}}));
    tr_batches_make(&b, order, s.offset, s.count, a->is_reverse);
    NAME(tr_batches_take)(u.gate, io->in[INPUT]->data, io->in[BIAS] ? io->in[BIAS]->data : NULL, &b, 3 * u.width);
    tr__state_to_ranks(ranked, io->in[H0], &b);
    u.h0 = ranked;
    NAME(tr_gru_forward)(&u);
    tr__rows_from_batches(io->out[HIDDEN], u.hidden, &b);
    return TR_OK;
}

static tr_status NAME(gru_grad)(const tr_run *io)
{
    const attrs     *a = io->attrs;
    const tr_tensor *h0 = io->in[G_H0], *hidden = io->in[G_BATCH_HIDDEN];
    tr_tensor       *dh0 = io->out[G_DH0], *dweight = io->out[G_DWEIGHT], *dbias = io->out[G_DBIAS];
    tr_sequences     s;
    tr_batches       b;
    NAME(tr_gru)     u = NAME(gru_of)(a, io->in[G_WEIGHT]);
    T               *ranked = NULL, *dranked = NULL, *dgate = NULL, *dreset = NULL, *dhidden = NULL;
    int64_t         *order;

    TR_TRY(tr_blas_init());
    TR_TRY(tr__sequences_of(&s, io, G_INPUT, 0));
    TR_TRY(tr__scratch_pieces(io, (const tr_piece[]){
        {&order, (size_t)tr_batches_size(s.offset, s.count) * sizeof *order}, {&ranked, tr__bytes_of(h0)},
        {&dranked, tr__bytes_of(dh0)}, {&dgate, tr__bytes_of(io->in[G_GATE])}, {&dreset, tr__bytes_of(hidden)},
        {&dhidden, tr__bytes_of(hidden)}, {NULL, 0}}));
    tr_batches_make(&b, order, s.offset, s.count, a->is_reverse);
    u.batches = &b;
    u.gate = io->in[G_GATE]->data;
    u.reset = io->in[G_RESET]->data;
    u.hidden = hidden->data;
    tr__state_to_ranks(ranked, h0, &b);
    u.h0 = ranked;
    if (dranked)
        memset(dranked, 0, tr__bytes_of(dh0));
    tr__rows_to_batches(dhidden, io->in[G_DHIDDEN], &b);
    NAME(tr_gru_backward)(&u, dgate, dreset, dhidden, dranked);
    tr__rows_from_batches(io->out[G_DINPUT], dgate, &b);
    tr__state_from_ranks(dh0, dranked, &b);
    if (dweight) {                                    /* dreset is free by now */
        tr_batches_previous(dreset, u.hidden, u.h0, &b, u.width * (int64_t)sizeof(T));
        NAME(tr_gru_weight_grad)(dweight->data, dgate, dreset, u.reset, b.rows, u.width);
    }
    if (dbias)
        NAME(tr_reduce_apply)(TR_REDUCE_SUM, dbias->data, dgate, 1, b.rows, 3 * u.width);
    return TR_OK;
}

#endif
