/* recurrent_act.h - the activations that gates may have, chosen by a value, for the loops of lstm.c and gru.c.
 *
 * Where the value is a constant the choice vanishes and the loop vectorises: each loop is written once and compiled for the
 * usual activations and for any. The gradient looks at the function's value. */
#ifndef TR_MATH_RECURRENT_ACT_H
#define TR_MATH_RECURRENT_ACT_H

#include "kernels/math/arrays/activation_scalar.h"

#define TR_TEMPLATE "kernels/math/sequences/recurrent_act.h"
#include "kernels/math/tools/each_float.h"

#elif defined(T)

TR_INLINE T NAME(tr_gate_act)(tr_act act, T x)
{
    switch (act) {
    case TR_ACT_sigmoid: return NAME(tr_act_sigmoid)(x, 0, 0);
    case TR_ACT_tanh: return NAME(tr_act_tanh)(x, 0, 0);
    case TR_ACT_relu: return NAME(tr_act_relu)(x, 0, 0);
    default: return x;
    }
}

TR_INLINE T NAME(tr_gate_dact)(tr_act act, T d, T value)
{
    switch (act) {
    case TR_ACT_sigmoid: return NAME(tr_act_dsigmoid)(d, value, 0, 0);
    case TR_ACT_tanh: return NAME(tr_act_dtanh)(d, value, 0, 0);
    case TR_ACT_relu: return NAME(tr_act_drelu)(d, value, 0, 0);
    default: return d;
    }
}

#endif
