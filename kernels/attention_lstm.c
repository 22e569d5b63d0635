/* attention_lstm.c - an lstm whose input at each step is a mixture of all rows of its sequence, weighed by attention to the cell.
 *
 * At each step of a sequence x of n rows, with the cell c' and the hidden state h' of the step before:
 *
 *     score[i] = relu(x[i] . w_x + bias + c' . w_c), with AttentionWeight = (w_x, w_c)
 *     score[i] = relu(score[i] AttentionScalar + AttentionScalarBias), where AttentionScalar is given
 *     mixture  = softmax(score) x
 *     forget, input, output, candidate = (h', mixture) LSTMWeight + LSTMBias, the first three with gate_activation
 *     c = forget c' + input candidate_activation(candidate);  h = output cell_activation(c)
 *
 * It has kernels of its own, because a body of other operators has no loops. No gradient, as in Fluid. */
#ifndef T

#include <math.h>
#include <string.h>

#include "kernels/batch_order.h"
#include "kernels/check.h"
#include "kernels/math/blas.h"
#include "kernels/math/reduce.h"
#include "kernels/pieces.h"
#include "kernels/sequence.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { X, C0, H0, WEIGHT, BIAS, SCALAR, SCALAR_BIAS, LSTM_WEIGHT, LSTM_BIAS };
enum { HIDDEN, CELL, ATTENTIONED, FC_OUT, LSTM_X, LSTM_OUT };

typedef struct attrs {
    tr_act gate_activation, cell_activation, candidate_activation;
} attrs;

#define NOT_FILLED(name) {name, "is not filled", TR_SLOT_INTERMEDIATE}

static const tr_op_proto proto = {
    .doc = "A long short-term memory whose input at each step is a mixture of all rows of its sequence, weighed by attention.",
    .in = TR_SLOTS({"X", "[rows, in width] float, of sequences"}, {"C0", "[sequences, width]: the cell before the first step"},
                   {"H0", "like C0: the hidden state before the first step; without it zeros", TR_SLOT_OPTIONAL},
                   {"AttentionWeight", "[in width + width, 1]"}, {"AttentionBias", "[1, 1]", TR_SLOT_OPTIONAL},
                   {"AttentionScalar", "[1, 1]; what scores are multiplied by", TR_SLOT_OPTIONAL},
                   {"AttentionScalarBias", "[1, 1]; what is added then", TR_SLOT_OPTIONAL},
                   {"LSTMWeight", "[width + in width, 4 width]: forget, input, output, candidate"}, {"LSTMBias", "[1, 4 width], in that order"}),
    .out = TR_SLOTS({"Hidden", "[rows, width], with X's sequences"}, {"Cell", "like Hidden"}, NOT_FILLED("AttentionedX"),
                    NOT_FILLED("AttentionFCOut"), NOT_FILLED("LSTMX"), NOT_FILLED("LSTMOUT")),
    .attr = TR_ATTRS(TR_ATTR(attrs, gate_activation, STRING, "of forget, input and output gate", .text = "sigmoid", .range = TR_GATE_ACTIVATIONS),
                     TR_ATTR(attrs, cell_activation, STRING, "of the cell on its way out", .text = "tanh", .range = TR_GATE_ACTIVATIONS),
                     TR_ATTR(attrs, candidate_activation, STRING, "of what may enter the cell", .text = "tanh", .range = TR_GATE_ACTIVATIONS)),
    .attrs_size = sizeof(attrs),
};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status check_all(const tr_infer *io, int64_t in, int64_t width)
{
    const int64_t sum = in < 0 || width < 0 ? -1 : in + width, four = width < 0 ? -1 : 4 * width;
    const struct { const char *name; tr_shape shape; } expected[] = {
        [C0] = {"C0", TR_SHAPE(-1, width)}, [H0] = {"H0", TR_SHAPE(-1, width)}, [WEIGHT] = {"AttentionWeight", TR_SHAPE(sum, 1)},
        [BIAS] = {"AttentionBias", TR_SHAPE(1, 1)}, [SCALAR] = {"AttentionScalar", TR_SHAPE(1, 1)},
        [SCALAR_BIAS] = {"AttentionScalarBias", TR_SHAPE(1, 1)}, [LSTM_WEIGHT] = {"LSTMWeight", TR_SHAPE(sum, four)},
        [LSTM_BIAS] = {"LSTMBias", TR_SHAPE(1, four)},
    };

    for (int slot = C0; slot <= LSTM_BIAS; slot++) {
        if (io->in[slot].kind == TR_KIND_NONE)
            continue;
        TR_TRY(tr__check_dtype(io, expected[slot].name, &io->in[slot], io->in[X].dtype));
        TR_TRY(tr__check_shape(io, expected[slot].name, &io->in[slot], &expected[slot].shape));
    }
    return TR_OK;
}

static tr_status infer(const tr_infer *io)
{
    TR_TRY(tr__check_rank(io, "X", &io->in[X], 2));
    TR_TRY(tr__check_rank(io, "C0", &io->in[C0], 2));
    const int64_t width = io->in[C0].shape.dim[1];
    TR_TRY(check_all(io, io->in[X].shape.dim[1], width));
    io->out[HIDDEN] = io->in[X];
    io->out[HIDDEN].shape.dim[1] = width;
    io->out[CELL] = io->out[HIDDEN];
    for (int slot = ATTENTIONED; slot <= LSTM_OUT; slot++)
        io->out[slot] = tr_meta_dense(io->in[X].dtype, TR_SHAPE(0, 1));
    return TR_OK;
}

static tr_status check_state(const tr_run *io, int slot, const tr_sequences *s)
{
    if (io->in[slot] && io->in[slot]->shape.dim[0] != s->count)
        return tr_fail(TR_ESHAPE, "attention_lstm: %s '%s' has %lld rows, but X '%s' has %lld sequences", slot == C0 ? "C0" : "H0",
                       tr_run_in_name(io, slot, 0), (long long)io->in[slot]->shape.dim[0], tr_run_in_name(io, X, 0), (long long)s->count);
    return TR_OK;
}

/* -- kernels: the end of this file, once for each type --------------------------------------------- */
#define TR_TEMPLATE "kernels/attention_lstm.c"
#include "kernels/math/each_float.h"

TR_REGISTER_OP(attention_lstm, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(attention_lstm));

#else /* the kernel, for each T */

typedef struct {
    const attrs *a;
    int64_t      in, width;
    const T     *weight, *lstm_weight, *lstm_bias;
    T            bias, scalar, scalar_bias;
    bool         has_scalar;
    T           *scores, *own, *mixture, *gates;      /* own: x[i] . w_x + bias of all rows of X */
} NAME(job);

static T NAME(number)(const tr_tensor *tensor, T otherwise) { return tensor ? *(const T *)tensor->data : otherwise; }

static tr_status NAME(job_init)(NAME(job) *j, const tr_run *io, const tr_sequences *s)
{
    const tr_tensor *x = io->in[X];
    const int64_t    rows = x->shape.dim[0];

    *j = (NAME(job)){.a = io->attrs, .in = x->shape.dim[1], .width = io->in[C0]->shape.dim[1], .weight = io->in[WEIGHT]->data,
                     .lstm_weight = io->in[LSTM_WEIGHT]->data, .lstm_bias = io->in[LSTM_BIAS]->data, .bias = NAME(number)(io->in[BIAS], 0),
                     .scalar = NAME(number)(io->in[SCALAR], 1), .scalar_bias = NAME(number)(io->in[SCALAR_BIAS], 0),
                     .has_scalar = io->in[SCALAR] != NULL};
    TR_TRY(tr__scratch_pieces(io, (const tr_piece[]){{&j->scores, (size_t)(tr__sequences_longest(s) + 1) * sizeof(T)},
                                                     {&j->own, (size_t)(rows + 1) * sizeof(T)}, {&j->mixture, (size_t)(j->in + 1) * sizeof(T)},
                                                     {&j->gates, (size_t)(4 * j->width + 1) * sizeof(T)}, {NULL, 0}}));
    TR_TRY(tr_blas_init());
    if (rows > 0 && j->in > 0)
        NAME(tr_gemv)(false, rows, j->in, 1, x->data, j->in, j->weight, 0, j->own);
    for (int64_t i = 0; i < rows; i++)
        j->own[i] = (j->in > 0 ? j->own[i] : 0) + j->bias;
    return TR_OK;
}

/* The softmax of the scores of n rows, with the cell before. */
static void NAME(attend)(const NAME(job) *j, const T *own, const T *cell, int64_t n)
{
    const T about_cell = (T)NAME(tr_dot)(cell, j->weight + j->in, j->width);
    T       largest = 0, sum = 0;

    for (int64_t i = 0; i < n; i++) {
        T score = own[i] + about_cell > 0 ? own[i] + about_cell : 0;
        if (j->has_scalar) {
            score = score * j->scalar + j->scalar_bias;
            score = score > 0 ? score : 0;
        }
        j->scores[i] = score;
        largest = score > largest ? score : largest;
    }
    for (int64_t i = 0; i < n; i++)
        sum += j->scores[i] = (T)exp((double)(j->scores[i] - largest));
    for (int64_t i = 0; i < n; i++)
        j->scores[i] /= sum;
}

/* One step: the new cell and hidden state. */
static void NAME(step)(const NAME(job) *j, T *hidden, T *cell, const T *before_hidden, const T *before_cell)
{
    const int64_t w = j->width;

    memcpy(j->gates, j->lstm_bias, (size_t)(4 * w) * sizeof(T));
    if (j->in > 0)
        NAME(tr_gemv)(true, j->in, 4 * w, 1, j->lstm_weight + w * 4 * w, 4 * w, j->mixture, 1, j->gates);
    if (before_hidden)
        NAME(tr_gemv)(true, w, 4 * w, 1, j->lstm_weight, 4 * w, before_hidden, 1, j->gates);
    NAME(tr_act_apply)(j->a->gate_activation, j->gates, j->gates, 3 * w, 0, 0);
    NAME(tr_act_apply)(j->a->candidate_activation, j->gates + 3 * w, j->gates + 3 * w, w, 0, 0);
    for (int64_t i = 0; i < w; i++)
        cell[i] = j->gates[i] * before_cell[i] + j->gates[w + i] * j->gates[3 * w + i];
    NAME(tr_act_apply)(j->a->cell_activation, hidden, cell, w, 0, 0);
    for (int64_t i = 0; i < w; i++)
        hidden[i] *= j->gates[2 * w + i];
}

static tr_status NAME(attention_lstm)(const tr_run *io)
{
    const T     *x = io->in[X]->data, *c0 = io->in[C0]->data, *h0 = io->in[H0] ? io->in[H0]->data : NULL;
    T           *hidden = io->out[HIDDEN]->data, *cell = io->out[CELL]->data;
    tr_sequences s;
    NAME(job)    j;

    TR_TRY(tr__sequences_of(&s, io, X, 0));
    TR_TRY(check_state(io, C0, &s));
    TR_TRY(check_state(io, H0, &s));
    TR_TRY(NAME(job_init)(&j, io, &s));
    for (int64_t k = 0; k < s.count && j.width > 0; k++) {
        const int64_t begin = s.offset[k], n = s.offset[k + 1] - begin;
        const T      *before_cell = c0 + k * j.width, *before_hidden = h0 ? h0 + k * j.width : NULL;
        for (int64_t t = begin; t < begin + n; t++) {
            NAME(attend)(&j, j.own + begin, before_cell, n);
            if (j.in > 0)
                NAME(tr_gemv)(true, n, j.in, 1, x + begin * j.in, j.in, j.scores, 0, j.mixture);
            NAME(step)(&j, hidden + t * j.width, cell + t * j.width, before_hidden, before_cell);
            before_cell = cell + t * j.width;
            before_hidden = hidden + t * j.width;
        }
    }
    return TR_OK;
}

#endif
