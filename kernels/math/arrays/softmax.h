/* softmax.h - softmax over the rows of a matrix, alone and with cross entropy.
 *
 * A row is read three times while it is in cache: maximum, exponentials with their sum, scaling. In place is
 * fine everywhere (out may be x, dx may be dout). A label of `ignore` costs nothing and has no gradient;
 * functions that take labels return the first row whose label is neither that nor in 0 .. cols-1, and -1 when
 * there is none (they then leave the results of the bad rows undefined). */
#ifndef TR_MATH_SOFTMAX_H
#define TR_MATH_SOFTMAX_H

#include "framework/trireme.h"

#define TR_TEMPLATE "kernels/math/arrays/softmax.h"
#include "kernels/math/tools/each_float.h"

#elif defined(T)

void NAME(tr_softmax)(T *out, const T *x, int64_t rows, int64_t cols);
/* dx = out * (dout - sum(out * dout)) */
void NAME(tr_softmax_grad)(T *dx, const T *dout, const T *out, int64_t rows, int64_t cols);

/* softmax = softmax(logits); loss[i] = -log softmax[i][labels[i]], computed from the logits: never infinite
 * for finite logits. */
int64_t NAME(tr_softmax_cross_entropy)(T *softmax, T *loss, const T *logits, const int64_t *labels, int64_t rows,
                                       int64_t cols, int64_t ignore);
/* dlogits[i] = (softmax[i] - onehot(labels[i])) * dloss[i]; dlogits may be softmax. */
int64_t NAME(tr_softmax_cross_entropy_grad)(T *dlogits, const T *dloss, const T *softmax, const int64_t *labels,
                                            int64_t rows, int64_t cols, int64_t ignore);
/* The same with a distribution for each row as label. */
void NAME(tr_softmax_cross_entropy_soft)(T *softmax, T *loss, const T *logits, const T *labels, int64_t rows,
                                         int64_t cols);
void NAME(tr_softmax_cross_entropy_soft_grad)(T *dlogits, const T *dloss, const T *softmax, const T *labels,
                                              int64_t rows, int64_t cols);

/* loss[i] = -log x[i][labels[i]]; the logarithm of 0 counts as -1e20, as in Fluid. */
int64_t NAME(tr_cross_entropy)(T *loss, const T *x, const int64_t *labels, int64_t rows, int64_t cols,
                               int64_t ignore);
int64_t NAME(tr_cross_entropy_grad)(T *dx, const T *dloss, const T *x, const int64_t *labels, int64_t rows,
                                    int64_t cols, int64_t ignore);
/* match[i] = x[i][labels[i]], which is all that the gradient needs of x; 0 where the label is ignored. */
void NAME(tr_match_labels)(T *match, const T *x, const int64_t *labels, int64_t rows, int64_t cols, int64_t ignore);
int64_t NAME(tr_cross_entropy_match_grad)(T *dx, const T *dloss, const T *match, const int64_t *labels, int64_t rows, int64_t cols,
                                          int64_t ignore);
void NAME(tr_cross_entropy_soft)(T *loss, const T *x, const T *labels, int64_t rows, int64_t cols);
void NAME(tr_cross_entropy_soft_grad)(T *dx, const T *dloss, const T *x, const T *labels, int64_t rows,
                                      int64_t cols);

#endif
