/* dgc.h - deep gradient compression: only the largest gradients travel, the rest is accumulated where it arose.
 *
 * Y. Lin et al., "Deep Gradient Compression: Reducing the Communication Bandwidth for Distributed Training", 2018: momentum
 * correction (algorithm 1 with u and v) and momentum factor masking. */
#ifndef TR_MATH_DGC_H
#define TR_MATH_DGC_H

#include "framework/trireme.h"

#define TR_TEMPLATE "kernels/math/training/dgc.h"
#include "kernels/math/tools/each_float.h"

#elif defined(T)

/* u = m u + g; sent = u, by Nesterov g + m u. sent may be g. */
void NAME(tr_dgc_momentum)(T *sent, T *u, const T *g, T m, bool nesterov, int64_t n);
/* u = m u + g; v += u, by Nesterov g + m u. */
void NAME(tr_dgc_accumulate)(T *v, T *u, const T *g, T m, bool nesterov, int64_t n);
/* The k elements of v of largest magnitude go to sent, which is 0 elsewhere. They become 0 in u and v. Of equal ones the first go.
 * 1 <= k <= n; v must be finite. */
void NAME(tr_dgc_take)(T *sent, T *v, T *u, int64_t k, int64_t n);

#endif
