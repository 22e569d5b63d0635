/* lstm.h - long short-term memory over sequences, gone through in batch order (recurrent.h).
 *
 * A row of `gate` is candidate, input, forget, output, each `width` wide; with p the peepholes and c' the cell before:
 *     c~ = candidate_act(.)   i = gate_act(. + p_i c')   f = gate_act(. + p_f c')   c = clip(c~ i + c' f)
 *     o = gate_act(. + p_o c)   hidden = o cell_act(c)   out = clip(projection_act(hidden projection))
 * What is fed back is `out`; without a projection it is `hidden`. Gates are activated in place; backward needs them so. */
#ifndef TR_MATH_LSTM_H
#define TR_MATH_LSTM_H

#include "kernels/math/arrays/activation.h"
#include "kernels/math/sequences/recurrent.h"

#define TR_TEMPLATE "kernels/math/sequences/lstm.h"
#include "kernels/math/tools/each_float.h"

#elif defined(T)

typedef struct NAME(tr_lstm) {
    const tr_batches *batches;
    int64_t  width, out_width;        /* of the cell, of what is fed back */
    tr_act   gate_act, cell_act, candidate_act, projection_act;   /* identity, sigmoid, tanh or relu */
    T        cell_clip, projection_clip;      /* 0: none */
    const T *weight;                  /* [out_width, 4 width] */
    const T *peephole;                /* [3 width]: input, forget, output; NULL: none */
    const T *projection;              /* [width, out_width]; NULL: out is hidden */
    const T *bias;                    /* [4 width] */
    const T *h0, *c0;                 /* [count, ...], one row for each sequence; NULL: zeros */
    const T *input;                   /* rows of the sequences, as are cell, out and gate */
    T       *cell, *out;
    T       *gate;                    /* forward: may be input; NULL: not wanted */
    T       *hidden;                  /* in batch order, with a projection; else NULL */
    T       *active_cell;             /* cell_act(cell) in batch order; NULL: not wanted */
    T       *room;                    /* tr_lstm_room elements, aligned to 64 bytes */
} NAME(tr_lstm);

int64_t NAME(tr_lstm_room)(const NAME(tr_lstm) *l, int64_t sequences, int64_t rows);
/* Out: gate, cell, out, hidden, active_cell. */
void    NAME(tr_lstm_forward)(const NAME(tr_lstm) *l);

typedef struct NAME(tr_lstm_grads) {
    const T *dcell, *dout;            /* in: the gradients of cell and out; NULL: zeros */
    T       *dinput;                  /* out: of the gates before their activation, rows of the sequences; may be gate */
    T       *dprojected;              /* out, in batch order, with a projection: of its product; else NULL */
    T       *dh0, *dc0, *dbias;       /* out; NULL: not wanted. dbias is [4 width] */
    T       *room;                    /* tr_lstm_backward_room elements, aligned to 64 bytes */
} NAME(tr_lstm_grads);

int64_t NAME(tr_lstm_backward_room)(const NAME(tr_lstm) *l, int64_t sequences, int64_t rows);
/* Reads of `l` all that forward wrote, but active_cell, and neither input, bias nor room. */
void    NAME(tr_lstm_backward)(const NAME(tr_lstm) *l, const NAME(tr_lstm_grads) *g);
/* Of the peepholes, [3 width]; `previous` are the cells one step earlier. All have their rows in the same order. */
void NAME(tr_lstm_peephole_grad)(T *dpeephole, const T *dgate, const T *cell, const T *previous, int64_t rows,
                                 int64_t width);

#endif
