/* static_rnn_grad.h - the gradient of the operator `recurrent`. */
#ifndef TR_KERNELS_STATIC_RNN_GRAD_H
#define TR_KERNELS_STATIC_RNN_GRAD_H

#include "framework/gradients/grad_block.h"

/* The rule of the operator's gradient. */
tr_status tr__make_recurrent_grad(tr_grad_maker *maker);

#endif
