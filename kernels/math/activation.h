/* activation.h - functions of one number, applied to arrays, and their gradients.
 *
 * TR_ACT_LIST is the one list: name, what the gradient reads beside dout (X, OUT or NONE). The scalar
 * definitions are in activation_scalar.h, inlineable and branch-free, so that other kernels can fuse them.
 * p and q are the parameters, in this order:
 *     brelu t_min t_max; relu6, soft_relu, hard_shrink, softshrink, thresholded_relu: threshold;
 *     leaky_relu, elu: alpha; pow: factor; stanh: scale_a scale_b; hard_sigmoid: slope offset; swish: beta;
 *     selu: scale alpha. The others ignore them. */
#ifndef TR_MATH_ACTIVATION_H
#define TR_MATH_ACTIVATION_H

#include "framework/trireme.h"

#define TR_ACT_LIST(X)                                                                              \
    X(identity, NONE)    X(relu, OUT)         X(sigmoid, OUT)      X(tanh, OUT)       X(exp, OUT)   \
    X(log, X)            X(sqrt, OUT)         X(rsqrt, OUT)        X(square, X)       X(abs, X)     \
    X(reciprocal, OUT)   X(cos, X)            X(sin, X)            X(acos, X)         X(asin, X)    \
    X(atan, X)           X(ceil, NONE)        X(floor, NONE)       X(round, NONE)     X(sign, NONE) \
    X(softsign, X)       X(softplus, X)       X(logsigmoid, X)     X(tanh_shrink, X)  X(gelu, X)    \
    X(relu6, OUT)        X(brelu, X)          X(leaky_relu, X)     X(elu, X)          X(pow, X)     \
    X(stanh, X)          X(soft_relu, OUT)    X(hard_shrink, X)    X(softshrink, X)                 \
    X(thresholded_relu, X) X(hard_sigmoid, OUT) X(swish, X)        X(selu, OUT)

typedef enum tr_act {
#define TR_ACT_ENUM(name, reads) TR_ACT_##name,
    TR_ACT_LIST(TR_ACT_ENUM)
#undef TR_ACT_ENUM
    TR_ACT_COUNT
} tr_act;
enum { TR_ACT_IDENTITY = TR_ACT_identity };

typedef enum tr_act_reads { TR_ACT_READS_NONE, TR_ACT_READS_X, TR_ACT_READS_OUT } tr_act_reads;

/* The function of that name ("" and "identity" are the identity), or TR_ACT_COUNT. */
tr_act       tr_act_find(const char *name);
const char  *tr_act_name(tr_act act);
/* What the gradient reads beside dout. */
tr_act_reads tr_act_grad_reads(tr_act act);

#define TR_TEMPLATE "kernels/math/activation.h"
#include "kernels/math/each_float.h"

#elif defined(T)

/* out = act(x); out may be x. */
void NAME(tr_act_apply)(tr_act act, T *out, const T *x, int64_t n, T p, T q);
/* dx = dout * act'(x); dx may be dout. Of x and out only the one that tr_act_grad_reads names is read; the
 * other may be NULL. */
void NAME(tr_act_grad)(tr_act act, T *dx, const T *dout, const T *x, const T *out, int64_t n, T p, T q);

#endif
