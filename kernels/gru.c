/* gru.c - gated recurrent units over sequences of any length, and gru_unit: one step of them.
 *
 * As lstm.c: batch order, one step at a time. What backward reads is in that order already: the activated gates,
 * r h' and the hidden states. */
#ifndef T

#include <string.h>

#include "kernels/batch_order.h"
#include "kernels/check.h"
#include "kernels/math/blas.h"
#include "kernels/math/gru.h"
#include "kernels/math/reduce.h"
#include "kernels/pieces.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { INPUT, H0, WEIGHT, BIAS };                                /* of gru */
enum { GATE, RESET, BATCH_HIDDEN, HIDDEN };
enum { G_INPUT, G_H0, G_WEIGHT, G_BIAS, G_GATE, G_RESET, G_BATCH_HIDDEN, G_DHIDDEN };
enum { G_DINPUT, G_DH0, G_DWEIGHT, G_DBIAS };

enum { U_INPUT, U_PREVIOUS, U_WEIGHT, U_BIAS };                  /* of gru_unit */
enum { U_GATE, U_RESET, U_HIDDEN };
enum { UG_PREVIOUS, UG_WEIGHT, UG_BIAS, UG_GATE, UG_RESET, UG_DHIDDEN };
enum { UG_DINPUT, UG_DPREVIOUS, UG_DWEIGHT, UG_DBIAS };

typedef struct attrs {
    tr_act activation, gate_activation;
    bool   is_reverse, origin_mode;
} attrs;

typedef struct unit_attrs {
    int32_t activation, gate_activation;
    bool    origin_mode;
} unit_attrs;

#define INPUT_DOC  "float: the projected input, as update, reset, candidate"
#define WEIGHT_DOC "[width, 3 width], read as two matrices: [width, 2 width] for update and reset, then [width, width] for the candidate"
#define ORIGIN_DOC "Hidden = u h' + (1 - u) c; otherwise (1 - u) h' + u c"

static const tr_op_proto proto = {
    .doc = "Gated recurrent units: with update u, candidate c and the state before h', Hidden = (1 - u) h' + u c.",
    .in = TR_SLOTS({"Input", "[rows, 3 width], of sequences, " INPUT_DOC},
                   {"H0", "[sequences, width]: the state before the first row", TR_SLOT_OPTIONAL},
                   {"Weight", WEIGHT_DOC}, {"Bias", "[1, 3 width], in the order of Input", TR_SLOT_OPTIONAL}),
    .out = TR_SLOTS({"BatchGate", "[rows, 3 width]: the activated gates, step after step of the sequences ranked by length", TR_SLOT_INTERMEDIATE},
                    {"BatchResetHiddenPrev", "[rows, width], in the order of BatchGate: reset gate times h'", TR_SLOT_INTERMEDIATE},
                    {"BatchHidden", "Hidden, in the order of BatchGate", TR_SLOT_INTERMEDIATE},
                    {"Hidden", "[rows, width], with Input's sequences"}),
    .attr = TR_ATTRS(TR_ATTR(attrs, activation, STRING, "of the candidate", .text = "tanh", .range = TR_GATE_ACTIVATIONS),
                     TR_ATTR(attrs, gate_activation, STRING, "of update and reset gate", .text = "sigmoid",
                             .range = TR_GATE_ACTIVATIONS),
                     TR_ATTR(attrs, is_reverse, BOOL, "go through each sequence from its last row to its first"),
                     TR_ATTR(attrs, origin_mode, BOOL, ORIGIN_DOC)),
    .attrs_size = sizeof(attrs),
};

/* What the numbers of gru_unit's activations stand for. */
static const tr_act unit_acts[] = {TR_ACT_identity, TR_ACT_sigmoid, TR_ACT_tanh, TR_ACT_relu};
#define UNIT_ACT_DOC "0 identity, 1 sigmoid, 2 tanh, 3 relu"

static const tr_op_proto unit_proto = {
    .doc = "One step of gated recurrent units, for a batch of rows: see gru.",
    .in = TR_SLOTS({"Input", "[batch, 3 width] " INPUT_DOC}, {"HiddenPrev", "[batch, width]: the state before"},
                   {"Weight", WEIGHT_DOC}, {"Bias", "[1, 3 width], in the order of Input", TR_SLOT_OPTIONAL}),
    .out = TR_SLOTS({"Gate", "[batch, 3 width]: the activated gates", TR_SLOT_INTERMEDIATE},
                    {"ResetHiddenPrev", "[batch, width]: reset gate times HiddenPrev", TR_SLOT_INTERMEDIATE},
                    {"Hidden", "[batch, width]"}),
    .attr = TR_ATTRS(TR_ATTR(unit_attrs, activation, INT, "of the candidate: " UNIT_ACT_DOC, .number = 2, .range = TR_BETWEEN(0, 3)),
                     TR_ATTR(unit_attrs, gate_activation, INT, "of update and reset gate: " UNIT_ACT_DOC, .number = 1,
                             .range = TR_BETWEEN(0, 3)),
                     TR_ATTR(unit_attrs, origin_mode, BOOL, ORIGIN_DOC)),
    .attrs_size = sizeof(unit_attrs),
};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status check_matrix(const tr_infer *io, const char *name, int slot, int64_t rows, int64_t cols)
{
    const tr_meta *meta = &io->in[slot];

    if (meta->kind == TR_KIND_NONE)
        return TR_OK;
    TR_TRY(tr__check_dense(io, name, meta));
    TR_TRY(tr__check_dtype(io, name, meta, io->in[INPUT].dtype));
    return tr__check_shape(io, name, meta, &TR_SHAPE(rows, cols));
}

/* Both operators have Input, a state, Weight and Bias, in this order. */
static tr_status check_inputs(int64_t *width, const tr_infer *io, const char *state, int64_t state_rows)
{
    const tr_shape *input = &io->in[INPUT].shape;

    TR_TRY(tr__check_dense(io, "Input", &io->in[INPUT]));
    TR_TRY(tr__check_rank(io, "Input", &io->in[INPUT], 2));
    if (input->dim[1] >= 0 && (input->dim[1] == 0 || input->dim[1] % 3 != 0))
        return tr_fail(TR_ESHAPE, "%s: Input is %s; its width must be 3 times that of the hidden state", io->type,
                       TR_SHAPE_STR(*input));
    const int64_t n = input->dim[1] < 0 ? -1 : input->dim[1] / 3, all = input->dim[1];
    TR_TRY(check_matrix(io, "Weight", WEIGHT, n, all));
    TR_TRY(check_matrix(io, "Bias", BIAS, 1, all));
    TR_TRY(check_matrix(io, state, H0, state_rows, n));
    *width = n < 0 ? io->in[WEIGHT].shape.dim[0] : n;
    return TR_OK;
}

static tr_status infer(const tr_infer *io)
{
    int64_t width;

    TR_TRY(check_inputs(&width, io, "H0", -1));
    io->out[HIDDEN] = io->in[INPUT];
    io->out[HIDDEN].shape.dim[1] = width;
    io->out[GATE] = tr_meta_dense(io->in[INPUT].dtype, io->in[INPUT].shape);
    io->out[RESET] = io->out[BATCH_HIDDEN] = tr_meta_dense(io->in[INPUT].dtype, io->out[HIDDEN].shape);
    return TR_OK;
}

static tr_status infer_unit(const tr_infer *io)
{
    int64_t width;

    TR_TRY(check_inputs(&width, io, "HiddenPrev", io->in[U_INPUT].shape.rank == 2 ? io->in[U_INPUT].shape.dim[0] : -1));
    io->out[U_GATE] = tr_meta_dense(io->in[U_INPUT].dtype, io->in[U_INPUT].shape);
    io->out[U_HIDDEN] = io->in[U_PREVIOUS];
    io->out[U_RESET] = tr_meta_dense(io->in[U_INPUT].dtype, io->in[U_PREVIOUS].shape);
    return TR_OK;
}

static tr_status infer_unit_grad(const tr_infer *io)
{
    io->out[UG_DINPUT] = io->in[UG_GATE];
    io->out[UG_DPREVIOUS] = io->in[UG_PREVIOUS];
    io->out[UG_DWEIGHT] = io->in[UG_WEIGHT];
    if (io->in[UG_BIAS].kind != TR_KIND_NONE)
        io->out[UG_DBIAS] = io->in[UG_BIAS];
    return TR_OK;
}

static size_t bytes_of(const tr_tensor *x)
{
    return x ? (size_t)tr_tensor_bytes(x) : 0;
}

/* A step by itself, as batches: `start` is room for two numbers. */
static tr_batches one_step(int64_t *start, int64_t rows)
{
    start[0] = 0;
    start[1] = rows;
    return (tr_batches){.count = rows, .steps = 1, .rows = rows, .start = start};
}

/* -- kernels -------------------------------------------------------------------------------------- */
#define TR_TEMPLATE "kernels/gru.c"
#include "kernels/math/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------- */
static const tr_grad_rule grad = {
    .op = "gru_grad",
    .reads = {TR_IN_SHAPE(INPUT), TR_IN(H0), TR_IN(WEIGHT), TR_IN_SHAPE(BIAS), TR_OUT(GATE), TR_OUT(RESET),
              TR_OUT(BATCH_HIDDEN), TR_DOUT(HIDDEN)},
    .makes = {TR_DIN(INPUT), TR_DIN(H0), TR_DIN(WEIGHT), TR_DIN(BIAS)},
};

static const tr_grad_rule unit_grad = {
    .op = "gru_unit_grad",
    .reads = {TR_IN(U_PREVIOUS), TR_IN(U_WEIGHT), TR_IN_SHAPE(U_BIAS), TR_OUT(U_GATE), TR_OUT(U_RESET), TR_DOUT(U_HIDDEN)},
    .makes = {TR_DIN(U_INPUT), TR_DIN(U_PREVIOUS), TR_DIN(U_WEIGHT), TR_DIN(U_BIAS)},
};

TR_REGISTER_OP(gru, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(gru), .grad = &grad);
TR_REGISTER_OP(gru_grad, .grad_of = &tr_op_record_gru, .kernels = TR_FLOAT_KERNELS(gru_grad), .key = TR_KEY_IN_SLOT,
               .key_slot = G_GATE);
TR_REGISTER_OP(gru_unit, .proto = &unit_proto, .infer = infer_unit, .kernels = TR_FLOAT_KERNELS(gru_unit), .grad = &unit_grad);
TR_REGISTER_OP(gru_unit_grad, .grad_of = &tr_op_record_gru_unit, .infer = infer_unit_grad,
               .kernels = TR_FLOAT_KERNELS(gru_unit_grad));

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
        {&order, (size_t)tr_batches_size(s.offset, s.count) * sizeof *order}, {&ranked, bytes_of(io->in[H0])},
        {&u.gate, gate ? 0 : bytes_of(io->in[INPUT])}, {&u.reset, reset ? 0 : bytes_of(io->out[HIDDEN])},
        {&u.hidden, hidden ? 0 : bytes_of(io->out[HIDDEN])}, {NULL, 0}}));
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
        {&order, (size_t)tr_batches_size(s.offset, s.count) * sizeof *order}, {&ranked, bytes_of(h0)},
        {&dranked, bytes_of(dh0)}, {&dgate, bytes_of(io->in[G_GATE])}, {&dreset, bytes_of(hidden)},
        {&dhidden, bytes_of(hidden)}, {NULL, 0}}));
    tr_batches_make(&b, order, s.offset, s.count, a->is_reverse);
    u.batches = &b;
    u.gate = io->in[G_GATE]->data;
    u.reset = io->in[G_RESET]->data;
    u.hidden = hidden->data;
    tr__state_to_ranks(ranked, h0, &b);
    u.h0 = ranked;
    if (dranked)
        memset(dranked, 0, bytes_of(dh0));
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

/* -- one step ------------------------------------------------------------------------------------------------ */

static NAME(tr_gru) NAME(unit_of)(const unit_attrs *a, const tr_tensor *weight, const tr_batches *b)
{
    return (NAME(tr_gru)){.batches = b, .width = weight->shape.dim[0], .gate_act = unit_acts[a->gate_activation],
                          .candidate_act = unit_acts[a->activation], .origin_mode = a->origin_mode, .weight = weight->data};
}

static tr_status NAME(gru_unit)(const tr_run *io)
{
    const tr_tensor *input = io->in[U_INPUT], *gate = io->out[U_GATE], *reset = io->out[U_RESET];
    const int64_t    rows = input->shape.dim[0], gates = input->shape.dim[1];
    const T         *x = input->data, *bias = io->in[U_BIAS] ? io->in[U_BIAS]->data : NULL;
    int64_t          start[2];
    const tr_batches b = one_step(start, rows);
    NAME(tr_gru)     u = NAME(unit_of)(io->attrs, io->in[U_WEIGHT], &b);

    TR_TRY(tr_blas_init());
    u.gate = gate ? gate->data : NULL;
    u.reset = reset ? reset->data : NULL;
    u.hidden = io->out[U_HIDDEN]->data;
    u.h0 = io->in[U_PREVIOUS]->data;
    TR_TRY(tr__scratch_pieces(io, (const tr_piece[]){{&u.gate, gate ? 0 : bytes_of(input)},
                                                     {&u.reset, reset ? 0 : bytes_of(io->out[U_HIDDEN])}, {NULL, 0}}));
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < gates; j++)
            u.gate[i * gates + j] = x[i * gates + j] + (bias ? bias[j] : 0);
    NAME(tr_gru_forward)(&u);
    return TR_OK;
}

static tr_status NAME(gru_unit_grad)(const tr_run *io)
{
    const tr_tensor *gate = io->in[UG_GATE], *previous = io->in[UG_PREVIOUS];
    tr_tensor       *dinput = io->out[UG_DINPUT], *dprevious = io->out[UG_DPREVIOUS];
    const int64_t    rows = gate->shape.dim[0];
    int64_t          start[2];
    const tr_batches b = one_step(start, rows);
    NAME(tr_gru)     u = NAME(unit_of)(io->attrs, io->in[UG_WEIGHT], &b);
    T               *dgate = dinput ? dinput->data : NULL, *dreset = NULL, *dhidden = NULL;

    TR_TRY(tr_blas_init());
    TR_TRY(tr__scratch_pieces(io, (const tr_piece[]){{&dgate, dinput ? 0 : bytes_of(gate)}, {&dreset, bytes_of(previous)},
                                                     {&dhidden, bytes_of(previous)}, {NULL, 0}}));
    u.gate = gate->data;
    u.reset = io->in[UG_RESET]->data;
    u.h0 = previous->data;
    if (bytes_of(previous) > 0)
        memcpy(dhidden, io->in[UG_DHIDDEN]->data, bytes_of(previous));
    if (dprevious)
        memset(dprevious->data, 0, bytes_of(dprevious));
    NAME(tr_gru_backward)(&u, dgate, dreset, dhidden, dprevious ? dprevious->data : NULL);
    if (io->out[UG_DWEIGHT])
        NAME(tr_gru_weight_grad)(io->out[UG_DWEIGHT]->data, dgate, previous->data, u.reset, rows, u.width);
    if (io->out[UG_DBIAS])
        NAME(tr_reduce_apply)(TR_REDUCE_SUM, io->out[UG_DBIAS]->data, dgate, 1, rows, 3 * u.width);
    return TR_OK;
}

#endif
