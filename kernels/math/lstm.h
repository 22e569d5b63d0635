/* lstm.h - long short-term memory over sequences in batch order (recurrent.h).
 *
 * A row of `gate` is candidate, input, forget, output, each `width` wide; with p the peepholes and c' the cell before:
 *     c~ = candidate_act(.)   i = gate_act(. + p_i c')   f = gate_act(. + p_f c')   c = clip(c~ i + c' f)
 *     o = gate_act(. + p_o c)   hidden = o cell_act(c)   out = clip(projection_act(hidden projection))
 * What is fed back is `out`; without a projection it is `hidden`. Gates are activated in place; backward needs them so. */
#ifndef TR_MATH_LSTM_H
#define TR_MATH_LSTM_H

#include "kernels/math/activation.h"
#include "kernels/math/recurrent.h"

#define TR_TEMPLATE "kernels/math/lstm.h"
#include "kernels/math/each_float.h"

#elif defined(T)

typedef struct NAME(tr_lstm) {
    const tr_batches *batches;
    int64_t  width, out_width;        /* of the cell, of what is fed back */
    tr_act   gate_act, cell_act, candidate_act, projection_act;   /* identity, sigmoid, tanh or relu */
    T        cell_clip, projection_clip;      /* 0: none */
    const T *weight;                  /* [out_width, 4 width] */
    const T *peephole;                /* [3 width]: input, forget, output; NULL: none */
    const T *projection;              /* [width, out_width]; NULL: out is hidden, the same memory */
    const T *h0, *c0;                 /* [count, ...] in the order of rank; NULL: zeros */
    T       *gate, *cell, *hidden, *out;
    T       *active_cell;             /* cell_act(cell); NULL: not wanted */
} NAME(tr_lstm);

/* On entry `gate` is the projected input with its bias added. */
void NAME(tr_lstm_forward)(const NAME(tr_lstm) *l);

typedef struct NAME(tr_lstm_grads) {
    T *dgate;                         /* out: of the gates before their activation */
    T *dcell, *dout;                  /* in: the gradients of cell and out; both are overwritten. With a projection dout
                                         becomes the gradient before its activation */
    T *dhidden;                       /* room for it with a projection; else it is dout, the same memory */
    T *dh0, *dc0;                     /* added to, in the order of rank; NULL: not wanted */
} NAME(tr_lstm_grads);

void NAME(tr_lstm_backward)(const NAME(tr_lstm) *l, const NAME(tr_lstm_grads) *g);
/* Of the peepholes, [3 width]; `previous` are the cells one step earlier (tr_batches_previous). */
void NAME(tr_lstm_peephole_grad)(T *dpeephole, const T *dgate, const T *cell, const T *previous, int64_t rows,
                                 int64_t width);

#endif
