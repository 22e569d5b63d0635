/* compensate.h - delay-compensated gradients (S. Zheng et al., "Asynchronous Stochastic Gradient Descent with Delay Compensation", 2017).
 *
 * A gradient was computed at older parameters w0. A first-order expansion estimates the gradient at w, with the squared gradient as the
 * diagonal of the Hessian: g(w) = g + factor * g * g * (w - w0). */
#pragma once

#include "framework/trireme.h"

/* Change `grad` in place. `now`: the parameters that the update will change. `then`: those that the gradient was computed with. All have
 * `count` elements of TR_FP32 or TR_FP64. */
void tr_compensate(tr_dtype dtype, void *grad, const void *now, const void *then, int64_t count, double factor);
