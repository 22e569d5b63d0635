/* gru_unit.c - one step of gated recurrent units: the loop of gru.c for a batch of rows.
 *
 * Backward reads the activated gates and r h'. The gradient of the gradient is that of a body of other operators. */
#ifndef T

#include <string.h>

#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"
#include "kernels/base/scratch.h"
#include "kernels/math/arrays/reduce.h"
#include "kernels/math/products/blas.h"
#include "kernels/math/sequences/gru.h"
#include "kernels/recurrent/batch_order.h"
#include "kernels/recurrent/gru_inputs.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { INPUT, PREVIOUS, WEIGHT, BIAS };
enum { GATE, RESET, HIDDEN };
enum { G_PREVIOUS, G_WEIGHT, G_BIAS, G_GATE, G_RESET, G_DHIDDEN };
enum { G_DINPUT, G_DPREVIOUS, G_DWEIGHT, G_DBIAS };

typedef struct attrs {
    int32_t activation, gate_activation;
    bool    origin_mode;
} attrs;

/* The activations by their numbers. */
static const tr_act acts[] = {TR_ACT_identity, TR_ACT_sigmoid, TR_ACT_tanh, TR_ACT_relu};
#define ACT_DOC "0 identity, 1 sigmoid, 2 tanh, 3 relu"

static const tr_op_proto proto = {
    .doc = "One step of gated recurrent units, for a batch of rows: see gru.",
    .in = TR_SLOTS({"Input", "[batch, 3 width] " TR_GRU_INPUT_DOC}, {"HiddenPrev", "[batch, width]: the state before"},
                   {"Weight", TR_GRU_WEIGHT_DOC}, {"Bias", "[1, 3 width], in the order of Input", TR_SLOT_OPTIONAL}),
    .out = TR_SLOTS({"Gate", "[batch, 3 width]: the activated gates", TR_SLOT_INTERMEDIATE},
                    {"ResetHiddenPrev", "[batch, width]: reset gate times HiddenPrev", TR_SLOT_INTERMEDIATE},
                    {"Hidden", "[batch, width]"}),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, activation, INT, "of the candidate: " ACT_DOC, .number = 2, .range = TR_BETWEEN(0, 3)),
                       TR_ATTR(attrs, gate_activation, INT, "of update and reset gate: " ACT_DOC, .number = 1,
                               .range = TR_BETWEEN(0, 3)),
                       TR_ATTR(attrs, origin_mode, BOOL, TR_GRU_ORIGIN_DOC)),
};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status infer(const tr_infer *io)
{
    int64_t width;

    TR_TRY(tr__check_gru_inputs(&width, io, "HiddenPrev", io->in[INPUT].shape.rank == 2 ? io->in[INPUT].shape.dim[0] : -1));
    io->out[GATE] = tr_meta_dense(io->in[INPUT].dtype, io->in[INPUT].shape);
    io->out[HIDDEN] = io->in[PREVIOUS];
    io->out[RESET] = tr_meta_dense(io->in[INPUT].dtype, io->in[PREVIOUS].shape);
    return TR_OK;
}

static tr_status infer_grad(const tr_infer *io)
{
    io->out[G_DINPUT] = io->in[G_GATE];
    return TR_OK;
}

/* A step by itself, as batches: `start` is room for two numbers. */
static tr_batches one_step(int64_t *start, int64_t rows)
{
    start[0] = 0;
    start[1] = rows;
    return (tr_batches){.count = rows, .steps = 1, .rows = rows, .start = start};
}

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- by other operators, for second gradients ------------------------------------------------------ */

static const char *const act_ops[] = {"assign", "sigmoid", "tanh", "relu"};

static tr_status add_act(tr_composite *c, int act, const char *x, const char *out)
{
    return tr_composite_add(c, "%s(X=%s) -> %s", act_ops[act], x, out);
}

/* `dx` from `dout`, the gradient of the activated `out`. */
static tr_status add_act_grad(tr_composite *c, int act, const char *out, const char *dout, const char *dx)
{
    if (acts[act] == TR_ACT_identity)
        return tr_composite_add(c, "assign(X=%s) -> %s", dout, dx);
    return tr_composite_add(c, "%s_grad(Out=%s, Out@GRAD=%s) -> X@GRAD=%s", act_ops[act], out, dout, dx);
}

/* The two matrices that Weight is read as. As [1, 3 width, width] it is three squares of rows in the order of memory. */
static tr_status add_matrices(tr_composite *c)
{
    TR_TRY(tr_composite_add(c, "reshape(X=Weight) {shape=[0, 3, -1]} -> thirds"));
    TR_TRY(tr_composite_add(c, "reshape(X=thirds) {shape=[1, -1, 0]} -> squares"));
    TR_TRY(tr_composite_add(c, "split(X=squares) {num=3, axis=1} -> Out=[square0, square1, square2]"));
    TR_TRY(tr_composite_add(c, "concat(X=[square0, square1]) {axis=1} -> two_squares"));
    TR_TRY(tr_composite_add(c, "reshape(X=two_squares) {shape=[-1, 0]} -> gate_weight"));
    return tr_composite_add(c, "reshape(X=square2) {shape=[-1, 0]} -> candidate_weight");
}

/* Gate and ResetHiddenPrev, which the gradient operator reads. */
static tr_status parts(tr_composite *c)
{
    const attrs *a = tr_composite_attrs(c);

    TR_TRY(add_matrices(c));
    if (tr_composite_count(c, "Bias") > 0) {
        TR_TRY(tr_composite_add(c, "reshape(X=Bias) {shape=[-1]} -> bias"));
        TR_TRY(tr_composite_add(c, "elementwise_add(X=Input, Y=bias) -> input"));
    } else {
        TR_TRY(tr_composite_add(c, "assign(X=Input) -> input"));
    }
    TR_TRY(tr_composite_add(c, "split(X=input) {num=3, axis=1} -> Out=[in_u, in_r, in_c]"));
    TR_TRY(tr_composite_add(c, "mul(X=HiddenPrev, Y=gate_weight) -> gates"));
    TR_TRY(tr_composite_add(c, "split(X=gates) {num=2, axis=1} -> Out=[gate_u, gate_r]"));
    TR_TRY(tr_composite_add(c, "elementwise_add(X=in_u, Y=gate_u) -> sum_u"));
    TR_TRY(add_act(c, a->gate_activation, "sum_u", "u"));
    TR_TRY(tr_composite_add(c, "elementwise_add(X=in_r, Y=gate_r) -> sum_r"));
    TR_TRY(add_act(c, a->gate_activation, "sum_r", "r"));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=r, Y=HiddenPrev) -> reset"));
    TR_TRY(tr_composite_add(c, "assign(X=reset) -> ResetHiddenPrev"));
    TR_TRY(tr_composite_add(c, "mul(X=reset, Y=candidate_weight) -> gate_c"));
    TR_TRY(tr_composite_add(c, "elementwise_add(X=in_c, Y=gate_c) -> sum_c"));
    TR_TRY(add_act(c, a->activation, "sum_c", "c"));
    return tr_composite_add(c, "concat(X=[u, r, c]) {axis=1} -> Gate");
}

/* The gradients before the activations: du, dr, dc; `kept` is what of the hidden state's goes to the one before. */
static tr_status add_slopes(tr_composite *c, const attrs *a)
{
    const char *candidate = a->origin_mode ? "rest" : "u", *before = a->origin_mode ? "u" : "rest";

    TR_TRY(tr_composite_add(c, "split(X=Gate) {num=3, axis=1} -> Out=[u, r, c]"));
    TR_TRY(tr_composite_add(c, "scale(X=u) {scale=-1.0, bias=1.0} -> rest"));
    TR_TRY(tr_composite_add(c, "elementwise_sub(X=%s, Y=%s) -> difference", a->origin_mode ? "HiddenPrev" : "c", a->origin_mode ? "c" : "HiddenPrev"));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=Hidden@GRAD, Y=difference) -> active_u"));
    TR_TRY(add_act_grad(c, a->gate_activation, "u", "active_u", "du"));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=Hidden@GRAD, Y=%s) -> active_c", candidate));
    TR_TRY(add_act_grad(c, a->activation, "c", "active_c", "dc"));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=Hidden@GRAD, Y=%s) -> kept", before));
    TR_TRY(tr_composite_add(c, "matmul(X=dc, Y=candidate_weight) {transpose_Y=true} -> dreset"));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=dreset, Y=HiddenPrev) -> active_r"));
    return add_act_grad(c, a->gate_activation, "r", "active_r", "dr");
}

static tr_status slope(tr_composite *c)
{
    TR_TRY(add_matrices(c));
    TR_TRY(add_slopes(c, tr_composite_attrs(c)));
    TR_TRY(tr_composite_add(c, "concat(X=[du, dr]) {axis=1} -> dgates"));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=dreset, Y=r) -> by_reset"));
    TR_TRY(tr_composite_add(c, "matmul(X=dgates, Y=gate_weight) {transpose_Y=true} -> by_gates"));
    TR_TRY(tr_composite_add(c, "sum(X=[kept, by_reset, by_gates]) -> HiddenPrev@GRAD"));
    TR_TRY(tr_composite_add(c, "concat(X=[dgates, dc]) {axis=1} -> dinput"));
    TR_TRY(tr_composite_add(c, "assign(X=dinput) -> Input@GRAD"));
    if (tr_composite_count(c, "Bias") > 0)
        TR_TRY(tr_composite_add(c, "reduce_sum(X=dinput) {dim=[0], keep_dim=true} -> Bias@GRAD"));
    TR_TRY(tr_composite_add(c, "matmul(X=HiddenPrev, Y=dgates) {transpose_X=true} -> dgate_weight"));
    TR_TRY(tr_composite_add(c, "reshape(X=dgate_weight) {shape=[0, 2, -1]} -> dhalves"));
    TR_TRY(tr_composite_add(c, "reshape(X=dhalves) {shape=[1, -1, 0]} -> dtwo_squares"));
    TR_TRY(tr_composite_add(c, "matmul(X=ResetHiddenPrev, Y=dc) {transpose_X=true} -> dcandidate_weight"));
    TR_TRY(tr_composite_add(c, "reshape(X=dcandidate_weight) {shape=[1, 0, -1]} -> dsquare"));
    TR_TRY(tr_composite_add(c, "concat(X=[dtwo_squares, dsquare]) {axis=1} -> dsquares"));
    return tr_composite_add(c, "reshape(X=dsquares) {shape=[-1, 0]} -> Weight@GRAD");
}

static const tr_grad_rule grad = {
    .op = "gru_unit_grad",
    .reads = {TR_IN(PREVIOUS), TR_IN(WEIGHT), TR_IN_SHAPE(BIAS), TR_OUT(GATE), TR_OUT(RESET), TR_DOUT(HIDDEN)},
    .makes = {TR_DIN(INPUT), TR_DIN(PREVIOUS), TR_DIN(WEIGHT), TR_DIN(BIAS)},
    .second = tr__second_body, .body = slope, .rest = tr__grad_by_parts, .parts = parts,
};

TR_REGISTER_OP(gru_unit, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(gru_unit), .grad = &grad);
TR_REGISTER_OP(gru_unit_grad, .grad_of = &tr_op_record_gru_unit, .infer = infer_grad,
               .kernels = TR_FLOAT_KERNELS(gru_unit_grad));

#else /* the kernels, for each T */

static NAME(tr_gru) NAME(gru_of)(const attrs *a, const tr_tensor *weight, const tr_batches *b)
{
    return (NAME(tr_gru)){.batches = b, .width = weight->shape.dim[0], .gate_act = acts[a->gate_activation],
                          .candidate_act = acts[a->activation], .origin_mode = a->origin_mode, .weight = weight->data};
}

static tr_status NAME(gru_unit)(const tr_run *io)
{
    const tr_tensor *input = io->in[INPUT], *gate = io->out[GATE], *reset = io->out[RESET];
    const int64_t    rows = input->shape.dim[0], gates = input->shape.dim[1];
    const T         *x = input->data, *bias = io->in[BIAS] ? io->in[BIAS]->data : NULL;
    int64_t          start[2];
    const tr_batches b = one_step(start, rows);
    NAME(tr_gru)     u = NAME(gru_of)(io->attrs, io->in[WEIGHT], &b);

    TR_TRY(tr_blas_init());
    u.gate = gate ? gate->data : NULL;
    u.reset = reset ? reset->data : NULL;
    u.hidden = io->out[HIDDEN]->data;
    u.h0 = io->in[PREVIOUS]->data;
    TR_TRY(tr__scratch_pieces(io, (const tr_piece[]){{&u.gate, gate ? 0 : tr__bytes_of(input)},
                                                     {&u.reset, reset ? 0 : tr__bytes_of(io->out[HIDDEN])}, {NULL, 0}}));
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < gates; j++)
            u.gate[i * gates + j] = x[i * gates + j] + (bias ? bias[j] : 0);
    NAME(tr_gru_forward)(&u);
    return TR_OK;
}

static tr_status NAME(gru_unit_grad)(const tr_run *io)
{
    const tr_tensor *gate = io->in[G_GATE], *previous = io->in[G_PREVIOUS];
    tr_tensor       *dinput = io->out[G_DINPUT], *dprevious = io->out[G_DPREVIOUS];
    const int64_t    rows = gate->shape.dim[0];
    int64_t          start[2];
    const tr_batches b = one_step(start, rows);
    NAME(tr_gru)     u = NAME(gru_of)(io->attrs, io->in[G_WEIGHT], &b);
    T               *dgate = dinput ? dinput->data : NULL, *dreset = NULL, *dhidden = NULL;

    TR_TRY(tr_blas_init());
    TR_TRY(tr__scratch_pieces(io, (const tr_piece[]){{&dgate, dinput ? 0 : tr__bytes_of(gate)}, {&dreset, tr__bytes_of(previous)},
                                                     {&dhidden, tr__bytes_of(previous)}, {NULL, 0}}));
    u.gate = gate->data;
    u.reset = io->in[G_RESET]->data;
    u.h0 = previous->data;
    if (tr__bytes_of(previous) > 0)
        memcpy(dhidden, io->in[G_DHIDDEN]->data, tr__bytes_of(previous));
    if (dprevious)
        memset(dprevious->data, 0, tr__bytes_of(dprevious));
    NAME(tr_gru_backward)(&u, dgate, dreset, dhidden, dprevious ? dprevious->data : NULL);
    if (io->out[G_DWEIGHT])
        NAME(tr_gru_weight_grad)(io->out[G_DWEIGHT]->data, dgate, previous->data, u.reset, rows, u.width);
    if (io->out[G_DBIAS])
        NAME(tr_reduce_apply)(TR_REDUCE_SUM, io->out[G_DBIAS]->data, dgate, 1, rows, 3 * u.width);
    return TR_OK;
}

#endif
