/* compensate.h - delay-compensated gradients: S. Zheng et al., "Asynchronous Stochastic Gradient Descent with Delay
 * Compensation", 2017: the gradient at w is estimated from the one at the older w0 by its first-order expansion with the
 * squared gradient in the place of the Hessian's diagonal:  g(w) = g + factor * g * g * (w - w0). */
#ifndef TR_PSERVER_COMPENSATE_H
#define TR_PSERVER_COMPENSATE_H

#include "framework/trireme.h"

/* In place. `now` are the parameters that will be updated, `then` those that the gradient was computed with; `count`
 * elements of TR_FP32 or TR_FP64. */
void tr_compensate(tr_dtype dtype, void *grad, const void *now, const void *then, int64_t count, double factor);

#endif
