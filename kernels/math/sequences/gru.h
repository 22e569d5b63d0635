/* gru.h - gated recurrent units over sequences in batch order (recurrent.h).
 *
 * A row of `gate` is update, reset, candidate, each `width` wide; with h' the hidden state before:
 *     u = gate_act(. + h' W_u)   r = gate_act(. + h' W_r)   c = candidate_act(. + (r h') W_c)
 *     h = (1 - u) h' + u c;   h = u h' + (1 - u) c  in origin mode
 * `weight` is two matrices, one after the other: [width, 2 width] of W_u and W_r, then [width, width] of W_c. */
#ifndef TR_MATH_GRU_H
#define TR_MATH_GRU_H

#include "kernels/math/arrays/activation.h"
#include "kernels/math/sequences/recurrent.h"

#define TR_TEMPLATE "kernels/math/sequences/gru.h"
#include "kernels/math/tools/each_float.h"

#elif defined(T)

typedef struct NAME(tr_gru) {
    const tr_batches *batches;
    int64_t  width;
    tr_act   gate_act, candidate_act;         /* identity, sigmoid, tanh or relu */
    bool     origin_mode;
    const T *weight;
    const T *h0;                      /* [count, width] in the order of rank; NULL: zeros */
    T       *gate;                    /* [rows, 3 width] */
    T       *reset;                   /* r h' */
    T       *hidden;
} NAME(tr_gru);

/* On entry `gate` is the projected input with its bias added; it is activated in place. */
void NAME(tr_gru_forward)(const NAME(tr_gru) *u);

/* dhidden: in the gradient of hidden, and overwritten. dgate: out, before the activation. dreset: room for [rows, width]. dh0
 * is added to, in the order of rank; NULL: not wanted. */
void NAME(tr_gru_backward)(const NAME(tr_gru) *u, T *dgate, T *dreset, T *dhidden, T *dh0);
/* All of dweight; `previous` are the hidden states one step earlier (tr_batches_previous). */
void NAME(tr_gru_weight_grad)(T *dweight, const T *dgate, const T *previous, const T *reset, int64_t rows, int64_t width);

#endif
