/* static_rnn_grad.h - the gradient of the operator `recurrent`. */
#pragma once

#include "framework/gradients/grad_block.h"

/* The rule of the operator's gradient. */
tr_status tr__make_recurrent_grad(tr_grad_maker *maker);
