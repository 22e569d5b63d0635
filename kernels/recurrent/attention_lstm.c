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
 * All sequences make a step together. It has kernels of its own, because a body of other operators has no loops. No gradient, as in Fluid. */
#ifndef T

#include <string.h>

#include "framework/threads/threadpool.h"
#include "kernels/base/check.h"
#include "kernels/base/scratch.h"
#include "kernels/math/arrays/reduce.h"
#include "kernels/math/arrays/softmax.h"
#include "kernels/math/products/blas.h"
#include "kernels/recurrent/batch_order.h"
#include "kernels/sequences/sequence.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { X, C0, H0, WEIGHT, BIAS, SCALAR, SCALAR_BIAS, LSTM_WEIGHT, LSTM_BIAS };
enum { HIDDEN, CELL, ATTENTIONED, FC_OUT, LSTM_X, LSTM_OUT };

typedef struct attrs {
    tr_act gate_activation, cell_activation, candidate_activation;
} attrs;

#define NOT_FILLED(name) {name, "is not filled", TR_SLOT_INTERMEDIATE}

static const tr_op_proto proto = {
    .doc = "A long short-term memory whose input at each step is a mixture of all rows of its sequence, weighed by attention.",
    .in = TR_SLOTS(TR_SLOT("X", "[rows, in width]", " float, of sequences"),
                   TR_SLOT("C0", "[sequences, width]", ": the cell before the first step"),
                   TR_SLOT("H0", "[sequences, width]", ": the hidden state before the first step; without it zeros", TR_SLOT_OPTIONAL),
                   {"AttentionWeight", "[in width + width, 1]"}, TR_SLOT("AttentionBias", "[1, 1]", "", TR_SLOT_OPTIONAL),
                   TR_SLOT("AttentionScalar", "[1, 1]", "; what scores are multiplied by", TR_SLOT_OPTIONAL),
                   TR_SLOT("AttentionScalarBias", "[1, 1]", "; what is added then", TR_SLOT_OPTIONAL),
                   {"LSTMWeight", "[width + in width, 4 width]: forget, input, output, candidate"},
                   TR_SLOT("LSTMBias", "[1, 4 width]", ", in that order")),
    .out = TR_SLOTS({"Hidden", "[rows, width], with X's sequences"}, {"Cell", "like Hidden"}, NOT_FILLED("AttentionedX"),
                    NOT_FILLED("AttentionFCOut"), NOT_FILLED("LSTMX"), NOT_FILLED("LSTMOUT")),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, gate_activation, STRING, "of forget, input and output gate", .text = "sigmoid", .range = TR_GATE_ACTIVATIONS),
                       TR_ATTR(attrs, cell_activation, STRING, "of the cell on its way out", .text = "tanh", .range = TR_GATE_ACTIVATIONS),
                       TR_ATTR(attrs, candidate_activation, STRING, "of what may enter the cell", .text = "tanh", .range = TR_GATE_ACTIVATIONS)),
};

static tr_status check_weights(const tr_infer *io, int64_t in, int64_t width)
{
    const int64_t sum = in < 0 || width < 0 ? -1 : in + width;

    TR_TRY(tr__check_shape(io, "AttentionWeight", &io->in[WEIGHT], &TR_SHAPE(sum, 1)));
    return tr__check_shape(io, "LSTMWeight", &io->in[LSTM_WEIGHT], &TR_SHAPE(sum, width < 0 ? -1 : 4 * width));
}

static tr_status infer(const tr_infer *io)
{
    const int64_t width = io->in[C0].shape.dim[1];
    TR_TRY(check_weights(io, io->in[X].shape.dim[1], width));
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
#include "kernels/math/tools/each_float.h"

TR_REGISTER_OP(attention_lstm, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(attention_lstm));

#else /* the kernel, for each T */

typedef struct {
    const attrs       *a;
    int64_t            in, width, step;
    const int64_t     *offset;        /* of the sequences in X */
    const T           *x, *c0, *h0, *weight, *lstm_weight, *lstm_bias;
    T                  bias, scalar, scalar_bias;
    bool               has_scalar;
    T                 *hidden, *cell;               /* the results */
    T                 *scores, *own;                /* of each row of X; own: x[i] . w_x + bias */
    T                 *fed_back, *gates;            /* of each active sequence: the hidden state before and the mixture; the gates */
    int64_t           *active, active_count;        /* the sequences that have this step */
    NAME(tr_factor)    factor;                      /* LSTMWeight */
    T                 *packed;
} NAME(job);

static T NAME(number)(const tr_tensor *tensor, T otherwise) { return tensor ? *(const T *)tensor->data : otherwise; }

static void NAME(set_own)(const NAME(job) *j, int64_t rows)
{
    if (rows > 0 && j->in > 0)
        NAME(tr_gemv)(false, rows, j->in, 1, j->x, j->in, j->weight, 0, j->own);
    for (int64_t i = 0; i < rows; i++)
        j->own[i] = (j->in > 0 ? j->own[i] : 0) + j->bias;
}

static tr_status NAME(job_init)(NAME(job) *j, const tr_run *io, const tr_sequences *s)
{
    const tr_tensor *x = io->in[X];
    const int64_t    rows = x->shape.dim[0], in = x->shape.dim[1], width = io->in[C0]->shape.dim[1];

    *j = (NAME(job)){.a = io->attrs, .in = in, .width = width, .offset = s->offset, .x = x->data, .c0 = io->in[C0]->data,
                     .h0 = io->in[H0] ? io->in[H0]->data : NULL, .weight = io->in[WEIGHT]->data, .lstm_weight = io->in[LSTM_WEIGHT]->data,
                     .lstm_bias = io->in[LSTM_BIAS]->data, .bias = NAME(number)(io->in[BIAS], 0), .scalar = NAME(number)(io->in[SCALAR], 1),
                     .scalar_bias = NAME(number)(io->in[SCALAR_BIAS], 0), .has_scalar = io->in[SCALAR] != NULL,
                     .hidden = io->out[HIDDEN]->data, .cell = io->out[CELL]->data};
    TR_TRY(tr_blas_init());
    const int64_t packed = NAME(tr_factor_size)(4 * width, width + in, rows);
    TR_TRY(tr__scratch_pieces(io, (const tr_piece[]){{&j->scores, (size_t)(rows + 1) * sizeof(T)}, {&j->own, (size_t)(rows + 1) * sizeof(T)},
                                                     {&j->fed_back, (size_t)(s->count * (width + in) + 1) * sizeof(T)},
                                                     {&j->gates, (size_t)(s->count * 4 * width + 1) * sizeof(T)},
                                                     {&j->active, (size_t)(s->count + 1) * sizeof(int64_t)},
                                                     {&j->packed, (size_t)(packed + 1) * sizeof(T)}, {NULL, 0}}));
    NAME(tr_factor_init)(&j->factor, false, 4 * width, width + in, j->lstm_weight, 4 * width, rows, j->packed);
    NAME(set_own)(j, rows);
    for (int64_t k = 0; k < s->count; k++)
        j->active[j->active_count++] = k;
    return TR_OK;
}

/* Drop the sequences that end before this step. */
static void NAME(choose_active)(NAME(job) *j)
{
    int64_t left = 0;

    for (int64_t i = 0; i < j->active_count; i++)
        if (j->offset[j->active[i] + 1] - j->offset[j->active[i]] > j->step)
            j->active[left++] = j->active[i];
    j->active_count = left;
}

static const T *NAME(cell_before)(const NAME(job) *j, int64_t k)
{
    return j->step ? j->cell + (j->offset[k] + j->step - 1) * j->width : j->c0 + k * j->width;
}

/* The softmax of the scores of the rows of sequence k. */
static T *NAME(attend)(const NAME(job) *j, int64_t k)
{
    const T       about_cell = (T)NAME(tr_dot)(NAME(cell_before)(j, k), j->weight + j->in, j->width);
    const int64_t n = j->offset[k + 1] - j->offset[k];
    const T      *own = j->own + j->offset[k];
    T            *scores = j->scores + j->offset[k];

    for (int64_t i = 0; i < n; i++) {
        const T score = own[i] + about_cell > 0 ? own[i] + about_cell : 0, scaled = score * j->scalar + j->scalar_bias;
        scores[i] = !j->has_scalar ? score : scaled > 0 ? scaled : 0;
    }
    NAME(tr_softmax)(scores, scores, 1, n);
    return scores;
}

/* The factors of LSTMWeight in a step: the hidden state before, and the mixture. */
static void NAME(mix)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;

    for (int64_t i = begin; i < end; i++) {
        const int64_t k = j->active[i], first = j->offset[k], n = j->offset[k + 1] - first;
        const T      *before = j->step ? j->hidden + (first + j->step - 1) * j->width : j->h0 ? j->h0 + k * j->width : NULL;
        T            *to = j->fed_back + i * (j->width + j->in), *scores = NAME(attend)(j, k);
        if (before)
            memcpy(to, before, (size_t)j->width * sizeof(T));
        if (j->in > 0)
            NAME(tr_gemv)(true, n, j->in, 1, j->x + first * j->in, j->in, scores, 0, to + j->width);
    }
}

/* The gates before their activations. Before the first step there may be no hidden state. */
static void NAME(multiply)(const NAME(job) *j)
{
    const int64_t w = j->width, both = w + j->in, count = j->active_count;

    for (int64_t i = 0; i < count; i++)
        memcpy(j->gates + i * 4 * w, j->lstm_bias, (size_t)(4 * w) * sizeof(T));
    if (j->step || j->h0)
        NAME(tr_gemm_factor)(count, j->fed_back, both, &j->factor, 1, j->gates, 4 * w);
    else if (j->in > 0)
        NAME(tr_gemm)(false, false, count, 4 * w, j->in, 1, j->fed_back + w, both, j->lstm_weight + w * 4 * w, 4 * w, 1, j->gates, 4 * w);
}

/* The new cells and hidden states. */
static void NAME(move_on)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    const int64_t    w = j->width;

    for (int64_t i = begin; i < end; i++) {
        const int64_t k = j->active[i], row = j->offset[k] + j->step;
        const T      *before = NAME(cell_before)(j, k);
        T            *gate = j->gates + i * 4 * w, *cell = j->cell + row * w, *hidden = j->hidden + row * w;
        NAME(tr_act_apply)(j->a->gate_activation, gate, gate, 3 * w, 0, 0);
        NAME(tr_act_apply)(j->a->candidate_activation, gate + 3 * w, gate + 3 * w, w, 0, 0);
        for (int64_t e = 0; e < w; e++)
            cell[e] = gate[e] * before[e] + gate[w + e] * gate[3 * w + e];
        NAME(tr_act_apply)(j->a->cell_activation, hidden, cell, w, 0, 0);
        for (int64_t e = 0; e < w; e++)
            hidden[e] *= gate[2 * w + e];
    }
}

static tr_status NAME(attention_lstm)(const tr_run *io)
{
    enum { MIN_SEQUENCES = 4 };                    /* of a slice */
    tr_sequences s;
    NAME(job)    j;

    TR_TRY(tr__sequences_of(&s, io, X, 0));
    TR_TRY(check_state(io, C0, &s));
    TR_TRY(check_state(io, H0, &s));
    TR_TRY(NAME(job_init)(&j, io, &s));
    for (; j.width > 0; j.step++) {
        NAME(choose_active)(&j);
        if (j.active_count == 0)
            break;
        tr_parallel_range(j.active_count, MIN_SEQUENCES, NAME(mix), &j);
        NAME(multiply)(&j);
        tr_parallel_range(j.active_count, MIN_SEQUENCES, NAME(move_on), &j);
    }
    return TR_OK;
}

#endif
