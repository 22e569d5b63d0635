/* activation.h - functions of one number, applied to arrays, and their gradients.
 *
 * TR_ACT_LIST is the one list: name, what the gradient reads beside dout (X, OUT or NONE). The scalar
 * definitions are in activation_scalar.h, inlineable and branch-free, so that other kernels can fuse them.
 * p and q are the parameters, in this order:
 *     brelu t_min t_max; relu6, soft_relu, hard_shrink, softshrink, thresholded_relu: threshold;
 *     leaky_relu, elu: alpha; pow: factor; stanh: scale_a scale_b; hard_sigmoid: slope offset; swish: beta;
 *     selu: scale alpha; cos: scale, as in cos(scale * x). The others ignore them. */
#ifndef TR_MATH_ACTIVATION_H
#define TR_MATH_ACTIVATION_H

#include "framework/trireme.h"

#define TR_ACT_LIST(DO)                                                                             \
    DO(identity, NONE) DO(relu, OUT) DO(sigmoid, OUT) DO(tanh, OUT) DO(exp, OUT) DO(log, X)         \
    DO(sqrt, OUT) DO(rsqrt, OUT) DO(square, X) DO(abs, X) DO(reciprocal, OUT) DO(cos, X)            \
    DO(sin, X) DO(acos, X) DO(asin, X) DO(atan, X) DO(ceil, NONE) DO(floor, NONE)                   \
    DO(round, NONE) DO(sign, NONE) DO(softsign, X) DO(softplus, X) DO(logsigmoid, X)                \
    DO(tanh_shrink, X) DO(gelu, X) DO(relu6, OUT) DO(brelu, X) DO(leaky_relu, X) DO(elu, X)         \
    DO(pow, X) DO(stanh, X) DO(soft_relu, OUT) DO(hard_shrink, X) DO(softshrink, X)                 \
    DO(thresholded_relu, X) DO(erf, X) DO(hard_sigmoid, OUT) DO(swish, X) DO(selu, OUT)

typedef enum tr_act {
#define TR_ACT_ENUM(name, reads) TR_ACT_##name,
    TR_ACT_LIST(TR_ACT_ENUM)
#undef TR_ACT_ENUM
    TR_ACT_COUNT
} tr_act;
enum { TR_ACT_IDENTITY = TR_ACT_identity };

typedef enum tr_act_reads { TR_ACT_READS_NONE, TR_ACT_READS_X, TR_ACT_READS_OUT } tr_act_reads;

const char  *tr_act_name(tr_act act);
/* The tensor that the gradient reads beside dout. */
tr_act_reads tr_act_grad_reads(tr_act act);

#define TR_TEMPLATE "kernels/math/arrays/activation.h"
#include "kernels/math/tools/each_float.h"

#elif defined(T)

/* out = act(x); out may be x. */
void NAME(tr_act_apply)(tr_act act, T *out, const T *x, int64_t n, T p, T q);
/* dx = dout * act'(x); dx may be dout. Of x and out only the one that tr_act_grad_reads names is read; the
 * other may be NULL. */
void NAME(tr_act_grad)(tr_act act, T *dx, const T *dout, const T *x, const T *out, int64_t n, T p, T q);

#endif
