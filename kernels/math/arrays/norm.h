/* norm.h - batch, layer and group normalisation.
 *
 * For batch normalisation x is [pre][channels][post]: NCHW is pre = batch, post = height * width, NHWC is
 * pre = batch * height * width, post = 1. Statistics are sums of distances from a mean, never differences of
 * squares, so that a large mean costs no digits; variances are biased (divided by the count). `inv_std` is 1 / sqrt(var + eps). */
#ifndef TR_MATH_NORM_H
#define TR_MATH_NORM_H

#include "framework/trireme.h"

#define TR_TEMPLATE "kernels/math/arrays/norm.h"
#include "kernels/math/tools/each_float.h"

#elif defined(T)

/* mean[c] and variance[c] over pre and post. */
void NAME(tr_channel_stats)(T *mean, T *variance, const T *x, int64_t pre, int64_t channels, int64_t post);
/* inv_std[i] = 1 / sqrt(variance[i] + epsilon); may be in place. */
void NAME(tr_inv_std)(T *inv_std, const T *variance, T epsilon, int64_t n);
/* y = (x - mean[c]) * inv_std[c] * scale[c] + bias[c]; scale and bias may be NULL (1 and 0); y may be x. */
void NAME(tr_batch_norm)(T *y, const T *x, const T *mean, const T *inv_std, const T *scale, const T *bias,
                         int64_t pre, int64_t channels, int64_t post);
/* The gradients when mean and inv_std are statistics of x itself. dscale and dbias may be NULL, and dx too. scale may
 * be NULL (1). dx may be dy. */
void NAME(tr_batch_norm_grad)(T *dx, T *dscale, T *dbias, const T *dy, const T *x, const T *mean, const T *inv_std,
                              const T *scale, int64_t pre, int64_t channels, int64_t post);
/* The same in two steps, where the statistics are of more samples than x has: sum[c] is that of dy, product[c] that of dy (x - mean[c]), and
 * `count` is of how many elements of a channel both are. */
void NAME(tr_channel_products)(T *sum, T *product, const T *dy, const T *x, const T *mean, int64_t pre, int64_t channels,
                               int64_t post);
void NAME(tr_batch_norm_grad_of_sums)(T *dx, const T *dy, const T *x, const T *mean, const T *inv_std, const T *scale, const T *sum,
                                      const T *product, double count, int64_t pre, int64_t channels, int64_t post);
/* The gradients when mean and inv_std are constants (global statistics). */
void NAME(tr_batch_norm_global_grad)(T *dx, T *dscale, T *dbias, const T *dy, const T *x, const T *mean,
                                     const T *inv_std, const T *scale, int64_t pre, int64_t channels, int64_t post);

/* Each row of x: mean[i] and variance[i], y = (x - mean) / sqrt(variance + epsilon) * scale[j] + bias[j]. scale
 * and bias may be NULL. */
void NAME(tr_layer_norm)(T *y, T *mean, T *variance, const T *x, const T *scale, const T *bias, T epsilon,
                         int64_t rows, int64_t cols);
/* Any of dx, dscale, dbias may be NULL. dx may be dy. */
void NAME(tr_layer_norm_grad)(T *dx, T *dscale, T *dbias, const T *dy, const T *x, const T *mean, const T *variance,
                              const T *scale, T epsilon, int64_t rows, int64_t cols);

/* x is [batch][channels][inner]; each of `groups` groups of channels of each image is normalised by its own
 * statistics mean[batch][groups], variance[batch][groups]; scale and bias, for each channel, may be NULL. */
void NAME(tr_group_norm)(T *y, T *mean, T *variance, const T *x, const T *scale, const T *bias, T epsilon,
                         int64_t batch, int64_t channels, int64_t inner, int64_t groups);
void NAME(tr_group_norm_grad)(T *dx, T *dscale, T *dbias, const T *dy, const T *x, const T *mean, const T *variance,
                              const T *scale, T epsilon, int64_t batch, int64_t channels, int64_t inner,
                              int64_t groups);

#endif
